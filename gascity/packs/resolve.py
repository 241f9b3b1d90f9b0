"""Pins what a city imports: fetches and loads again until every import is locked and installed."""

import os
from collections.abc import Callable, Mapping

from gascity.model.lock import Locked, lock_text
from gascity.model.pack import Import, Sources
from gascity.model.problems import CityError, Place, Problem
from gascity.model.records import NamedTuple
from gascity.model.repositories import shown
from gascity.model.versions import VersionFault, Wanted, nearest, parse_wanted, pick
from gascity.packs.faults import PackFault
from gascity.packs.graph import edges, rigs_of
from gascity.packs.pins import Key, Move, entry_of, key_of, key_of_lock, locks_in_use, moves
from gascity.packs.reading import read_imports
from gascity.packs.repositories import Repositories
from gascity.source.disk import Disk
from gascity.source.lock import LOCK, read_lock

MOST = 1000  # packs that one city may import


class Resolution(NamedTuple):
    """What a city's imports come to.

    `problems` are those of imports that could not be settled; what such a one was pinned to stays.
    `text` is what packs.lock should say then, None if it says so already. `fetched` are the packs
    that the cache lacked, or had other than they should be; `unread` counts imports that cannot be
    read for reasons which no fetching mends.
    """

    locks: tuple[Locked, ...]
    text: str | None
    fetched: tuple[Locked, ...]
    moves: tuple[Move, ...]
    problems: tuple[Problem, ...]
    unread: int = 0


def resolve(
    root: str,
    environ: Mapping[str, str],
    repositories: Repositories,
    texts: Mapping[str, bytes] | None = None,
    anew: Callable[[str], bool] = lambda _: False,
) -> Resolution:
    """Pin and install every pack of a repository that the city, its rigs and its packs import.

    `texts` are files by absolute path that are taken as if they said that. A pin that is there
    and fits stays, but for the bindings that `anew` is true of. Nothing in the city is written.
    Raises CityError if packs.lock or city.toml cannot be read.
    """
    return _Run(root, environ, repositories, texts or {}, anew).resolution()


def locks_on_disk(root: str, texts: Mapping[str, bytes] | None = None) -> tuple[Locked, ...]:
    """What packs.lock says. Raises CityError for one that would be lost if it were written, and
    for a link that leads nowhere: what is there belongs to whoever made the link."""
    disk = Disk(root, texts)
    locks = read_lock(disk)
    wrong = [
        problem._replace(severity="error")
        for problem in disk.problems
        if problem.is_error or problem.code == "dangling-link"
    ]
    if wrong:
        raise CityError(*wrong)
    return locks


class _Run:
    """One resolution. `pins` is what was settled, `failed` what could not be."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        repositories: Repositories,
        texts: Mapping[str, bytes],
        anew: Callable[[str], bool],
    ) -> None:
        self.root = root
        self.environ = environ
        self.repositories = repositories
        self.texts = texts
        self.anew = anew
        self.before = locks_on_disk(root, texts)
        self.pins: dict[Key, Locked] = {}
        self.failed: dict[Key, Problem] = {}
        self.fetched: list[Locked] = []

    def resolution(self) -> Resolution:
        while True:
            sources = self._load()
            fresh: set[Key] = set()
            for _, one, _ in edges(sources.pack, rigs_of(sources), self._is_read):
                if one.remote is not None:
                    self._settle(one, fresh)
            if not fresh:
                return self._answer(sources)

    def _load(self) -> Sources:
        """The city with the lock so far."""
        kept = [lock for lock in self.before if key_of_lock(lock) not in self.pins]
        text = lock_text([*kept, *self.pins.values()]).encode()
        disk = Disk(self.root, {**self.texts, os.path.join(self.root, LOCK): text})
        return read_imports(disk, self.environ)

    def _settle(self, one: Import, fresh: set[Key]) -> None:
        """Pin an import, once; in `fresh` it goes if that is not what was loaded."""
        key = key_of(one)
        if key in self.failed or key in fresh:
            return
        try:
            if key not in self.pins:
                self.pins[key] = self._pinned(one)
                if not self._is_read(one):
                    fresh.add(key)
            elif not self._is_read(one):
                raise PackFault("pack-changed", f"`{one.binding}` changed while it was read")
        except PackFault as fault:
            self.failed[key] = _problem(one, fault)
            if self.pins.pop(key, None) is not None:
                fresh.add(key)
            elif one.locked is not None and one.directory is not None:
                self.pins[key] = entry_of(one, one.locked.commit, one.locked.sha256)

    def _is_read(self, one: Import) -> bool:
        """Did the load read what the import is pinned to?"""
        if one.remote is None:
            return True
        pin, read = self.pins.get(key_of(one)), one.locked if one.directory else None
        if pin is None or read is None:
            return False
        return (pin.commit, pin.sha256) == (read.commit, read.sha256)

    def _pinned(self, one: Import) -> Locked:
        """The pack that an import means, in the cache and as it should be."""
        assert one.remote is not None
        if len(self.pins) >= MOST:
            raise PackFault("too-many-packs", f"the city imports more than {MOST} packs")
        locked = None if self.anew(one.binding) else one.locked
        commit = locked.commit if locked else self._commit(one)
        if locked and locked.sha256 and one.directory:
            return entry_of(one, commit, locked.sha256)  # the load has just verified it
        asked = locked.sha256 if locked else ""
        found = self.repositories.install(one.remote, commit, asked)
        if asked not in ("", found.sha256):
            words = f"commit {commit[:7]} does not hold what {LOCK} says of `{one.binding}`"
            hint = f"see who changed {LOCK}; `city pack update {one.binding}` pins it anew"
            raise PackFault("pack-changed", words, hint)
        pin = entry_of(one, found.commit, found.sha256)
        if found.is_new:
            self.fetched.append(pin)
        return pin

    def _commit(self, one: Import) -> str:
        """The commit that an import asks for, as its repository stands now."""
        assert one.remote is not None
        try:
            wanted = parse_wanted(one.version, one.remote.ref)
        except VersionFault as fault:
            raise PackFault("bad-version", fault.message, fault.hint) from fault
        if wanted.kind == "sha":
            return wanted.text
        refs = self.repositories.refs(one.remote)
        picked = pick(wanted, refs)
        if picked is None:
            near = " or ".join(f"`{name}`" for name in nearest(wanted, refs))
            words = f"{shown(one.remote.url)} has {_none(wanted)}"
            raise PackFault("version-missing", words, f"there is {near}" if near else None)
        return picked.commit

    def _answer(self, sources: Sources) -> Resolution:
        every = [one for _, one, _ in edges(sources.pack, rigs_of(sources))]
        keys = [key_of(one) for one in every if one.remote is not None]
        failed = dict.fromkeys(self.failed[key] for key in keys if key in self.failed)
        locks = locks_in_use(sources.pack, rigs_of(sources), self.before)
        return Resolution(
            locks,
            lock_text(locks) if set(locks) != set(self.before) else None,
            tuple(self.fetched),
            tuple(moves(self.before, locks)),
            tuple(failed),
            sum(one.pack is None for one in every),
        )


def _problem(one: Import, fault: PackFault) -> Problem:
    """A fault at the line that a person would change."""
    version = str(one.values.get("version") or "")
    if fault.code == "pack-commit-gone" and version.startswith("sha:"):
        hint = "see that `version` names a commit that is there, in full"
        return Problem(fault.code, fault.message, _at_version(one), hint)
    wrong = version and fault.code in ("bad-version", "version-missing")
    return Problem(fault.code, fault.message, _at_version(one) if wrong else one.place, fault.hint)


def _at_version(one: Import) -> Place:
    return one.place._replace(path=(*one.place.path[:-1], "version"), of_value=True)


def _none(wanted: Wanted) -> str:
    """What a repository does not have."""
    return {
        "tag": f"no tag `{wanted.text}`",
        "branch": f"no branch `{wanted.text}`",
        "ref": f"no tag, branch or commit `{wanted.text}`",
        "range": f"no release that fits `{wanted.text}`",
    }.get(wanted.kind, "no commits")
