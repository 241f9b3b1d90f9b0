"""Work handed to an agent: kept first, then told what stands in its way."""

from collections.abc import Callable, Mapping
from uuid import uuid4

from gascity.control.desk import Desk, Post
from gascity.control.world import Blocked
from gascity.model.durations import spoken
from gascity.model.names import parse_name, unknown_rig
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.model.scope import may_sling
from gascity.model.work import (
    HUMAN,
    IDLE,
    LAST,
    LIVE,
    MANUAL,
    QUARANTINED,
    RATE_LIMITED,
    STOPPED,
    URGENT,
    USUAL,
    NewWork,
    Session,
    Token,
    Work,
)
from gascity.render.options import permission_mode
from gascity.store.port import Store

_TITLE = 80


class Request(NamedTuple):
    """What somebody slings. `token` and `parent` say from which session, in whose course."""

    agent: str
    text: str
    rig: str | None = None
    priority: int = USUAL
    after: tuple[str, ...] = ()
    session: str = ""  # latest, create, latest-or-create, or a session
    token: Token | None = None
    parent: str = ""
    key: str = ""

    @classmethod
    def of(cls, said: Mapping[str, object]) -> "Request":
        """A request as it comes over the socket."""
        token = said.get("token")
        after = said.get("after")
        rig, priority = said.get("rig"), said.get("priority")
        return cls(
            agent=str(said["agent"]),
            text=str(said["text"]),
            rig=str(rig) if rig else None,
            priority=priority if isinstance(priority, int) else USUAL,
            after=tuple(str(one) for one in after) if isinstance(after, list) else (),
            session=str(said.get("session") or ""),
            token=Token(str(token[0]), int(token[1])) if isinstance(token, list) else None,
            parent=str(said.get("parent") or ""),
            key=str(said.get("key") or ""),
        )


class Slung(NamedTuple):
    """Work that is kept, and what is in its way."""

    work: Work
    position: int
    permission_mode: str
    blocked_by: tuple[Blocked, ...]
    rig: str | None

    def as_object(self) -> dict[str, object]:
        return {
            "work": self.work.id,
            "agent": self.work.agent,
            "rig": self.rig,
            "session": self.work.session or None,
            "status": self.work.status,
            "position": self.position,
            "permission_mode": self.permission_mode or None,
            "blocked_by": [one._asdict() for one in self.blocked_by],
        }


Count = Callable[[str], int]  # live sessions by cap


def sling(
    desk: Desk, store: Store, request: Request, now: float, live: Count | None = None
) -> Slung:
    """Keep work for an agent. CityError if there is no such agent, or it may not be slung to."""
    post = desk.resolve(request.agent, request.rig)
    if post is None:
        raise CityError(_nobody(desk, request))
    if not request.text.strip():
        raise CityError(Problem("empty-work", "there is no text: nothing to do"))
    if not URGENT <= request.priority <= LAST:
        words = f"priority {request.priority} is not one of {URGENT} to {LAST}"
        raise CityError(Problem("bad-value", words))
    depth = _delegated(desk, store, post, request) if request.token else 0
    session = _session(store, post, request, now) if request.session else None
    new = NewWork(
        agent=str(post.agent.name),
        title=_title(request.text),
        body=request.text,
        prefix=post.prefix,
        priority=request.priority,
        session=session.id if session else "",
        depends_on=request.after,
        sender=request.token.session if request.token else HUMAN,
        parent=request.parent,
        depth=depth,
        key=request.key,
    )
    try:
        work = store.put(new, now)
    except ValueError as error:
        hint = "`city work list` shows what there is"
        raise CityError(Problem("bad-dependency", str(error), None, hint)) from error
    return Slung(
        work,
        store.position(work.id, now),
        permission_mode(post.provider, post.agent) if post.provider else "",
        in_the_way(desk, store, post, work, now, live),
        post.rig,
    )


def _nobody(desk: Desk, request: Request) -> Problem:
    rigs = [rig.name for rig in desk.city.rigs]
    if request.rig and request.rig not in rigs:
        return unknown_rig(request.rig, rigs)
    return Problem("unknown-agent", f"there is no agent `{request.agent}`")


def _title(text: str) -> str:
    line = text.strip().partition("\n")[0].lstrip("#").strip()  # a heading, or a comment
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def in_the_way(
    desk: Desk, store: Store, post: Post, work: Work, now: float, live: Count | None = None
) -> tuple[Blocked, ...]:
    """Why an item cannot start right now: what it waits for, what is missing, which cap is full."""
    found = [
        Blocked("dependency", f"it comes after {one.id}, which is {one.status}")
        for one in store.waits_for(work.id)
    ]
    found += desk.obstacles(post)
    found += over_budget(desk, store, post, now)
    found += _held_back(store, post, now)
    noted = store.noted(f"blocked {work.agent}") if live is not None else ""  # else it may be old
    if noted and not found:
        code, _, message = noted.partition(" ")
        found.append(Blocked(code, message))
    return tuple(found) or tuple(_full(desk, store, post, live))


def _held_back(store: Store, post: Post, now: float) -> list[Blocked]:
    """Sessions that wait out a rate limit or a row of crashes hold back the whole agent."""
    words = {RATE_LIMITED: "is rate-limited", QUARANTINED: "has crashed too often"}
    return [
        Blocked(
            RATE_LIMITED if one.state == RATE_LIMITED else "crash-loop",
            f"`{one.agent}` {words[one.state]}; it goes on in {spoken(one.retry_at - now)}",
        )
        for one in store.sessions(agent=str(post.agent.name))
        if one.state in words and one.retry_at is not None and one.retry_at > now
    ][:1]


def over_budget(desk: Desk, store: Store, post: Post, now: float) -> list[Blocked]:
    """Limits of cost that are used up. A day begins at midnight, UTC."""
    return [
        Blocked("cost-limit", f"{whose} may cost ${limit:.2f} a day, and has cost ${spent:.2f}")
        for limit, agents, whose in desk.day_limits(post)
        if (spent := store.spent(now - now % 86400, agents)) >= limit
    ]


def _full(desk: Desk, store: Store, post: Post, live: Count | None) -> list[Blocked]:
    sessions = store.sessions(agent=str(post.agent.name), live=True)
    if any(one.state == IDLE for one in sessions):
        return []
    most = post.pool.maximum
    if most is not None and len(sessions) >= most:
        return [Blocked("agent-cap", f"`{post.agent.name}` has {len(sessions)} of {most} sessions")]
    count = live or _counted(store)
    return [
        Blocked(cap_code(what), f"{called}: all are in use")
        for what, limit, called in desk.caps(post)
        if count(what) >= limit
    ]


def cap_code(what: str) -> str:
    """What a full cap is called: of the city, of a rig, or of an agent over all rigs."""
    kind = what.partition(" ")[0]
    return "total-cap" if kind == "agent" else f"{kind}-cap"


def _counted(store: Store) -> Count:
    """Counts live sessions from the store, where no controller has counted them."""
    from gascity.control.roster import Roster

    roster = Roster()
    for session in store.sessions(live=True):
        roster.put(session)
    return lambda what: roster.live[what]


def _session(store: Store, post: Post, request: Request, now: float) -> Session | None:
    """The session that is to take the item."""
    name = str(post.agent.name)
    if request.session in ("latest", "latest-or-create"):
        found = store.sessions(agent=name)
        latest = max(found, key=lambda one: one.updated, default=None)
        if latest is not None:
            return latest
        if request.session == "latest":
            raise CityError(
                Problem(
                    "unknown-session",
                    f"`{name}` has no session yet",
                    None,
                    "--session latest-or-create makes one",
                )
            )
    if request.session in ("create", "latest-or-create"):
        return store.add_session(_fresh(store, post, now))
    matches = store.find_sessions(request.session)
    if matches and request.session in (matches[0].alias, matches[0].name):
        matches = matches[:1]  # of those that had a name one after the other, the latest
    if len(matches) != 1:
        words = f"there is no session `{request.session}`"
        if matches:
            words = f"`{request.session}` may be {', '.join(one.id[:8] for one in matches)}"
        code = "ambiguous-name" if matches else "unknown-session"
        raise CityError(Problem(code, words, None, "`city session list` shows what there is"))
    if matches[0].agent != name:
        words = f"session `{request.session}` is one of `{matches[0].agent}`, not of `{name}`"
        raise CityError(Problem("other-agent", words))
    return matches[0]


def _fresh(store: Store, post: Post, now: float) -> Session:
    """A conversation of its own, which waits for its first item."""
    bare = parse_name(str(post.agent.name)).bare
    taken = {one.alias for one in store.sessions() if one.state in LIVE}
    slots = {one.slot for one in store.sessions(agent=str(post.agent.name))}
    slot = next(n for n in range(1, len(slots) + 2) if n not in slots)
    names = (f"{bare}-{n}" for n in range(slot, slot + len(taken) + 1))
    return Session(
        id=str(uuid4()),
        agent=str(post.agent.name),
        origin=MANUAL,
        slot=slot,
        alias=next(name for name in names if name not in taken),
        state=STOPPED,
        reason="waits for its first item",
        created=now,
        updated=now,
        runtime=post.runtime,
    )


def _delegated(desk: Desk, store: Store, post: Post, request: Request) -> int:
    """How deep work from inside a session lies; CityError where that is not allowed."""
    session = store.session(request.token.session) if request.token else None
    if session is None or request.token is None or session.generation != request.token.generation:
        words = "this session was replaced, so it may sling no more"
        raise CityError(Problem("stale-session", words))
    mine = desk.post(session.agent)
    if mine is None:
        raise CityError(Problem("unknown-agent", f"there is no agent `{session.agent}` any more"))
    _check_filter(mine, post)
    parent = store.work(request.parent or session.work)
    depth = parent.depth + 1 if parent else 1
    most = mine.agent.value("limits.delegation_depth")
    if isinstance(most, int) and depth > most:
        words = f"`{session.agent}` may not sling on work that was slung to it from a session"
        hint = f"limits.delegation_depth = {most} of `{session.agent}`"
        raise CityError(Problem("delegation-depth", words, None, hint))
    budget = mine.agent.value("limits.delegation_budget")
    slung = store.children(parent.id) if parent else 0
    if isinstance(budget, int) and slung >= budget:
        words = f"{slung} items were slung in the course of {parent.id if parent else 'this'}"
        hint = f"limits.delegation_budget = {budget} of `{session.agent}`"
        raise CityError(Problem("delegation-budget", words, None, hint))
    return depth


def _check_filter(mine: Post, post: Post) -> None:
    """Does the agent's `[agents_filter]` let it sling there?"""
    name = post.agent.name
    allow, deny = mine.agent.value("agents_filter.allow"), mine.agent.value("agents_filter.deny")
    names = tuple(dict.fromkeys((str(name), name.without_rig, name.bare)))
    if not may_sling(names, allow, deny, script=post.script):
        raise CityError(
            Problem(
                "agent-not-allowed",
                f"`{mine.agent.name}` may not sling to `{name}`",
                mine.agent.setting("agents_filter.allow").place,
                'who runs scripts has to be named: `[agents_filter] allow = ["shell"]`'
                if post.script
                else "its `[agents_filter]` says to whom it may",
            )
        )
