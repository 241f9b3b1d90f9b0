"""The older program's own file of this machine, whose words beat those of city.toml."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from gascity_migrate.declared import parsed

_FILE = ".gc/site.toml"
_NAMES = {"name": "workspace_name", "prefix": "workspace_prefix"}


class Site(NamedTuple):
    """Keys of `[workspace]` that are otherwise here, and paths of rigs by name."""

    workspace: Mapping[str, str]
    paths: Mapping[str, str]


def read_site(root: str) -> Site:
    """What this machine says of a city; nothing where it has no such file, or a faulty one."""
    site = parsed(f"{root}/{_FILE}")
    if not site:
        return Site({}, {})
    told = {key: site.get(spelled) for key, spelled in _NAMES.items()}
    known = _known(root)
    workspace = {
        key: value
        for key, value in told.items()
        if isinstance(value, str) and value and value != known.get(key)
    }
    rigs = site.get("rig")
    tables = [one for one in (rigs if isinstance(rigs, list) else ()) if isinstance(one, Mapping)]
    paths = [(one.get("name"), one.get("path")) for one in tables]
    return Site(
        workspace,
        {name: path for name, path in paths if isinstance(name, str) and isinstance(path, str)},
    )


def _known(root: str) -> Mapping[str, object]:
    """What the city says itself; it is called like its pack or its directory if it has no name."""
    workspace = parsed(f"{root}/city.toml").get("workspace")
    pack = parsed(f"{root}/pack.toml").get("pack")
    named = pack.get("name") if isinstance(pack, Mapping) else None
    own = workspace if isinstance(workspace, Mapping) else {}
    return {"name": named or os.path.basename(root), **own}
