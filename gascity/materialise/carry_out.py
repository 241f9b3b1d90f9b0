"""Plans made true: worktrees first, then files, then what git and the books must know."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from gascity.apply import markers, worktree
from gascity.apply.files import make_private, write_private
from gascity.apply.journal import Deed, Record
from gascity.apply.ledger import Ledger, Told, ledger_key
from gascity.apply.perform import Performed, Progress, Workshop, perform
from gascity.apply.recover import recover
from gascity.apply.undo import Undone, undo
from gascity.apply.worktree_record import is_whole
from gascity.git import GitFault, base_of
from gascity.materialise.directories import Planned, Planner, ours_in, rig_base
from gascity.materialise.fingerprints import Fingerprints
from gascity.materialise.launches import launch_file, marks_of, pending_launches
from gascity.materialise.tell import excludes_file, tell
from gascity.model.plan import KEEP, REMOVE, Step
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.plan.ground import Choices, waits_for_room
from gascity.sites import WORKTREE as AS_WORKTREE
from gascity.sites import Site

Say = Callable[[str], None]
SESSION_RUN = "-session"  # ends the name of an apply that a session's start was


class Applied(NamedTuple):
    """One directory after an apply."""

    planned: Planned
    done: tuple[Step, ...] = ()
    kept: tuple[Step, ...] = ()
    problems: tuple[Problem, ...] = ()
    launches: tuple[str, ...] = ()  # agents whose launches are handed other servers from now on
    ledger: Ledger | None = None  # the books as they are now


class Carrier:
    """Applies plans of one city. `run` names this apply, so that it can be undone as one."""

    def __init__(
        self,
        planner: Planner,
        run: str,
        say: Say,
        progress: Progress,
        fingerprints: Fingerprints | None = None,
    ) -> None:
        self.planner = planner
        self.shop: Workshop = planner.shop
        self.run = run
        self.say = say
        self.progress = progress
        self.fingerprints = fingerprints or Fingerprints(planner)
        self._branches: dict[str, str] = {}  # of worktrees that were just made

    def apply(
        self,
        root: str,
        sites: Sequence[Site],
        choices: Choices,
        whose: frozenset[str] | None = None,
    ) -> Applied:
        """Bring one directory up to date; nobody else changes it meanwhile."""
        with self.shop.ledgers.locked(root):
            if recover(self.shop, root):
                self.say(f"an apply to {self._shown(root)} was interrupted; going on from there")
            try:
                planned = self.planner.plan(root, sites, choices, whose)
            except OSError as error:
                return Applied(
                    self.planner.unreadable(root, sites), problems=(_refused(error, "apply"),)
                )
            made: list[Step] = []
            if planned.worktree is not None:
                fault = self._make_worktree(root, planned)
                if fault is not None:
                    return Applied(planned, problems=(fault,))
                made.append(planned.worktree)
                self.planner.forget(sites)
                planned = self.planner.plan(root, sites, choices, whose)
            try:
                return self._write(root, planned, made, choices, whose)
            except OSError as error:
                return Applied(planned, tuple(made), problems=(_refused(error, "apply"),))

    def _write(
        self,
        root: str,
        planned: Planned,
        made: list[Step],
        choices: Choices,
        whose: frozenset[str] | None,
    ) -> Applied:
        done: list[Step] = list(made)
        first = planned
        result = self._perform(root, planned, made)
        done += result.done
        removed = any(step.op == REMOVE for step in result.done)
        if removed and not result.fault and any(map(waits_for_room, planned.outcome.steps)):
            # What was in the way of ours was ours, and is gone now.
            planned = self.planner.plan(root, planned.sites, choices, whose)
            result = self._perform(root, planned, made)
            done += result.done
        ledger = result.ledger or planned.ledger
        kept = [step for step in planned.steps if step.op == KEEP]
        known = {step.path for step in (*planned.steps, *done)}
        kept += [step for step in first.steps if step.op == KEEP and step.path not in known]
        kept += [_overtaken(step) for step in result.overtaken]
        if planned.sites and not planned.claims.stuck and not os.path.isdir(root):
            os.makedirs(root)  # an agent without files has a place to work all the same
            ledger = ledger._replace(directories=("",))
        ledger = self._told(ledger)
        if not planned.sites and not ledger.paths:
            ledger = self._leave(root, planned, ledger, done)
        launches = tuple(pending_launches(self.planner.city.root, planned))
        ledger = self._keep_books(root, planned, ledger, bool(done) or whose is not None)
        fault = (_refused(result.fault, "apply"),) if result.fault else ()
        return Applied(first, tuple(done), tuple(kept), fault, launches, ledger)

    def _leave(self, root: str, planned: Planned, ledger: Ledger, done: list[Step]) -> Ledger:
        """Give up a directory that nobody works in; what is not ours stays."""
        if planned.removal is not None:
            if planned.removal.op == KEEP or self._remove_worktree(ledger):
                return ledger  # asked again the next time
            done.append(planned.removal)
            self._after_worktree(root)
        elif "" in ledger.directories:
            with suppress(OSError):  # an agent left something of its own there
                os.rmdir(root)
        return ledger._replace(directories=(), agents={}, rig="", told=Told())

    def _remove_worktree(self, ledger: Ledger) -> list[str]:
        return remove_worktree(self.planner.city.root, ledger, self.planner.environ)

    def _after_worktree(self, root: str) -> None:
        after_worktree(self.planner.city.root, root)

    def _perform(self, root: str, planned: Planned, made: Sequence[Step]) -> Performed:
        for path in planned.outcome.snapshots:
            self._snapshot(root, planned, path)
        ledger = planned.ledger
        site = next((site for site in planned.sites if site.kind == AS_WORKTREE), None)
        if site is not None:
            branch = site.standing or self._branches.get(root) or ledger.branch or site.branch
            ledger = ledger._replace(rig=site.rig, branch=branch)
        if planned.sites:
            first = planned.sites[0]
            alone = len(planned.sites) == 1
            session = first.session or ledger.session if alone else ""
            ledger = ledger._replace(session=session, slot=first.mark)
        return perform(
            self.shop,
            ledger,
            planned.outcome.steps,
            planned.outcome.records,
            self.run,
            self.progress,
            worktree=bool(made),
        )

    def _shown(self, root: str) -> str:
        return self.planner.disk.shown(root)

    def _make_worktree(self, root: str, planned: Planned) -> Problem | None:
        site = next(site for site in planned.sites if site.kind == AS_WORKTREE)
        environ = self.planner.environ
        try:
            base = base_of(site.rig, self.planner.sites.default_branch(site.agent), environ)
            os.makedirs(os.path.dirname(root), exist_ok=True)
            start = base.commit if base else None
            lock = rig_lock(self.planner.city.root, site.rig)
            done = worktree.prepare(site.rig, root, site.branch, start, environ, lock=lock)
        except GitFault as fault:
            place = site.agent.setting("isolation").place
            hint = 'isolation = "none" works in the rig itself'
            return Problem("worktree-failed", fault.message, place, hint)
        self._branches[root] = done.branch
        if done.note:
            self.say(f"{site.agent.name}: {done.note}")
        return None

    def _snapshot(self, root: str, planned: Planned, path: str) -> None:
        """Keep a person's file as it is before the first server of ours comes into it."""
        wanted = planned.claims.wanted[path]
        provider = wanted.shape.provider if wanted.shape else "unknown"
        saved = markers.snapshot(self.planner.city.root, provider, f"{root}/{path}", self.run)
        self.say(
            f"{self._shown(f'{root}/{path}')} gets MCP servers; it was copied to "
            f"{self._shown(saved)} first"
        )

    def _keep_books(self, root: str, planned: Planned, after: Ledger, fresh: bool) -> Ledger:
        """Write the launch files and the ledger; the ledger as it is then.

        `fresh`: the agents start with this from now on.
        """
        agents = dict(after.agents)
        for site in planned.sites:
            name = str(site.agent.name)
            if name not in planned.claims.stuck and (fresh or name not in agents):
                agents[name] = self.fingerprints.of(planned, site, after.paths)
        city = self.planner.city
        known = {str(agent.name) for agent in city.agents}
        known |= {str(site.agent.name) for site in planned.sites}  # rigs' own of a city agent
        for name in planned.ledger.agents.keys() - known:
            agents.pop(name, None)
            with suppress(FileNotFoundError):
                os.unlink(launch_file(city.root, name, planned.ledger.slot))
        after = after._replace(agents=agents)
        if after != self.shop.ledgers.read(root):
            self.shop.ledgers.write(after)
        marks = marks_of(planned)
        for name, content in pending_launches(city.root, planned).items():
            file = launch_file(city.root, name, marks.get(name, ""))
            if content:
                make_private(os.path.dirname(file))
                write_private(file, content.encode())
            else:
                os.unlink(file)
        return after

    def undo(self, root: str, run: str) -> Undone:
        """Go back to before one apply; a worktree that it made goes, if nothing is lost."""
        back: dict[str, Deed] = {}
        kept: dict[str, Deed] = {}
        with self.shop.ledgers.locked(root):
            recover(self.shop, root)
            # What had to make way for the rest of an apply has a record of its own.
            while (record := self.shop.journal.last(root)) is not None and record.run == run:
                result = self._undo(root, record)
                back |= {deed.path: deed for deed in result.back}
                kept |= {deed.path: deed for deed in result.kept}
        return Undone(tuple(back.values()), tuple(kept.values()))

    def _told(self, ledger: Ledger) -> Ledger:
        return ledger._replace(told=tell(self.planner, ledger))

    def _undo(self, root: str, record: Record) -> Undone:
        try:
            result, after = undo(self.shop, record, self._told)
        except OSError as error:
            raise CityError(_refused(error, "undo")) from error
        if record.worktree and not after.paths and os.path.isdir(root):
            reasons = self._remove_worktree(after) if is_whole(root) else []
            if reasons:
                self.say(f"{self._shown(root)} stays: {'; '.join(reasons)}")
            else:
                self._after_worktree(root)
                self.say(f"removed the worktree {self._shown(root)}")
                self.shop.ledgers.write(after._replace(directories=(), rig="", told=Told()))
        return result


def rig_lock(city: str, rig: str) -> str:
    """What whoever makes or removes a worktree of the rig holds."""
    make_private(f"{city}/.gc/locks")
    return f"{city}/.gc/locks/{ledger_key(rig)}.lock"


def remove_worktree(
    city: str, ledger: Ledger, environ: Mapping[str, str], *, force: bool = False
) -> list[str]:
    """Remove a worktree that the books know; what stands against it, and then it stays."""
    ours, covered = ours_in(ledger)
    base, lock = rig_base(ledger.rig, environ), rig_lock(city, ledger.rig)
    return worktree.remove(
        ledger.rig, ledger.root, ours, covered, environ, lock=lock, force=force, base=base
    )


def after_worktree(city: str, root: str) -> None:
    """What was there for a worktree alone goes with it."""
    with suppress(FileNotFoundError):
        os.unlink(excludes_file(city, root))
    with suppress(OSError):  # other worktrees of the rig may be there
        os.rmdir(os.path.dirname(root))


def _refused(error: OSError, command: str) -> Problem:
    """The machine said no in the middle of it."""
    hint = f"what was done is on record; mend it, and `city {command}` goes on from there"
    return Problem("refused", f"{error.filename}: {error.strerror}", None, hint)


def _overtaken(step: Step) -> Step:
    return step._replace(op=KEEP, reason="it changed while this ran; try again", change=None)
