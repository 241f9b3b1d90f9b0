"""Defers modules that click imports and few commands need, until one of their names is used.

Importing `inspect` alone takes half as long as a whole run of a bare interpreter.
"""

import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def defer() -> None:
    """Install the placeholders. Call it before click is imported; loaded modules stay unchanged."""
    for name, known in _KNOWN.items():
        sys.modules.setdefault(name, _Late(name, known))


class _Late(ModuleType):
    """Placeholder for a module, with the few functions that every command uses."""

    def __init__(self, name: str, known: Mapping[str, Callable[..., str]]) -> None:
        super().__init__(name)
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # code that scans sys.modules reads these; do not load for it
            raise AttributeError(name)
        return getattr(_load(self), name)


def _load(late: ModuleType) -> ModuleType:
    """Load the real module and copy its names into the placeholder, which importers still hold."""
    from importlib import import_module

    if sys.modules.get(late.__name__) is late:
        del sys.modules[late.__name__]
    real = import_module(late.__name__)
    late.__dict__.update(real.__dict__)
    return real


def _clean(text: str) -> str:
    """Replace `inspect.cleandoc` for one-line help texts of options."""
    if "\n" in text or "\t" in text:
        return str(_load(sys.modules["inspect"]).cleandoc(text))
    return text.lstrip()


def _system() -> str:
    """Replace `platform.system`, which `uuid` calls before Python 3.12."""
    return os.uname().sysname


def _as_written(text: str) -> str:
    """Replace `gettext.gettext`: click's messages stay English, like those of city."""
    return text


def _for_number(one: str, many: str, number: int) -> str:
    """Replace `gettext.ngettext` in the same way."""
    return one if number == 1 else many


_KNOWN: Mapping[str, Mapping[str, Callable[..., str]]] = {
    "inspect": {"cleandoc": _clean},
    "platform": {"system": _system},
    "gettext": {"gettext": _as_written, "ngettext": _for_number},
}
