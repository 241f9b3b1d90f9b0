"""Maps v1 names of agents and packs to current ones; reads the names that a city declares."""

import os
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from gascity.source.disk import read_plain
from gascity.toml.read import TomlError, parse
from gascity_migrate.v1_tables import (
    NamedPack,
    V1Manifest,
    lives_in_rig,
    table_at,
    tables_at,
    text_at,
    texts_at,
)

_FULL = 40  # digits of a commit that is written whole
_HEX = frozenset("0123456789abcdef")

# New agent names by the v1 identity (dir, name).
Names = Mapping[tuple[str, str], str]


def distinct_names(homes: Iterable[tuple[str, str]], taken: Iterable[str] = ()) -> Names:
    """Return unique names for agents that are identified by (dir, name).

    A name used in several dirs becomes `<dir>--<name>`, except for the agent without a dir.
    `taken` are names of other agents.
    """
    pairs = list(dict.fromkeys(homes))
    dirs: dict[str, set[str]] = {}
    for home, name in pairs:
        dirs.setdefault(name, set()).add(home)
    used = {name.lower() for name in (*taken, *dirs)}
    return {
        (home, name): _free(f"{_last(home)}--{name}", used)
        if home and len(dirs[name]) > 1
        else name
        for home, name in pairs
    }


def renamed_reference(
    names: Names, reference: str, home: str = "", rigs: Collection[str] | None = None
) -> str:
    """Return a reference to an agent, `name` or `dir/name`, with the agent's new name.

    `home` is the dir of the referring agent: a bare name means the agent in that dir, else the
    one without a dir. Unknown names are returned unchanged. `rigs` are the existing rigs, or None
    if they are not known; a dir that is not a rig is not part of the new name.
    """
    there, slash, name = reference.rpartition("/")
    if there and (there, name) in names and not lives_in_rig(there, rigs):
        return names[there, name]
    if slash:
        return f"{there}/{names.get((there, name), name)}"
    return names.get((home, name)) or names.get(("", name)) or name


def binding_for(source: str, taken: Iterable[str]) -> str:
    """Return the binding for an include: its last path part, with a number if it is taken."""
    address = source.partition("#")[0].rstrip("/")
    return _free(_last(address.removesuffix(".git")), {name.lower() for name in taken})


def _last(path: str) -> str:
    """Return the last part of a path or address as a valid binding or agent name."""
    part = path.rstrip("/").replace(":", "/").rpartition("/")[2]
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in part)
    return plain.strip("-_") or "pack"


def _free(name: str, used: set[str]) -> str:
    """Return the name, numbered if it is taken; adds it to `used`, which is in lower case."""
    number, free = 1, name
    while free.lower() in used:
        number += 1
        free = f"{name}-{number}"
    used.add(free.lower())
    return free


def as_import(source: str, packs: Iterable[NamedPack] = ()) -> dict[str, str]:
    """Return an include as an import table; a name in `packs` is replaced by its repository.

    A full commit id becomes `version`. Any other ref may be a branch, a tag or a short commit id,
    so it stays in the address. A local directory has no ref.
    """
    for pack in packs:
        if pack.name == source:
            return _of_repository(pack.source, pack.path.strip("/"), pack.ref)
    return _of_repository(source, "", "")


def _of_repository(source: str, path: str, ref: str) -> dict[str, str]:
    if not _is_address(source):
        return {"source": f"{source.rstrip('/')}/{path}" if path else source}
    address, _, named = without_credentials(source).partition("#")
    address, ref = f"{address}//{path}" if path else address, ref or named
    if len(ref) == _FULL and _HEX.issuperset(ref):
        return {"source": address, "version": f"sha:{ref}"}
    return {"source": f"{address}#{ref}" if ref else address}


def without_credentials(source: str) -> str:
    """Return an address without user and password; ssh keeps the user, which is not secret."""
    scheme, mark, rest = source.partition("://")
    authority, slash, path = rest.partition("/")
    people, at, host = authority.rpartition("@")
    if not mark or not at:
        return source
    user = f"{people.partition(':')[0]}@" if scheme.lower() == "ssh" else ""
    return f"{scheme}{mark}{user}{host}{slash}{path}"


def _is_address(source: str) -> bool:
    return "://" in source or source.startswith(("git@", "github.com/"))


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
    rigs = (rig for file in files for _, rig in tables_at(_parse(f"{root}/{file}"), "rigs"))
    return frozenset(filter(None, (text_at(rig, "name") for rig in rigs)))


def own_manifests(root: str) -> dict[str, V1Manifest]:
    """Return the v1 parts of a city's manifests, in the order in which agents get names."""
    files = ("pack.toml", "city.toml", *_included(root))
    return {file: V1Manifest(_parse(f"{root}/{file}"), file) for file in files}


def agent_folders(root: str) -> set[str]:
    """Return the names of the existing agent directories of a city or pack."""
    try:
        with os.scandir(os.path.join(root, "agents")) as entries:
            return {entry.name for entry in entries if entry.is_dir()}
    except OSError:
        return set()


def _included(root: str) -> list[str]:
    written = texts_at(_parse(f"{root}/city.toml"), "include")
    return [os.path.normpath(file.lstrip("/")) for file in written]


def _parse(path: str) -> Mapping[str, object]:
    """Parse a TOML file; empty if it does not exist or is invalid."""
    try:
        return parse(read_plain(path) or b"")
    except TomlError:
        return {}


def read_machine_file(root: str) -> MachineFile:
    """Read a city's machine-local file; empty if it does not exist or is invalid."""
    document = _parse(f"{root}/{_MACHINE_FILE}")
    if not document:
        return MachineFile({}, {})
    # `[workspace] name` defaults to the name of the pack or the directory.
    name = table_at(_parse(f"{root}/pack.toml"), "pack").get("name") or os.path.basename(root)
    configured = {"name": name, **table_at(_parse(f"{root}/city.toml"), "workspace")}
    values = {key: text_at(document, spelled) for key, spelled in _MACHINE_KEYS.items()}
    rigs = [(text_at(rig, "name"), text_at(rig, "path")) for _, rig in tables_at(document, "rig")]
    return MachineFile(
        {key: value for key, value in values.items() if value and value != configured.get(key)},
        {name: path for name, path in rigs if name and path},
    )
