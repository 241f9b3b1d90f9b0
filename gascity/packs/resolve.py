"""Resolves a city's imports to pinned commits.

What a pack imports is known only after it was fetched, so the city is loaded, its unresolved
imports are pinned and installed, and it is loaded again, until nothing new appears.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.pack import Import, Sources
from gascity.model.problems import CityError, Place, Problem
from gascity.model.repositories import LockedPack, shown
from gascity.model.versions import (
    VersionError,
    VersionRequest,
    nearest,
    parse_version_request,
    pick,
)
from gascity.packs.acceptance import executables_at, not_in, paths_in_use, previous_lock
from gascity.packs.graph import (
    Key,
    PinChange,
    edges,
    entry_of,
    key_of,
    key_of_lock,
    locks_in_use,
    pin_changes,
    read_imports,
    rigs_of,
)
from gascity.packs.repositories import PackError, Repositories
from gascity.source.disk import Disk
from gascity.source.lock import LOCK, AcceptedPath, LockFile, lock_text, read_lock_file

MAX_PACKS = 1000


class Resolution(NamedTuple):
    """The result of resolving.

    `problems` are those of imports that could not be resolved; their old pins stay. `text` is the
    new content of packs.lock, None if it does not change. `fetched` are the packs that were missing
    or damaged in the cache. `unread` are the problems of imports that fetching cannot fix. `paths`
    are the accepted packs outside the city.
    """

    locks: tuple[LockedPack, ...]
    text: str | None
    fetched: tuple[LockedPack, ...]
    changes: tuple[PinChange, ...]
    problems: tuple[Problem, ...]
    unread: tuple[Problem, ...] = ()
    paths: tuple[AcceptedPath, ...] = ()


def resolve(
    root: str,
    environ: Mapping[str, str],
    repositories: Repositories,
    texts: Mapping[str, bytes] | None = None,
    update: Callable[[str], bool] = lambda _: False,
) -> Resolution:
    """Pin and install every pack of a repository that the city, its rigs and its packs import.

    `texts` overrides files by absolute path. A pin that fits stays, except for bindings for which
    `update` is true. Nothing in the city is written. Raises CityError if packs.lock or city.toml
    cannot be read.
    """
    return _Run(root, environ, repositories, texts or {}, update).resolution()


def lock_on_disk(root: str, texts: Mapping[str, bytes] | None = None) -> LockFile:
    """Read packs.lock. Raises CityError if it is invalid, because writing it would lose content,
    and if it is a broken link, because city does not create its target."""
    disk = Disk(root, texts)
    lock = read_lock_file(disk)
    errors = [
        problem._replace(severity="error")
        for problem in disk.problems
        if problem.is_error or problem.code == "dangling-link"
    ]
    if errors:
        raise CityError(*errors)
    return lock


class _Run:
    """One resolution: `pins` has the imports resolved so far, `failed` the others."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        repositories: Repositories,
        texts: Mapping[str, bytes],
        update: Callable[[str], bool],
    ) -> None:
        self.root = root
        self.environ = environ
        self.repositories = repositories
        self.texts = texts
        self.update = update
        self.before, self.paths = lock_on_disk(root, texts)
        self.pins: dict[Key, LockedPack] = {}
        self.failed: dict[Key, Problem] = {}
        self.fetched: list[LockedPack] = []

    def resolution(self) -> Resolution:
        while True:
            sources = self._load()
            fresh: set[Key] = set()
            for _, target, _ in edges(sources.pack, rigs_of(sources), self._is_read):
                if target.remote is not None:
                    self._resolve(target, fresh)
            if not fresh:
                return self._result(sources)

    def _load(self) -> Sources:
        """Load the city with the pins so far."""
        kept = [lock for lock in self.before if key_of_lock(lock) not in self.pins]
        text = lock_text([*kept, *self.pins.values()], self.paths).encode()
        disk = Disk(self.root, {**self.texts, os.path.join(self.root, LOCK): text})
        return read_imports(disk, self.environ)

    def _resolve(self, target: Import, fresh: set[Key]) -> None:
        """Pin an import once; add it to `fresh` if the city must be loaded again for it."""
        key = key_of(target)
        if key in self.failed or key in fresh:
            return
        try:
            if key not in self.pins:
                self.pins[key] = self._pinned(target)
                if not self._is_read(target):
                    fresh.add(key)
            elif not self._is_read(target):
                raise PackError("pack-changed", f"`{target.binding}` changed while it was read")
        except PackError as error:
            self.failed[key] = _problem(target, error)
            if self.pins.pop(key, None) is not None:
                fresh.add(key)
            elif target.locked is not None and target.directory is not None:
                self.pins[key] = entry_of(target, target.locked)

    def _is_read(self, target: Import) -> bool:
        """Did the load read what the import is pinned to?"""
        if target.remote is None:
            return True
        pin, read = self.pins.get(key_of(target)), target.locked if target.directory else None
        if pin is None or read is None:
            return False
        return (pin.commit, pin.sha256) == (read.commit, read.sha256)

    def _pinned(self, target: Import) -> LockedPack:
        """Pin an import to a commit and install it."""
        assert target.remote is not None
        if len(self.pins) >= MAX_PACKS:
            raise PackError("too-many-packs", f"the city imports more than {MAX_PACKS} packs")
        locked = None if self.update(target.binding) else target.locked
        commit = locked.commit if locked else self._commit(target)
        if locked and locked.sha256 and target.directory:
            return entry_of(target, locked)  # the load has just verified it
        expected = locked.sha256 if locked else ""
        installed = self.repositories.install(target.remote, commit, expected)
        if expected not in ("", installed.sha256):
            message = f"`{target.binding}`: commit {commit[:7]} does not match the hash in {LOCK}"
            hint = f"check who changed {LOCK}; `city pack update {target.binding}` pins it again"
            raise PackError("pack-changed", message, hint)
        if locked:  # it may have an abbreviated commit, or no hash
            accepted = installed.commit if locked.accepted == locked.commit else locked.accepted
        else:
            accepted = self._accepted(target, installed.commit)
        pin = entry_of(target, installed, accepted)
        if installed.is_new:
            self.fetched.append(pin)
        return pin

    def _accepted(self, target: Import, commit: str) -> str:
        """Return the commit if it executes nothing that the user has not accepted, else ""."""
        assert target.remote is not None
        before = previous_lock(target, self.before)
        cache = self.repositories.cache
        new = executables_at(cache, target.remote, commit)
        old = executables_at(cache, target.remote, before.commit) if before else ()
        return "" if not_in(old, new) else commit

    def _commit(self, target: Import) -> str:
        """Return the commit that an import's version selects in its repository now."""
        assert target.remote is not None
        try:
            request = parse_version_request(target.version, target.remote.ref)
        except VersionError as error:
            raise PackError("bad-version", error.message, error.hint) from error
        if request.kind == "sha":
            return request.text
        refs = self.repositories.refs(target.remote)
        match = pick(request, refs)
        if match is None:
            names = " or ".join(f"`{name}`" for name in nearest(request, refs))
            message = f"{shown(target.remote.url)} has {_missing_ref(request)}"
            raise PackError("version-missing", message, f"available: {names}" if names else None)
        return match.commit

    def _result(self, sources: Sources) -> Resolution:
        targets = [target for _, target, _ in edges(sources.pack, rigs_of(sources))]
        keys = [key_of(target) for target in targets if target.remote is not None]
        failed = dict.fromkeys(self.failed[key] for key in keys if key in self.failed)
        locks = locks_in_use(sources.pack, rigs_of(sources), self.before)
        paths = paths_in_use(sources, self.paths)
        changed = set(locks) != set(self.before) or paths != self.paths
        return Resolution(
            locks,
            lock_text(locks, paths) if changed else None,
            tuple(self.fetched),
            tuple(pin_changes(self.before, locks)),
            tuple(failed),
            tuple(dict.fromkeys(self._unread(targets, sources.problems))),
            paths,
        )

    def _unread(self, targets: Iterable[Import], problems: Sequence[Problem]) -> Iterator[Problem]:
        """Yield why imports cannot be read, except those that could not be fetched."""
        for target in targets:
            if target.pack is not None or (target.remote and key_of(target) in self.failed):
                continue
            errors = [p for p in problems if p.is_error and p.place == target.place]
            unknown = f"the pack of `{target.binding}` cannot be read"
            yield from errors or [Problem("import-missing", unknown, target.place)]


def _problem(target: Import, error: PackError) -> Problem:
    """Return a problem at the line that the user would change."""
    version = target.settings.version or ""
    if error.code == "pack-commit-gone" and version.startswith("sha:"):
        hint = "check that `version` is the full name of an existing commit"
        return Problem(error.code, error.message, _at_version(target), hint)
    is_version = version and error.code in ("bad-version", "version-missing")
    return Problem(
        error.code, error.message, _at_version(target) if is_version else target.place, error.hint
    )


def _at_version(target: Import) -> Place:
    return target.place._replace(path=(*target.place.path[:-1], "version"), of_value=True)


def _missing_ref(request: VersionRequest) -> str:
    return {
        "tag": f"no tag `{request.text}`",
        "branch": f"no branch `{request.text}`",
        "ref": f"no tag, branch or commit `{request.text}`",
        "range": f"no release that matches `{request.text}`",
    }.get(request.kind, "no commits")
