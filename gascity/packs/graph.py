"""The imports of a city as a graph: who imports what, how it stands, and every way to it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gascity.model.pack import Import, Pack, Sources
from gascity.model.problems import Place, Problem
from gascity.model.records import NamedTuple

OK, NOT_LOCKED, NOT_INSTALLED = "ok", "not-locked", "not-installed"
CHANGED, MISSING = "changed", "missing"

Rigs = Mapping[str, Sequence[Import]]


class Edge(NamedTuple):
    """An import, and who makes it: `city`, `rig:NAME`, or the binding of a pack.

    `rig` is the rig for which all of it is imported, None for the city.
    """

    parent: str
    one: Import
    rig: str | None


class Way(NamedTuple):
    """The imports that lead from the city, or from a rig, to a pack."""

    rig: str | None
    steps: tuple[Import, ...]


def edges(
    pack: Pack, rigs: Rigs, into: Callable[[Import], bool] = lambda _: True
) -> Iterator[Edge]:
    """Every import, outer ones first, once for each that makes it.

    What a pack itself imports follows if `into` says so, which is asked after the import was
    handed out.
    """
    todo = _tops(pack, rigs)
    seen: set[tuple[str, str | None, str, Place]] = set()
    for edge in todo:
        mark = (edge.parent, edge.rig, edge.one.binding, edge.one.place)
        if mark in seen:
            continue
        seen.add(mark)
        yield edge
        if edge.one.pack is not None and into(edge.one):
            binding = edge.one.binding
            todo += [Edge(binding, inner, edge.rig) for inner in edge.one.pack.imports]


def rigs_of(sources: Sources) -> Rigs:
    """What each rig imports."""
    return {rig.name: rig.imports for rig in sources.rigs}


def _tops(pack: Pack, rigs: Rigs) -> list[Edge]:
    found = [Edge("city", one, None) for one in pack.imports]
    found += [Edge(f"rig:{rig}", one, rig) for rig, imports in rigs.items() for one in imports]
    return found


def ways(pack: Pack, rigs: Rigs, wanted: Callable[[Import], bool], most: int) -> list[Way]:
    """The ways that end in an import that is wanted, at most so many."""
    leads: dict[int, bool] = {}
    found: list[Way] = []

    def reaches(one: Import) -> bool:
        if id(one) not in leads:
            inner = one.pack.imports if one.pack else ()
            leads[id(one)] = wanted(one) or any(reaches(other) for other in inner)
        return leads[id(one)]

    def walk(way: Way) -> None:
        last = way.steps[-1]
        if len(found) < most and wanted(last):
            found.append(way)
        for inner in last.pack.imports if last.pack else ():
            if len(found) < most and reaches(inner):
                walk(way._replace(steps=(*way.steps, inner)))

    for edge in _tops(pack, rigs):
        if reaches(edge.one):
            walk(Way(edge.rig, (edge.one,)))
    return found


def state(one: Import, problems: Iterable[Problem]) -> str:
    """How an import stands: `ok`, or what is in the way of reading it."""
    if one.pack is not None:
        return OK
    if one.remote is None or one.directory is not None:
        return MISSING
    if one.locked is None:
        return NOT_LOCKED
    changed = any(p.code == "pack-changed" and p.place == one.place for p in problems)
    return CHANGED if changed else NOT_INSTALLED
