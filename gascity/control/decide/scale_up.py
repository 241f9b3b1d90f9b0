"""Assign queued work and mail: to idle sessions first, then to new ones within the caps."""

from collections.abc import Iterator

from gascity.control.decide import reasons
from gascity.control.decide.draft import Draft
from gascity.control.decide.session_state import (
    backoff_end,
    is_asleep,
    is_busy,
    is_ending,
    is_live,
    is_new_manual,
)
from gascity.control.decide.types import Blocked, Pool
from gascity.model.work import (
    DRAINING,
    IDLE,
    MANUAL,
    NAMED,
    STOPPED,
    Session,
)


def minimum(pool: Pool) -> int:
    return max(pool.minimum, 1 if pool.needed > 0 else 0)


def assign_all(draft: Draft) -> None:
    """Assign everything that can be, most urgent first, and start what must always run."""
    held = reasons.backing_off(draft.sessions.values(), draft.now)
    if held:
        draft.blocked.append(held)
    else:
        _assign_items(draft)
        _wake_for_mail(draft)
    for session in filter(
        is_new_manual, draft.undecided()
    ):  # a user's own session ignores the caps
        draft.run(session, "", "started by user")
    if not held:
        _keep_always(draft)
        _fill_minimum(draft)


def _assign_items(draft: Draft) -> None:
    _assign_reserved(draft)
    for session in draft.idle():
        if draft.items and not session.attached and not is_busy(session, draft.now):
            _assign(draft, session, draft.items.pop(0))
    if draft.pool.awaits:
        draft.blocked.append(reasons.depends_on_agents(draft.pool.awaits))
    while draft.items and _may_start(draft):
        work = draft.items.pop(0)
        _start_or_resume(draft, work, f"for {work}")


def _assign_reserved(draft: Draft) -> None:
    for id, work in draft.demand.reserved:
        session = draft.sessions.get(id)
        if session is None or id in draft.decided or backoff_end(session, draft.now):
            continue
        ready = session in draft.idle() and not is_busy(session, draft.now)
        back = not is_live(session) and _may_start(draft) and draft.may_return(session)
        if ready or back:
            _assign(draft, session, work)


def crowded_out(draft: Draft) -> int:
    """Count the sessions that cannot run their reserved item because others fill the caps."""
    if draft.blocked or draft.total_capacity() > 0:
        return 0
    found = (draft.sessions.get(id) for id, _ in draft.demand.reserved)
    waiting = [s for s in found if s and not is_live(s) and not backoff_end(s, draft.now)]
    return max(0, len(waiting) - sum(map(is_ending, draft.sessions.values())))


def _assign(draft: Draft, session: Session, work: str) -> None:
    draft.run(session, work, f"takes {work}")


def _may_start(draft: Draft) -> bool:
    """Return whether one more session may start; call it only if there is something to do."""
    if draft.pool.awaits or draft.total_capacity() > 0:
        return not draft.pool.awaits
    draft.lacks_headroom = draft.lacks_headroom or draft.own_capacity() > 0
    return False


def _resumable(draft: Draft) -> Iterator[Session]:
    """Yield stopped sessions that new demand may use again, named ones first."""
    for named in draft.pool.named:
        there = [s for s in draft.undecided() if s.origin == NAMED and s.alias == named.alias]
        stopped = [s for s in there if s.state == STOPPED]
        if stopped and len(stopped) == len(there):
            yield max(stopped, key=lambda s: s.updated)
    yield from (s for s in draft.backoff_over() if s.origin != MANUAL)


def _next_resumable(draft: Draft) -> Session | None:
    ready = (s for s in _resumable(draft) if backoff_end(s, draft.now) is None)
    return next((s for s in ready if draft.may_return(s)), None)


def _start_or_resume(draft: Draft, work: str, reason: str, about: str = "") -> None:
    session = _next_resumable(draft)
    if session:
        draft.run(session, work, reason, about)
    else:
        draft.start(work, reason, about, named=next(draft.missing_names(), ""))


def _wake_for_mail(draft: Draft) -> None:
    if not draft.pool.wake_on_mail:
        return
    ready = [s for s in draft.idle() if not is_busy(s, draft.now) and not s.attached]
    for session in ready:
        if session.id in draft.demand.letters:
            draft.run(session, "", "unread mail", "mail")
    if not draft.demand.mail or draft.active():
        return
    idle = next((s for s in ready if s.id not in draft.decided), None)
    if idle:
        draft.run(idle, "", "unread mail", "mail")
    elif _may_start(draft):
        _start_or_resume(draft, "", "unread mail", "mail")


def _keep_always(draft: Draft) -> None:
    always = {named.alias for named in draft.pool.named if named.always}
    for session in list(_resumable(draft)):
        if session.alias in always and _may_start(draft) and _due(draft, session):
            draft.run(session, "", "always running (mode = always)")
    for alias in list(draft.missing_names()):
        if alias in always and _may_start(draft):
            draft.start("", "always running (mode = always)", named=alias)


def _due(draft: Draft, session: Session) -> bool:
    waits = is_asleep(session) or backoff_end(session, draft.now) is not None
    return not waits and draft.may_return(session)


def _fill_minimum(draft: Draft) -> None:
    """Start sessions up to the minimum, with or without work."""
    wanted = minimum(draft.pool)
    backoff_over = [s for s in draft.backoff_over() if draft.is_pooled(s)]
    for session in backoff_over[: max(0, wanted - draft.pooled_count() + len(backoff_over))]:
        if _may_start(draft) and draft.may_return(session):
            draft.run(session, "", "back-off is over")
    while draft.pooled_count() < wanted and _may_start(draft):
        draft.start("", _why_minimum(draft.pool))


def _why_minimum(pool: Pool) -> str:
    if pool.minimum == 0:
        return "another agent depends on it"
    return f"min_active_sessions = {pool.minimum}"


def explain(draft: Draft) -> tuple[Blocked, ...]:
    """Return why the rest of the work waits; empty if nothing waits."""
    given = {(s.id, s.work) for s in draft.sessions.values()}
    left = [entry for entry in draft.demand.reserved if entry not in given]
    if not (draft.items or left or (draft.demand.mail and not draft.active())):
        return ()
    if draft.pool.blocked:
        return draft.pool.blocked
    return tuple(draft.blocked) or (_cap(draft) if draft.items or crowded_out(draft) else ())


def _cap(draft: Draft) -> tuple[Blocked, ...]:
    most = draft.pool.maximum
    backing = len(draft.backing_off())
    if most is not None and draft.live_count() >= most:
        return (reasons.agent_full(draft.pool.agent, draft.live_count(), most),)
    if most is not None and backing and draft.live_count() + backing >= most:
        first = min(s.retry_at or 0.0 for s in draft.backing_off())
        return (reasons.crashed(draft.pool.agent, first - draft.now),)
    narrowest = draft.room.narrowest() or _used_up_cap(draft)
    return (narrowest,) if narrowest else ()


def _used_up_cap(draft: Draft) -> Blocked | None:
    """Return the cap that this draft used up."""
    return min(draft.room.caps, key=lambda cap: cap[0])[1] if draft.room.caps else None


def summary(draft: Draft, explained: tuple[Blocked, ...]) -> str:
    """Return one line for `city status`."""
    if draft.pool.blocked:
        return draft.pool.blocked[0].message
    states = [s.state for s in draft.sessions.values()]
    counts = [
        (draft.live_count() - states.count(IDLE) - states.count(DRAINING), "running"),
        (states.count(DRAINING), "draining"),
    ]
    parts = [f"{number} {word}" for number, word in counts if number]
    most = draft.pool.maximum
    if draft.items:  # the list is cut at the session limit
        more = most is not None and len(draft.items) > most
        parts.append("more waiting" if more else f"{len(draft.items)} waiting")
    text = ", ".join(parts)
    why = "; ".join(b.message for b in explained or tuple(draft.blocked))
    return ": ".join(part for part in (text, why) if part) or "idle"
