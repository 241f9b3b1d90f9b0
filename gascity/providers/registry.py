"""Finds provider files: ours, and those of installed packages. Reading them is `source`'s work."""

import os
import sys
from collections.abc import Iterator

from gascity.resources import package_dir

GROUP = "gascity.providers"


_found: dict[tuple[str, ...], tuple[dict[str, str], list[str]]] = {}


def provider_files() -> tuple[dict[str, str], list[str]]:
    """Files by provider name, and the directories whose change would change the answer.

    Looked for once a process: what is installed does not change under a running command.
    """
    key = tuple(sys.path)
    if key not in _found:
        _found[key] = _look()
    return _found[key]


def _look() -> tuple[dict[str, str], list[str]]:
    looked = [package_dir("providers")]
    files = dict(_toml_files(looked[0]))
    for directory in guest_directories(GROUP, looked):
        looked.append(directory)
        files |= dict(_toml_files(directory))
    return files, looked


def _toml_files(directory: str) -> Iterator[tuple[str, str]]:
    for name in sorted(os.listdir(directory)):
        if name.endswith(".toml"):
            yield name[: -len(".toml")], os.path.join(directory, name)


def guest_directories(group: str, looked: list[str]) -> Iterator[str]:
    """Package directories that installed distributions register under an entry-point group.

    Read by hand: importlib.metadata costs more than everything else a short command does.
    """
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        looked.append(os.path.abspath(place or "."))
        for name in names:
            if name.endswith(".dist-info"):
                yield from _registered(os.path.join(place, name, "entry_points.txt"), group)


def _registered(path: str, group: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return
    if f"[{group}]" not in text:
        return
    from importlib.util import find_spec

    section = text.split(f"[{group}]", 1)[1].partition("\n[")[0]
    for line in section.splitlines():
        package = line.partition("=")[2].strip()
        spec = find_spec(package) if package else None
        yield from (spec.submodule_search_locations or ()) if spec else ()
