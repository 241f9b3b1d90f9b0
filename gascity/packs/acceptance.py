"""Finds the packs that the user has to accept, and what is new in them."""

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gascity.model.pack import Import, Sources
from gascity.model.repositories import LockedPack, Remote, canonical, parse_remote
from gascity.packs.graph import edges, read_imports, rigs_of
from gascity.source.disk import Disk, is_below
from gascity.source.executables import Executable, hash_of, list_executables
from gascity.source.lock import AcceptedPath, LockFile, lock_text
from gascity.source.pack_cache import cache_directory, pack_directory

Executables = tuple[Executable, ...]


class Review(NamedTuple):
    """A pack that the user has to accept, or whose acceptance is not recorded.

    `name` is the import of the city that leads to it, and `binding` its own. `directory` is where
    it is. `removed` is what the last accepted commit could execute and this one cannot; `added` is
    what is new since then. `lock` is its pin, or `path` identifies a directory outside the city.
    """

    name: str
    binding: str
    directory: str
    entries: Executables
    added: Executables
    removed: Executables
    lock: LockedPack | None = None
    path: AcceptedPath | None = None


def packs_to_review(
    root: str,
    environ: Mapping[str, str],
    texts: Mapping[str, str],
    before: Iterable[LockedPack] = (),
    *,
    unrecorded: bool = False,
) -> list[Review]:
    """Return the packs that are not accepted, if the city had these texts, by path in it.

    `before` is the lock to compare with. With `unrecorded`, includes packs that only count as
    accepted because an older version locked them.
    """
    disk = Disk(root, {os.path.join(root, file): text.encode() for file, text in texts.items()})
    sources = read_imports(disk, environ)
    tops = {id(each): _top_name(sources, each) for each in sources.imports}
    reviews: dict[str, Review] = {}
    names: dict[str, str] = {}
    for parent, target, rig in edges(sources.pack, rigs_of(sources)):
        pack = target.pack
        if pack is None:
            continue
        name = tops.get(id(target)) or names.get(f"{rig} {parent}", target.binding)
        names.setdefault(f"{rig} {target.binding}", name)
        lock = target.locked
        asks = not pack.accepted or (unrecorded and lock is not None and lock.is_unrecorded)
        directory = disk.absolute(pack.root)
        inside = any(is_below(directory, other) for other in reviews)  # accepted with that one
        if asks and not inside:
            reviews[directory] = _review(disk, environ, name, target, directory, before)
    return list(reviews.values())


def _top_name(sources: Sources, imported: Import) -> str:
    if imported in sources.pack.imports:
        return imported.binding
    rig = next(rig.name for rig in sources.rigs if imported in rig.imports)
    return f"{rig}/{imported.binding}"


def _review(
    disk: Disk,
    environ: Mapping[str, str],
    name: str,
    target: Import,
    directory: str,
    before: Iterable[LockedPack],
) -> Review:
    entries = list_executables(disk, directory, nested=target.remote is not None)
    if target.remote is None:
        path = AcceptedPath(os.path.relpath(directory, disk.root), hash_of(entries))
        return Review(name, target.binding, directory, entries, entries, (), None, path)
    last = previous_lock(target, before)
    old: Executables = ()
    if last is not None:
        old = executables_at(cache_directory(environ), target.remote, last.commit)
    added, removed = not_in(old, entries), not_in(entries, old)
    return Review(name, target.binding, directory, entries, added, removed, target.locked)


def accept(lock: LockFile, reviews: Iterable[Review]) -> str:
    """Return the text of packs.lock that records these packs as accepted."""
    reviewed = list(reviews)
    pins = {review.lock[:5] for review in reviewed if review.lock is not None}
    paths = [review.path for review in reviewed if review.path is not None]
    renewed = {path.source for path in paths}
    packs = [
        each._replace(accepted=each.commit) if each[:5] in pins else each for each in lock.packs
    ]
    kept = [path for path in lock.paths if path.source not in renewed]
    return lock_text(packs, (*kept, *paths))


def paths_in_use(sources: Sources, paths: tuple[AcceptedPath, ...]) -> tuple[AcceptedPath, ...]:
    """Return the accepted directories that the city still imports.

    All, if one of its imports cannot be read: it may import any of them.
    """
    targets = [target for _, target, _ in edges(sources.pack, rigs_of(sources))]
    if any(target.pack is None for target in targets):
        return paths
    disk = Disk(sources.root)
    used = {
        os.path.relpath(disk.absolute(target.pack.root), sources.root)
        for target in targets
        if target.pack is not None
    }
    return tuple(path for path in paths if path.source in used)


def previous_lock(target: Import, locks: Iterable[LockedPack]) -> LockedPack | None:
    """Return the last accepted entry of the same directory in the same repository, for whatever
    version; that of the same binding first."""
    assert target.remote is not None
    url = canonical(target.remote.url)
    entries = [
        lock
        for lock in locks
        if lock.is_accepted
        and lock.path == target.remote.path
        and canonical(parse_remote(lock.source).url) == url
    ]
    same = [lock for lock in entries if lock.binding == target.binding]
    return next(iter(same or entries), None)


def executables_at(cache: str, remote: Remote, commit: str) -> Executables:
    """List what a commit in the cache can execute; nothing if it is not in the cache."""
    tree = pack_directory(cache, remote, commit)
    return list_executables(Disk(tree), tree, nested=True) if os.path.isdir(tree) else ()


def not_in(old: Executables, new: Executables) -> Executables:
    """Return what `new` has and `old` has not."""
    known = {entry.identity for entry in old}
    return tuple(entry for entry in new if entry.identity not in known)
