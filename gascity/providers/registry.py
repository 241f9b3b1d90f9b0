"""Find provider files: built-in ones and those of installed packages. `source` reads them."""

import os
import sys
from collections.abc import Iterator

from gascity.resources import package_dir
from gascity.startup.entry_points import entry_points, looked

GROUP = "gascity.providers"

_cache: dict[tuple[str, ...], tuple[dict[str, str], list[str]]] = {}


def provider_files() -> tuple[dict[str, str], list[str]]:
    """Return the files by provider name, and the directories that the result depends on.

    Cached per process: installed packages do not change while a command runs.
    """
    key = tuple(sys.path)
    if key not in _cache:
        _cache[key] = _find_files()
    return _cache[key]


def _find_files() -> tuple[dict[str, str], list[str]]:
    builtin = package_dir("providers")
    installed = list(plugin_directories(GROUP))
    files: dict[str, str] = {}
    for directory in (builtin, *installed):
        files |= dict(_toml_files(directory))
    return files, [builtin, *looked(), *installed]


def _toml_files(directory: str) -> Iterator[tuple[str, str]]:
    for name in sorted(os.listdir(directory)):
        if name.endswith(".toml"):
            yield name[: -len(".toml")], os.path.join(directory, name)


def plugin_directories(group: str) -> Iterator[str]:
    """Yield the directories of the packages registered under an entry-point group."""
    for _, package in entry_points(group):
        from importlib.util import find_spec

        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            continue  # its parent package does not exist, or the name is invalid
        yield from (spec.submodule_search_locations or ()) if spec else ()
