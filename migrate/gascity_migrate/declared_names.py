"""Reads the rigs and agents that a city's files declare, and v1's machine-local file."""

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gascity.source.disk import read_plain
from gascity.toml.read import TomlError, parse
from gascity_migrate.v1_tables import V1Manifest, read_v1_parts

# v1's machine-local file takes precedence over city.toml.
_MACHINE_FILE = ".gc/site.toml"
_MACHINE_KEYS = {"name": "workspace_name", "prefix": "workspace_prefix"}


class MachineFile(NamedTuple):
    """`[workspace]` keys that differ on this machine, and paths of rigs by name."""

    workspace: Mapping[str, str]
    paths: Mapping[str, str]


def declared_rigs(root: str) -> frozenset[str] | None:
    """Return the names of a city's rigs; None if the directory is not a city.

    Invalid files count as empty: loading the city reports them.
    """
    if not os.path.isfile(f"{root}/city.toml"):
        return None
    files = ("city.toml", "city.local.toml", *_included(root))
    tables = [_parse(os.path.join(root, file)) for file in files]
    return frozenset(name for table in tables for name in _names(table))


def own_manifests(root: str) -> dict[str, V1Manifest]:
    """Return the v1 parts of a city's manifests, in the order in which agents get names."""
    files = ("pack.toml", "city.toml", *_included(root))
    return {file: read_v1_parts(_parse(f"{root}/{file}"), file) for file in files}


def agent_folders(root: str) -> set[str]:
    """Return the names of the existing agent directories of a city or pack."""
    try:
        with os.scandir(os.path.join(root, "agents")) as entries:
            return {entry.name for entry in entries if entry.is_dir()}
    except OSError:
        return set()


def _included(root: str) -> list[str]:
    listed = _parse(f"{root}/city.toml").get("include")
    written = listed if isinstance(listed, list) else ()
    return [os.path.normpath(file.lstrip("/")) for file in written if isinstance(file, str)]


def _parse(path: str) -> Mapping[str, object]:
    """Parse a TOML file; empty if it does not exist or is invalid."""
    try:
        return parse(read_plain(path) or b"")
    except TomlError:
        return {}


def _names(table: Mapping[str, object]) -> Iterator[str]:
    rigs = table.get("rigs")
    for rig in rigs if isinstance(rigs, list) else ():
        name = rig.get("name") if isinstance(rig, Mapping) else None
        if isinstance(name, str):
            yield name


def read_machine_file(root: str) -> MachineFile:
    """Read a city's machine-local file; empty if it does not exist or is invalid."""
    document = _parse(f"{root}/{_MACHINE_FILE}")
    if not document:
        return MachineFile({}, {})
    values = {key: document.get(spelled) for key, spelled in _MACHINE_KEYS.items()}
    configured = _configured_workspace(root)
    workspace = {
        key: value
        for key, value in values.items()
        if isinstance(value, str) and value and value != configured.get(key)
    }
    rigs = document.get("rig")
    tables = [rig for rig in (rigs if isinstance(rigs, list) else ()) if isinstance(rig, Mapping)]
    paths = [(rig.get("name"), rig.get("path")) for rig in tables]
    return MachineFile(
        workspace,
        {name: path for name, path in paths if isinstance(name, str) and isinstance(path, str)},
    )


def _configured_workspace(root: str) -> Mapping[str, object]:
    """Return `[workspace]`; the name defaults to that of the pack or the directory."""
    workspace = _parse(f"{root}/city.toml").get("workspace")
    pack = _parse(f"{root}/pack.toml").get("pack")
    named = pack.get("name") if isinstance(pack, Mapping) else None
    own = workspace if isinstance(workspace, Mapping) else {}
    return {"name": named or os.path.basename(root), **own}
