"""The import graph of a city: reads it, walks it, and finds all paths to a pack."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.pack import Import, Pack, Sources
from gascity.model.problems import Place, Problem
from gascity.paths import config_home
from gascity.resources import data_dir
from gascity.source.disk import Disk
from gascity.source.load import load
from gascity.source.pack_cache import cache_directory
from gascity.source.providers import ExternalPaths

OK, NOT_LOCKED, NOT_INSTALLED = "ok", "not-locked", "not-installed"
CHANGED, MISSING = "changed", "missing"

Rigs = Mapping[str, Sequence[Import]]

_NO_AGENT = ""  # no agent has this name, so none is read


class Edge(NamedTuple):
    """An import and its importer: `city`, `rig:NAME`, or the binding of a pack.

    `rig` is set if the import belongs to a rig.
    """

    parent: str
    target: Import
    rig: str | None


class ImportPath(NamedTuple):
    """The imports that lead from the city, or from a rig, to a pack."""

    rig: str | None
    steps: tuple[Import, ...]


def read_imports(disk: Disk, environ: Mapping[str, str]) -> Sources:
    """Read a city as far as its imports go: no agents, and no providers."""
    system = data_dir("system_agents")
    external = ExternalPaths(
        user_agents=os.path.join(config_home(environ), "gascity", "agents"),
        system_agents=system,
        builtin_packs=os.path.join(system, "_packs"),
        provider_files={},
        cache=cache_directory(environ),
    )
    return load(disk, external, only=_NO_AGENT)


def edges(
    pack: Pack, rigs: Rigs, into: Callable[[Import], bool] = lambda _: True
) -> Iterator[Edge]:
    """Yield every import, outer ones first, once for each importer.

    The imports of a pack itself follow if `into` is true, which is called after the import was
    yielded.
    """
    todo = _tops(pack, rigs)
    seen: set[tuple[str, str | None, str, Place]] = set()
    for edge in todo:
        key = (edge.parent, edge.rig, edge.target.binding, edge.target.place)
        if key in seen:
            continue
        seen.add(key)
        yield edge
        if edge.target.pack is not None and into(edge.target):
            binding = edge.target.binding
            todo += [Edge(binding, inner, edge.rig) for inner in edge.target.pack.imports]


def rigs_of(sources: Sources) -> Rigs:
    """Return the imports of each rig."""
    return {rig.name: rig.imports for rig in sources.rigs}


def _tops(pack: Pack, rigs: Rigs) -> list[Edge]:
    tops = [Edge("city", target, None) for target in pack.imports]
    for rig, imports in rigs.items():
        tops += [Edge(f"rig:{rig}", target, rig) for target in imports]
    return tops


def import_paths(
    pack: Pack, rigs: Rigs, wanted: Callable[[Import], bool], limit: int
) -> list[ImportPath]:
    """Return up to `limit` paths that end in a wanted import.

    Packs can share imports, so the number of paths may be exponential: branches that lead to no
    wanted import are skipped, and each import is examined for that only once.
    """
    leads: dict[int, bool] = {}  # by id of an import: is it wanted, or one of those below it?
    paths: list[ImportPath] = []

    def reaches(target: Import) -> bool:
        if id(target) not in leads:
            inner = target.pack.imports if target.pack else ()
            leads[id(target)] = wanted(target) or any(map(reaches, inner))
        return leads[id(target)]

    def walk(path: ImportPath) -> None:
        last = path.steps[-1]
        if len(paths) < limit and wanted(last):
            paths.append(path)
        for inner in last.pack.imports if last.pack else ():
            if len(paths) < limit and reaches(inner):
                walk(path._replace(steps=(*path.steps, inner)))

    for edge in _tops(pack, rigs):
        if reaches(edge.target):
            walk(ImportPath(edge.rig, (edge.target,)))
    return paths


def state(target: Import, problems: Iterable[Problem]) -> str:
    """Return the state of an import: `ok`, or why it cannot be read."""
    if target.pack is not None:
        return OK
    if target.remote is None or target.directory is not None:
        return MISSING
    if target.locked is None:
        return NOT_LOCKED
    changed = any(p.code == "pack-changed" and p.place == target.place for p in problems)
    return CHANGED if changed else NOT_INSTALLED
