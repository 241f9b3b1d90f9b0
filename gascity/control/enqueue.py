"""Enqueue work for an agent, and say why it is blocked."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import uuid4

from gascity.control.blocked import LiveCount, blocked_now
from gascity.control.callers import Caller
from gascity.control.decide.types import Blocked
from gascity.control.run_config import AgentRunConfig, RunConfig
from gascity.model.city import Agent
from gascity.model.names import may_sling, unknown_rig
from gascity.model.problems import CityError, Problem
from gascity.model.work import (
    HIGHEST,
    HUMAN,
    LIVE,
    LOWEST,
    MANUAL,
    NORMAL,
    STOPPED,
    NewWork,
    Session,
    Work,
)
from gascity.render.flags import permission_mode
from gascity.render.server_access import access_problems, has_access_problems
from gascity.store.port import Store

_TITLE = 80


class SlingRequest(NamedTuple):
    """A request to enqueue work, of a session or, without `caller`, of a user."""

    agent: str
    text: str
    rig: str | None = None
    priority: int = NORMAL
    after: tuple[str, ...] = ()
    session: str = ""  # latest, create, latest-or-create, or a session's name or id
    caller: Caller | None = None
    key: str = ""
    anyway: bool = False  # also to an agent that is only for other agents

    @classmethod
    def of(cls, data: Mapping[str, object], caller: Caller | None) -> "SlingRequest":
        """Parse a request; who sends it was checked before."""
        after = data.get("after")
        rig, priority = data.get("rig"), data.get("priority")
        return cls(
            agent=str(data["agent"]),
            text=str(data["text"]),
            rig=str(rig) if rig else None,
            priority=priority if isinstance(priority, int) else NORMAL,
            after=tuple(str(item) for item in after) if isinstance(after, list) else (),
            session=str(data.get("session") or ""),
            caller=caller,
            key=str(data.get("key") or ""),
            anyway=bool(data.get("anyway")),
        )


class SlingResult(NamedTuple):
    """The enqueued item, its position, and why it is blocked."""

    work: Work
    position: int
    permission_mode: str
    blocked_by: tuple[Blocked, ...]
    rig: str | None
    warnings: tuple[Problem, ...] = ()

    def as_object(self) -> dict[str, object]:
        return {
            "work": self.work.id,
            "agent": self.work.agent,
            "rig": self.rig,
            "session": self.work.session or None,
            "status": self.work.status,
            "position": self.position,
            "permission_mode": self.permission_mode or None,
            "blocked_by": [reason._asdict() for reason in self.blocked_by],
            "warnings": [{"code": each.code, "message": each.message} for each in self.warnings],
        }


def sling(
    run_config: RunConfig,
    store: Store,
    request: SlingRequest,
    now: float,
    live: LiveCount | None = None,
) -> SlingResult:
    """Enqueue work. CityError if the agent does not exist or the sender may not sling to it."""
    config = run_config.resolve(request.agent, request.rig)
    if config is None or _hidden_from(request.caller, config):
        raise CityError(_unknown_agent(run_config, request))
    check_mode(config.agent, request.caller, request.anyway)
    if not request.text.strip():
        raise _refuse("empty-work", "the text is empty")
    if not HIGHEST <= request.priority <= LOWEST:
        limits = f"{HIGHEST} (highest) and {LOWEST} (lowest)"
        raise _refuse("bad-value", f"priority {request.priority} is not between {limits}")
    depth = _delegated(run_config, store, config, request.caller) if request.caller else 0
    session = _session(store, config, request, now) if request.session else None
    new = NewWork(
        agent=config.name,
        title=_title(request.text),
        body=request.text,
        prefix=config.prefix,
        priority=request.priority,
        session=session.id if session else "",
        depends_on=request.after,
        sender=request.caller.session if request.caller else HUMAN,
        parent=request.caller.work if request.caller else "",
        depth=depth,
        key=request.key,
    )
    try:
        work = store.add_work(new, now)
    except ValueError as error:
        hint = "run `city work list` to see the work items"
        raise _refuse("bad-dependency", str(error), hint) from error
    return SlingResult(
        work,
        store.position(work.id, now),
        permission_mode(config.provider, config.agent) if config.provider else "",
        blocked_now(run_config, store, config, work, now, live),
        config.agent.name.rig,
        _warnings(config),
    )


def _warnings(config: AgentRunConfig) -> tuple[Problem, ...]:
    """Return what the run cannot do: call MCP servers that its agent has."""
    provider, agent = config.provider, config.agent
    if provider is None or agent.broken or not has_access_problems(provider, agent):
        return ()  # without reading any file, for most agents
    servers = sorted(config.preparer.server_names(agent))
    return tuple(access_problems(provider, agent, servers))


def _refuse(code: str, message: str, hint: str | None = None) -> CityError:
    return CityError(Problem(code, message, None, hint))


def _unknown_agent(run_config: RunConfig, request: SlingRequest) -> Problem:
    rigs = [rig.name for rig in run_config.city.rigs]
    if request.rig and request.rig not in rigs:
        return unknown_rig(request.rig, rigs)
    return Problem("unknown-agent", f"there is no agent `{request.agent}`")


def _title(text: str) -> str:
    line = text.strip().partition("\n")[0].lstrip("#").strip()  # a heading, or a comment
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def _session(
    store: Store, config: AgentRunConfig, request: SlingRequest, now: float
) -> Session | None:
    """Return the session that the item is reserved for."""
    name = config.name
    if request.session in ("latest", "latest-or-create"):
        sessions = store.sessions(agent=name)
        latest = max(sessions, key=lambda session: session.updated, default=None)
        if latest is not None:
            return latest
        if request.session == "latest":
            hint = "pass --session latest-or-create to create one"
            raise _refuse("unknown-session", f"`{name}` has no session yet", hint)
    if request.session in ("create", "latest-or-create"):
        return store.add_session(_fresh(store, config, now))
    matches = store.find_sessions(request.session)
    if matches and request.session in (matches[0].alias, matches[0].name):
        matches = matches[:1]  # the latest of several that used this name
    if len(matches) != 1:
        words = f"there is no session `{request.session}`"
        if matches:
            ids = ", ".join(session.id[:8] for session in matches)
            words = f"`{request.session}` matches several sessions: {ids}"
        code = "ambiguous-name" if matches else "unknown-session"
        raise _refuse(code, words, "run `city session list` to see the sessions")
    if matches[0].agent != name:
        words = f"session `{request.session}` belongs to `{matches[0].agent}`, not to `{name}`"
        raise _refuse("other-agent", words)
    return matches[0]


def _fresh(store: Store, config: AgentRunConfig, now: float) -> Session:
    """Return a new session that is stopped until its first item."""
    bare = config.agent.name.bare
    taken = {session.alias for session in store.sessions() if session.state in LIVE}
    slots = {session.slot for session in store.sessions(agent=config.name)}
    slot = next(n for n in range(1, len(slots) + 2) if n not in slots)
    names = (f"{bare}-{n}" for n in range(slot, slot + len(taken) + 1))
    return Session(
        id=str(uuid4()),
        agent=config.name,
        origin=MANUAL,
        slot=slot,
        alias=next(name for name in names if name not in taken),
        state=STOPPED,
        reason="waiting for its first item",
        created=now,
        updated=now,
        runtime=config.runtime,
    )


def _delegated(run_config: RunConfig, store: Store, config: AgentRunConfig, caller: Caller) -> int:
    """Return the depth of work that a session slings; CityError if it may not."""
    mine = run_config.agent(caller.agent)
    if mine is None:
        raise _refuse("unknown-agent", f"agent `{caller.agent}` no longer exists")
    _check_filter(mine, config)
    parent = store.work(caller.work) if caller.work else None
    depth = parent.depth + 1 if parent else 1
    most = mine.agent.settings.limits.delegation_depth
    if depth > most:
        words = f"`{caller.agent}` may not delegate further (depth limit {most})"
        hint = f"raise limits.delegation_depth of `{caller.agent}`"
        raise _refuse("delegation-depth", words, hint)
    budget = mine.agent.settings.limits.delegation_budget
    slung = store.child_count(parent.id) if parent else 0
    if slung >= budget:
        origin = parent.id if parent else "this session"
        words = f"{slung} items were already delegated from {origin}"
        hint = f"raise limits.delegation_budget of `{caller.agent}` ({budget})"
        raise _refuse("delegation-budget", words, hint)
    return depth


def _hidden_from(caller: Caller | None, config: AgentRunConfig) -> bool:
    return caller is not None and config.agent.settings.hidden and config.name != caller.agent


def check_mode(agent: Agent, caller: Caller | None, anyway: bool) -> None:
    """Raise CityError if the agent's `mode` excludes the caller: users, or other agents."""
    mode, name = agent.settings.mode, agent.name
    if caller is None and mode == "subagent" and not anyway:
        hint = f"run `city agent set {name} mode=all`, or pass --anyway"
        raise _refuse("not-for-people", f"`{name}` is only for other agents", hint)
    if caller is not None and mode == "primary":
        hint = f"to allow it: `city agent set {name} mode=all`"
        raise _refuse("not-for-agents", f"`{name}` is only for users", hint)


def _check_filter(mine: AgentRunConfig, config: AgentRunConfig) -> None:
    """Raise CityError if the agent's `[agents_filter]` forbids the target."""
    name = config.agent.name
    names = tuple(dict.fromkeys((str(name), name.without_rig, name.bare)))
    if not may_sling(names, mine.agent.settings.agents_filter, script=config.script):
        hint = f"to allow it, change `[agents_filter]` of `{mine.name}`"
        if config.script:
            hint = 'list agents that run scripts by name: `[agents_filter] allow = ["shell"]`'
        place = mine.agent.setting("agents_filter.allow").place
        message = f"`{mine.name}` may not sling to `{name}`"
        raise CityError(Problem("agent-not-allowed", message, place, hint))
