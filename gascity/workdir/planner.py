"""Plans working directories: which exist, which agents work there, and what has to be done.

A plan only reads. For one directory it collects what its agents need (`wanted`), compares that with
the ledger and the disk (`decide`), and returns the steps. The applier plans again under the lock.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from gascity.location import (
    IN_PLACE,
    OWN,
    Location,
    Site,
    Sites,
    is_directory_suffix,
    nested_problems,
)
from gascity.location import WORKTREE as AS_WORKTREE
from gascity.mcp.delivery import LAUNCH
from gascity.model.city import Agent, City
from gascity.model.names import parse_name
from gascity.model.plan import KEEP, REMOVE, WORKTREE, PathRecord, PathState, Step
from gascity.model.problems import Problem
from gascity.model.session_context import SessionContext
from gascity.model.wanted import (
    ABSENT,
    DIRECTORY,
    DOCUMENT,
    FILE,
    LINK,
    WantedPath,
)
from gascity.pipeline import find_agent, open_agent, open_city
from gascity.prompts import Machine, Prompts
from gascity.providers.registry import provider_files
from gascity.source.disk import Disk, read_plain
from gascity.workdir.decide.context import Choices, DiskState, PlanDecision
from gascity.workdir.wanted import CityContent, Requirements, collect
from gascity.workdir.write.directory import Directory
from gascity.workdir.write.ledger import Ledger, Ledgers

if TYPE_CHECKING:
    from gascity.workdir.write.execute import ApplyState

# The clock of a file system may be no finer than this (nanoseconds): a file written within this
# time before its stamp was recorded may have changed again without changing its stamp.
_CLOCK_GRANULARITY = 20_000_000


class DirectoryPlan:
    """Planned steps and problems of one directory."""

    def __init__(
        self,
        root: str,
        sites: Sequence[Site],
        ledger: Ledger,
        requirements: Requirements,
        decision: PlanDecision,
    ) -> None:
        self.root = root
        self.sites = tuple(sites)
        self.ledger = ledger
        self.requirements = requirements
        self.decision = decision
        self.read: Callable[[str], bytes] = Directory(root).read
        self.worktree: Step | None = None
        self.removal: Step | None = None  # of a worktree that no agent uses any more

    @property
    def steps(self) -> list[Step]:
        first = [self.worktree] if self.worktree else []
        last = [self.removal] if self.removal else []
        return [*first, *sorted(self.decision.steps, key=lambda step: step.path), *last]

    def claimants(self, step: Step) -> tuple[str, ...]:
        """Return the agents a step is for; a removal is for those that wanted the path before."""
        if step.op == WORKTREE:
            return tuple(str(site.agent.name) for site in self.sites)
        if step is self.removal:
            return tuple(sorted(self.ledger.agents)) or (_former_agent(self.root),)
        wanted = self.requirements.wanted.get(step.path)
        record = self.ledger.paths.get(step.path)
        return wanted.agents if wanted else record.agents if record else (_former_agent(self.root),)

    def launch_file(self, city: str, agent: str) -> str:
        """Return the launch file of an agent for this directory."""
        suffixes = {str(site.agent.name): site.suffix for site in self.sites}
        return launch_file(city, agent, suffixes.get(agent, ""))

    def pending_launches(self, city: str) -> dict[str, str]:
        """Return the new content of launch files that differ, by agent; empty for one to remove."""
        pending = {}
        for name, delivery in self.requirements.deliveries.items():
            wanted = delivery.content if delivery.mode == LAUNCH else ""
            now = read_plain(self.launch_file(city, name)) or b""
            if name not in self.requirements.blocked and now != wanted.encode():
                pending[name] = wanted
        return pending


def launch_file(city: str, agent: str, suffix: str = "") -> str:
    """Return the file that passes MCP servers to a launch, if no file in the directory may.

    Each directory of an agent (`suffix`) has its own.
    """
    return f"{city}/.gc/launch/{agent}{suffix}/mcp.json"


def _former_agent(root: str) -> str:
    """Guess from a directory's name whose it was, if no ledger says so."""
    for parent in ("/.gc/worktrees/", "/.gc/work/"):
        if parent in root:
            return root.partition(parent)[2]
    return os.path.basename(root)


class Planner:
    """Plans the directories of one city. Reads the city's content once for all directories."""

    def __init__(self, content: CityContent) -> None:
        self.content = content
        self.city: City = content.prompts.city
        self.disk = content.prompts.disk
        self.environ = content.environ
        self.sites = Sites(self.city, self.disk, self.environ)
        self.ledgers = Ledgers(self.city.root)
        self._providers = frozenset((*provider_files()[0], *self.city.providers))
        self._file_contents: dict[str, bytes] = {}
        self._names = frozenset(str(agent.name) for agent in self.city.agents)
        # What an import or a table that cannot be read wants is not known, so nothing is removed.
        self.incomplete = any(problem.is_error for problem in self.city.problems)
        broken = [agent.name for agent in self.city.agents if agent.broken]
        self._broken = frozenset(map(str, broken))
        self._broken_anywhere = frozenset(name.without_rig for name in broken)

    @cached_property
    def apply_state(self) -> "ApplyState":
        """The ledgers and the journal, for callers that write; a plan needs only the ledgers."""
        from gascity.workdir.write.execute import ApplyState
        from gascity.workdir.write.journal import Journal

        return ApplyState(self.ledgers, Journal(self.city.root))

    def _is_broken(self, agents: Iterable[str]) -> bool:
        """Does one of these agents have errors? An error may also be why it is in no rig now."""
        for name in agents:
            if name in self._broken:
                return True
            if name not in self._names and parse_name(name).without_rig in self._broken_anywhere:
                return True
        return False

    def forget_git(self, sites: Sequence[Site]) -> None:
        """Ask git again about directories that were just created or changed."""
        for site in sites:
            site.forget_git()

    def forget_contents(self) -> None:
        """Free the memory of file contents; they are read again when needed."""
        self._file_contents.clear()

    def directories(self, agents: Iterable[Agent]) -> dict[str, list[Site]]:
        """Return the agents' sites by real path, so that a symlink is not a second directory."""
        sites = [self.sites.of(agent) for agent in agents]
        for site, problem in nested_problems(sites):
            if problem not in site.problems:
                site.problems = (*site.problems, problem)
        by_root: dict[str, list[Site]] = {}
        for site in sites:
            root = os.path.realpath(site.workdir) if site.workdir else ""
            by_root.setdefault(root, []).append(site)
        return by_root

    def requirements(self, root: str, sites: Sequence[Site]) -> Requirements:
        """Return what all agents of one directory need in it."""
        ledger = self.ledgers.read(root)
        with Directory(root) as directory:
            return self._requirements(root, sites, ledger, directory)

    def plan(
        self,
        root: str,
        sites: Sequence[Site],
        choices: Choices,
        selected: frozenset[str] | None = None,
    ) -> DirectoryPlan:
        """Plan one directory, for the selected agents or for all.

        If git fails, nothing is planned, and the agents of the directory get the error.
        """
        try:
            return self._plan(root, sites, choices, selected)
        except Exception as error:
            from gascity.git import GitError

            if not isinstance(error, GitError) or not sites:
                raise
            problem = Problem("git-failed", error.message, self.sites.branch_place(sites[0].agent))
        ledger = self.ledgers.read(root)
        requirements = collect(self.content, sites, lambda _: False, ask_git=False)
        for site in sites:
            requirements.report_blocking(str(site.agent.name), [problem])
        return DirectoryPlan(root, sites, ledger, requirements, PlanDecision(ledger.paths))

    def _plan(
        self,
        root: str,
        sites: Sequence[Site],
        choices: Choices,
        selected: frozenset[str] | None,
    ) -> DirectoryPlan:
        from gascity.workdir.decide.steps import decide  # lists of servers decide nothing

        ledger = self.ledgers.read(root)
        with Directory(root) as directory:
            requirements = self._requirements(root, sites, ledger, directory)
            wanted = _unblocked(requirements)
            disk = self._disk_state(root, sites, ledger, directory, wanted)
            # Files of an agent with errors stay unchanged until the errors are fixed.
            blocked = requirements.blocked
            records = {
                path: record
                for path, record in ledger.paths.items()
                if blocked.isdisjoint(record.agents)
                and not self._is_broken(record.agents)
                and (path in wanted or not self.incomplete)
            }
            uncovered = _no_longer_covering(records, wanted, sites)
            free = {
                path: one
                for path, one in wanted.items()
                if (path in records or path not in ledger.paths) and path not in uncovered
            }
            free, same = self._leave_out_same(free, disk, sites)
            decision = decide(free, records, disk, choices, selected)
            decision.steps += same
            for path, record in ledger.paths.items():
                if path not in records:
                    decision.records[path] = record
        plan = DirectoryPlan(root, sites, ledger, requirements, decision)
        plan.read = disk.read
        plan.worktree = self._worktree_step(root, sites, requirements.blocked)
        unused = ledger.rig and not sites and not self.incomplete
        if unused and not self._is_broken(ledger.claimants):
            plan.removal = self._removal_step(root, ledger)
        return plan

    def _leave_out_same(
        self, wanted: dict[str, WantedPath], disk: DiskState, sites: Sequence[Site]
    ) -> tuple[dict[str, WantedPath], list[Step]]:
        """Leave out skills and servers that the project has elsewhere, with the same content."""
        shared = (LINK, DOCUMENT)
        if not disk.tracked or not any(item.kind in shared for item in wanted.values()):
            return wanted, []
        from gascity.workdir.decide.project import leave_out_same

        found = ((site.agent, self.city.provider_of(site.agent)) for site in sites)
        providers = {str(agent.name): provider for agent, provider in found if provider}
        return leave_out_same(wanted, providers, disk)

    def empty_plan(self, root: str, sites: Sequence[Site]) -> DirectoryPlan:
        """Return a plan without steps, for a directory that cannot be read."""
        return DirectoryPlan(root, sites, Ledger(root), Requirements(), PlanDecision({}))

    def _scenes(self, sites: Sequence[Site], ledger: Ledger) -> dict[str, SessionContext]:
        """Return the values that templates are rendered with, if one session has the directory."""
        if len(sites) > 1:
            return {}
        return {
            str(site.agent.name): self.session_scene(
                site, site.session or ledger.session, ledger.branch
            )
            for site in sites
            if site.session or ledger.session
        }

    def session_scene(self, site: Site, alias: str, branch: str) -> SessionContext:
        """Return the template values of a session that works at a site."""
        scene, _ = self.content.prompts.session_context(site.agent)
        branch = (site.current_branch or branch) if site.kind == AS_WORKTREE else ""
        return scene._replace(work_dir=site.workdir, branch=branch, session=alias)

    def _requirements(
        self, root: str, sites: Sequence[Site], ledger: Ledger, directory: Directory
    ) -> Requirements:
        def unmanaged(path: str) -> bool:
            if path in ledger.paths:
                return False
            if directory.state(path).kind != ABSENT:
                return True
            # A worktree that does not exist yet will have the files of its base commit.
            missing_worktree = sites[0].kind == AS_WORKTREE and not os.path.isdir(root)
            return missing_worktree and path in sites[0].tracked

        requirements = collect(self.content, sites, unmanaged, self._scenes(sites, ledger))
        for site in sites:
            problems = self.content.overlays.unknown_slots(site.agent, self._providers)
            requirements.report(str(site.agent.name), problems)
        return requirements

    def _disk_state(
        self,
        root: str,
        sites: Sequence[Site],
        ledger: Ledger,
        directory: Directory,
        wanted: Mapping[str, WantedPath],
    ) -> DiskState:
        in_git = [site for site in sites if site.kind in (IN_PLACE, AS_WORKTREE)]
        tracked = in_git[0].tracked if in_git else frozenset()
        path_state, read = self._readers(root, in_git, directory, tracked)
        return DiskState(
            path_state=path_state,
            unchanged=directory.matches,
            read=read,
            wanted_content=self.file_content,
            tracked_original=lambda path: _tracked_original(root, path, self.environ),
            shown=lambda path: self.disk.shown(f"{root}/{path}"),
            tracked=tracked,
            same_tree=lambda path, source: _is_same_tree(tracked, path, self.disk, source, read),
            coverable=self._coverable(root, in_git, ledger, tracked, wanted),
            shared_checkout=any(site.kind == IN_PLACE for site in in_git),
            trusted_before=ledger.written - _CLOCK_GRANULARITY,
        )

    def _readers(
        self, root: str, sites: Sequence[Site], directory: Directory, tracked: frozenset[str]
    ) -> tuple[Callable[[str], PathState], Callable[[str], bytes]]:
        """Return how to look at the directory; before a worktree exists, in its base commit."""
        if not sites or sites[0].kind != AS_WORKTREE or _is_complete(root):
            return directory.state, directory.read
        site = sites[0]
        directories: set[str] = set()

        def path_state(path: str) -> PathState:
            if path in tracked:
                return PathState(FILE, 0o644)
            if not directories:
                directories.update(_parents(tracked))
            return PathState(DIRECTORY) if path in directories else directory.state(path)

        def read(path: str) -> bytes:
            from gascity import git

            blob = f"{self.sites.base(site)}:{path}"
            return git.run(["cat-file", "blob", blob], site.rig, self.environ).out

        return path_state, read

    def file_content(self, wanted: WantedPath) -> bytes:
        """Return what a file should contain; reads sources that agents share once."""
        if wanted.data is not None:
            return wanted.data
        if wanted.copy_of not in self._file_contents:
            with open(wanted.copy_of, "rb") as file:
                self._file_contents[wanted.copy_of] = file.read()
        return self._file_contents[wanted.copy_of]

    def _coverable(
        self,
        root: str,
        sites: Sequence[Site],
        ledger: Ledger,
        tracked: frozenset[str],
        wanted: Mapping[str, WantedPath],
    ) -> frozenset[str]:
        """Return tracked files of a worktree that managed ones may cover: unmodified ones."""
        covering = _covering_agents(sites)
        paths = [
            path
            for path, one in wanted.items()
            if path in tracked and path not in ledger.paths and not covering.isdisjoint(one.agents)
        ]
        if not paths or not os.path.isdir(root):
            return frozenset(paths)
        return frozenset(paths) - _modified_in_git(root, paths, self.environ)

    def _worktree_step(self, root: str, sites: Sequence[Site], blocked: set[str]) -> Step | None:
        site = next((site for site in sites if site.kind == AS_WORKTREE), None)
        if site is None or _is_complete(root) or str(site.agent.name) in blocked:
            return None
        rig = site.agent.name.rig or ""
        return Step(WORKTREE, ".", self.disk.shown(site.rig), rig, f"on branch {site.branch}")

    def _removal_step(self, root: str, ledger: Ledger) -> Step:
        from gascity.workdir.write.recover import managed_files
        from gascity.workdir.write.worktree_state import inspect, reasons_to_keep, rig_base

        reasons = []
        if os.path.isdir(root):
            managed, covered = managed_files(ledger)
            base = rig_base(ledger.rig, self.environ)
            reasons = reasons_to_keep(inspect(root, managed, covered, self.environ, base))
        reason = "; ".join(reasons) or "no agent uses it"
        return Step(KEEP if reasons else REMOVE, ".", self.disk.shown(ledger.rig), "", reason)


def _unblocked(requirements: Requirements) -> dict[str, WantedPath]:
    """Return the wanted paths of agents without errors: half a directory is worse than none."""
    if not requirements.blocked:
        return requirements.wanted
    result = {}
    for path, wanted in requirements.wanted.items():
        agents = tuple(name for name in wanted.agents if name not in requirements.blocked)
        if agents:
            result[path] = wanted._replace(agents=agents)
    return result


def _covering_agents(sites: Sequence[Site]) -> frozenset[str]:
    """Return the agents whose files may cover tracked files of their worktree."""
    return frozenset(
        str(site.agent.name)
        for site in sites
        if site.kind == AS_WORKTREE and site.agent.settings.overlay_tracked == "cover"
    )


def _no_longer_covering(
    records: Mapping[str, PathRecord], wanted: Mapping[str, WantedPath], sites: Sequence[Site]
) -> set[str]:
    """Return covered tracked files whose agents no longer have `overlay_tracked = "cover"`."""
    covered = [path for path, record in records.items() if record.covers and path in wanted]
    covering = _covering_agents(sites) if covered else frozenset()
    return {path for path in covered if covering.isdisjoint(wanted[path].agents)}


def _is_complete(root: str) -> bool:
    from gascity.workdir.write.worktree_state import is_complete

    return is_complete(root)


def _tracked_original(root: str, path: str, environ: Mapping[str, str]) -> tuple[bytes, int] | None:
    """Return the content and mode of a tracked file in git's index; None if it is not a file."""
    from gascity import git

    arguments = ["--literal-pathspecs", "ls-files", "--stage", "-z", "--", path]
    mode = git.run(arguments, root, environ).out[:6]
    if not mode.startswith(b"100"):
        return None
    data = git.run(["cat-file", "--filters", f":./{path}"], root, environ).out
    return data, 0o755 if mode == b"100755" else 0o644


def _modified_in_git(root: str, paths: Sequence[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Return which of some tracked files differ from git's index."""
    from gascity import git

    # After a refresh, a file with a new time and the old content no longer counts as modified.
    git.run(["update-index", "-q", "--refresh"], root, environ, allowed=(0, 1))
    arguments = ["diff-files", "--name-only", "--relative", "-z"]
    return frozenset(git.run(arguments, root, environ).names).intersection(paths)


def _is_same_tree(
    tracked: Iterable[str], path: str, disk: Disk, source: str, read: Callable[[str], bytes]
) -> bool:
    from gascity.workdir.project_files import is_same_tree

    return is_same_tree(tracked, path, disk, source, read)


def _parents(paths: Iterable[str]) -> Iterator[str]:
    """Yield the directories above some paths, some of them several times."""
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent:
            yield parent
            parent = parent.rpartition("/")[0]


def differs(steps: Iterable[Step]) -> bool:
    """Return whether a plan changes anything."""
    return any(step.op != KEEP for step in steps)


def problems_of(plan: DirectoryPlan, agent: str) -> list[Problem]:
    """Return the problems of one agent and of its directory."""
    return [*plan.requirements.problems.get(agent, ()), *plan.decision.problems]


# Directories of further sessions, beside the one that `apply` writes


def session_sites(planner: Planner, agents: Iterable[Agent]) -> dict[str, Site]:
    """Return existing session directories of these agents that have a ledger, by real path."""
    sites: dict[str, Site] = {}
    with_work_dir: list[Agent] = []
    for agent in agents:
        site = planner.sites.of(agent)
        if agent.settings.work_dir:
            with_work_dir.append(agent)
        if site.workdir and site.kind != IN_PLACE:
            sites.update(_slot_sites(planner, site))
    if any("{{" in (agent.settings.work_dir or "") for agent in with_work_dir):
        sites.update(_alias_sites(planner, with_work_dir))
    return sites


def _slot_sites(planner: Planner, first: Site) -> Iterator[tuple[str, Site]]:
    """Yield the directories of further slots (`NAME~2`, …) beside the first one."""
    parent, first_name = os.path.split(os.path.realpath(first.workdir))
    try:
        names = sorted(os.listdir(parent))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        root, suffix = f"{parent}/{name}", name.removeprefix(first_name)
        if suffix != name and is_directory_suffix(suffix) and os.path.isdir(root):
            if _is_recorded(planner, root, first.agent):
                location = Location(first.workdir + suffix, first.kind, first.rig, first.problems)
                yield root, planner.sites.at(first.agent, location, "")


def _alias_sites(planner: Planner, agents: Iterable[Agent]) -> Iterator[tuple[str, Site]]:
    """Yield directories of agents whose `work_dir` contains the session's name."""
    ledgers = planner.ledgers
    for root in ledgers.roots():
        alias = ledgers.read(root).session
        if not alias or not os.path.isdir(root):
            continue
        for agent in agents:
            location = planner.sites.locate_session(agent, alias)
            real = os.path.realpath(location.workdir) if location.workdir else ""
            suffix = root.removeprefix(real) if real else root
            fits = suffix != root and (not suffix or is_directory_suffix(suffix))
            if fits and root != os.path.realpath(planner.sites.of(agent).workdir):
                if _is_recorded(planner, root, agent):
                    location = location._replace(workdir=location.workdir + suffix)
                    yield root, planner.sites.at(agent, location, "")


def _is_recorded(planner: Planner, root: str, agent: Agent) -> bool:
    ledger = planner.ledgers.read(root)
    return str(agent.name) in ledger.agents.keys() | ledger.claimants


# Opening a city for planning


class PlanningScope(NamedTuple):
    """A city that is ready for planning, and the selected agents."""

    planner: Planner
    agents: tuple[Agent, ...]
    selected: frozenset[str] | None  # names of the selected agents; None: all


def open_scope(
    root: str,
    environ: Mapping[str, str],
    machine: Machine,
    reference: str | None = None,
    directory: str = "",
) -> PlanningScope:
    """Open the city, or only one agent if it has a directory of its own.

    A reference means first an agent of the rig around `directory`.
    """
    if reference is None:
        city = open_city(root, environ)
        agents = tuple(agent for agent in city.agents if not agent.broken)
        return PlanningScope(_planner(city, environ, machine), agents, None)
    city, agent = open_agent(root, environ, reference, directory)
    planner = _planner(city, environ, machine)
    if _may_share_directory(planner, agent):
        city = open_city(root, environ)
        agent = find_agent(city, str(agent.name)) or agent
        planner = _planner(city, environ, machine)
    return PlanningScope(planner, (agent,), frozenset((str(agent.name),)))


def _planner(city: City, environ: Mapping[str, str], machine: Machine) -> Planner:
    def whole_city() -> City:
        return open_city(city.root, environ)

    prompts = Prompts(city, Disk(city.root), machine, whole_city)
    return Planner(CityContent.of(prompts, environ))


def _may_share_directory(planner: Planner, agent: Agent) -> bool:
    """Return whether other agents may work in the agent's directory; if not, only it is read."""
    site = planner.sites.of(agent)
    if site.kind not in (OWN, AS_WORKTREE) or agent.settings.work_dir:
        return True
    claimants = planner.ledgers.read(os.path.realpath(site.workdir)).claimants
    return bool(claimants - {str(agent.name)})


def requirements_of(
    scope: PlanningScope, agent: Agent, place: tuple[str, Sequence[Site]] | None = None
) -> tuple[str, Requirements]:
    """Return an agent's directory and what all agents there need in it.

    `place` is the directory of one of its sessions; default: the one that `apply` writes.
    """
    root, sites = place or _first_directory(scope.planner, agent)
    return root, scope.planner.requirements(root, sites)


def _first_directory(planner: Planner, agent: Agent) -> tuple[str, Sequence[Site]]:
    site = planner.sites.of(agent)
    root = os.path.realpath(site.workdir)
    directories = planner.directories(other for other in planner.city.agents if not other.broken)
    return root, [site, *(other for other in directories.get(root, ()) if other is not site)]
