"""How a session stands: who holds it, what it is busy with, when that changes by itself."""

from collections.abc import Iterator

from gascity.control.world import Pool
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
ASLEEP = "asleep"  # how the reason of a session begins that only demand or mail may wake


def live(session: Session) -> bool:
    return session.state in LIVE


def fresh(session: Session) -> bool:
    """A person made it, and nothing has been done about it yet."""
    return session.state == STARTING and session.run == 0 and session.origin == MANUAL


def leaving(session: Session) -> bool:
    return session.state in (DRAINING, STOPPING)


def waits_until(session: Session, now: float) -> float | None:
    """The end of a back-off that is not over; None: there is none."""
    due = session.retry_at
    return due if due is not None and due > now else None


def kept(session: Session) -> bool:
    """A person has it open or has pinned it: nothing of ours ends it."""
    return session.attached or session.pinned is not None


def busy(session: Session, now: float) -> bool:
    """Would a stop cut something short?"""
    if session.work or (session.busy_until or 0.0) > now:
        return True
    return session.run != 0 and not session.interactive


def holder(session: Session, now: float) -> str:
    """Why a restart has to wait, in words; nothing: nobody holds it."""
    if session.attached:
        return "somebody is attached"
    if session.pinned is not None:
        return "it is pinned"
    if session.interactive and busy(session, now):
        return f"it is at work on {session.work}" if session.work else "it is at work"
    return ""


def asleep(session: Session) -> bool:
    return session.state == STOPPED and session.reason.startswith(ASLEEP)


def bounds(pool: Pool, session: Session) -> Iterator[float]:
    """When an idle session that is not the pool's own has been idle for too long."""
    if session.state == IDLE and session.origin != POOL and session.idle_since is not None:
        for limit in (pool.idle_timeout, pool.sleep_after_idle):
            if limit is not None:
                yield session.idle_since + limit


def overruns_at(pool: Pool, session: Session) -> float | None:
    """When its run has gone on for too long; terminals may go on."""
    if pool.run_timeout is None or session.interactive or session.started is None:
        return None
    going = session.run != 0 and session.state in (RUNNING, DRAINING)
    return session.started + pool.run_timeout if going else None


def deadlines(pool: Pool, session: Session) -> Iterator[float]:
    """Every moment at which another decision may be due without anything having happened."""
    overrun = overruns_at(pool, session)
    if overrun is not None:
        yield overrun
    if session.retry_at is not None and session.state in (*BACKING_OFF, STOPPED, IDLE):
        yield session.retry_at
    if session.busy_until is not None and live(session):
        yield session.busy_until
    if kept(session):
        return
    if session.state == DRAINING and session.drain_by is not None:
        yield session.drain_by
    yield from bounds(pool, session)


def span(seconds: float) -> str:
    """A length of time, short and rounded up: 8s, 12m, 3h, 2d."""
    for size, unit, most in ((1, "s", 120), (60, "m", 120 * 60), (3600, "h", 48 * 3600)):
        if seconds < most:
            return f"{-int(-seconds // size)}{unit}"
    return f"{-int(-seconds // 86400)}d"
