"""Reads a city as far as its imports go: no agents, and nothing of providers."""

import os
from collections.abc import Mapping

from gascity.model.pack import Sources
from gascity.places import config_home
from gascity.resources import data_dir
from gascity.source.cached import cache_directory
from gascity.source.disk import Disk
from gascity.source.load import load
from gascity.source.providers import Surroundings

_NO_AGENT = ""  # none is called that, so none is read


def read_imports(disk: Disk, environ: Mapping[str, str]) -> Sources:
    """A city with its imports, and what is wrong with them."""
    system = data_dir("system_agents")
    around = Surroundings(
        user_agents=os.path.join(config_home(environ), "gascity", "agents"),
        system_agents=system,
        builtin_packs=os.path.join(system, "_packs"),
        provider_files={},
        cache=cache_directory(environ),
    )
    return load(disk, around, only=_NO_AGENT)
