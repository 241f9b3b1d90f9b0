"""Enqueue work for an agent, and say why it is blocked."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity.control.blocked import LiveCount, blocked_now
from gascity.control.callers import Caller
from gascity.control.decide.types import Blocked
from gascity.control.message_context import without_context
from gascity.control.run_config import AgentRunConfig, RunConfig
from gascity.model.city import Agent
from gascity.model.names import did_you_mean, may_sling, parse_name, unknown_rig
from gascity.model.problems import CityError, Place, Problem
from gascity.model.values import JsonObject, as_integer, as_list
from gascity.model.work import (
    FINISHED,
    HIGHEST,
    HUMAN,
    LIVE,
    LOWEST,
    MANUAL,
    NORMAL,
    OPEN,
    STOPPED,
    NewWork,
    Session,
    Work,
    status_word,
)
from gascity.render.flags import permission_mode
from gascity.render.server_access import access_problems, has_access_problems
from gascity.source.disk import Disk
from gascity.store.port import Store

_TITLE = 80
_SIMILAR = 500  # latest work items among which similar ids are searched


class SlingRequest(NamedTuple):
    """A request to enqueue work, of a session or, without `caller`, of a user."""

    agent: str
    text: str
    rig: str | None = None
    directory: str = ""  # of the caller: the agents of the rig around it come first
    priority: int = NORMAL
    after: tuple[str, ...] = ()
    session: str = ""  # latest, create, latest-or-create, or a session's name or id
    caller: Caller | None = None
    key: str = ""
    anyway: bool = False  # also to an agent that is only for other agents
    start_from: str = ""  # a work item or branch
    wait: bool = False  # the sender waits until it is finished
    no_reflection: bool = False
    mail_answer: bool = False  # mail the result to the sender
    title: str = ""  # empty: the start of the text
    place: Place | None = None  # of the line that it was read from

    @classmethod
    def of(cls, data: Mapping[str, object], caller: Caller | None) -> "SlingRequest":
        """Parse a request; who sends it was checked before."""
        rig, priority = data.get("rig"), as_integer(data.get("priority"))
        return cls(
            agent=str(data["agent"]),
            text=str(data["text"]),
            rig=str(rig) if rig else None,
            directory=str(data.get("directory") or ""),
            priority=NORMAL if priority is None else priority,
            after=tuple(map(str, as_list(data.get("after")))),
            session=str(data.get("session") or ""),
            caller=caller,
            key=str(data.get("key") or ""),
            anyway=bool(data.get("anyway")),
            start_from=str(data.get("on") or ""),
            wait=bool(data.get("wait")),
            no_reflection=bool(data.get("no_reflection")),
            mail_answer=bool(data.get("mail_answer")),
        )


class SlingResult(NamedTuple):
    """The enqueued item, its position, and why it is blocked."""

    work: Work
    position: int
    permission_mode: str
    blocked_by: tuple[Blocked, ...]
    rig: str | None
    warnings: tuple[Problem, ...] = ()
    session: Session | None = None  # that the item is reserved for
    created: bool = False  # the session was created for it
    output: str = ""  # format of its run's output; empty in a terminal

    def as_message(self) -> JsonObject:
        """Return the reply to a request of the tool `agents_message`, with the session's name."""
        name = (self.session.name or self.session.alias) if self.session else ""
        more = {"session_name": name, "created": self.created, "output": self.output}
        return {**self.as_object(), **more}

    def as_object(self, more: Sequence[Mapping[str, str]] = ()) -> JsonObject:
        """Return the reply to a request; `more` are further reasons why it is blocked."""
        return {
            "work": self.work.id,
            "agent": self.work.agent,
            "rig": self.rig,
            "session": self.work.session or None,
            "status": self.work.status,
            "position": self.position,
            "permission_mode": self.permission_mode or None,
            "blocked_by": [*(reason._asdict() for reason in self.blocked_by), *more],
            "warnings": [{"code": each.code, "message": each.message} for each in self.warnings],
        }


def sling(
    run_config: RunConfig,
    store: Store,
    request: SlingRequest,
    now: float,
    live: LiveCount | None = None,
    environ: Mapping[str, str] | None = None,
) -> SlingResult:
    """Enqueue work; `environ` is that of its runs, if it is not the controller's.

    CityError if the agent does not exist or the sender may not sling to it.
    """
    config = run_config.resolve(request.agent, request.rig, request.directory)
    if config is None or _hidden_from(request.caller, config):
        raise CityError(_unknown_agent(run_config, request))
    check_mode(config.agent, request.caller, request.anyway)
    if not request.text.strip():
        raise _refuse("empty-work", "the text is empty")
    if not HIGHEST <= request.priority <= LOWEST:
        limits = f"{HIGHEST} (highest) and {LOWEST} (lowest)"
        raise _refuse("bad-value", f"priority {request.priority} is not between {limits}")
    depth = _delegated(run_config, store, config, request, request.caller) if request.caller else 0
    if request.start_from:
        check_start(run_config, store, config, request.start_from, request.after)
    session, created = _session(store, config, request, now) if request.session else (None, False)
    new = NewWork(
        agent=config.name,
        title=request.title or _title(request.text),
        body=request.text,
        prefix=config.prefix,
        priority=request.priority,
        session=session.id if session else "",
        depends_on=request.after,
        sender=request.caller.session if request.caller else HUMAN,
        parent=request.caller.work if request.caller else "",
        depth=depth,
        key=request.key,
        start_from=request.start_from,
        no_reflection=request.no_reflection,
        answer_to=_answer_to(request) if request.mail_answer else "",
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
        blocked_now(run_config, store, config, work, now, live, environ),
        config.agent.name.rig,
        _warnings(config),
        session,
        created,
        _output_format(config),
    )


def _output_format(config: AgentRunConfig) -> str:
    if config.provider is None or config.pool.interactive:
        return ""
    return config.provider.facts.headless.output


def _answer_to(request: SlingRequest) -> str:
    return request.caller.agent if request.caller else HUMAN


def sling_all(
    run_config: RunConfig, store: Store, requests: Sequence[SlingRequest], now: float
) -> list[SlingResult]:
    """Enqueue several items in one transaction; CityError with all problems, and none is queued."""
    results: list[SlingResult] = []
    problems: list[Problem] = []
    with store.transaction():
        for request in requests:
            try:
                results.append(sling(run_config, store, request, now))
            except CityError as error:
                problems += [problem._replace(place=request.place) for problem in error.problems]
        if problems:
            raise CityError(*dict.fromkeys(problems))
    return results


class MoveRequest(NamedTuple):
    """A request to give a queued item to another agent, of a session or of a user."""

    agent: str
    directory: str = ""  # of the caller
    caller: Caller | None = None
    anyway: bool = False


def move(run_config: RunConfig, store: Store, work: Work, request: MoveRequest, now: float) -> Work:
    """Queue an item for another agent; CityError if it runs, or the agent cannot take it.

    If it has commits from an earlier start in the same rig, it continues from them.
    """
    if work.status in FINISHED:
        hint = f"run `city sling {request.agent} TEXT --on {work.id}` to continue its work"
        raise _refuse("already-settled", f"{work.id} is {work.status}", hint)
    if work.status != OPEN:
        hint = f"wait until it ends, or run `city work cancel {work.id}`"
        raise _refuse("still-running", f"{work.id} is {status_word(work.status)}", hint)
    config = run_config.resolve(request.agent, None, request.directory)
    if config is None or _hidden_from(request.caller, config):
        raise _refuse("unknown-agent", f"there is no agent `{request.agent}`")
    check_mode(config.agent, request.caller, request.anyway)
    if config.name == work.agent:
        return work
    same_rig = parse_name(work.agent).rig == config.agent.name.rig
    start = work.branch if same_rig and work.commits else work.start_from
    if start:
        check_start(run_config, store, config, start, work.depends_on)
    sender = request.caller.session if request.caller else HUMAN
    return store.move_work(work.id, config.name, now, start_from=start, actor=sender)


def check_start(
    run_config: RunConfig,
    store: Store,
    config: AgentRunConfig,
    start: str,
    after: tuple[str, ...] = (),
) -> None:
    """Raise CityError if the agent cannot start from this work item or branch.

    The branch of an item that `after` lists is taken when the new item starts.
    """
    from gascity.location import WORKTREE, locate

    city = run_config.city
    location = locate(city, config.agent, Disk(city.root))
    if location.kind != WORKTREE:
        message = f"`{config.name}` does not work in a git worktree and cannot start from `{start}`"
        raise _refuse("no-worktree", message, "choose an agent of a rig that is a git repository")
    source = store.work(start)
    if source is None:
        _check_branch(run_config, store, location.rig, start)
        return
    rig, wanted = parse_name(source.agent).rig, config.agent.name.rig
    if rig != wanted:
        place = f"in rig `{rig}`" if rig else "in no rig"
        message = f"{source.id} is {place}, and `{config.name}` works in rig `{wanted}`"
        raise _refuse("other-rig", message, "choose an agent of the same rig")
    if not source.branch and source.id not in after:
        hint = f"pass --after {source.id} to wait for it"
        if source.status in FINISHED:
            hint = "it did not run in a git worktree"
        raise _refuse("no-branch", f"{source.id} has no branch", hint)


def _check_branch(run_config: RunConfig, store: Store, rig: str, name: str) -> None:
    from gascity.git import GitError, base_of, branch_names

    environ = run_config.environ
    try:
        base_of(rig, name, environ)
    except GitError:
        known = [work.id for work in store.list_work(limit=_SIMILAR)]
        known += branch_names(rig, environ)
        hint = did_you_mean(name, known) or "run `city work list` to see work items and branches"
        message = f"`{name}` is neither a work item nor a branch of {rig}"
        raise _refuse("unknown-branch", message, hint) from None


def _warnings(config: AgentRunConfig) -> tuple[Problem, ...]:
    """Return what the run cannot do: call MCP servers that its agent has."""
    provider, agent = config.provider, config.agent
    if provider is None or agent.broken or not has_access_problems(provider, agent):
        return ()  # without reading any file, for most agents
    servers = config.preparer.servers(agent)
    names = [server.name for server in servers]
    gateways = [server.name for server in servers if server.gateway]
    return tuple(access_problems(provider, agent, names, gateways))


def _refuse(code: str, message: str, hint: str | None = None) -> CityError:
    return CityError(Problem(code, message, None, hint))


def _unknown_agent(run_config: RunConfig, request: SlingRequest) -> Problem:
    rigs = [rig.name for rig in run_config.city.rigs]
    if request.rig and request.rig not in rigs:
        return unknown_rig(request.rig, rigs)
    return Problem("unknown-agent", f"there is no agent `{request.agent}`")


def _title(text: str) -> str:
    text = without_context(text).strip() or text.strip()
    line = text.partition("\n")[0].lstrip("#").strip()  # a heading, or a comment
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def _session(
    store: Store, config: AgentRunConfig, request: SlingRequest, now: float
) -> tuple[Session, bool]:
    """Return the session that the item is reserved for, and whether it was created for it."""
    name = config.name
    if request.session in ("latest", "latest-or-create"):
        sessions = store.sessions(agent=name)
        latest = max(sessions, key=lambda session: session.updated, default=None)
        if latest is not None:
            return latest, False
        if request.session == "latest":
            hint = "pass --session latest-or-create to create one"
            raise _refuse("unknown-session", f"`{name}` has no session yet", hint)
    if request.session in ("create", "latest-or-create"):
        return store.add_session(_fresh(store, config, now)), True
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
    return matches[0], False


def _fresh(store: Store, config: AgentRunConfig, now: float) -> Session:
    """Return a new session that is stopped until its first item."""
    from uuid import uuid4

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


def _delegated(
    run_config: RunConfig,
    store: Store,
    config: AgentRunConfig,
    request: SlingRequest,
    caller: Caller,
) -> int:
    """Return the depth of work that a session slings; CityError if it may not."""
    mine = run_config.agent_of_caller(caller.agent)
    parent = store.work(caller.work) if caller.work else None
    _check_cycle(store, mine, config, parent, request.wait)  # no setting would allow it
    _check_filter(mine, config)
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


def _check_cycle(
    store: Store, mine: AgentRunConfig, config: AgentRunConfig, parent: Work | None, wait: bool
) -> None:
    """Raise CityError if the target is the sender, or works on what this is delegated from.

    Each of the two would wait for the other. With `limits.delegation_self`, an agent with several
    sessions may sling to itself without waiting.
    """
    name, hint = config.name, "sling it to another agent, or do it in this session"
    if name == mine.name:
        several = config.pool.maximum is None or config.pool.maximum > 1
        if mine.agent.settings.limits.delegation_self and several and not wait:
            return
        hint += f"; limits.delegation_self of `{name}` allows it without --wait"
    items: list[Work] = []
    while parent is not None and parent.agent != name:
        items.insert(0, parent)
        parent = store.work(parent.parent) if parent.parent else None
    if parent is None and name != mine.name:
        return
    chain = " → ".join(item.id for item in (*([parent] if parent else ()), *items))
    message = f"`{name}` is already waiting for this" + (f": {chain}" if chain else "")
    raise _refuse("delegation-cycle", message, hint)


def _hidden_from(caller: Caller | None, config: AgentRunConfig) -> bool:
    """Return whether an agent does not exist for a session.

    An agent without a valid definition may be hidden.
    """
    if caller is None or config.name == caller.agent:
        return False
    return config.agent.settings.hidden or config.agent.broken


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
