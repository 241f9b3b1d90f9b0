"""What installed packages register for us: entry points, read without importing anything."""

import os
import sys
from typing import Any

from gascity.model.records import NamedTuple


class _Installed(NamedTuple):
    """Directories that packages are installed in, and the entry points some of them have for us."""

    looked: list[str]
    texts: list[str]


_found: dict[tuple[str, ...], _Installed] = {}


def entry_points(group: str) -> list[tuple[str, str]]:
    """Names and targets (`module:attribute`, or a module) that are registered under a group.

    In the order of `sys.path`; two packages may register one name.
    """
    found: dict[tuple[str, str], None] = {}
    for text in _installed().texts:
        for line in _section(text, group):
            name, equals, target = line.partition("=")
            if equals and name.strip():
                found[name.strip(), target.partition("[")[0].strip()] = None
    return list(found)


def looked() -> list[str]:
    """Directories whose change would change the answer."""
    return _installed().looked


def load(target: str) -> Any:
    """What a target names; whatever goes wrong while it is imported is raised."""
    from importlib import import_module

    module, _, attribute = target.partition(":")
    found: Any = import_module(module)
    for name in attribute.split(".") if attribute else ():
        found = getattr(found, name)
    return found


def _installed() -> _Installed:
    """Looked for once a process: what is installed does not change under a running command.

    Read by hand: importlib.metadata costs more than everything else a short command does.
    """
    key = tuple(sys.path)
    if key not in _found:
        _found[key] = _look()
    return _found[key]


def _look() -> _Installed:
    found = _Installed([], [])
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        found.looked.append(os.path.abspath(place or "."))
        for name in sorted(name for name in names if name.endswith(".dist-info")):
            text = _text(os.path.join(place, name, "entry_points.txt"))
            if "[gascity." in text:
                found.texts.append(text)
    return found


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def _section(text: str, group: str) -> list[str]:
    if f"[{group}]" not in text:
        return []
    return text.split(f"[{group}]", 1)[1].partition("\n[")[0].splitlines()
