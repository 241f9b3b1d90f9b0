"""Modules that click imports and hardly any command needs, loaded when something is asked of them.

`inspect` alone takes half as long as a bare interpreter does from its start to its end.
"""

import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def defer() -> None:
    """To be called before click is imported; what is loaded already stays as it is."""
    for name, known in _KNOWN.items():
        sys.modules.setdefault(name, _Late(name, known))


class _Late(ModuleType):
    """Stands where a module would, with the little that is asked of it each time."""

    def __init__(self, name: str, known: Mapping[str, Callable[..., str]]) -> None:
        super().__init__(name)
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what looks through all modules asks for these
            raise AttributeError(name)
        return getattr(_load(self), name)


def _load(late: ModuleType) -> ModuleType:
    """The real module; who imported the other one has it from now on too."""
    from importlib import import_module

    if sys.modules.get(late.__name__) is late:
        del sys.modules[late.__name__]
    real = import_module(late.__name__)
    late.__dict__.update(real.__dict__)
    return real


def _clean(text: str) -> str:
    """`inspect.cleandoc` for options, whose help is on one line."""
    if "\n" in text or "\t" in text:
        return str(_load(sys.modules["inspect"]).cleandoc(text))
    return text.lstrip()


def _system() -> str:
    """`platform.system`, which `uuid` asks for before Python 3.12."""
    return os.uname().sysname


def _as_written(text: str) -> str:
    """`gettext.gettext`: click's words stay as they are, like ours, whatever the language."""
    return text


def _for_number(one: str, many: str, number: int) -> str:
    """`gettext.ngettext`, likewise."""
    return one if number == 1 else many


_KNOWN: Mapping[str, Mapping[str, Callable[..., str]]] = {
    "inspect": {"cleandoc": _clean},
    "platform": {"system": _system},
    "gettext": {"gettext": _as_written, "ngettext": _for_number},
}
