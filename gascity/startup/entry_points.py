"""Reads the entry points that installed packages register for city, without importing them."""

import os
import sys
from typing import Any

# Package directories on `sys.path`, and the texts of the `entry_points.txt` files there.
_found: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}


def entry_points(group: str) -> list[tuple[str, str]]:
    """Return the names and targets (`module:attribute`, or a module) registered under a group.

    In the order of `sys.path`; two packages may register the same name.
    """
    found: dict[tuple[str, str], None] = {}
    _, texts = _installed()
    for text in texts:
        for line in _section(text, group):
            name, equals, target = line.partition("=")
            if equals and name.strip():
                found[name.strip(), target.partition("[")[0].strip()] = None
    return list(found)


def looked() -> list[str]:
    """Return the directories whose change may change the entry points."""
    return _installed()[0]


def load(target: str) -> Any:
    """Import a target and return the object it names. Any import error is raised."""
    from importlib import import_module

    module, _, attribute = target.partition(":")
    found: Any = import_module(module)
    for name in attribute.split(".") if attribute else ():
        found = getattr(found, name)
    return found


def _installed() -> tuple[list[str], list[str]]:
    """Search `sys.path` once per process: installed packages do not change during a command.

    Does not use importlib.metadata, which costs more than all the rest of a short command.
    """
    key = tuple(sys.path)
    if key not in _found:
        _found[key] = _look()
    return _found[key]


def _look() -> tuple[list[str], list[str]]:
    looked: list[str] = []
    texts: list[str] = []
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        looked.append(os.path.abspath(place or "."))
        for name in sorted(name for name in names if name.endswith(".dist-info")):
            text = _text(os.path.join(place, name, "entry_points.txt"))
            if text:
                texts.append(text)
    return looked, texts


def _text(path: str) -> str:
    """Read a file with as few system calls as possible: most packages have none for city."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        data = b""
        while chunk := os.read(handle, 1 << 16):
            data += chunk
        return data.decode() if b"[gascity." in data else ""
    except (OSError, UnicodeDecodeError):
        return ""
    finally:
        os.close(handle)


def _section(text: str, group: str) -> list[str]:
    if f"[{group}]" not in text:
        return []
    return text.split(f"[{group}]", 1)[1].partition("\n[")[0].splitlines()
