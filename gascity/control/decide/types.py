"""An agent's session settings, and predicates about the state of a session.

Commands need these too; what only the reconciler needs is in `actions.py`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gascity.model.names import parse_name
from gascity.model.work import (
    CRASHED,
    DRAINING,
    IDLE,
    LIVE,
    MANUAL,
    POOL,
    QUARANTINED,
    RATE_LIMITED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    Session,
)

BACKING_OFF = (CRASHED, QUARANTINED, RATE_LIMITED)
ASLEEP = "asleep"  # prefix of the reason; only work or mail wakes such a session


class Blocked(NamedTuple):
    """A reason why work is blocked, as `sling` and `status` show it."""

    code: str
    message: str


class Pool(NamedTuple):
    """The settings of one agent that decide about its sessions. None: no limit, or never."""

    agent: str
    minimum: int = 0
    maximum: int | None = 1
    interactive: bool = False  # sessions run in terminals; otherwise one run per item
    names: tuple[str, ...] = ()  # aliases of the slots, from `namepool`
    named: tuple["NamedSlot", ...] = ()
    idle_timeout: float | None = None  # after which an idle session is stopped
    sleep_after_idle: float | None = None  # after which one is stopped that can be resumed
    drain_timeout: float = 300.0
    run_timeout: float | None = None  # time limit of one run
    wake_on_mail: bool = True
    blocked: tuple[Blocked, ...] = ()  # nothing may start: suspended, invalid, not installed
    awaits: tuple[str, ...] = ()  # agents it depends on that have no live session
    needed: int = 0  # number of agents that wait for it to start
    taken: frozenset[str] = frozenset()  # aliases in use by other agents
    typed: bool = True  # text can be typed into a terminal that is running
    time_limits: Mapping[str, float] = {}  # of sessions whose run has another one than the others


class NamedSlot(NamedTuple):
    """A session from a [[named_session]] table. `always`: keep it running without work."""

    alias: str
    always: bool


def is_live(session: Session) -> bool:
    return session.state in LIVE


def caps_of(session: Session) -> list[str]:
    """Return the caps that count a live session: `city`, `agent NAME`, and `rig NAME` in a rig."""
    name = parse_name(session.agent)
    caps = ["city", f"agent {name.without_rig}"]
    return [*caps, f"rig {name.rig}"] if name.rig else caps


def is_new_manual(session: Session) -> bool:
    """Return whether a user created it and it has not started yet."""
    return session.state == STARTING and session.run == 0 and session.origin == MANUAL


def is_ending(session: Session) -> bool:
    return session.state in (DRAINING, STOPPING)


def backoff_end(session: Session, now: float) -> float | None:
    """Return when the current back-off ends; None if there is none."""
    due = session.retry_at
    return due if due is not None and due > now else None


def is_kept(session: Session) -> bool:
    """Return whether a user is attached or has pinned it, so that city must not end it."""
    return session.attached or session.pinned is not None


def is_busy(session: Session, now: float) -> bool:
    """Return whether a stop would interrupt something."""
    if session.work or (session.busy_until or 0.0) > now:
        return True
    return session.run != 0 and not session.interactive


def is_spare(session: Session, now: float) -> bool:
    """Return whether it idles without a process, so that it can give its place to another one."""
    return session.state == IDLE and not (session.run or is_kept(session) or is_busy(session, now))


def made_room(work: str) -> str:
    """Return the reason of a session that was stopped so that another one can start."""
    return f"made room for {work}"


def restart_blocker(session: Session, now: float) -> str:
    """Return why a restart must wait; empty if it need not."""
    if session.attached:
        return "a user is attached"
    if session.pinned is not None:
        return "the session is pinned"
    if session.interactive and is_busy(session, now):
        return (
            f"the session is working on {session.work}" if session.work else "the session is busy"
        )
    return ""


def is_asleep(session: Session) -> bool:
    return session.state == STOPPED and session.reason.startswith(ASLEEP)


def idle_deadlines(pool: Pool, session: Session) -> Iterator[float]:
    """Yield when an idle session reaches its idle limits. Pool sessions end at once instead."""
    if session.state == IDLE and session.origin != POOL and session.idle_since is not None:
        for limit in (pool.idle_timeout, pool.sleep_after_idle):
            if limit is not None:
                yield session.idle_since + limit


def timeout_at(pool: Pool, session: Session) -> float | None:
    """Return when its run exceeds the time limit; a terminal has none."""
    limit = time_limit(pool, session)
    if limit is None or session.interactive or session.started is None:
        return None
    going = session.run != 0 and session.state in (RUNNING, DRAINING)
    return session.started + limit if going else None


def time_limit(pool: Pool, session: Session) -> float | None:
    """Return the time limit of a session's current run."""
    return pool.time_limits.get(session.id, pool.run_timeout)


def deadlines(pool: Pool, session: Session) -> Iterator[float]:
    """Yield every time at which another decision may be due although nothing happened."""
    overrun = timeout_at(pool, session)
    if overrun is not None:
        yield overrun
    if session.retry_at is not None and session.state in (*BACKING_OFF, STOPPED, IDLE):
        yield session.retry_at
    if session.busy_until is not None and is_live(session):
        yield session.busy_until
    if is_kept(session):
        return
    if session.state == DRAINING and session.drain_by is not None:
        yield session.drain_by
    yield from idle_deadlines(pool, session)


def format_span(seconds: float) -> str:
    """Format a duration, short and rounded up: 8s, 12m, 3h, 2d."""
    for size, unit, most in ((1, "s", 120), (60, "m", 120 * 60), (3600, "h", 48 * 3600)):
        if seconds < most:
            return f"{-int(-seconds // size)}{unit}"
    return f"{-int(-seconds // 86400)}d"
