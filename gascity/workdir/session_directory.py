"""Provides and removes the working directories of sessions.

A session slot has a directory of its own. For the session's next work item, a worktree is created,
reused on a new branch, or resumed. If it contains unfinished work (see `worktree_state.reusable`),
it is left unchanged, and the slot's next directory is tried. When a session is deleted, its
directory is removed unless work would be lost.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from gascity.files import move_and_remove_tree
from gascity.git import GitError, base_of
from gascity.location import PREPARED, Location, Site
from gascity.model.city import Agent
from gascity.source.disk import is_below
from gascity.workdir.applier import after_worktree, remove_worktree, rig_lock
from gascity.workdir.git_excludes import write_markers
from gascity.workdir.planner import Planner, launch_file
from gascity.workdir.write import worktree
from gascity.workdir.write.directory import make_workdir
from gascity.workdir.write.execute import ApplyState
from gascity.workdir.write.ledger import Ledger
from gascity.workdir.write.recover import managed_files, recover
from gascity.workdir.write.stale_locks import remove_stale_locks
from gascity.workdir.write.worktree_state import (
    admin_of,
    count_commits,
    current_branch,
    inspect,
    is_complete,
    join_names,
    reasons_not_reusable,
    reusable,
    start_of,
    unmanaged_files,
)

# A slot's directories that are checked again for being reusable; further existing ones are skipped.
_MAX_CHECKED = 3
_TRIES = 3  # of looking at one directory, if git is killed meanwhile


class WorkdirRequest(NamedTuple):
    """A session that needs a working directory."""

    session: str
    alias: str
    slot: int
    work: str = ""  # the work item: its branch is `city/<agent without rig>/<work>`
    workdir: str = ""  # where the session worked last, if it did
    branch: str = ""  # the branch it had there
    resume: bool = False  # stay on that branch
    work_branch: str = ""  # the branch of an earlier start of the work item; empty: it is new
    start: str = ""  # the branch that the item starts from; empty: the rig's default branch
    taken: frozenset[str] = frozenset()  # directories of other live sessions
    blocked: Mapping[str, str] = {}  # directories that must not be used, and why
    environ: Mapping[str, str] = {}  # variables of the launch that differ from the preparer's


class SessionWorktree(NamedTuple):
    """A worktree that is ready for files: its site, branch, and the commit it started from."""

    site: Site
    branch: str
    base: str
    notes: tuple[str, ...] = ()


def branch_part(request: WorkdirRequest) -> str:
    """Return the last part of a session's branch: its work item or alias, valid for git."""
    text = request.work or request.alias
    valid = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-"
        for letter in text
    )
    return valid.strip("-") or PREPARED


def prepare_worktree(planner: Planner, agent: Agent, request: WorkdirRequest) -> SessionWorktree:
    """Return a worktree on the right branch that no other session uses. Raises GitError."""
    notes: list[str] = []
    if not (request.branch and request.workdir):
        request = request._replace(resume=False)  # there is nothing to resume
    for site, resumable in _candidates(planner, agent, request):
        root = os.path.realpath(site.workdir)
        if root in request.taken or site.workdir in request.taken:
            continue
        if site.workdir in request.blocked:
            notes.append(request.blocked[site.workdir])
            continue
        with planner.ledgers.locked(root):
            recover(planner.apply_state, root)
            notes += remove_stale_locks(root)
            result = _Candidate(planner, site, root, notes).use(request, resumable)
        if result is not None:
            return result._replace(notes=tuple(notes))
    raise AssertionError("the candidates never end")


def _candidates(
    planner: Planner, agent: Agent, request: WorkdirRequest
) -> Iterator[tuple[Site, bool]]:
    """Yield the directories the session may use, best first, and whether it can resume there."""
    sites = planner.sites
    first, second = (
        sites.for_session(agent, request.alias, request.slot, attempt) for attempt in (1, 2)
    )
    # The session's last directory is preferred if it is one of the slot's own.
    prefix = second.workdir.removesuffix("2")
    own = request.workdir == first.workdir or request.workdir.startswith(prefix)
    if request.workdir and (request.resume or own):
        location = Location(request.workdir, first.kind, first.rig, first.problems)
        yield sites.at(agent, location, request.alias), request.resume
    for attempt in count(1):
        site = sites.for_session(agent, request.alias, request.slot, attempt)
        skipped = attempt > _MAX_CHECKED and os.path.lexists(site.workdir)
        if site.workdir != request.workdir and not skipped:
            yield site, False


class _Candidate:
    """One directory that may be used. The caller holds its lock."""

    def __init__(self, planner: Planner, site: Site, root: str, notes: list[str]) -> None:
        self.planner = planner
        self.environ = planner.environ
        self.site = site
        self.root = root
        self.notes = notes
        self.lock = rig_lock(planner.city.root, site.rig)

    def use(self, request: WorkdirRequest, resumable: bool) -> SessionWorktree | None:
        """Prepare the directory for the session; return None if it cannot be used."""
        branch = self.site.branch_for(branch_part(request))
        start = request.start or self.planner.sites.default_branch(self.site.agent)
        rig_base = base_of(self.site.rig, start, self.environ)
        base = rig_base.commit if rig_base else ""
        admin = admin_of(self.root)
        if admin is not None and not os.path.isdir(admin):
            self._note(f"kept {self._shown()}: git does not know this worktree any more")
            return None
        if not is_complete(self.root):
            fresh = bool(request.work) and not request.resume and not request.work_branch
            branch = request.branch if request.resume else branch
            return self._create(branch, base, request.resume, fresh)
        if request.resume and not resumable:
            return None
        for _ in range(_TRIES):
            try:
                if request.resume:
                    return self._resume(request, base)
                return self._switch(branch, base, request.work_branch, exact=bool(request.start))
            except GitError as error:  # git was killed, or the worktree is damaged
                failed = error
        self._note(f"kept {self._shown()}: {failed.message}")
        return None

    def _create(self, branch: str, base: str, resume: bool, fresh: bool) -> SessionWorktree:
        # Record the owner first: otherwise a concurrent apply would see a directory of no agent.
        ledgers = self.planner.ledgers
        before = ledgers.read(self.root)
        ledgers.write(
            before._replace(
                rig=self.site.rig,
                branch=branch,
                agents={str(self.site.agent.name): {}, **before.agents},
                session=self.site.session,
                slot=self.site.suffix,
            )
        )
        make_workdir(os.path.dirname(self.root))
        rig, environ, lock = self.site.rig, self.environ, self.lock
        try:
            result = worktree.prepare(
                rig, self.root, branch, base or None, environ, lock=lock, resume=resume, fresh=fresh
            )
        except GitError:
            ledgers.write(before)
            raise
        self._note(result.note)
        return self._ready(result.branch, base, has_history=True)

    def _resume(self, request: WorkdirRequest, base: str) -> SessionWorktree | None:
        branch = current_branch(self.root, self.environ)
        if branch != request.branch:
            self._note(f"{self._shown()} is on `{branch or 'no branch'}` now")
            return None
        return self._ready(branch, base, has_history=True)

    def _switch(self, branch: str, base: str, own: str, *, exact: bool) -> SessionWorktree | None:
        """Check out the item's branch; `exact`: it must start at the base."""
        ledger = self.planner.ledgers.read(self.root)
        managed, covered = managed_files(ledger)
        state = inspect(self.root, managed, covered, self.environ, base, count_all=False)
        if not reusable(state):
            self._note(f"kept {self._shown()}: {'; '.join(reasons_not_reusable(state))}")
            return None
        # A branch of this name may be an old item's: of another city, or of a lost store.
        unused = state.branch == branch and not exact and not self._has_commits(base)
        if unused or (own and state.branch == own):
            return self._ready(state.branch, base, has_history=True)
        self._clear_managed(ledger, managed, sorted(covered), base)
        try:
            result = worktree.switch(
                self.root, branch, base, self.environ, lock=self.lock, exact=exact
            )
        except GitError as error:
            self._note(f"kept {self._shown()}: {error.message}")
            return None
        self._note(result.note)
        return self._ready(result.branch, base)

    def _has_commits(self, base: str) -> bool:
        """Return whether the branch that is checked out has commits that the base does not have."""
        return bool(base) and count_commits(self.root, base, self.environ) > 0

    def _clear_managed(
        self, ledger: Ledger, managed: frozenset[str], covered: list[str], base: str
    ) -> None:
        """Restore covered tracked files, and remove managed files that the base commit tracks.

        git refuses to switch over them. The ledger is written last: after a crash, the files
        it still lists are simply missing, and the next apply writes them again.
        """
        if covered:
            worktree.uncover(self.root, covered, self.environ)
            worktree.restore(self.root, covered, self.environ)
        in_base = self.planner.sites.paths_in(self.site.rig, base) & managed & ledger.paths.keys()
        for path in in_base:
            os.unlink(f"{self.root}/{path}")
        cleared = in_base.union(covered)
        if cleared:
            paths = {path: record for path, record in ledger.paths.items() if path not in cleared}
            synced = ledger.synced._replace(covered=())
            self.planner.ledgers.write(ledger._replace(paths=paths, synced=synced))

    def _ready(self, branch: str, base: str, *, has_history: bool = False) -> SessionWorktree:
        self.site.current_branch = branch
        start = start_of(self.root, base, self.environ) if has_history and base else base
        return SessionWorktree(self.site, branch, start)

    def _note(self, text: str) -> None:
        if text:
            self.notes.append(text)

    def _shown(self) -> str:
        return self.planner.disk.shown(self.root)


def remove_directory(
    city: str,
    workdir: str,
    environ: Mapping[str, str],
    *,
    taken: Callable[[], Collection[str]] = tuple,
    force: bool = False,
    safe: str = "",
    delete_branch: bool = False,
) -> list[str]:
    """Remove a session's worktree or slot directory; return the reasons to keep it, if any.

    The directory that `apply` writes for an agent stays, and so do directories that the user
    chose or that other sessions (`taken`) use; then there are no reasons. `taken` is called under
    the directory's lock, so that no session can get the directory in between. `safe` is that of
    `remove_worktree`.
    """
    root = os.path.realpath(workdir)
    state = ApplyState.of(city)
    if not workdir or not os.path.exists(state.ledgers.file(root)):
        return []
    with state.ledgers.locked(root):
        if not {root, workdir}.isdisjoint(taken()):
            return []
        recover(state, root)
        ledger = state.ledgers.read(root)
        if ledger.rig:
            try:
                reasons = remove_worktree(
                    city, ledger, environ, force=force, safe=safe, delete_branch=delete_branch
                )
            except GitError as error:
                reasons = [error.message]
        elif ledger.slot and is_below(root, f"{os.path.realpath(city)}/.gc/work"):
            reasons = _remove_slot_directory(ledger, force)
        else:
            return []
        if not reasons:
            _remove_records(city, state, ledger)
    return reasons


def free_branch(
    city: str,
    workdir: str,
    branch: str,
    environ: Mapping[str, str],
    *,
    taken: Callable[[], Collection[str]],
    safe: str,
) -> list[str]:
    """Remove the worktree that has a branch checked out, so that the branch can be deleted.

    A worktree with ignored files, such as build output, stays and is detached instead. Returns
    reasons to leave it alone: a session works there (`taken`), or there is uncommitted work.
    `safe` is a commit that keeps what was committed.
    """
    root = os.path.realpath(workdir)
    state = ApplyState.of(city)
    if not os.path.exists(state.ledgers.file(root)):
        return [f"it is checked out in {workdir}"]
    with state.ledgers.locked(root):
        if current_branch(root, environ) != branch:
            return []
        if not {root, workdir}.isdisjoint(taken()):
            return [f"a session works in {workdir}"]
        recover(state, root)
        ledger = state.ledgers.read(root)
        reasons = remove_worktree(city, ledger, environ, safe=safe)
        if not reasons:
            _remove_records(city, state, ledger)
            return []
        managed, covered = managed_files(ledger)
        if not inspect(root, managed, covered, environ, safe, count_all=False).clean:
            return [f"{workdir}: {reason}" for reason in reasons]
        worktree.detach(root, environ)
    return []


def uncommitted(city: str, workdir: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files in a worktree that are neither committed nor managed."""
    root = os.path.realpath(workdir)
    managed, covered = managed_files(ApplyState.of(city).ledgers.read(root))
    state = inspect(root, managed, covered, environ, count_all=False)
    return (*state.dirty, *state.edited)


def _remove_slot_directory(ledger: Ledger, force: bool) -> list[str]:
    root = ledger.root
    if not os.path.isdir(root):
        return []
    managed, _ = managed_files(ledger)
    unmanaged = tuple(unmanaged_files(root, "", managed, {}))
    if unmanaged and not force:
        return [f"files that city did not write: {join_names(unmanaged)}"]
    move_and_remove_tree(root)
    return []


def _remove_records(city: str, state: ApplyState, ledger: Ledger) -> None:
    write_markers(city, ledger._replace(paths={}))
    if ledger.rig:
        after_worktree(city, ledger.root)
    for agent in ledger.agents if ledger.slot else ():
        file = launch_file(city, agent, ledger.slot)
        with suppress(OSError):
            os.unlink(file)
            os.rmdir(os.path.dirname(file))
    state.ledgers.write(Ledger(ledger.root))
