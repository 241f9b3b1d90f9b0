"""The configuration that sessions are run by: agents with what decides about their sessions."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING

from gascity.control.world import Blocked, Limits, Named, Pool
from gascity.model.city import Agent, City, Rig
from gascity.model.durations import seconds
from gascity.model.layers import fold_field
from gascity.model.machine import Machine
from gascity.model.names import parse_name
from gascity.model.problems import CityError, Problem
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.model.tables import RIG, SESSION, WORKSPACE
from gascity.pipeline import find_agent, open_agent, open_city
from gascity.providers.registry import provider_files
from gascity.source.disk import Disk

if TYPE_CHECKING:
    from gascity.materialise.furnish import Furnisher

# What public cities call runtimes; terminals are for sessions that are talked to, not for runs.
_ALIASES = {"subprocess": "process", "tmux": "process", "": "process"}
NO_COST = ("text", "")  # shapes of output that tell no cost


class Post(NamedTuple):
    """An agent and all that its sessions are started with. `pool` lacks what changes by itself."""

    city: City
    agent: Agent
    provider: Provider | None
    furnishing: "Callable[[], Furnisher]"  # made when the first session needs it
    pool: Pool
    limits: Limits
    runtime: str
    terminal: bool  # manual and named sessions of it are in terminals
    script: bool  # its message is run as a program, so only work may reach it
    resumes: bool  # each item goes on with the conversation of the last
    depends_on: tuple[str, ...]  # agents that have to be awake first
    prefix: str  # of its work
    log_bytes: int
    cost_per_item: float | None
    cost_per_day: float | None

    @property
    def furnisher(self) -> "Furnisher":
        return self.furnishing()

    @property
    def rig(self) -> str | None:
        return self.agent.name.rig


class Desk:
    """What one load of the city came to. A new load makes a new one; `before` is the last good."""

    def __init__(
        self,
        city: City,
        environ: Mapping[str, str],
        machine: Machine,
        before: "Desk | None" = None,
    ) -> None:
        self.city = city
        self.environ = environ
        self.machine = machine
        self.furnishing = cache(partial(_furnisher, city, environ, machine))
        self._posts: dict[str, Post | None] = {}
        self._last_good: dict[str, Post] = {}
        self._named = _named_sessions(city)
        self._faults = {
            agent.home.directory: next(one for one in agent.problems if one.is_error)
            for agent in city.agents
            if agent.broken
        }
        for name in _lost(city, before) if before is not None else ():
            post = before.post(name) if before is not None else None
            if post is not None and not post.agent.broken:
                self._last_good[name] = post

    @property
    def stale(self) -> list[str]:
        """Agents whose definition is broken and whose last good one is in force."""
        return sorted(self._last_good)

    def home(self, name: str) -> str:
        """The directory of an agent whose last good definition is in force."""
        return self._last_good[name].agent.home.directory

    def fault(self, name: str) -> Problem:
        """What is wrong with a definition whose last good one is in force."""
        return self._faults[self.home(name)]

    def post(self, name: str) -> Post | None:
        """An agent by its qualified name; None if there is none of it any more."""
        if name in self._last_good:
            return self._last_good[name]
        if name not in self._posts:
            try:
                agent = find_agent(self.city, name)
            except CityError:
                agent = None
            if agent is not None and str(agent.name) == name:
                self._posts[name] = self._make(agent)
            else:
                self._posts[name] = self._spare(name) if agent is None else None
        return self._posts[name]

    def _spare(self, name: str) -> Post | None:
        """The agent of a built-in provider that nobody configured: there when it is named."""
        if parse_name(name).bare not in provider_files()[0] or name in self.city.spare:
            return None
        try:
            city, _ = open_agent(self.city.root, self.environ, name)
        except CityError:
            return None
        return Desk(city, self.environ, self.machine).post(name)

    def resolve(self, reference: str, rig: str | None = None) -> Post | None:
        """The agent that a person means; raises CityError if that may be several."""
        if rig is not None:
            named = parse_name(reference)
            if named.rig not in (None, rig):
                words = f"`{reference}` is in rig `{named.rig}`, not in `{rig}`"
                raise CityError(Problem("other-rig", words, None, "name one of the two"))
            reference = str(named.in_rig(rig))
        agent = find_agent(self.city, reference)
        return self.post(str(agent.name) if agent is not None else reference)

    def standing(self) -> list[str]:
        """Agents that want sessions without any work."""
        wanting = {str(a.name) for a in self.city.agents if _number(a, "min_active_sessions")}
        return sorted(wanting | set(self._named))

    def caps(self, post: Post) -> Iterator[tuple[str, int, str]]:
        """The caps above the agent's own: what is counted, how many, and what it is called."""
        total = post.agent.value("max_active_total")
        if isinstance(total, int) and total >= 0:
            name = post.agent.name.without_rig
            yield f"agent {name}", total, f"max_active_total = {total} of {name}"
        rig = self.city.rig_of(post.agent)
        limit = fold_field(rig.layers, RIG, "max_active_sessions").value if rig else None
        if rig is not None and isinstance(limit, int) and limit >= 0:
            yield f"rig {rig.name}", limit, f"max_active_sessions = {limit} of rig {rig.name}"
        limit = self.workspace("max_active_sessions")
        if isinstance(limit, int) and limit >= 0:
            yield "city", limit, f"max_active_sessions = {limit} of the city"

    def workspace(self, name: str) -> object:
        return fold_field(self.city.workspace, WORKSPACE, name).value

    def session(self, name: str) -> object:
        return fold_field(self.city.session, SESSION, name).value

    def day_limits(self, post: Post) -> Iterator[tuple[float, list[str] | None, str]]:
        """What a day may cost: how much, of which agents (None: all), and whose limit it is."""
        if post.cost_per_day is not None:
            yield post.cost_per_day, [str(post.agent.name)], f"agent {post.agent.name}"
        rig = self.city.rig_of(post.agent)
        limit = fold_field(rig.layers, RIG, "cost_per_day").value if rig else None
        if rig is not None and isinstance(limit, (int, float)):
            names = [str(one.name) for one in self.city.agents if one.name.rig == rig.name]
            yield float(limit), [*names, str(post.agent.name)], f"rig {rig.name}"
        limit = self.workspace("cost_per_day")
        if isinstance(limit, (int, float)):
            yield float(limit), None, "the city"

    def obstacles(self, post: Post) -> tuple[Blocked, ...]:
        """What stands in the way of any session of an agent, apart from caps."""
        found = [*_settings_against(self.city, post), *_program_missing(post, self.environ)]
        return tuple(found[:1] if found and found[0].code == "suspended" else found)

    def _make(self, agent: Agent) -> Post:
        provider = self.city.providers.get(agent.provider)
        per_item = agent.text("session") != "tmux" and (provider is None or provider.headless)
        named = tuple(self._named.get(str(agent.name), ()))
        terminal = provider is not None and provider.value("interactive") is True
        runtime = agent.text("runtime") or str(self.session("runtime") or "")
        runtime = _ALIASES.get(runtime, runtime)
        wakes = agent.value("wake_mode")
        return Post(
            city=self.city,
            agent=agent,
            provider=provider,
            furnishing=self.furnishing,
            pool=_pool(agent, not per_item, named, self._names(agent)),
            limits=Limits(
                retries=_number(agent, "limits.retries"),
                max_attempts=_number(agent, "limits.max_attempts"),
            ),
            runtime=runtime,
            terminal=terminal,
            script=provider is not None and provider.value("script") is True,
            resumes=wakes == "resume" or (wakes is None and not per_item),
            depends_on=tuple(_depends_on(self.city, agent)),
            prefix=_prefix(self.city.rig_of(agent), self.workspace("prefix")),
            log_bytes=_number(agent, "limits.log_bytes"),
            cost_per_item=_amount(agent, "limits.cost_per_item"),
            cost_per_day=_amount(agent, "limits.cost_per_day"),
        )

    def _names(self, agent: Agent) -> tuple[str, ...]:
        """The names of its pool: one a line, no comments, each once."""
        file = agent.text("namepool")
        text = Disk(self.city.root).read(file) if file else None
        lines = (text or b"").decode("utf-8", "replace").splitlines()
        names = (line.strip() for line in lines)
        return tuple(dict.fromkeys(name for name in names if name and not name.startswith("#")))


def _furnisher(city: City, environ: Mapping[str, str], machine: Machine) -> "Furnisher":
    """Who only looks at the city does not pay for what it takes to write working directories."""
    from gascity.materialise.furnish import Furnisher

    return Furnisher(city, environ, machine)


def _lost(city: City, before: "Desk") -> list[str]:
    """Agents that are broken now, or gone because the file that says where they live is."""
    homes = {agent.home.directory for agent in city.agents if agent.broken}
    names = {str(agent.name) for agent in city.agents if not agent.broken}
    known = {str(agent.name) for agent in before.city.agents if agent.home.directory in homes}
    kept = {name for name in before.stale if before.home(name) in homes}
    return sorted((known | kept) - names)


def _pool(
    agent: Agent, interactive: bool, named: tuple[Named, ...], names: tuple[str, ...]
) -> Pool:
    most = _number(agent, "max_active_sessions")
    return Pool(
        agent=str(agent.name),
        minimum=_number(agent, "min_active_sessions"),
        maximum=None if most < 0 else most,
        interactive=interactive,
        names=names,
        named=named,
        idle_timeout=seconds(agent.value("idle_timeout")),
        sleep_after_idle=seconds(agent.value("sleep_after_idle")),
        drain_timeout=seconds(agent.value("drain_timeout")) or 0.0,
        run_timeout=seconds(agent.value("limits.timeout")),
        wake_on_mail=agent.value("wake_on_mail") is True,
    )


def _number(agent: Agent, name: str) -> int:
    value = agent.value(name)
    return value if isinstance(value, int) else 0


def _amount(agent: Agent, name: str) -> float | None:
    value = agent.value(name)
    return float(value) if isinstance(value, (int, float)) else None


def _prefix(rig: Rig | None, city: object) -> str:
    return rig.prefix if rig is not None else str(city or "w")


def _depends_on(city: City, agent: Agent) -> Iterator[str]:
    """The agents meant: without a rig, those of the same rig before those of the city."""
    names = agent.value("depends_on")
    for name in names if isinstance(names, tuple) else ():
        wanted = parse_name(str(name))
        near = wanted.in_rig(wanted.rig or agent.name.rig)
        found = find_agent(city, str(near)) or find_agent(city, str(name))
        if found is not None:
            yield str(found.name)


def _named_sessions(city: City) -> dict[str, list[Named]]:
    """Sessions with names of their own, by agent; one of rigs is there once a rig.

    Of several of one name the last counts: the city speaks after the packs that it imports.
    """
    found: dict[str, dict[str, Named]] = {}
    for one in city.named_sessions:
        template = str(one.values["template"])
        wanted = parse_name(template)
        rig = one.values.get("dir")
        agents = [
            agent
            for agent in city.agents
            if agent.name.bare == wanted.bare
            and (wanted.binding is None or agent.name.binding == wanted.binding)
            and (wanted.rig is None or agent.name.rig == wanted.rig)
            and (rig is None or agent.name.rig in (None, rig))
        ]
        for agent in agents:
            alias = str(one.values.get("name") or agent.name.bare)
            if agent.name.rig is not None and len(agents) > 1:
                alias = f"{agent.name.rig}-{alias}"
            always = one.values.get("mode") == "always"
            found.setdefault(str(agent.name), {})[alias] = Named(alias, always)
    return {agent: list(named.values()) for agent, named in found.items()}


def _settings_against(city: City, post: Post) -> Iterator[Blocked]:
    agent, name = post.agent, str(post.agent.name)
    rig = city.rig_of(agent)
    if agent.value("suspended"):
        yield Blocked("suspended", f"`{name}` is suspended")
    elif rig is not None and fold_field(rig.layers, RIG, "suspended_on_start").value:
        yield Blocked("suspended", f"rig `{rig.name}` is suspended (suspended_on_start)")
    if agent.broken:
        first = next(problem for problem in agent.problems if problem.is_error)
        yield Blocked("broken", f"the definition of `{name}` is broken: {first.message}")
    if post.pool.maximum == 0:
        yield Blocked("agent-cap", f"`{name}` may have no sessions: max_active_sessions = 0")
    if agent.value("execution") == "container":
        yield Blocked("no-container", f"`{name}` runs in a container, and no runtime makes one")
    tells = post.provider.text("headless.output") if post.provider is not None else ""
    if (post.cost_per_item is not None or post.cost_per_day is not None) and tells in NO_COST:
        words = f"`{name}` has a limit of cost, and provider `{agent.provider}` tells none"
        yield Blocked("cost-unknown", words)


def _program_missing(post: Post, environ: Mapping[str, str]) -> Iterator[Blocked]:
    agent, provider = post.agent, post.provider
    if provider is None:
        yield Blocked("unknown-provider", f"there is no provider `{agent.provider}`")
        return
    if agent.text("start_command"):
        return
    if not provider.launches:
        words = f"provider `{provider.name}` has no launcher: files are written for it, no more"
        yield Blocked("no-launcher", words)
        return
    program = provider.text("path_check") or provider.text("command")
    if not program:
        yield Blocked("missing-binary", f"provider `{provider.name}` has no command")
    elif not _found(program, environ, post.city.root):
        yield Blocked("missing-binary", f"`{program}` is not on PATH; install it, or set `command`")


_seen: dict[tuple[str, str, str], float] = {}  # programs that were there, and until when we trust
_TRUST = 10.0


def _found(program: str, environ: Mapping[str, str], root: str) -> bool:
    """Like `on_path`, but what was there just now is not looked for each time."""
    from time import monotonic

    key, now = (program, environ.get("PATH", ""), root), monotonic()
    if _seen.get(key, 0.0) < now and on_path(program, environ, root):
        _seen[key] = now + _TRUST
    return _seen.get(key, 0.0) >= now


def on_path(program: str, environ: Mapping[str, str], root: str) -> bool:
    """Can it be run from here?"""
    if "/" in program:
        return os.access(os.path.join(root, os.path.expanduser(program)), os.X_OK)
    for directory in environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory, program)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return True
    return False


class Opened(NamedTuple):
    """A load of the city: the desk, and every path that was looked at."""

    desk: Desk
    looked: tuple[str, ...]


def open_desk(
    root: str, environ: Mapping[str, str], machine: Machine, before: Desk | None = None
) -> Opened:
    """Read the city; CityError if there is nothing that could be run."""
    disk = Disk(root)
    city = open_city(root, environ, disk=disk)
    return Opened(Desk(city, environ, machine, before), tuple(disk.seen))


def errors_of(city: City) -> list[Problem]:
    """What is wrong with the city itself."""
    return [problem for problem in city.problems if problem.is_error]
