"""Records of the loader: packs, agent directories, imports and rigs before composition."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.layers import Layer
from gascity.model.problems import Place, Problem
from gascity.model.settings import ImportSettings, NamedSessionSettings

if TYPE_CHECKING:  # most cities import nothing from a repository
    from gascity.model.repositories import LockedPack, Remote

CATALOGUES = ("overlay", "skills", "mcp", "template-fragments", "hud", "memory")


class AgentDir(NamedTuple):
    """One agent's directory. `layers` has the settings of its files, implied ones first.

    A `fallback` agent gives way to another of its name from the same import.
    """

    name: str
    directory: str
    pack: str
    layers: tuple[Layer, ...]
    catalogues: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    fallback: bool = False


class Patch(NamedTuple):
    """A patch of an agent: `target` as written, `rig` None for all rigs."""

    target: str
    rig: str | None
    layer: Layer
    place: Place


class Import(NamedTuple):
    """One `[imports.<binding>]`; `pack` is None if it could not be read.

    `directory` is the displayed path it is read from, None if unknown. `remote` and `locked` are
    set for a pack of a repository, if its address is valid and packs.lock pins it. `version` is the
    requested version: as written, or for a pack that imports another directory of its own
    repository, its commit.
    """

    binding: str
    pack: "Pack | None"
    settings: ImportSettings
    place: Place
    directory: str | None = None
    remote: "Remote | None" = None
    locked: "LockedPack | None" = None
    version: str = ""

    @property
    def source(self) -> str:
        return self.settings.source


class NamedSession(NamedTuple):
    """One `[[named_session]]`; `place` is that of its `template`."""

    settings: NamedSessionSettings
    place: Place


class Pack(NamedTuple):
    """A directory of agents and catalogues; the city itself is one. `root` is for display."""

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
    description: str = ""
    templates: str | None = None
    extra_asset_dirs: tuple[tuple[str, str], ...] = ()  # further directories of a kind
    accepted: bool = True  # may its programs and settings be used?


class RigSource(NamedTuple):
    """One `[[rigs]]`, city.local.toml over city.toml."""

    name: str
    layers: tuple[Layer, ...]
    imports: tuple[Import, ...]
    patches: tuple[Patch, ...]
    place: Place
    path: str | None
    present: bool
    git: bool


class Sources(NamedTuple):
    """Everything that was read of a city, not yet composed."""

    root: str
    pack: Pack
    workspace: tuple[Layer, ...]
    session: tuple[Layer, ...]
    security: tuple[Layer, ...]
    notify: tuple[Layer, ...]
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
    errors: tuple[Problem, ...] = ()  # of settings for the whole city; they break every agent

    @property
    def imports(self) -> list[Import]:
        """Return the imports of the city and of its rigs."""
        return [*self.pack.imports, *(each for rig in self.rigs for each in rig.imports)]

    def layer_errors(self) -> Iterator[Problem]:
        """Yield the errors of all layers outside agent directories: they break agents."""
        packs = list(downwards(self.pack, *(each.pack for each in self.imports)))
        patches = [*self.patches, *self.local_patches]
        patches += [patch for rig in self.rigs for patch in rig.patches]
        patches += [patch for pack in packs for patch in pack.patches]
        layers = [*self.defaults, *(pack.defaults for pack in packs if pack.defaults)]
        layers += [layer for rig in self.rigs for layer in rig.layers]
        layers += [patch.layer for patch in patches]
        for providers in (self.providers, *(pack.providers for pack in packs)):
            layers += [layer for table in providers.values() for layer in table]
        for layer in layers:
            yield from layer.errors


def downwards(*tops: Pack | None) -> Iterator[Pack]:
    """Yield packs and everything they import, each once where it is nearest, nearest first."""
    todo = [*reversed(tops)]
    seen: set[str] = set()
    while todo:
        pack = todo.pop()
        if pack is not None and pack.root not in seen:
            seen.add(pack.root)
            yield pack
            todo += [each.pack for each in pack.imports]


def unread(imports: Iterable[Import]) -> bool:
    """Is there an import that could not be read? Then its agents are unknown."""
    todo = list(imports)
    done: set[str] = set()
    while todo:
        pack = todo.pop().pack
        if pack is None:
            return True
        if pack.root not in done:
            done.add(pack.root)
            todo += pack.imports
    return False
