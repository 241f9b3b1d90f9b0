"""What was read from disk, before anything is put together."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gascity.model.layers import Layer
from gascity.model.problems import Place, Problem
from gascity.model.records import NamedTuple

if TYPE_CHECKING:  # most cities import nothing from a repository
    from gascity.model.lock import Locked
    from gascity.model.repositories import Remote

CATALOGUES = ("overlay", "skills", "mcp", "template-fragments", "hud")


class AgentDir(NamedTuple):
    """One agent's directory. `layers` hold what its files say, convention first.

    `fallback` says that it gives way to another of its name that comes by the same import.
    """

    name: str
    directory: str
    pack: str
    layers: tuple[Layer, ...]
    catalogues: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    fallback: bool = False


class Patch(NamedTuple):
    """A change to someone else's agent: `target` as written, `rig` None for all of them."""

    target: str
    rig: str | None
    layer: Layer
    place: Place


class Import(NamedTuple):
    """One `[imports.<binding>]`; `pack` is None when it could not be read.

    `directory` is where it is read from, as shown; None where that is not known. `remote` and
    `locked` are set for a pack of a repository, as far as its address and packs.lock say so, and
    `version` is what is wanted of it: as written, or the commit of the pack that imports another
    one of its own repository.
    """

    binding: str
    source: str
    pack: "Pack | None"
    values: Mapping[str, object]
    place: Place
    directory: str | None = None
    remote: "Remote | None" = None
    locked: "Locked | None" = None
    version: str = ""


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
    shelves: tuple[tuple[str, str], ...] = ()  # further directories of a catalogue, as shown


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

    @property
    def imports(self) -> list[Import]:
        """What the city imports, and what its rigs do."""
        return [*self.pack.imports, *(one for rig in self.rigs for one in rig.imports)]


def downwards(*tops: Pack | None) -> Iterator[Pack]:
    """Packs and all that they import, each once and where it is nearest, the nearest first."""
    todo = [*reversed(tops)]
    seen: set[str] = set()
    while todo:
        pack = todo.pop()
        if pack is not None and pack.root not in seen:
            seen.add(pack.root)
            yield pack
            todo += [one.pack for one in pack.imports]


def unread(imports: Iterable[Import]) -> bool:
    """Is there an import that could not be read? Then nobody can tell all that it brings."""
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
