"""Run-time configuration derived from the loaded city, one entry per agent."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from gascity.compose.city import CITY_PREFIX
from gascity.control.decide.types import NamedSlot, Pool
from gascity.model.city import Agent, City
from gascity.model.names import parse_name
from gascity.model.problems import CityError, Problem
from gascity.model.provider import Provider
from gascity.model.session_context import Machine
from gascity.model.settings import AgentLimits
from gascity.pipeline import find_agent, open_agent, rig_at
from gascity.providers.registry import provider_files
from gascity.runtimes import headless_runtime, wants_terminal
from gascity.source.disk import Disk

if TYPE_CHECKING:
    from gascity.mcp.server_files import ServerFile
    from gascity.render.terminal import TerminalRules
    from gascity.workdir.prepare_session import SessionPreparer


class AgentRunConfig(NamedTuple):
    """Settings to start an agent's sessions. `pool` lacks what changes at run time."""

    city: City
    agent: Agent
    provider: Provider | None
    make_preparer: "Callable[[], SessionPreparer]"  # lazily created
    make_terminal_rules: "Callable[[], TerminalRules]"  # the same
    pool: Pool
    runtime: str
    terminal: bool  # manual and named sessions run in terminals
    script: bool  # its message is run as a program, so it gets no mail or nudges
    resumes: bool  # each item continues the last conversation
    depends_on: tuple[str, ...]  # agents that must have a live session first
    prefix: str  # of its work ids

    @property
    def terminal_rules(self) -> "TerminalRules":
        return self.make_terminal_rules()

    @property
    def preparer(self) -> "SessionPreparer":
        return self.make_preparer()

    @property
    def name(self) -> str:
        return str(self.agent.name)

    @property
    def limits(self) -> AgentLimits:
        return self.agent.settings.limits


class RunConfig:
    """The configuration of one load of the city. `before` is the last valid one.

    An agent whose definition becomes invalid keeps running with its last valid one (`stale`).
    """

    def __init__(
        self,
        city: City,
        environ: Mapping[str, str],
        machine: Machine,
        before: "RunConfig | None" = None,
    ) -> None:
        self.city = city
        self.environ = environ
        self.machine = machine
        # An MCP file that becomes invalid does not stop the agents: its last valid version stays.
        known = before.valid_servers if before else {}
        self.valid_servers: dict[str, ServerFile] = {
            path: file._replace(replaces="") for path, file in known.items()
        }
        self.make_preparer = cache(
            partial(_make_preparer, city, environ, machine, self.valid_servers)
        )
        self._agents: dict[str, AgentRunConfig | None] = {}
        # `find_agent` looks at every agent: with 2,000 agents, asking it for each took 20 seconds.
        self._by_name = _unique_names(city)
        self._last_good: dict[str, AgentRunConfig] = {}
        self._named = _named_sessions(city)
        self._faults = {
            agent.home.directory: next(problem for problem in agent.problems if problem.is_error)
            for agent in city.agents
            if agent.broken
        }
        for name in _lost(city, before) if before is not None else ():
            config = before.agent(name) if before is not None else None
            if config is not None and not config.agent.broken:
                self._last_good[name] = config

    @property
    def stale(self) -> list[str]:
        """Names of agents that use their last valid definition."""
        return sorted(self._last_good)

    def home(self, name: str) -> str:
        """Return the directory of a stale agent."""
        return self._last_good[name].agent.home.directory

    def fault(self, name: str) -> Problem:
        """Return what is wrong with a stale agent's definition."""
        return self._faults[self.home(name)]

    def agent(self, name: str) -> AgentRunConfig | None:
        """Return an agent by its qualified name; None if it does not exist."""
        if name in self._last_good:
            return self._last_good[name]
        if name not in self._agents:
            agent = self._by_name.get(name) or self._find(name)
            if agent is not None and str(agent.name) == name:
                self._agents[name] = self._make(agent)
            else:
                self._agents[name] = self._unconfigured(name) if agent is None else None
        return self._agents[name]

    def agent_of_caller(self, name: str) -> AgentRunConfig:
        """Return the agent of a calling session; CityError if its rules are not known.

        A file that cannot be read restricts nothing, so an agent without a valid definition may do
        nothing.
        """
        config = self.agent(name)
        if config is None:
            raise CityError(Problem("unknown-agent", f"agent `{name}` no longer exists"))
        if config.agent.broken:
            message = f"the definition of `{name}` is invalid, so it is not known what it may do"
            raise CityError(Problem("broken-agent", message, None, "fix its errors: `city check`"))
        return config

    def _find(self, name: str) -> Agent | None:
        try:
            return find_agent(self.city, name)
        except CityError:
            return None

    def _unconfigured(self, name: str) -> AgentRunConfig | None:
        """Return the agent of a built-in provider that the city does not configure."""
        if parse_name(name).bare not in provider_files()[0] or name in self.city.unconfigured:
            return None
        try:
            city, _ = open_agent(self.city.root, self.environ, name)
        except CityError:
            return None
        return RunConfig(city, self.environ, self.machine).agent(name)

    def resolve(
        self, reference: str, rig: str | None = None, directory: str = ""
    ) -> AgentRunConfig | None:
        """Return the agent that a caller in a directory means: of `rig`, else first of its rig.

        CityError if the reference is ambiguous.
        """
        if rig is not None:
            named = parse_name(reference)
            if named.rig not in (None, rig):
                words = f"`{reference}` is in rig `{named.rig}`, not in `{rig}`"
                raise CityError(Problem("other-rig", words, None, "use one of the two rigs"))
            reference = str(named.in_rig(rig))
        around = rig_at(self.city, directory) if directory else None
        agent = find_agent(self.city, reference, around)
        return self.agent(str(agent.name) if agent is not None else reference)

    def always_wanted(self) -> list[str]:
        """Return agents that want sessions even without work."""
        wanting = {str(a.name) for a in self.city.agents if a.settings.min_active_sessions}
        return sorted(wanting | set(self._named))

    def caps(self, config: AgentRunConfig) -> Iterator[tuple[str, int]]:
        """Yield the caps above the agent's own: `city`, `rig NAME` or `agent NAME`, and limit."""
        total = config.agent.settings.max_active_total
        if total is not None and total >= 0:
            name = config.agent.name.without_rig
            yield f"agent {name}", total
        rig = self.city.rig_of(config.agent)
        limit = rig.settings.max_active_sessions if rig else None
        if rig is not None and limit is not None and limit >= 0:
            yield f"rig {rig.name}", limit
        limit = self.city.workspace.max_active_sessions
        if limit >= 0:
            yield "city", limit

    def day_limits(self, config: AgentRunConfig) -> Iterator[tuple[float, list[str] | None, str]]:
        """Yield daily cost limits: amount, agents (None: all), and the owner of the limit."""
        amount = config.limits.cost_per_day
        if amount is not None:
            yield amount, [config.name], f"agent {config.name}"
        rig = self.city.rig_of(config.agent)
        amount = rig.settings.cost_per_day if rig else None
        if rig is not None and amount is not None:
            names = [str(other.name) for other in self.city.agents if other.name.rig == rig.name]
            yield amount, [*names, config.name], f"rig {rig.name}"
        amount = self.city.workspace.cost_per_day
        if amount is not None:
            yield amount, None, "the city"

    def _make(self, agent: Agent) -> AgentRunConfig:
        provider = self.city.provider_of(agent)
        headless = provider is None or provider.headless
        per_item = headless and not wants_terminal(agent.settings.session)
        rig = self.city.rig_of(agent)
        wakes = agent.settings.wake_mode
        return AgentRunConfig(
            city=self.city,
            agent=agent,
            provider=provider,
            make_preparer=self.make_preparer,
            make_terminal_rules=cache(partial(_make_terminal_rules, provider, agent)),
            pool=self._pool(agent, interactive=not per_item),
            runtime=headless_runtime(agent.settings.runtime or self.city.session.runtime),
            terminal=provider is not None and provider.facts.interactive,
            script=provider is not None and provider.facts.script,
            resumes=wakes == "resume" or (wakes is None and not per_item),
            depends_on=tuple(self._depends_on(agent)),
            prefix=rig.prefix if rig is not None else self.city.workspace.prefix or CITY_PREFIX,
        )

    def _depends_on(self, agent: Agent) -> Iterator[str]:
        """Yield the agents of `depends_on`; an agent of the same rig comes before the city's."""
        for name in agent.settings.depends_on:
            wanted = parse_name(name)
            near = str(wanted.in_rig(wanted.rig or agent.name.rig))
            dependency = self._by_name.get(near) or find_agent(self.city, near)
            dependency = dependency or find_agent(self.city, name)
            if dependency is not None:
                yield str(dependency.name)

    def _pool(self, agent: Agent, *, interactive: bool) -> Pool:
        settings = agent.settings
        most = settings.max_active_sessions
        return Pool(
            agent=str(agent.name),
            minimum=settings.min_active_sessions,
            maximum=None if most < 0 else most,
            interactive=interactive,
            names=_namepool(self.city, agent),
            named=tuple(self._named.get(str(agent.name), ())),
            idle_timeout=settings.idle_timeout,
            sleep_after_idle=settings.sleep_after_idle,
            drain_timeout=settings.drain_timeout,
            run_timeout=settings.limits.timeout,
            wake_on_mail=settings.wake_on_mail,
        )


def _unique_names(city: City) -> dict[str, Agent]:
    """Return agents by qualified name, without names that several agents have."""
    agents: dict[str, Agent] = {}
    several = set()
    for agent in city.agents:
        name = str(agent.name)
        if name in agents:
            several.add(name)
        agents[name] = agent
    return {name: agent for name, agent in agents.items() if name not in several}


def _make_preparer(
    city: City,
    environ: Mapping[str, str],
    machine: Machine,
    valid_servers: "dict[str, ServerFile]",
) -> "SessionPreparer":
    """Import the preparer late: read commands do not need it."""
    from gascity.workdir.prepare_session import SessionPreparer

    return SessionPreparer(city, environ, machine, valid_servers)


def _make_terminal_rules(provider: Provider | None, agent: Agent) -> "TerminalRules":
    """Import and compile the patterns late: only terminals need them."""
    from gascity.render.terminal import TerminalRules, terminal_rules

    return terminal_rules(provider, agent) if provider is not None else TerminalRules()


def _lost(city: City, before: "RunConfig") -> list[str]:
    """Return agents that are invalid now, or missing because the file that places them is."""
    homes = {agent.home.directory for agent in city.agents if agent.broken}
    names = {str(agent.name) for agent in city.agents if not agent.broken}
    known = {str(agent.name) for agent in before.city.agents if agent.home.directory in homes}
    kept = {name for name in before.stale if before.home(name) in homes}
    return sorted((known | kept) - names)


def _namepool(city: City, agent: Agent) -> tuple[str, ...]:
    """Read the aliases from the `namepool` file: one per line, without comments.

    Every rig has all names. Aliases are unique in a city, so those of an agent that works in
    several rigs begin with the rig.
    """
    file, disk = agent.settings.namepool, Disk(city.root)
    text = disk.read(disk.absolute(file)) if file else None
    lines = [line.strip() for line in (text or b"").decode("utf-8", "replace").splitlines()]
    names = dict.fromkeys(name for name in lines if name and not name.startswith("#"))
    if not names or agent.name.rig is None:
        return tuple(names)
    rigs = {other.name.rig for other in city.agents if other.settings.namepool == file}
    return tuple(f"{agent.name.rig}-{name}" if len(rigs) > 1 else name for name in names)


def _named_sessions(city: City) -> dict[str, list[NamedSlot]]:
    """Return named sessions by agent, one per rig for an agent of several rigs.

    Of several with one name the last one counts: the city comes after its packs.
    """
    slots: dict[str, dict[str, NamedSlot]] = {}
    for session in city.named_sessions:
        settings = session.settings
        wanted, rig = parse_name(settings.template), settings.dir
        agents = [
            agent
            for agent in city.agents
            if agent.name.bare == wanted.bare
            and (wanted.binding is None or agent.name.binding == wanted.binding)
            and (wanted.rig is None or agent.name.rig == wanted.rig)
            and (rig is None or agent.name.rig in (None, rig))
        ]
        for agent in agents:
            alias = settings.name or agent.name.bare
            if agent.name.rig is not None and len(agents) > 1:
                alias = f"{agent.name.rig}-{alias}"
            slot = NamedSlot(alias, settings.mode == "always")
            slots.setdefault(str(agent.name), {})[alias] = slot
    return {agent: list(named.values()) for agent, named in slots.items()}
