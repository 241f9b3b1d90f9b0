"""Computes the entries packs.lock needs for a city's imports, and compares two locks."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from gascity.model.lock import LockedPack
from gascity.model.pack import Import, Pack
from gascity.model.repositories import Remote, canonical, is_remote, parse_remote
from gascity.packs.graph import Rigs, edges

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
            pin = entry_of(target, target.locked.commit, target.locked.sha256)
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


def entry_of(target: Import, commit: str, sha256: str) -> LockedPack:
    """Return the lock entry of an import, without its importers."""
    remote = target.remote
    assert remote is not None
    source = target.source if is_remote(target.source) else _address(remote)
    return LockedPack(target.binding, source, remote.path, target.version, commit, sha256)


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
