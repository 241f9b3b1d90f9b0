"""What was read from disk, before anything is put together."""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.model.layers import Layer
from gascity.model.problems import Place, Problem

CATALOGUES = ("overlay", "skills", "mcp", "template-fragments", "hud")


class AgentDir(NamedTuple):
    """One agent's directory. `layers` hold what its files say, convention first."""

    name: str
    directory: str
    pack: str
    layers: tuple[Layer, ...]
    catalogues: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


class Patch(NamedTuple):
    """A change to someone else's agent: `target` as written, `rig` None for all of them."""

    target: str
    rig: str | None
    layer: Layer
    place: Place


class Import(NamedTuple):
    """One `[imports.<binding>]`; `pack` is None when it could not be read."""

    binding: str
    source: str
    pack: "Pack | None"
    values: Mapping[str, object]
    place: Place


class NamedSession(NamedTuple):
    """One `[[named_session]]`, with the values as written."""

    values: Mapping[str, object]
    place: Place


class Pack(NamedTuple):
    """A directory of agents and catalogues; the city itself is one. `root` is as shown."""

    name: str
    root: str
    own: bool
    agents: tuple[AgentDir, ...] = ()
    defaults: Layer | None = None
    patches: tuple[Patch, ...] = ()
    imports: tuple[Import, ...] = ()
    named_sessions: tuple[NamedSession, ...] = ()
    providers: Mapping[str, tuple[Layer, ...]] = {}
    catalogues: frozenset[str] = frozenset()
    values: Mapping[str, object] = {}
    templates: str | None = None


class RigSource(NamedTuple):
    """One `[[rigs]]`, city.local.toml laid over city.toml."""

    name: str
    layers: tuple[Layer, ...]
    imports: tuple[Import, ...]
    patches: tuple[Patch, ...]
    place: Place
    path: str | None
    present: bool
    git: bool


class Sources(NamedTuple):
    """Everything a city is made of, read but not yet composed."""

    root: str
    pack: Pack
    workspace: tuple[Layer, ...]
    session: tuple[Layer, ...]
    security: tuple[Layer, ...]
    defaults: tuple[Layer, ...]
    patches: tuple[Patch, ...]
    local_patches: tuple[Patch, ...]
    rigs: tuple[RigSource, ...]
    named_sessions: tuple[NamedSession, ...]
    providers: Mapping[str, tuple[Layer, ...]]
    stock: Mapping[str, Layer]
    implicit: bool | tuple[str, ...]
    system: Mapping[str, AgentDir]
    user: tuple[AgentDir, ...]
    local: tuple[AgentDir, ...]
    only: str | None = None
    problems: tuple[Problem, ...] = ()
