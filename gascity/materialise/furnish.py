"""From an agent and a slot to a working directory that a session can start in."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gascity.apply import excludes, tree_state
from gascity.apply.ledger import Ledger, Ledgers
from gascity.git import GitFault
from gascity.materialise.carry_out import SESSION_RUN, Applied, Carrier
from gascity.materialise.claims import Materials, gather
from gascity.materialise.directories import Planner
from gascity.materialise.fingerprints import Fingerprints
from gascity.materialise.launches import launch_file
from gascity.materialise.stand import Seat, Stood, branch_part, stand
from gascity.materialise.tell import excludes_file
from gascity.model.city import Agent, City
from gascity.model.plan import Step
from gascity.model.problems import Place, Problem
from gascity.model.records import NamedTuple
from gascity.model.references import filled
from gascity.plan.ground import Choices
from gascity.plan.mcp import LAUNCH, Delivery, Launch, launch_arguments
from gascity.prompts import Machine, Prompts
from gascity.servers import launch_value
from gascity.sites import WORKTREE, Site
from gascity.source.disk import Disk

__all__ = ["Furnished", "Furnisher", "Seat", "commits", "standing"]

_SET = "set it, or give the agent an `env` entry of that name"
_Seen = tuple[int, int, int, int, int]


class Furnished(NamedTuple):
    """Where a session works, and what it starts with. With an error it must not start."""

    workdir: str
    kind: str
    branch: str = ""
    base: str = ""  # the commit that the branch started from
    prompt: str = ""
    launch: Launch = Launch((), {})
    env: Mapping[str, str] = {}  # what has git overlook our files
    prints: Mapping[str, str] = {}  # fingerprint by part
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        return not any(problem.is_error for problem in self.problems)


class _Desk:
    """What one furnishing at a time works with; everything it reads is read once."""

    def __init__(self, city: City, environ: Mapping[str, str], machine: Machine) -> None:
        prompts = Prompts(city, Disk(city.root), machine)
        self.planner = Planner(Materials.of(prompts, environ))
        self.fingerprints = Fingerprints(self.planner, steady=True)
        sound = (agent for agent in city.agents if not agent.broken)
        self.shared = {
            root: sites
            for root, sites in self.planner.directories(sound).items()
            if len(sites) > 1 or sites[0].problems or sites[0].agent.value("work_dir")
        }

    def mates(self, site: Site, root: str) -> list[Site]:
        """Sites of other agents in the same directory."""
        name = site.agent.name
        return [one for one in self.shared.get(root, ()) if one.agent.name != name]


class Furnisher:
    """Prepares working directories for sessions of one configuration that does not change.

    Any number of threads may use it: each call has a desk of its own, taken from those that are
    free or made new, and what two of them do in one directory waits for the directory's lock.
    """

    def __init__(self, city: City, environ: Mapping[str, str], machine: Machine) -> None:
        self.city = city
        self.environ = environ
        self.machine = machine
        self._free: list[_Desk] = []
        self._left: dict[str, dict[str, _Seen | None]] = {}  # files as furnishing left them

    @contextmanager
    def _desk(self) -> Iterator[_Desk]:
        # Both are single steps for every thread: no two get the same desk.
        try:
            desk = self._free.pop()
        except IndexError:
            desk = _Desk(self.city, self.environ, self.machine)
        try:
            yield desk
        finally:
            desk.planner.forget_contents()
            self._free.append(desk)

    def furnish(self, agent: Agent, seat: Seat) -> Furnished:
        """Have a directory for the session with all that its agent should find there.

        Where something is wrong with what the agent wants, nothing is written.
        """
        with self._desk() as desk:
            done, ledger = _Furnishing(desk, agent, seat).done()
        if ledger is not None and done.is_sound:
            self._left[done.workdir] = _looked_at(self._files(done, ledger))
        return done

    def looked(self) -> set[str]:
        """Every path that was looked at so far: where one changes, so may what sessions get."""
        return {path for desk in tuple(self._free) for path in desk.planner.disk.seen}

    def is_current(self, agent: Agent, before: Furnished, seat: Seat) -> bool:
        """Is a directory that was furnished before still as it was left, and right for the seat?

        Cheap: nothing is read but the state of files, and for a worktree its branch.
        """
        left = self._left.get(before.workdir)
        if left is None or seat.workdir != before.workdir or before.workdir in seat.taken:
            return False
        if before.kind == WORKTREE:
            wanted = f"city/{agent.name.without_rig}/{branch_part(seat)}"
            branch = before.branch if seat.resume else wanted
            if branch != before.branch or not _stands_on(before.workdir, branch):
                return False
        return _looked_at(left) == left

    def _files(self, done: Furnished, ledger: Ledger) -> list[str]:
        """What has to stay as it is: our files, those of the launch, and the books about them."""
        root = done.workdir
        found = [f"{root}/{path}" for path in ledger.paths]
        found += [root] if not found else []
        found += [f"{root}/{path}" for path in ledger.directories if path]
        agents = ledger.agents
        found += [launch_file(self.city.root, name, ledger.slot) for name in agents]
        return [*found, Ledgers(self.city.root).file(root)]


def _looked_at(paths: Sequence[str] | Mapping[str, _Seen | None]) -> dict[str, _Seen | None]:
    return {path: _seen(path) for path in paths}


def _seen(path: str) -> _Seen | None:
    try:
        one = os.lstat(path)
    except OSError:
        return None
    if one.st_mode & 0o170000 == 0o040000:
        return (one.st_mode, one.st_ino, 0, 0, 0)  # what comes and goes in it is no matter
    return (one.st_mode, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns)


def _stands_on(workdir: str, branch: str) -> bool:
    admin = tree_state.admin_of(workdir)
    try:
        with open(f"{admin}/HEAD", "rb") as file:
            return os.fsdecode(file.read().strip()) == f"ref: refs/heads/{branch}"
    except OSError:
        return False


class _Furnishing:
    """One furnishing, from the seat to what the session starts with."""

    def __init__(self, desk: _Desk, agent: Agent, seat: Seat) -> None:
        self.desk = desk
        self.planner = desk.planner
        self.agent = agent
        self.name = str(agent.name)
        self.seat = seat
        self.notes: list[str] = []

    def done(self) -> tuple[Furnished, Ledger | None]:
        """With an error, or the books of the directory as they are now."""
        if self.agent.broken:
            return Furnished("", "", problems=self.agent.problems), None
        site = self.planner.sites.of_session(self.agent, self.seat.alias, self.seat.slot)
        stood = Stood(site, "", "")
        if site.kind == WORKTREE:
            wrong = self._wrong(site)
            if any(problem.is_error for problem in wrong):
                return Furnished(site.workdir, site.kind, problems=wrong), None
            try:
                stood = stand(self.planner, self.agent, self.seat)
            except GitFault as fault:
                wrong = (*wrong, worktree_failed(self.agent, fault))
                return Furnished(site.workdir, site.kind, problems=wrong), None
            self.notes += stood.notes
        return self._written(stood)

    def _wrong(self, site: Site) -> tuple[Problem, ...]:
        """What is wrong with what the agent wants, before anything is made for it."""
        claims = gather(self.planner.materials, [site], lambda _: False, ask_git=False)
        wrong = _grave(claims.problems.get(self.name, ()), self.name in claims.stuck)
        return (*wrong, *self._unset(claims.deliveries.get(self.name)))

    def _written(self, stood: Stood) -> tuple[Furnished, Ledger | None]:
        root = os.path.realpath(stood.site.workdir) if stood.site.workdir else ""
        if not root:
            return Furnished("", stood.site.kind, problems=stood.site.problems), None
        applied = self._apply(root, [stood.site, *self.desk.mates(stood.site, root)])
        planned = applied.planned
        delivery = planned.claims.deliveries.get(self.name)
        scene = self.planner.scene(stood.site, self.seat.alias, stood.branch)
        told = self.planner.materials.prompts.seen_from(scene).of(self.agent)
        problems = dict.fromkeys(
            (
                *_grave(planned.claims.problems.get(self.name, ()), self._is_stuck(applied)),
                *planned.outcome.problems,
                *applied.problems,
                *told.problems,
                *self._unset(delivery),
            )
        )
        ledger = applied.ledger
        self.notes += [self._kept(root, step) for step in applied.kept]
        furnished = Furnished(
            root,
            stood.site.kind,
            stood.branch,
            stood.base,
            told.text,
            self._launch(delivery, root, stood.site.mark),
            self._git_environment(root, ledger) if ledger else {},
            ledger.agents.get(self.name, {}) if ledger else {},
            tuple(problems),
            tuple(self.notes),
        )
        return furnished, ledger

    def _is_stuck(self, applied: Applied) -> bool:
        return self.name in applied.planned.claims.stuck

    def _apply(self, root: str, sites: Sequence[Site]) -> Applied:
        seconds, rest = divmod(time.time_ns(), 10**9)
        moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))
        run = f"{moment}.{rest // 1000:06d}Z{SESSION_RUN}"
        self.planner.forget(sites)  # the files of git may be others by now
        hands = Carrier(
            self.planner, run, self.notes.append, lambda *_: None, self.desk.fingerprints
        )
        return hands.apply(root, sites, Choices(), frozenset((self.name,)))

    def _kept(self, root: str, step: Step) -> str:
        path = root if step.path == "." else f"{root}/{step.path}"
        return f"kept: {self.planner.disk.shown(path)}: {step.reason}"

    def _unset(self, delivery: Delivery | None) -> list[Problem]:
        """Variables that the launch needs and does not have."""
        environ = self.planner.environ
        env = self.agent.setting("env")
        own = env.value if isinstance(env.value, Mapping) else {}
        missing = [one for value in own.values() for one in filled(str(value), environ.get)[1]]
        found = [_missing(name, env.place) for name in dict.fromkeys(missing)]
        if delivery is None:
            return found
        found += [
            Problem("missing-env", f"server `{one.name}`: {one.reason}", None, _SET)
            for one in delivery.skipped
            if one.code == "missing-env"
        ]
        if not delivery.targets and delivery.mode != LAUNCH:
            return found
        resolve = launch_value(self.agent, environ)
        lost = [name for name in delivery.references if resolve(name) is None]
        found += [_missing(name, None) for name in lost if name not in missing]
        return found

    def _launch(self, delivery: Delivery | None, root: str, mark: str) -> Launch:
        provider = self.planner.city.providers.get(self.agent.provider)
        if provider is None or delivery is None:
            return Launch((), {})
        file = launch_file(self.planner.city.root, self.name, mark)
        return launch_arguments(provider, delivery, root, file)

    def _git_environment(self, root: str, ledger: Ledger) -> dict[str, str]:
        if not ledger.rig:
            return {}
        file = excludes_file(self.planner.city.root, root)
        file = file if os.path.exists(file) else ""
        return excludes.session_git_environment(file, self.planner.environ)


def commits(workdir: str, base: str, environ: Mapping[str, str] = {}) -> int:
    """How many commits a session made beyond the one it started from; none if git cannot say."""
    try:
        return tree_state.commits(workdir, base, environ)
    except GitFault:
        return 0


def standing(workdir: str, environ: Mapping[str, str] = {}) -> str:
    """The branch that is checked out there; nothing if none is, or git cannot say."""
    try:
        return tree_state.standing(workdir, environ)
    except GitFault:
        return ""


def worktree_failed(agent: Agent, fault: GitFault) -> Problem:
    """Git would not make the worktree that an agent's session should have."""
    hint = 'isolation = "none" works in the rig itself'
    return Problem("worktree-failed", fault.message, agent.setting("isolation").place, hint)


def _missing(name: str, place: Place | None) -> Problem:
    return Problem("missing-env", f"`{name}`: not set", place, _SET)


def _grave(problems: Sequence[Problem], stuck: bool) -> Sequence[Problem]:
    """A skill or a server that is left out is no reason not to start; nothing at all is."""
    return problems if stuck else [problem.softened() for problem in problems]
