"""Finds provider files: ours, and those of installed packages. Reading them is `source`'s work."""

import os
import sys
from collections.abc import Iterator

from gascity.plugins import entry_points, looked
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
    ours = package_dir("providers")
    files = dict(_toml_files(ours))
    guests = list(guest_directories(GROUP))
    for directory in guests:
        files |= dict(_toml_files(directory))
    return files, [ours, *looked(), *guests]


def _toml_files(directory: str) -> Iterator[tuple[str, str]]:
    for name in sorted(os.listdir(directory)):
        if name.endswith(".toml"):
            yield name[: -len(".toml")], os.path.join(directory, name)


def guest_directories(group: str) -> Iterator[str]:
    """Directories of the packages that are registered under an entry-point group."""
    for _, package in entry_points(group):
        from importlib.util import find_spec

        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            continue  # the package above it is not there, or it has no name
        yield from (spec.submodule_search_locations or ()) if spec else ()
