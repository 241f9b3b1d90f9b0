"""Decide what is to be done about one agent's sessions. No clock, no processes, no files."""

from collections.abc import Sequence

from gascity.control import openings
from gascity.control.sheet import Sheet
from gascity.control.standing import (
    ASLEEP,
    BACKING_OFF,
    bounds,
    busy,
    deadlines,
    fresh,
    holder,
    kept,
    live,
    overruns_at,
    span,
)
from gascity.control.world import Blocked, Demand, Facts, Pool, Room, Verdict
from gascity.model.work import (
    DRAINING,
    IDLE,
    NAMED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    Session,
)

ENDING = ("suspended", "gone")  # codes that end the sessions that are there
_REQUESTS = {
    "stop": "somebody asked it to stop",
    "drain": "it said that it was done",
    "restart": "somebody asked for a restart",
    "clear": "somebody asked for a new conversation",
    "delete": "somebody deleted it",
}


def reconcile(
    pool: Pool, facts: Sequence[Facts], demand: Demand, room: Room, now: float
) -> Verdict:
    """What to do about all sessions of an agent that are live, back off or may be resumed.

    Room counts the sessions that there are, those on their way out too. What is done about a
    session answers what was asked of it. Done as said, a second look asks for nothing.
    """
    obstacles = tuple(why for why in pool.blocked if why.code != "agent-cap")  # counted here
    pool = pool._replace(blocked=obstacles)
    sheet = Sheet(pool, facts, demand, room, now)
    ending = next((why for why in pool.blocked if why.code in ENDING), None)
    _answer(sheet, ending)
    _end_overruns(sheet)
    if ending:
        _close(sheet, ending)
    if not pool.blocked:
        _shed(sheet)
        _keep_drained(sheet)
    _end_drained(sheet)
    if not pool.blocked:
        _follow_definition(sheet)
        openings.open_up(sheet)
        _end_idle(sheet)
        _keep_drained(sheet)
    explained = openings.explain(sheet)
    due = [at for s in sheet.sessions.values() for at in deadlines(pool, s)]
    due += [demand.next_due] if demand.next_due is not None else []
    wake_at = min((at for at in due if at > now), default=None)
    reason = openings.summary(sheet, explained)
    return Verdict(sheet.actions(), wake_at, explained, reason, sheet.cramped)


def _reachable(session: Session) -> bool:
    """Unknown ones are never touched, and what is being made or ended is let be."""
    if session.state == STARTING:
        return session.run != 0 or fresh(session)
    return session.state not in (UNKNOWN, STOPPING)


def _answer(sheet: Sheet, ending: Blocked | None) -> None:
    for session in sheet.undecided():
        if session.asked not in _REQUESTS or not _reachable(session):
            continue
        anew = session.asked in ("restart", "clear") and not ending
        if anew and not _on_its_way_out(sheet, session):
            if not fresh(session):  # which starts anyway
                _begin_anew(sheet, session)
        elif live(session):
            sheet.stop(session, _stopped(session))
        elif session.asked != "delete":  # one that has nothing to end is simply taken away
            sheet.change(session, STOPPED, _stopped(session))


def _stopped(session: Session) -> str:
    """A named session that was stopped does not come back before somebody needs it."""
    reason = _REQUESTS[session.asked]
    return f"{ASLEEP}: {reason}" if session.origin == NAMED else reason


def _on_its_way_out(sheet: Sheet, session: Session) -> bool:
    """One that drains because there are too many of them does not come back for the asking."""
    return session.state == DRAINING and sheet.is_pooled(session) and sheet.slack() <= 0


def _begin_anew(sheet: Sheet, session: Session) -> None:
    reason = _REQUESTS[session.asked]
    if sheet.pool.blocked:
        _postpone(sheet, session, sheet.pool.blocked[0].message)
    elif session.run:
        sheet.restart(session, reason)
    elif session.asked == "clear":
        sheet.change(session, IDLE if live(session) else STOPPED, "cleared")
    elif not session.interactive:
        _try_again(sheet, session, reason)
    elif why := _no_place(sheet, session):
        _postpone(sheet, session, why)
    else:
        sheet.turn(session, "", reason)


def _try_again(sheet: Sheet, session: Session, reason: str) -> None:
    """Nothing of it runs: what a restart does is to end its back-off."""
    if live(session) or (sheet.fits(session) and not sheet.is_pooled(session)):
        sheet.change(session, IDLE, reason)
    else:
        sheet.change(session, STOPPED, reason)


def _no_place(sheet: Sheet, session: Session) -> str:
    """Why it cannot come back. What is a person's own does so whatever the caps say."""
    if live(session):
        return ""
    if not sheet.may_return(session):
        return "another session has its name"
    full = sheet.is_pooled(session) and sheet.capacity(returning=session.id) <= 0
    return "its caps allow no more sessions now" if full else ""


def _postpone(sheet: Sheet, session: Session, why: str) -> None:
    pending = f"restart pending: {why}"
    if session.pending != pending:
        sheet.change(session, session.state, session.reason, pending)


def _end_overruns(sheet: Sheet) -> None:
    for session in sheet.undecided():
        due = overruns_at(sheet.pool, session)
        if due is not None and due <= sheet.now:
            limit = span(sheet.pool.run_timeout or 0.0)
            sheet.stop(session, f"its run took longer than {limit}", timeout=True)


def _close(sheet: Sheet, why: Blocked) -> None:
    """The agent is suspended or gone: nothing new, and what is there may come to its end."""
    for session in sheet.undecided():
        if session.state in BACKING_OFF and why.code == "gone":
            sheet.change(session, STOPPED, why.message)
        elif not live(session) or not _reachable(session) or session.state == DRAINING:
            continue
        elif fresh(session) and not kept(session):
            sheet.stop(session, why.message)
        elif session.state != STARTING:
            _let_go(sheet, session, why.message)


def _let_go(sheet: Sheet, session: Session, reason: str) -> None:
    if kept(session) or busy(session, sheet.now):
        sheet.drain(session, reason)
    else:
        sheet.stop(session, reason)


def _shed(sheet: Sheet) -> None:
    """Too many for a cap that was lowered: the idle go first, and what a person holds last."""
    surplus = -sheet.slack()
    if surplus <= 0:
        return
    own = [s for s in sheet.undecided() if sheet.is_pooled(s) and s.state in (IDLE, RUNNING)]
    held = {s.id: bool(holder(s, sheet.now)) for s in own}
    own.sort(key=lambda s: (held[s.id], busy(s, sheet.now), -s.slot))
    for session in own[:surplus]:
        _let_go(sheet, session, "there are more sessions than its caps allow")


def _keep_drained(sheet: Sheet) -> None:
    """Let drains be where there is room again, and somebody who wants the session."""
    for session in sheet.undecided():
        if session.state != DRAINING or sheet.slack() <= 0 or not _wanted(sheet, session):
            continue
        if session.run and not session.interactive and not session.work:
            continue  # it has said that it is done: it is only waited for to end
        at_work = busy(session, sheet.now)
        sheet.change(session, RUNNING if at_work else IDLE, "it is wanted again")


def _wanted(sheet: Sheet, session: Session) -> bool:
    if kept(session) or not sheet.is_pooled(session):
        return True
    if sheet.items or any(id == session.id for id, _ in sheet.demand.reserved):
        return True
    return sheet.pooled() < openings.minimum(sheet.pool)


def _end_drained(sheet: Sheet) -> None:
    for session in sheet.undecided():
        if session.state != DRAINING or kept(session):
            continue
        if not busy(session, sheet.now):
            sheet.stop(session, session.reason or "it has come to its end")
        elif session.drain_by is not None and session.drain_by <= sheet.now:
            limit = span(sheet.pool.drain_timeout)
            sheet.stop(session, f"it did not come to an end within {limit}")


def _follow_definition(sheet: Sheet) -> None:
    """Terminals start again with what was changed, unless somebody holds them."""
    for session in sheet.undecided():
        facts = sheet.facts[session.id]
        drifted = facts.drift == "restart" and session.interactive
        if drifted and session.state in (IDLE, RUNNING):
            what = ", ".join(facts.drifted) or "its definition"
            why = holder(session, sheet.now)
            if why:
                _postpone(sheet, session, f"{what} changed, but {why}")
            else:
                sheet.restart(session, f"{what} changed")
        elif session.pending and not drifted and not session.asked and _reachable(session):
            sheet.change(session, session.state, session.reason)


def _end_idle(sheet: Sheet) -> None:
    """End what nothing is left for: the pool's own at once, others after a time of their own."""
    useless = [s for s in sheet.undecided() if sheet.is_pooled(s) and _useless(sheet, s)]
    unneeded = sheet.pooled() - openings.minimum(sheet.pool)
    spare = min(unneeded, len(useless) - len(sheet.items))
    useless.sort(key=lambda s: (live(s), -s.slot))
    for session in useless[: max(0, spare)]:
        _finish(sheet, session, "nothing left to do")
    _make_way(sheet)
    for session in sheet.undecided():
        if not sheet.is_pooled(session):
            _tire(sheet, session)


def _make_way(sheet: Sheet) -> None:
    """One that is only there to be there goes for one that has an item to come back to."""
    idle = [s for s in sheet.idle() if sheet.is_pooled(s) and _useless(sheet, s)]
    for session in idle[: openings.crowded_out(sheet)]:
        sheet.stop(session, "another session has work and needs the place")


def _useless(sheet: Sheet, session: Session) -> bool:
    if session.state in BACKING_OFF:
        return session in sheet.rested()
    return session.state == IDLE and not kept(session) and not busy(session, sheet.now)


def _finish(sheet: Sheet, session: Session, reason: str) -> None:
    if live(session):
        sheet.stop(session, reason)
    else:
        sheet.change(session, STOPPED, reason)


def _tire(sheet: Sheet, session: Session) -> None:
    overdue = any(at <= sheet.now for at in bounds(sheet.pool, session))
    if session.idle_since is None or not overdue or holder(session, sheet.now):
        return
    idle = sheet.now - session.idle_since
    limit = sheet.pool.idle_timeout
    if limit is None or idle < limit:
        sheet.stop(session, f"{ASLEEP}: idle for {span(idle)}")
    elif not _always(sheet, session):
        sheet.stop(session, f"idle for {span(idle)}")
    elif session.interactive:
        sheet.restart(session, f"idle for {span(idle)}")


def _always(sheet: Sheet, session: Session) -> bool:
    named = (name for name in sheet.pool.named if name.always)
    return session.origin == NAMED and any(name.alias == session.alias for name in named)
