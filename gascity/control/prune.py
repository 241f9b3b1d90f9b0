"""Find and remove what a city no longer needs: worktrees, merged branches, sessions, cached packs.

Everything is conservative. A worktree goes only if no session can return to it and nothing in it
would be lost; a branch only if the default branch has all its commits and no unfinished item needs
it; a session only if it ended by itself and the user gave it neither a name nor a pin; a cached
pack only if no known city has it in its lock and none has read it for a month. What is found is
checked again when it is removed.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from gascity import git
from gascity.control.blocked_directories import read_blocked
from gascity.control.status import is_over
from gascity.files import move_and_remove_tree
from gascity.git import GitError
from gascity.model.city import City
from gascity.model.problems import CityError
from gascity.model.repositories import canonical, parse_remote
from gascity.model.work import CLAIMED, NAMED, OPEN, STARTING, Session, Work
from gascity.paths import known_cities
from gascity.runtimes import open_runtime
from gascity.runtimes.port import handle_of
from gascity.source.disk import Disk
from gascity.source.lock import read_lock
from gascity.source.pack_cache import INDEX, cache_directory, key_of, pack_directory
from gascity.store.port import Store
from gascity.workdir.merge import default_branch, delete_branch, start_commit
from gascity.workdir.session_directory import remove_directory
from gascity.workdir.write.execute import ApplyState
from gascity.workdir.write.ledger import Ledger
from gascity.workdir.write.recover import managed_files
from gascity.workdir.write.worktree import BRANCHES, is_placeholder
from gascity.workdir.write.worktree_state import current_branch, inspect, reasons_to_keep

WORKTREE, BRANCH, SESSION, PACK = "worktree", "branch", "session", "pack"
_UNREAD = 30 * 86400.0  # seconds since a cached pack was read last
_MARKERS = {"packs": INDEX, "repos": "HEAD"}  # directories of the cache, and a file that is read


class Prunable(NamedTuple):
    """Something that can be removed. `remove` returns whether it was."""

    kind: str
    path: str  # a directory, a branch or a session's id
    size: int  # bytes on disk
    reason: str
    remove: Callable[[], bool]


class PruneResult(NamedTuple):
    """Everything that can be removed, and the reason for each worktree that is kept."""

    items: list[Prunable]
    kept: list[str]


class _Rig(NamedTuple):
    """The repository of a rig, and the commit of its default branch, which is safe."""

    name: str
    path: str
    into: str
    commit: str


class Pruner:
    """Finds what can be removed from one city."""

    def __init__(self, city: City, store: Store | None, environ: Mapping[str, str], now: float):
        self.city = city
        self.root = city.root
        self.store = store
        self.environ = environ
        self.now = now
        self.rigs = {rig.path: rig for rig in self._rigs()}
        statuses = (OPEN, CLAIMED)
        self.unfinished: list[Work] = store.list_work(status=statuses) if store else []

    def find(self) -> PruneResult:
        """Return everything that can be removed, in the order in which it must be."""
        worktrees, kept = self._worktrees()
        items = [*worktrees, *self._branches({item.path for item in worktrees})]
        return PruneResult([*items, *self._sessions(), *self._packs()], kept)

    def _rigs(self) -> Iterator[_Rig]:
        for rig in self.city.rigs:
            path = os.path.realpath(os.path.join(self.root, rig.path or "."))
            if not rig.path or not rig.git or not os.path.isdir(path):
                continue
            with suppress(CityError, GitError):  # it has no commit, or is on no branch
                into = default_branch(path, rig.settings.default_branch or "", self.environ)
                yield _Rig(rig.name, path, into, start_commit(path, into, self.environ))

    # Worktrees

    def _worktrees(self) -> tuple[list[Prunable], list[str]]:
        found, kept = [], []
        ledgers = ApplyState.of(self.root).ledgers
        below = f"{os.path.realpath(self.root)}/.gc/"
        for path in ledgers.roots():
            ledger = ledgers.read(path)
            rig = self.rigs.get(os.path.realpath(ledger.rig)) if ledger.rig else None
            if rig is None or not path.startswith(below) or not os.path.isdir(path):
                continue
            reasons = self._reasons_to_keep(ledger, rig)
            if reasons:
                kept += [f"{path}: {reason}" for reason in reasons if reason]
                continue
            found.append(self._worktree(path, ledger, rig))
        return found, kept

    def _worktree(self, path: str, ledger: Ledger, rig: _Rig) -> Prunable:
        def remove() -> bool:
            reasons = remove_directory(
                self.root,
                path,
                self.environ,
                taken=lambda: self._in_use(ledger),
                safe=rig.commit,
            )
            return not reasons and not os.path.isdir(path)

        return Prunable(WORKTREE, path, _size(path), "unused, and nothing would be lost", remove)

    def _reasons_to_keep(self, ledger: Ledger, rig: _Rig) -> list[str]:
        """Return why a worktree stays; an empty text for a reason that needs no mention."""
        path = ledger.root
        if path in self._in_use(ledger):
            return [""]
        try:
            if is_placeholder(current_branch(path, self.environ)):
                return [""]  # `apply` wrote it
            managed, covered = managed_files(ledger)
            return reasons_to_keep(inspect(path, managed, covered, self.environ, rig.commit))
        except GitError as error:
            return [error.message]

    def _in_use(self, ledger: Ledger) -> list[str]:
        """Return the directories that sessions use; also this one if a session may be given it."""
        if self.store is None:
            return []
        sessions = [session for session in self.store.sessions() if not _is_prunable(session)]
        starting = {session.agent for session in sessions if session.state == STARTING}
        used = [session.workdir for session in sessions]
        used += [work.workdir for work in self.unfinished]
        used += [entry.path for entry in read_blocked(self.store)]
        used += [ledger.root] if not starting.isdisjoint(ledger.agents) else []
        return [os.path.realpath(path) for path in used if path]

    # Branches

    def _branches(self, worktrees: set[str]) -> Iterator[Prunable]:
        needed = self._needed_branches()
        for rig in self.rigs.values():
            form = "--format=%(refname:lstrip=2)%09%(objectname)%09%(worktreepath)"
            merged = ["for-each-ref", form, f"--merged={rig.commit}", f"refs/heads/{BRANCHES}"]
            for line in git.run(merged, rig.path, self.environ).line.splitlines():
                name, commit, worktree = line.split("\t", 2)
                free = not worktree or os.path.realpath(worktree) in worktrees
                if free and name not in needed:
                    yield self._branch(rig, name, commit)

    def _branch(self, rig: _Rig, name: str, commit: str) -> Prunable:
        def remove() -> bool:
            try:
                delete_branch(rig.path, name, commit, self.environ)
            except GitError:  # it has moved since
                return False
            return True

        return Prunable(BRANCH, name, 0, f"merged into {rig.into} of rig {rig.name}", remove)

    def _needed_branches(self) -> set[str]:
        """Return the branches of unfinished items, and those that they start from."""
        names = {work.branch for work in self.unfinished}
        for start in {work.start_from for work in self.unfinished} - {""}:
            source = self.store.work(start) if self.store else None
            names.add(source.branch if source is not None else start)
        return names

    # Sessions

    def _sessions(self) -> Iterator[Prunable]:
        for session in self.store.sessions(live=False) if self.store is not None else ():
            if _is_prunable(session) and not self._has_reserved_work(session):
                yield self._session(session)

    def _has_reserved_work(self, session: Session) -> bool:
        return any(work.session == session.id for work in self.unfinished)

    def _session(self, session: Session) -> Prunable:
        store = self.store
        assert store is not None
        runs = store.runs(session=session.id)
        # The log of an item's last run stays with the item.
        logs = [run for run in runs if not _is_log_of_work(store, run.work, run.log)]

        def remove() -> bool:
            current = store.session(session.id)
            if current is None or not _is_prunable(current):
                return False
            store.delete_session(session.id, self.now)
            for run in runs:
                with suppress(KeyError):  # the package of its runtime is not installed any more
                    runtime = open_runtime(run.runtime, self.root, self.environ)
                    runtime.forget(handle_of(run))
                    if run in logs:
                        runtime.logs.delete(run.log)
            return True

        size = sum(_file_size(run.log) for run in logs)
        reason = f"{session.alias} of {session.agent} is {session.state}"
        return Prunable(SESSION, session.id, size, reason, remove)

    # Cached packs

    def _packs(self) -> Iterator[Prunable]:
        cache = cache_directory(self.environ)
        used = set(self._used_packs(cache))
        for folder, marker in _MARKERS.items():
            for name in _listed(f"{cache}/{folder}"):
                path = f"{cache}/{folder}/{name}"
                read = _last_read(f"{path}/{marker}")
                if path not in used and read is not None and self.now - read > _UNREAD:
                    days = int((self.now - read) // 86400)
                    reason = f"in no packs.lock of a known city, not read for {days} days"
                    yield Prunable(PACK, path, _size(path), reason, partial(_removed, path))

    def _used_packs(self, cache: str) -> Iterator[str]:
        """Yield the packs and repositories that this city and the other known ones have locked."""
        for root in {self.root, *known_cities(self.environ)}:
            for lock in read_lock(Disk(root)):
                remote = parse_remote(lock.source)._replace(path=lock.path)
                yield os.path.dirname(pack_directory(cache, remote, lock.commit))
                yield f"{cache}/repos/{key_of(canonical(remote.url))}.git"


def _is_prunable(session: Session) -> bool:
    """Return whether a session ended and nothing says that the user wants it to stay."""
    kept = session.pinned is not None or session.name or session.origin == NAMED
    return is_over(session) and not kept


def _is_log_of_work(store: Store, id: str, log: str) -> bool:
    work = store.work(id) if id else None
    return work is not None and work.log == log


def _removed(path: str) -> bool:
    move_and_remove_tree(path)
    return True


def _listed(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if not name.startswith("."))
    except OSError:
        return []


def _last_read(path: str) -> float | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return max(status.st_atime, status.st_mtime)


def _file_size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _size(directory: str) -> int:
    """Return the size of all files below a directory."""
    return sum(
        _file_size(os.path.join(folder, name))
        for folder, _, names in os.walk(directory)
        for name in names
    )
