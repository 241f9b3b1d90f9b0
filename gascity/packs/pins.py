"""What a lock has to say for the imports there are, and how two locks differ."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from gascity.model.lock import Locked
from gascity.model.pack import Import, Pack
from gascity.model.records import NamedTuple
from gascity.model.repositories import Remote, canonical, is_remote, parse_remote
from gascity.packs.graph import Rigs, edges

# What a pin is for: binding, repository, directory, version, and the ref that the address names.
Key = tuple[str, str, str, str, str]


class Move(NamedTuple):
    """A pin that is not what it was; None for a pack that is new, or gone."""

    old: Locked | None
    new: Locked | None


def locks_in_use(pack: Pack, rigs: Rigs, locks: Iterable[Locked]) -> tuple[Locked, ...]:
    """What a lock must say for the imports there are, each with those who make it.

    What is imported by a pack that cannot be read now is not known, so its entries stay.
    """
    used: dict[Key, Locked] = {}
    unread: set[str] = set()
    for parent, one, _ in edges(pack, rigs):
        if one.remote is None:
            continue
        if one.directory is None:
            unread.add(one.binding)
        if one.locked is not None:
            entry = used.setdefault(
                key_of(one), entry_of(one, one.locked.commit, one.locked.sha256)
            )
            used[key_of(one)] = entry._replace(parents=tuple(sorted({*entry.parents, parent})))
    left = [lock for lock in locks if key_of_lock(lock) not in used]
    count = -1
    while count != len(used):
        count = len(used)
        for lock in left:
            if unread.intersection(lock.parents):
                used.setdefault(key_of_lock(lock), lock)
                unread.add(lock.binding)
    return tuple(sorted(used.values()))


def unused(pack: Pack, rigs: Rigs, locks: Sequence[Locked]) -> list[Locked]:
    """Entries of a lock that no import means any more. Those in the public form have no binding,
    and are left alone."""
    used = {key_of_lock(lock) for lock in locks_in_use(pack, rigs, locks)}
    return [lock for lock in locks if lock.binding and key_of_lock(lock) not in used]


def key_of(one: Import) -> Key:
    """What the pin of an import is for; only of a repository's."""
    assert one.remote is not None
    ref = "" if one.version else one.remote.ref
    return (one.binding, canonical(one.remote.url), one.remote.path, one.version, ref)


@lru_cache(maxsize=1024)
def key_of_lock(lock: Locked) -> Key:
    """What an entry of a lock pins."""
    remote = parse_remote(lock.source)
    ref = "" if lock.version else remote.ref
    return (lock.binding, canonical(remote.url), lock.path, lock.version, ref)


def entry_of(one: Import, commit: str, sha256: str) -> Locked:
    """An import, pinned; who makes it is not said yet."""
    assert one.remote is not None
    source = one.source if is_remote(one.source) else _address(one.remote)
    return Locked(one.binding, source, one.remote.path, one.version, commit, sha256)


def _address(remote: Remote) -> str:
    """How to write a pack of which only the way from its neighbour is written."""
    from urllib.parse import quote

    return f"{remote.url}//{quote(remote.path)}" if remote.path else remote.url


def moves(before: Iterable[Locked], after: Iterable[Locked]) -> Iterator[Move]:
    """What changed from one lock to the other, by binding, repository and directory."""
    old, new = ({key_of_lock(lock): lock for lock in locks} for locks in (before, after))
    gone = {key[:3]: lock for key, lock in old.items() if key not in new}
    for key, lock in new.items():
        was = old.get(key) or gone.pop(key[:3], None)
        if was is None or was.commit != lock.commit:
            yield Move(was, lock)
    for lock in gone.values():
        yield Move(lock, None)
