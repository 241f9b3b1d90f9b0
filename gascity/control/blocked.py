"""Explains why work is blocked, with one function per question.

- agent_obstacles: can any session of this agent start? (reconciler, sling, status, session new)
- cost_obstacles: is a daily cost limit used up? (reconciler, sling)
- blocked_now: why does this item not start right now? (sling)
- last_reported: what did the controller last report about an agent? (why, sling)
- blocked_as_shown: what does `city why` say about an item or an agent?
- agent_reason: what does `city status` say about an agent?
- LastingBlocks: does this item stay blocked until a user acts? (sling --wait, status --until-idle)
- ControllerAbsence: is the controller gone, or just restarting? (sling --wait, status --until-idle)

`gascity/control/decide/reasons.py` has the codes and messages. The reconciler itself decides about
its own limits (`decide/reconcile.py`), because only it knows the sessions it is about to start; the
scheduler keeps its answer as a note in the store, where `last_reported` finds it.

Cheap to import: `city why` and `city sling --wait` load it without loading a city.
"""

import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from gascity.control.client import controller_state, is_starting, silent_controller
from gascity.control.decide import reasons
from gascity.control.decide.types import Blocked, caps_of
from gascity.model.secrets import filled
from gascity.model.work import CANCELLED, FAILED, IDLE, OPEN, WAITING, Work
from gascity.paths import which
from gascity.store.port import Store

if TYPE_CHECKING:
    from gascity.control.decide.types import Pool
    from gascity.control.run_config import AgentRunConfig, RunConfig

LiveCount = Callable[[str], int]  # number of live sessions by cap

_DAY = 86400.0
_OUTPUT_WITHOUT_COST = ("text", "")  # output formats that report no cost
_TRUST_SECONDS = 10.0  # for which a program that was found is not searched again
_ABSENCE_GRACE = 2.0  # for which a controller may be gone while it is being restarted
# Failed starts that the next try may survive, and errors for lack of a resource.
_TRANSIENT_CODES = ("bug", "start-failed", "start-timeout")
_TRANSIENT_ERRORS = (
    errno.EAGAIN,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.EDQUOT,
)

_found_until: dict[tuple[str, str, str], float] = {}


# Obstacles to any session of an agent


def agent_obstacles(
    run_config: "RunConfig", config: "AgentRunConfig", environ: Mapping[str, str] | None = None
) -> tuple[Blocked, ...]:
    """Return what prevents every session of an agent, apart from session and cost limits.

    `environ` is that of a work item, if it differs from the controller's.
    """
    found = [
        *_settings_obstacles(run_config, config),
        *_program_obstacles(config, run_config.environ if environ is None else environ),
    ]
    return tuple(found[:1] if found and found[0].code == "suspended" else found)


def _settings_obstacles(run_config: "RunConfig", config: "AgentRunConfig") -> Iterator[Blocked]:
    agent, name = config.agent, config.name
    rig = run_config.city.rig_of(agent)
    if agent.settings.suspended:
        yield Blocked("suspended", f"`{name}` is suspended")
    elif rig is not None and rig.settings.suspended_on_start:
        yield Blocked("suspended", f"rig `{rig.name}` is suspended (suspended_on_start)")
    elif run_config.city.workspace.suspended_on_start:
        yield Blocked("suspended", "the city is suspended ([workspace] suspended_on_start)")
    if not agent.accepted:
        yield reasons.not_accepted(name, agent.name.binding or "")
    elif agent.broken:
        first = next(problem for problem in agent.problems if problem.is_error)
        yield Blocked("broken", f"the definition of `{name}` is invalid: {first.message}")
    if config.pool.maximum == 0:
        yield Blocked("agent-cap", f"{name} session limit is 0 (max_active_sessions = 0)")
    if agent.settings.execution == "container":
        message = f'`{name}` has execution = "container", but no runtime supports containers'
        yield Blocked("no-container", message)
    output = config.provider.facts.headless.output if config.provider is not None else ""
    limited = config.limits.cost_per_item is not None or config.limits.cost_per_day is not None
    if limited and output in _OUTPUT_WITHOUT_COST:
        message = f"`{name}` has a cost limit, but provider `{agent.provider}` reports no cost"
        yield Blocked("cost-unknown", message)


def _program_obstacles(config: "AgentRunConfig", environ: Mapping[str, str]) -> Iterator[Blocked]:
    agent, provider = config.agent, config.provider
    if provider is None:
        yield Blocked("unknown-provider", f"there is no provider `{agent.provider}`")
        return
    if agent.settings.start_command:
        return
    if not provider.launches:
        message = f"provider `{provider.name}` cannot be run; city only writes its files"
        yield Blocked("no-launcher", message)
        return
    program = provider.facts.path_check or provider.facts.command
    if not program:
        yield Blocked("missing-binary", f"provider `{provider.name}` has no command")
    elif missing := missing_program(config, environ):
        yield missing


def missing_program(config: "AgentRunConfig", environ: Mapping[str, str]) -> Blocked | None:
    """Return the obstacle of a provider whose program is not on the PATH of an environment."""
    provider = config.provider
    if provider is None or config.agent.settings.start_command or not provider.launches:
        return None
    program = provider.facts.path_check or provider.facts.command
    if not program or _is_installed(program, environ, config.city.root):
        return None
    return Blocked("missing-binary", f"`{program}` is not on PATH; install it, or set `command`")


def missing_variables(config: "AgentRunConfig", environ: Mapping[str, str]) -> list[str]:
    """Return the variables that the agent's own `env` refers to and that are not set."""
    values = config.agent.settings.env.values()
    return [name for value in values for name in filled(value, environ.get)[1]]


def _is_installed(program: str, environ: Mapping[str, str], root: str) -> bool:
    """Search PATH, but trust a hit for a while: the reconciler asks on every round."""
    key, now = (program, environ.get("PATH", ""), root), time.monotonic()
    if _found_until.get(key, 0.0) < now and which(program, environ, root):
        _found_until[key] = now + _TRUST_SECONDS
    return _found_until.get(key, 0.0) >= now


# Limits


def cost_obstacles(
    run_config: "RunConfig", store: Store, config: "AgentRunConfig", now: float
) -> list[Blocked]:
    """Return the daily cost limits that are used up. A day starts at midnight UTC."""
    return [
        reasons.cost_limit(owner, spent, limit)
        for limit, agents, owner in run_config.day_limits(config)
        if (spent := store.total_cost(now - now % _DAY, agents)) >= limit
    ]


# Obstacles to one item right now


def blocked_now(
    run_config: "RunConfig",
    store: Store,
    config: "AgentRunConfig",
    work: Work,
    now: float,
    live_count: LiveCount | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Blocked, ...]:
    """Return why an item cannot start right now; empty if it is next or just waits its turn.

    The controller passes its live counts, and the item's environment. Without a controller they are
    counted from the store, and its last report is ignored because it may be out of date.
    """
    name, environ = config.name, run_config.environ if environ is None else environ
    found = [reasons.depends_on_work(item) for item in store.unfinished_dependencies(work.id)]
    found += agent_obstacles(run_config, config, environ)
    if missing := missing_variables(config, environ):
        found.append(reasons.missing_environment(work.id, f"`{missing[0]}` is not set"))
    found += cost_obstacles(run_config, store, config, now)
    waiting = reasons.backing_off(store.sessions(agent=name), now)
    found += [waiting] if waiting else []
    if not found and live_count is not None:
        found += last_reported(store, name)
    return tuple(found) or tuple(_full_caps(run_config, store, config, live_count))


def _full_caps(
    run_config: "RunConfig",
    store: Store,
    config: "AgentRunConfig",
    live_count: LiveCount | None,
) -> list[Blocked]:
    name, maximum = config.name, config.pool.maximum
    sessions = store.sessions(agent=name, live=True)
    if any(session.state == IDLE for session in sessions):
        return []
    waiting = [session for session in sessions if session.state == WAITING]
    if maximum is not None and len(sessions) >= maximum and waiting:
        return [reasons.waits_for_user(waiting[0])]
    if maximum is not None and len(sessions) >= maximum:
        return [reasons.agent_full(name, len(sessions), maximum)]
    count = live_count or _count_from_store(store)
    return [
        reasons.cap_full(cap, count(cap), limit)
        for cap, limit in run_config.caps(config)
        if count(cap) >= limit
    ]


def _count_from_store(store: Store) -> LiveCount:
    counts = Counter(cap for session in store.sessions(live=True) for cap in caps_of(session))
    return counts.__getitem__


# Reports of the controller


def reason_note(agent: str) -> str:
    """Return the key of the note in which the controller keeps an agent's status line."""
    return f"reason {agent}"


def blocked_note(agent: str, blocked: Blocked | None) -> tuple[str, str]:
    """Return key and value of the note in which the controller keeps why an agent is blocked."""
    return f"blocked {agent}", f"{blocked.code} {blocked.message}" if blocked else ""


def last_reported(store: Store, agent: str) -> list[Blocked]:
    """Return why an agent's work is blocked, as the controller last reported."""
    code, _, message = store.get_note(f"blocked {agent}").partition(" ")
    return [Blocked(code, message)] if message else []


def blocked_as_shown(
    store: Store, root: str, agent: str, work: Work | None = None
) -> tuple[Blocked, ...]:
    """Return what `city why` says about a queued item, or about an agent that has some."""
    found = store.unfinished_dependencies(work.id) if work is not None else []
    if not controller_state(root).running:
        agent_reasons = [] if is_starting(root) else [reasons.no_controller()]
    elif hung := silent_controller(root):
        agent_reasons = [reasons.controller_hung(hung), *last_reported(store, agent)]
    else:
        agent_reasons = last_reported(store, agent)
    return (*map(reasons.depends_on_work, found), *agent_reasons)


def agent_reason(pool: "Pool", queued: int, reported: str, controller_running: bool) -> str:
    """Return the reason that `city status` shows for an agent: obstacles before reports."""
    if pool.blocked:
        return "; ".join(dict.fromkeys(blocked.message for blocked in pool.blocked))
    if not controller_running:
        return reasons.no_controller().message if queued else ""
    return reported


# Blocks that last until a user acts


class LastingBlocks:
    """Finds queued items that stay blocked, however long one waits, until a user acts.

    `start_failures` has, by agent, why its last start failed, and `held`, by item, what it lacks.
    An instance describes one moment.
    """

    def __init__(
        self,
        run_config: "RunConfig",
        store: Store,
        start_failures: Mapping[str, Blocked],
        held: Mapping[str, Blocked] = {},
    ) -> None:
        self.held = held
        self.run_config = run_config
        self.store = store
        self.start_failures = start_failures
        self._agents: dict[str, Blocked | None] = {}
        self._items: dict[str, Blocked | None] = {}

    def of_all(self) -> dict[str, Blocked] | None:
        """Return why each queued item is blocked; None if one of them may still start."""
        found: dict[str, Blocked] = {}
        # The list is newest first; dependencies are older than what depends on them.
        for work in reversed(self.store.list_work(status=(OPEN,))):
            reason = self._of(work)
            if reason is None:
                return None
            found[work.id] = reason
        return found

    def of(self, work: Work) -> Blocked | None:
        """Return why one item stays blocked; None if it may still start."""
        chain, todo = {work.id: work}, [work]
        while todo:
            for item in self.store.unfinished_dependencies(todo.pop().id):
                if item.id not in chain:
                    chain[item.id] = item
                    todo.append(item)
        for item in sorted(chain.values(), key=_number):
            self._of(item)
        return self._items[work.id]

    def _of(self, work: Work) -> Blocked | None:
        """Do the same; the results for all its dependencies must be known already."""
        if work.status == OPEN:
            reason = self._dependency(work) or self._agent(work.agent)
            if reason is None or reason.code == "missing-binary":
                reason = self.held.get(work.id)  # with the item's own variables
            self._items[work.id] = reason
        else:
            self._items[work.id] = None
        return self._items[work.id]

    def _dependency(self, work: Work) -> Blocked | None:
        for item in self.store.unfinished_dependencies(work.id):
            if item.status in (FAILED, CANCELLED):
                return reasons.depends_on_work(item)
            reason = self._items.get(item.id)
            if reason is not None and reason.code == "dependency":
                return reason  # name the first failed item, not the whole chain
            if reason is not None:
                return reasons.depends_on_blocked_work(item, reason)
        return None

    def _agent(self, name: str) -> Blocked | None:
        if name not in self._agents:
            self._agents[name] = None  # ends the recursion if agents depend on each other
            config = self.run_config.agent(name)
            reason = reasons.agent_gone(name) if config is None else self._of_agent(config)
            self._agents[name] = reason
        return self._agents[name]

    def _of_agent(self, config: "AgentRunConfig") -> Blocked | None:
        obstacles = agent_obstacles(self.run_config, config)
        if obstacles:
            return obstacles[0]
        for cap, limit in self.run_config.caps(config):
            if limit == 0:
                return reasons.cap_full(cap, 0, limit)
        sessions = self.store.sessions(agent=config.name, live=True)
        waiting = [session for session in sessions if session.state == WAITING]
        if config.pool.maximum is not None and len(waiting) >= config.pool.maximum:
            return reasons.waits_for_user(waiting[0])
        failure = self.start_failures.get(config.name)
        if failure is not None and not _is_transient(failure):
            return failure
        for name in config.depends_on:
            reason = self._agent(name)
            if reason is not None and not self.store.sessions(agent=name, live=True):
                return reasons.depends_on_blocked_agent(name, reason)
        return None


def _is_transient(failure: Blocked) -> bool:
    """Return whether the next start may succeed although nothing was fixed."""
    if failure.code == "refused":
        return any(failure.message.endswith(os.strerror(number)) for number in _TRANSIENT_ERRORS)
    return failure.code in _TRANSIENT_CODES


def _number(work: Work) -> int:
    """Return the item's number. Numbers increase, and an item depends only on older ones."""
    return int(work.id.rpartition("-")[2])


class ControllerAbsence:
    """Tells a controller that is gone from one that is just being restarted."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._since: float | None = None

    def lasts(self) -> bool:
        """Return True once no controller has been running or starting for a short grace period."""
        if controller_state(self._root).running or is_starting(self._root):
            self._since = None
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return now - self._since >= _ABSENCE_GRACE
