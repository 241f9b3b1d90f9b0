"""The import graph of a city: reads it, walks it, and finds all paths to a pack."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.pack import Import, Pack, Sources
from gascity.model.problems import Place, Problem
from gascity.model.repositories import LockedPack, Remote, canonical, is_remote, parse_remote
from gascity.paths import config_home
from gascity.resources import data_dir
from gascity.source.disk import Disk
from gascity.source.load import load
from gascity.source.pack_cache import cache_directory
from gascity.source.providers import ExternalPaths

if TYPE_CHECKING:
    from gascity.packs.repositories import Installed

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


# Identity of a pin: binding, repository, directory, version, and the ref that the address names.
Key = tuple[str, str, str, str, str]


class PinChange(NamedTuple):
    """A pin that changed; `old` is None for a new pack, `new` for a removed one."""

    old: LockedPack | None
    new: LockedPack | None


def locks_in_use(pack: Pack, rigs: Rigs, locks: Iterable[LockedPack]) -> tuple[LockedPack, ...]:
    """Return the entries that a lock needs, each with its importers.

    The imports of a pack that cannot be read now are unknown, so its entries stay.
    """
    used: dict[Key, LockedPack] = {}
    unread: set[str] = set()
    for parent, target, _ in edges(pack, rigs):
        if target.remote is None:
            continue
        if target.directory is None:
            unread.add(target.binding)
        if target.locked is not None:
            key = key_of(target)
            pin = entry_of(target, target.locked)
            entry = used.setdefault(key, pin)
            used[key] = entry._replace(parents=tuple(sorted({*entry.parents, parent})))
    # Entries imported by an unreadable pack name it as a parent; they may be parents themselves.
    rest = [lock for lock in locks if key_of_lock(lock) not in used]
    count = -1
    while count != len(used):
        count = len(used)
        for lock in rest:
            if unread.intersection(lock.parents):
                used.setdefault(key_of_lock(lock), lock)
                unread.add(lock.binding)
    return tuple(sorted(used.values()))


def unused(pack: Pack, rigs: Rigs, locks: Sequence[LockedPack]) -> list[LockedPack]:
    """Return the entries of a lock that no import uses.

    Entries in the public format have no binding, and are kept.
    """
    used = {key_of_lock(lock) for lock in locks_in_use(pack, rigs, locks)}
    return [lock for lock in locks if lock.binding and key_of_lock(lock) not in used]


def key_of(target: Import) -> Key:
    """Return the identity of the pin of an import from a repository."""
    assert target.remote is not None
    remote, version = target.remote, target.version
    ref = "" if version else remote.ref
    return (target.binding, canonical(remote.url), remote.path, version, ref)


@lru_cache(maxsize=1024)
def key_of_lock(lock: LockedPack) -> Key:
    """Return the identity of a lock entry."""
    remote = parse_remote(lock.source)
    ref = "" if lock.version else remote.ref
    return (lock.binding, canonical(remote.url), lock.path, lock.version, ref)


def entry_of(target: Import, pin: "LockedPack | Installed", accepted: str = "") -> LockedPack:
    """Return the lock entry of an import, without its importers.

    `pin` is its earlier entry, or the pack as it was installed now: then `accepted` is the commit
    that the user accepted.
    """
    remote = target.remote
    assert remote is not None
    source = target.source if is_remote(target.source) else _address(remote)
    if isinstance(pin, LockedPack):
        accepted = pin.accepted
    return LockedPack(
        target.binding,
        source,
        remote.path,
        target.version,
        pin.commit,
        pin.sha256,
        accepted=accepted,
    )


def _address(remote: Remote) -> str:
    """Return the address of a pack that is imported by a relative path in its repository."""
    from urllib.parse import quote

    return f"{remote.url}//{quote(remote.path)}" if remote.path else remote.url


def pin_changes(before: Iterable[LockedPack], after: Iterable[LockedPack]) -> Iterator[PinChange]:
    """Yield the changes between two locks, by binding, repository and directory."""
    old, new = ({key_of_lock(lock): lock for lock in locks} for locks in (before, after))
    gone = {key[:3]: lock for key, lock in old.items() if key not in new}
    for key, lock in new.items():
        previous = old.get(key) or gone.pop(key[:3], None)
        if previous is None or previous.commit != lock.commit:
            yield PinChange(previous, lock)
    for lock in gone.values():
        yield PinChange(lock, None)
