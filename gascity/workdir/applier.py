"""Applies plans: worktrees first, then files, then git's excludes, the ledger and launch files."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from gascity.files import make_private_directory, write_file
from gascity.location import WORKTREE as AS_WORKTREE
from gascity.location import Site
from gascity.model.city import Agent
from gascity.model.plan import KEEP, REMOVE, Step
from gascity.model.problems import CityError, Problem
from gascity.paths import path_key
from gascity.workdir.decide.context import Choices, waits_for_removal
from gascity.workdir.fingerprint import Fingerprints
from gascity.workdir.git_excludes import excludes_file, sync_git_and_markers
from gascity.workdir.planner import DirectoryPlan, Planner, launch_file
from gascity.workdir.write.directory import make_workdir
from gascity.workdir.write.execute import ExecuteResult, Progress, execute
from gascity.workdir.write.journal import JournalEntry, PathChange
from gascity.workdir.write.ledger import Ledger, SyncState
from gascity.workdir.write.recover import managed_files, recover

# Git and worktrees are imported where they are used: most applies need none of them.
if TYPE_CHECKING:
    from gascity.git import GitError
    from gascity.workdir.write.undo import UndoResult

SESSION_RUN = "-session"  # suffix of the run name of an apply made by a session's start


class ApplyResult(NamedTuple):
    """One directory after an apply."""

    plan: DirectoryPlan
    done: tuple[Step, ...] = ()
    kept: tuple[Step, ...] = ()
    problems: tuple[Problem, ...] = ()
    launches: tuple[str, ...] = ()  # agents whose launch file changed
    ledger: Ledger | None = None


class Applier:
    """Applies plans of one city. `run` names this apply in the journal, so that undo finds it."""

    def __init__(
        self,
        planner: Planner,
        run: str,
        report: Callable[[str], None],
        progress: Progress,
        fingerprints: Fingerprints | None = None,
    ) -> None:
        self.planner = planner
        self.state = planner.apply_state
        self.city = planner.city.root
        self.environ = planner.environ
        self.run = run
        self.report = report
        self.progress = progress
        self.fingerprints = fingerprints or Fingerprints(planner)
        self._branches: dict[str, str] = {}  # of worktrees created by this object

    def apply(
        self,
        root: str,
        sites: Sequence[Site],
        choices: Choices,
        selected: frozenset[str] | None = None,
    ) -> ApplyResult:
        """Bring one directory up to date while holding its lock."""
        with self.state.ledgers.locked(root):
            if recover(self.state, root):
                self.report(f"recovered from an interrupted apply to {self._shown(root)}")
            try:
                plan = self.planner.plan(root, sites, choices, selected)
            except OSError as error:
                empty = self.planner.empty_plan(root, sites)
                return ApplyResult(empty, problems=(_io_problem(error, "apply"),))
            created: list[Step] = []
            if plan.worktree is not None:
                problem = self._create_worktree(root, plan)
                if problem is not None:
                    return ApplyResult(plan, problems=(problem,))
                created.append(plan.worktree)
                self.planner.forget_git(sites)
                plan = self.planner.plan(root, sites, choices, selected)
            try:
                return self._write(root, plan, created, choices, selected)
            except OSError as error:
                problem = _io_problem(error, "apply")
                return ApplyResult(plan, tuple(created), problems=(problem,))

    def _write(
        self,
        root: str,
        plan: DirectoryPlan,
        created: list[Step],
        choices: Choices,
        selected: frozenset[str] | None,
    ) -> ApplyResult:
        first_plan = plan
        result = self._execute(root, plan, created)
        done = [*created, *result.done]
        removed = any(step.op == REMOVE for step in result.done)
        if removed and not result.error and any(map(waits_for_removal, plan.decision.steps)):
            # A directory was in the way; its managed files are gone now, and maybe it is too.
            plan = self.planner.plan(root, plan.sites, choices, selected)
            result = self._execute(root, plan, created)
            done += result.done
        ledger = result.ledger or plan.ledger
        kept = [step for step in plan.steps if step.op == KEEP]
        reported = {step.path for step in (*plan.steps, *done)}
        kept += [step for step in first_plan.steps if step.op == KEEP and step.path not in reported]
        reason = "changed during apply; run `city apply` again"
        kept += [step._replace(op=KEEP, reason=reason, change=None) for step in result.conflicts]
        if plan.sites and not plan.requirements.blocked and not os.path.isdir(root):
            make_workdir(root)  # an agent without files needs a directory too
            ledger = ledger._replace(directories=("",))
        ledger = self._sync(ledger)
        if not plan.sites and not ledger.paths:
            ledger = self._abandon(root, plan, ledger, done)
        launches = tuple(plan.pending_launches(self.city))
        ledger = self._write_ledger(root, plan, ledger, bool(done) or selected is not None)
        problems = (_io_problem(result.error, "apply"),) if result.error else ()
        return ApplyResult(first_plan, tuple(done), tuple(kept), problems, launches, ledger)

    def _abandon(self, root: str, plan: DirectoryPlan, ledger: Ledger, done: list[Step]) -> Ledger:
        """Remove a directory that no agent uses, if nothing else is in it; clear its ledger."""
        if plan.removal is not None:
            if plan.removal.op == KEEP or remove_worktree(self.city, ledger, self.environ):
                return ledger  # the next apply tries again
            done.append(plan.removal)
            after_worktree(self.city, root)
        elif "" in ledger.directories:
            with suppress(OSError):  # an agent left files there
                os.rmdir(root)
        return ledger._replace(directories=(), agents={}, rig="", synced=SyncState())

    def _execute(self, root: str, plan: DirectoryPlan, created: Sequence[Step]) -> ExecuteResult:
        for path in plan.decision.snapshots:
            self._snapshot(root, plan, path)
        ledger = plan.ledger
        site = next((site for site in plan.sites if site.kind == AS_WORKTREE), None)
        if site is not None:
            known = site.current_branch or self._branches.get(root)
            branch = known or ledger.branch or site.branch
            ledger = ledger._replace(rig=site.rig, branch=branch)
        if plan.sites:
            first = plan.sites[0]
            session = first.session or ledger.session if len(plan.sites) == 1 else ""
            ledger = ledger._replace(session=session, slot=first.suffix)
        return execute(
            self.state,
            ledger,
            plan.decision.steps,
            plan.decision.records,
            self.run,
            self.progress,
            worktree=bool(created),
        )

    def _shown(self, root: str) -> str:
        return self.planner.disk.shown(root)

    def _create_worktree(self, root: str, plan: DirectoryPlan) -> Problem | None:
        from gascity.git import GitError, base_of
        from gascity.workdir.write import worktree

        site = next(site for site in plan.sites if site.kind == AS_WORKTREE)
        environ = self.environ
        try:
            base = base_of(site.rig, self.planner.sites.default_branch(site.agent), environ)
            make_workdir(os.path.dirname(root))
            commit = base.commit if base else None
            lock = rig_lock(self.city, site.rig)
            result = worktree.prepare(site.rig, root, site.branch, commit, environ, lock=lock)
        except GitError as error:
            return worktree_failed(site.agent, error)
        self._branches[root] = result.branch
        if result.note:
            self.report(f"{site.agent.name}: {result.note}")
        return None

    def _snapshot(self, root: str, plan: DirectoryPlan, path: str) -> None:
        """Copy a user's file before the first managed server is added to it."""
        shape = plan.requirements.wanted[path].shape
        home = f"{self.city}/.gc/mcp-adopted/{shape.provider if shape else 'unknown'}"
        copy = _copy_to(home, self.run, f"{root}/{path}")
        self.report(
            f"adding MCP servers to {self._shown(f'{root}/{path}')} "
            f"(a copy is in {self._shown(copy)})"
        )

    def _write_ledger(
        self, root: str, plan: DirectoryPlan, ledger: Ledger, applied: bool
    ) -> Ledger:
        """Write the ledger and the launch files; return the ledger.

        `applied`: record new fingerprints, because sessions start with this content from now on.
        """
        agents = dict(ledger.agents)
        for site in plan.sites:
            name = str(site.agent.name)
            if name not in plan.requirements.blocked and (applied or name not in agents):
                agents[name] = self.fingerprints.of(plan, site, ledger.paths)
        known = {str(agent.name) for agent in self.planner.city.agents}
        known |= {str(site.agent.name) for site in plan.sites}  # a city agent's rig instances
        for name in plan.ledger.agents.keys() - known:
            agents.pop(name, None)
            with suppress(FileNotFoundError):
                os.unlink(launch_file(self.city, name, plan.ledger.slot))
        ledger = ledger._replace(agents=agents)
        if ledger != self.state.ledgers.read(root):
            self.state.ledgers.write(ledger)
        for name, content in plan.pending_launches(self.city).items():
            file = plan.launch_file(self.city, name)
            if content:
                make_private_directory(os.path.dirname(file))
                write_file(file, content.encode())
            else:
                os.unlink(file)
        return ledger

    def undo(self, root: str, run: str) -> "UndoResult":
        """Undo one apply; remove a worktree that it created unless work would be lost."""
        from gascity.workdir.write.undo import UndoResult

        restored: dict[str, PathChange] = {}
        kept: dict[str, PathChange] = {}
        with self.state.ledgers.locked(root):
            recover(self.state, root)
            # An apply that planned twice has two journal entries.
            while (entry := self.state.journal.last(root)) is not None and entry.run == run:
                result = self._undo(root, entry)
                restored |= {change.path: change for change in result.restored}
                kept |= {change.path: change for change in result.kept}
        return UndoResult(tuple(restored.values()), tuple(kept.values()))

    def _sync(self, ledger: Ledger) -> Ledger:
        return ledger._replace(synced=sync_git_and_markers(self.planner, ledger))

    def _undo(self, root: str, entry: JournalEntry) -> "UndoResult":
        from gascity.workdir.write.undo import undo
        from gascity.workdir.write.worktree_state import is_complete

        try:
            result, ledger = undo(self.state, entry, self._sync)
        except OSError as error:
            raise CityError(_io_problem(error, "undo")) from error
        if entry.worktree and not ledger.paths and os.path.isdir(root):
            reasons = remove_worktree(self.city, ledger, self.environ) if is_complete(root) else []
            if reasons:
                self.report(f"kept worktree {self._shown(root)}: {'; '.join(reasons)}")
            else:
                after_worktree(self.city, root)
                self.report(f"removed worktree {self._shown(root)}")
                empty = ledger._replace(directories=(), rig="", synced=SyncState())
                self.state.ledgers.write(empty)
        return result


def _copy_to(home: str, name: str, file: str) -> str:
    """Copy a file into a private directory; return the path, `name-2` and so on if it exists.

    Only one process may do so for the same file at a time.
    """
    for directory in (os.path.dirname(home), home):
        make_private_directory(directory)
    with open(file, "rb") as stream:
        data = stream.read()
    temporary = f"{home}/.{path_key(file)}"
    write_file(temporary, data)
    extension = os.path.splitext(file)[1] or ".bak"
    for number in count(1):
        copy = f"{home}/{name}{f'-{number}' if number > 1 else ''}{extension}"
        with suppress(FileExistsError):
            os.link(temporary, copy)
            break
    os.unlink(temporary)
    return copy


def rig_lock(city: str, rig: str) -> str:
    """Return the lock file for creating and removing worktrees of a rig."""
    return f"{city}/.gc/locks/{path_key(rig)}.lock"


def remove_worktree(
    city: str,
    ledger: Ledger,
    environ: Mapping[str, str],
    *,
    force: bool = False,
    delete_branch: bool = False,
    safe: str = "",
) -> list[str]:
    """Remove a recorded worktree; return the reasons to keep it, if there are any.

    `safe` is a commit that exists elsewhere with its history (default: the rig's base commit).
    """
    from gascity.workdir.write import worktree
    from gascity.workdir.write.worktree_state import rig_base

    managed, covered = managed_files(ledger)
    base, lock = safe or rig_base(ledger.rig, environ), rig_lock(city, ledger.rig)
    return worktree.remove(
        ledger.rig,
        ledger.root,
        managed,
        covered,
        environ,
        lock=lock,
        force=force,
        base=base,
        delete_branch=delete_branch,
    )


def after_worktree(city: str, root: str) -> None:
    """Remove what only a removed worktree needed."""
    with suppress(FileNotFoundError):
        os.unlink(excludes_file(city, root))
    with suppress(OSError):  # other worktrees of the rig may exist
        os.rmdir(os.path.dirname(root))


def worktree_failed(agent: Agent, error: "GitError") -> Problem:
    """Return the problem for a worktree that git could not create."""
    hint = 'set isolation = "none" to work in the rig itself'
    return Problem("worktree-failed", error.message, agent.setting("isolation").place, hint)


def _io_problem(error: OSError, command: str) -> Problem:
    """Return the problem for an I/O error in the middle of a command."""
    hint = f"fix this and run `city {command}` again; it continues where it stopped"
    return Problem("refused", f"{error.filename}: {error.strerror}", None, hint)
