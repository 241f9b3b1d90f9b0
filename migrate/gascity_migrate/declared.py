"""Which rigs and agents a city has, whichever of its files says so."""

import os
from collections.abc import Iterator, Mapping

from gascity.source.disk import read_plain
from gascity.source.toml import TomlFault, parse
from gascity_migrate.first import First, take_apart


def declared_rigs(root: str) -> frozenset[str] | None:
    """The names of a city's rigs; None for a directory that is no city: whose they are is open.

    Files that cannot be read count as empty: that they are faulty is told by whoever loads them.
    """
    if not os.path.isfile(f"{root}/city.toml"):
        return None
    files = ("city.toml", "city.local.toml", *_included(root))
    tables = [parsed(os.path.join(root, file)) for file in files]
    return frozenset(name for table in tables for name in _names(table))


def own_manifests(root: str) -> dict[str, First]:
    """What is of the first layout in a city's own files, in the order that agents are named in."""
    files = ("pack.toml", "city.toml", *_included(root))
    return {file: take_apart(parsed(f"{root}/{file}"), file) for file in files}


def agent_folders(root: str) -> set[str]:
    """Agents of a city or a pack that are folders already, by name."""
    try:
        with os.scandir(os.path.join(root, "agents")) as entries:
            return {entry.name for entry in entries if entry.is_dir()}
    except OSError:
        return set()


def _included(root: str) -> list[str]:
    listed = parsed(f"{root}/city.toml").get("include")
    written = listed if isinstance(listed, list) else ()
    return [os.path.normpath(one.lstrip("/")) for one in written if isinstance(one, str)]


def parsed(path: str) -> Mapping[str, object]:
    """A TOML file; empty where there is none, or a faulty one."""
    try:
        return parse(read_plain(path) or b"")
    except TomlFault:
        return {}


def _names(table: Mapping[str, object]) -> Iterator[str]:
    rigs = table.get("rigs")
    for rig in rigs if isinstance(rigs, list) else ():
        name = rig.get("name") if isinstance(rig, Mapping) else None
        if isinstance(name, str):
            yield name
