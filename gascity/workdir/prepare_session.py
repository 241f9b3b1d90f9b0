"""Prepares the working directory, prompt and launch arguments with which a session starts."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from gascity.git import GitError, base_of
from gascity.location import WORKTREE, Site
from gascity.mcp.delivery import LAUNCH, Delivery
from gascity.mcp.gateway_entry import server_variables
from gascity.mcp.launch import LaunchArguments, launch_arguments
from gascity.mcp.server_files import ServerFile
from gascity.mcp.servers import ServerResolver, launch_value
from gascity.mcp.types import McpServer
from gascity.model.city import Agent, City
from gascity.model.problems import CityError, Place, Problem
from gascity.model.secrets import filled, names_in
from gascity.model.values import as_table
from gascity.pipeline import with_starter_knowledge
from gascity.prompts import Machine, Prompts
from gascity.render.flags import own_delivery
from gascity.render.prompt_text import RenderedPrompt
from gascity.source.disk import Disk
from gascity.workdir.applier import SESSION_RUN, Applier, ApplyResult, worktree_failed
from gascity.workdir.decide.context import Choices
from gascity.workdir.fingerprint import Fingerprints
from gascity.workdir.git_excludes import excludes_file, session_git_environment
from gascity.workdir.planner import Planner, launch_file
from gascity.workdir.session_directory import (
    SessionWorktree,
    WorkdirRequest,
    branch_part,
    prepare_worktree,
)
from gascity.workdir.wanted import CityContent, collect
from gascity.workdir.write import worktree_state
from gascity.workdir.write.ledger import Ledger, Ledgers
from gascity.workdir.write.stale_locks import has_locks

__all__ = [
    "PreparedSession",
    "SessionPreparer",
    "WorkdirRequest",
    "count_commits",
    "current_branch",
]

_SET_VARIABLE = "set it, or add it to the agent's `env`"
_FileStamp = tuple[int, int, int, int, int]


class PreparedSession(NamedTuple):
    """A session's directory, prompt and launch settings. With an error it must not start."""

    workdir: str
    kind: str
    branch: str = ""
    base: str = ""  # the commit that the branch started from
    prompt: str = ""
    launch: LaunchArguments = LaunchArguments((), {})
    env: Mapping[str, str] = {}  # makes git ignore managed files
    fingerprint: Mapping[str, str] = {}  # by part
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    blocked: str = ""  # why the directory must not be used
    references: tuple[str, ...] = ()  # variables that its MCP servers refer to
    # Its prompt has notes or HUD sections, which may change between two starts.
    volatile: bool = False

    @property
    def can_start(self) -> bool:
        return not self.blocked and not any(problem.is_error for problem in self.problems)


class _Worker:
    """Planner and caches for one preparation at a time."""

    def __init__(
        self,
        city: City,
        environ: Mapping[str, str],
        machine: Machine,
        valid_servers: dict[str, ServerFile],
    ) -> None:
        prompts = Prompts(city, Disk(city.root), machine, live=environ)
        self.planner = Planner(CityContent.of(prompts, environ, valid_servers))
        self.fingerprints = Fingerprints(self.planner, fixed_sources=True)
        agents = (agent for agent in city.agents if not agent.broken)
        self.shared = {
            root: sites
            for root, sites in self.planner.directories(agents).items()
            if len(sites) > 1 or sites[0].problems or sites[0].agent.settings.work_dir
        }

    def other_sites(self, site: Site, root: str) -> list[Site]:
        """Return the sites of other agents in the same directory."""
        name = site.agent.name
        return [other for other in self.shared.get(root, ()) if other.agent.name != name]


class SessionPreparer:
    """Prepares sessions of one loaded city.

    Thread-safe: each call uses a worker of its own, from a pool that grows as needed, and the
    directory's lock serialises calls for the same directory.
    """

    def __init__(
        self,
        city: City,
        environ: Mapping[str, str],
        machine: Machine,
        valid_servers: dict[str, ServerFile] | None = None,
    ) -> None:
        """`valid_servers` has the last valid version of each MCP server's file; it is updated."""
        self.city = city
        self.environ = environ
        self.machine = machine
        self._valid_servers = {} if valid_servers is None else valid_servers
        self._idle: list[_Worker] = []
        # By working directory: the state of its files when it was prepared.
        self._prepared: dict[str, dict[str, _FileStamp | None]] = {}
        self._servers: ServerResolver | None = None
        self._variables: dict[str, frozenset[str]] = {}  # by agent

    @contextmanager
    def _worker(self) -> Iterator[_Worker]:
        # list.pop and list.append are atomic: two threads never get the same worker.
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self.city, self.environ, self.machine, self._valid_servers)
        try:
            yield worker
        finally:
            worker.planner.forget_contents()
            self._idle.append(worker)

    def prepare(self, agent: Agent, request: WorkdirRequest) -> PreparedSession:
        """Create or update the session's directory. Writes nothing if the agent has errors."""
        with self._worker() as worker:
            prepared, ledger = _Preparation(worker, agent, request).run()
        if ledger is not None and prepared.can_start:
            self._prepared[prepared.workdir] = _file_stamps(self._files(prepared, ledger))
        return prepared

    def servers(self, agent: Agent) -> tuple[McpServer, ...]:
        """Return the MCP servers that the city gives an agent, by name."""
        with self._worker() as worker:
            return worker.planner.content.servers.of(agent).servers

    def server_names(self, agent: Agent) -> frozenset[str]:
        """Return the names of the MCP servers that the city gives an agent."""
        return frozenset(server.name for server in self.servers(agent))

    def variable_names(self, agent: Agent) -> frozenset[str]:
        """Return the variables that an agent's `env` and its MCP servers refer to."""
        name = str(agent.name)
        if name not in self._variables:
            if self._servers is None:
                self._servers = ServerResolver(
                    Prompts(self.city, Disk(self.city.root), self.machine)
                )
            names = {each for text in agent.settings.env.values() for each in names_in(text)}
            for server in self._servers.of(agent).servers if not agent.broken else ():
                names.update(server_variables(server))
            self._variables[name] = frozenset(names)
        return self._variables[name]

    def watched_paths(self) -> set[str]:
        """Return every path read so far: if one changes, sessions may need other content."""
        return {path for worker in tuple(self._idle) for path in worker.planner.disk.seen}

    def is_current(self, agent: Agent, before: PreparedSession, request: WorkdirRequest) -> bool:
        """Return whether a prepared directory is unchanged and fits the request.

        Cheap: reads only file metadata and, for a worktree, its HEAD.
        """
        stamps = self._prepared.get(before.workdir)
        if stamps is None or request.workdir != before.workdir or before.volatile:
            return False
        if before.workdir in request.taken:
            return False
        resolve = launch_value(agent, {**self.environ, **request.environ})
        if any(resolve(name) is None for name in before.references):
            return False
        if launch_name(self.city, agent, before.workdir, self.environ) != before.launch.agent_name:
            return False
        if before.kind == WORKTREE:
            new_branch = f"city/{agent.name.without_rig}/{branch_part(request)}"
            branch = before.branch if request.resume else new_branch
            if branch != before.branch or not _is_on_branch(before.workdir, branch):
                return False
            if has_locks(before.workdir):  # git was killed there
                return False
        return _file_stamps(stamps) == stamps

    def _files(self, prepared: PreparedSession, ledger: Ledger) -> list[str]:
        """Return the files that must not change: managed ones, launch files and the ledger."""
        root = prepared.workdir
        files = [f"{root}/{path}" for path in ledger.paths] or [root]
        files += [f"{root}/{path}" for path in ledger.directories if path]
        files += [launch_file(self.city.root, name, ledger.slot) for name in ledger.agents]
        return [*files, Ledgers(self.city.root).file(root)]


def _file_stamps(
    paths: Sequence[str] | Mapping[str, _FileStamp | None],
) -> dict[str, _FileStamp | None]:
    return {path: _file_stamp(path) for path in paths}


def _file_stamp(path: str) -> _FileStamp | None:
    try:
        result = os.lstat(path)
    except OSError:
        return None
    if result.st_mode & 0o170000 == 0o040000:
        return (result.st_mode, result.st_ino, 0, 0, 0)  # entries of a directory may change
    return (result.st_mode, result.st_ino, result.st_size, result.st_mtime_ns, result.st_ctime_ns)


def _is_on_branch(workdir: str, branch: str) -> bool:
    admin = worktree_state.admin_of(workdir)
    try:
        with open(f"{admin}/HEAD", "rb") as file:
            return os.fsdecode(file.read().strip()) == f"ref: refs/heads/{branch}"
    except OSError:
        return False


class _OwnFilePrompt(NamedTuple):
    """The prompt in an agent's own file; None without a file. `hud`: its sections, not in it."""

    prompt: str | None
    hud: str = ""


class _Preparation:
    """One preparation, from the request to what the session starts with."""

    def __init__(self, worker: _Worker, agent: Agent, request: WorkdirRequest) -> None:
        self.worker = worker
        self.planner = worker.planner
        self.agent = agent
        self.name = str(agent.name)
        self.request = request
        self.notes: list[str] = []

    def run(self) -> tuple[PreparedSession, Ledger | None]:
        """Return the result and the directory's ledger; None if nothing was applied."""
        if self.agent.broken:
            return PreparedSession("", "", problems=self.agent.problems), None
        self._copy_starters()
        site = self.planner.sites.for_session(self.agent, self.request.alias, self.request.slot)
        if site.workdir in self.request.blocked and site.kind != WORKTREE:
            note = self.request.blocked[site.workdir]
            free = self._free_site()
            if free is None:
                return PreparedSession(site.workdir, site.kind, blocked=note), None
            self.notes.append(note)
            site = free
        location = SessionWorktree(site, "", "")
        if site.kind == WORKTREE:
            # Check before creating a worktree that would then stay empty.
            problems = self._check(site)
            problems = (*problems, *self._missing_start(site))
            if any(problem.is_error for problem in problems):
                return PreparedSession(site.workdir, site.kind, problems=problems), None
            try:
                location = prepare_worktree(self.planner, self.agent, self.request)
            except GitError as error:
                problems = (*problems, worktree_failed(self.agent, error))
                return PreparedSession(site.workdir, site.kind, problems=problems), None
            self.notes += location.notes
        return self._apply_and_collect(location)

    def _copy_starters(self) -> None:
        """Give the agent its starter knowledge, if it is its first start."""
        city = self.planner.city
        if with_starter_knowledge(city, [self.agent]):
            from gascity.memory.starter import copy_starters, starter_files

            try:
                files = starter_files(city, self.planner.disk, [self.agent])
                copied = copy_starters(city.root, files)
            except CityError as error:  # it can work without
                self.notes.append(error.problems[0].message)
            else:
                self.notes += [f"copied {file.source} to {file.path}" for file in copied]

    def _missing_start(self, site: Site) -> list[Problem]:
        """Report a branch that the item starts from and that does not exist any more."""
        start = self.request.start
        try:
            if start:
                base_of(site.rig, start, self.planner.environ)
        except GitError as error:
            return [Problem("unknown-branch", f"cannot start from `{start}`: {error.message}")]
        return []

    def _free_site(self) -> Site | None:
        """Return a directory of the slot that is not blocked; None if all sessions share one."""
        for attempt in count(2):
            request = self.request
            site = self.planner.sites.for_session(self.agent, request.alias, request.slot, attempt)
            if site.workdir not in request.blocked:
                return site
            if attempt > len(request.blocked) + 1:
                return None
        return None

    def _check(self, site: Site) -> tuple[Problem, ...]:
        """Return the problems of what the agent needs, without asking git."""
        requirements = collect(self.planner.content, [site], lambda _: False, ask_git=False)
        blocked = self.name in requirements.blocked
        problems = _start_problems(requirements.problems.get(self.name, ()), blocked)
        return (*problems, *self._missing_variables(requirements.deliveries.get(self.name)))

    def _apply_and_collect(
        self, location: SessionWorktree
    ) -> tuple[PreparedSession, Ledger | None]:
        site = location.site
        root = os.path.realpath(site.workdir) if site.workdir else ""
        if not root:
            return PreparedSession("", site.kind, problems=site.problems), None
        result = self._apply(root, [site, *self.worker.other_sites(site, root)])
        self.notes += self.planner.content.servers.notes
        requirements = result.plan.requirements
        delivery = requirements.deliveries.get(self.name)
        scene = self.planner.session_scene(site, self.request.alias, location.branch)
        scene = scene._replace(id=self.request.session)
        prompts = self.planner.content.prompts.for_session(scene)
        prompt = prompts.of(self.agent)
        if prompt.hud:
            from gascity.hud.refresh import record_start

            record_start(self.planner.city.root, self.request.session, prompt.hud)
        blocked = self.name in requirements.blocked
        problems = dict.fromkeys(
            (
                *_start_problems(requirements.problems.get(self.name, ()), blocked),
                *result.plan.decision.problems,
                *result.problems,
                *prompt.problems,
                *self._missing_variables(delivery),
            )
        )
        ledger = result.ledger
        for step in result.kept:
            path = root if step.path == "." else f"{root}/{step.path}"
            self.notes.append(f"kept {self.planner.disk.shown(path)} ({step.reason})")
        prepared = PreparedSession(
            root,
            site.kind,
            location.branch,
            location.base,
            prompt.text,
            self._launch(
                delivery,
                root,
                site.suffix,
                self._own_file(prompts, prompt, _file_prompt(result, self.name)),
            ),
            self._git_environment(root, ledger) if ledger else {},
            ledger.agents.get(self.name, {}) if ledger else {},
            tuple(problems),
            tuple(self.notes),
            references=delivery.references if delivery is not None else (),
            volatile="memory" in prompt.fragments or bool(prompt.hud),
        )
        return prepared, ledger

    def _apply(self, root: str, sites: Sequence[Site]) -> ApplyResult:
        seconds, rest = divmod(time.time_ns(), 10**9)
        moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))
        run = f"{moment}.{rest // 1000:06d}Z{SESSION_RUN}"
        self.planner.forget_git(sites)
        applier = Applier(
            self.planner, run, self.notes.append, lambda *_: None, self.worker.fingerprints
        )
        return applier.apply(root, sites, Choices(), frozenset((self.name,)))

    def _missing_variables(self, delivery: Delivery | None) -> list[Problem]:
        """Report environment variables that the launch needs and that are not set."""
        environ = {**self.planner.environ, **self.request.environ}
        missing = {
            name: key
            for key, value in self.agent.settings.env.items()
            for name in filled(value, environ.get)[1]
        }
        problems = [
            _missing_variable(name, _variable_place(self.agent, key))
            for name, key in missing.items()
        ]
        if delivery is None:
            return problems
        problems += [
            Problem("missing-env", f"server `{server.name}`: {server.reason}", None, _SET_VARIABLE)
            for server in delivery.skipped
            if server.code == "missing-env"
        ]
        if not delivery.targets and not delivery.gateways and delivery.mode != LAUNCH:
            return problems
        resolve = launch_value(self.agent, environ)
        unset = [name for name in delivery.references if resolve(name) is None]
        problems += [_missing_variable(name, None) for name in unset if name not in missing]
        return problems

    def _own_file(
        self, prompts: Prompts, prompt: RenderedPrompt, file_prompt: str | None
    ) -> _OwnFilePrompt:
        """Return the prompt whose text is in the agent's own file, and what it has beside it."""
        if not prompt.hud or file_prompt != prompts.for_files().of(self.agent).text:
            return _OwnFilePrompt(file_prompt)
        hud = "\n\n".join(section.text for section in prompt.hud if section.text)
        return _OwnFilePrompt(prompt.text, hud)

    def _launch(
        self, delivery: Delivery | None, root: str, suffix: str, own: _OwnFilePrompt
    ) -> LaunchArguments:
        provider = self.planner.city.provider_of(self.agent)
        if provider is None or delivery is None:
            return LaunchArguments((), {})
        file = launch_file(self.planner.city.root, self.name, suffix)
        arguments = launch_arguments(provider, delivery, root, file)
        return arguments._replace(
            file_prompt=own.prompt,
            hud=own.hud,
            agent_name=launch_name(self.planner.city, self.agent, root, self.planner.environ),
        )

    def _git_environment(self, root: str, ledger: Ledger) -> dict[str, str]:
        if not ledger.rig:
            return {}
        file = excludes_file(self.planner.city.root, root)
        return session_git_environment(file if os.path.exists(file) else "", self.planner.environ)


def launch_name(city: City, agent: Agent, root: str, environ: Mapping[str, str]) -> str:
    """Return the name of a session's own agent; "" for its usual name."""
    provider = city.provider_of(agent)
    if provider is None or not own_delivery(provider, agent):
        return ""
    from gascity.workdir.agent_files import free_agent_name

    return free_agent_name(provider, agent, root, environ.get("HOME", ""))


def _file_prompt(result: ApplyResult, agent: str) -> str | None:
    """Return the prompt in the session's own agent file; None if the file is not as planned."""
    own = result.plan.requirements.agent_files.get(agent)
    record = result.ledger.paths.get(own.path) if own and result.ledger else None
    if own is None or record is None or record.adopted:
        return None
    return None if own.path in {step.path for step in result.kept} else own.prompt


def count_commits(workdir: str, base: str, environ: Mapping[str, str] = {}) -> int:
    """Return the number of commits since `base`; 0 if git fails."""
    try:
        return worktree_state.count_commits(workdir, base, environ)
    except GitError:
        return 0


def current_branch(workdir: str, environ: Mapping[str, str] = {}) -> str:
    """Return the branch that is checked out; empty if there is none or git fails."""
    try:
        return worktree_state.current_branch(workdir, environ)
    except GitError:
        return ""


def _missing_variable(name: str, place: Place | None) -> Problem:
    return Problem("missing-env", f"`{name}` is not set", place, _SET_VARIABLE)


def _variable_place(agent: Agent, name: str) -> Place | None:
    """Return where a variable of the agent's environment is set."""
    for setting in agent.setting("env").chain():
        written = as_table(setting.layer.values.get("env")) if setting.layer else {}
        if name in written and setting.place is not None:
            return setting.place._replace(path=(*setting.place.path, name))
    return None


def _start_problems(problems: Sequence[Problem], blocked: bool) -> Sequence[Problem]:
    """Turn errors into warnings unless they block the agent: it can start without one skill."""
    return problems if blocked else [problem.softened() for problem in problems]
