"""Decide what to do about one agent's sessions. Pure: no clock, no processes, no files.

`reconcile` is given everything it may use:

- pool: the agent's settings, with the obstacles that prevent any start
- facts: its sessions that are live, back off, have a name or have a request or reserved item
- demand: its queued items, reserved items and unread mail
- room: how many more sessions the caps of rig, city and agent allow
- now: the wall clock

It returns actions, when to reconcile again, and why queued work does not start. It may create,
run, stop, drain, restart and update sessions of this one agent and nothing else; sessions whose
state is unknown, or that are being started or stopped, are left alone.

The order matters, because each step sees the draft that the steps before it left:

1. requests of users and agents (stop, restart, clear, drain, delete)
2. runs over their time limit
3. if the agent is suspended or gone: end everything; a session in use drains
4. too many sessions for a lowered limit: end the surplus; cancel drains that are not needed
5. drained sessions: stop those that finished or are over their drain timeout
6. terminals whose definition changed: restart
7. work and mail: assign to idle sessions, then start new ones (`scale_up.py`)
8. idle sessions: stop those that nothing needs

Drains: a drained session finishes what it does and takes nothing new. It stops when it is idle or
when `drain_timeout` is over, unless a user is attached or has pinned it. If demand comes back
before that, the drain is cancelled.

Level-triggered: the decision follows from the present state, never from the event that led here.
A lost or duplicated event, a crash or a restart of the controller therefore changes nothing but
the time of the next look, and once the actions are carried out, a second call returns none.
The invariants in tests/support/reconcile_rules.py check this for generated inputs.
"""

from collections.abc import Sequence

from gascity.control.decide import scale_up
from gascity.control.decide.draft import Draft
from gascity.control.decide.session_state import (
    ASLEEP,
    BACKING_OFF,
    deadlines,
    format_span,
    idle_deadlines,
    is_busy,
    is_kept,
    is_live,
    is_new_manual,
    restart_blocker,
    timeout_at,
)
from gascity.control.decide.types import (
    Blocked,
    Demand,
    Headroom,
    ObservedSession,
    Pool,
    ReconcileResult,
)
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

ENDING = ("suspended", "gone")  # codes that end existing sessions
_REQUESTS = {
    "stop": "stopped by user",
    "drain": "the session finished and asked to stop",
    "restart": "restart requested",
    "clear": "new conversation requested",
    "delete": "deleted by user",
}


def reconcile(
    pool: Pool, facts: Sequence[ObservedSession], demand: Demand, room: Headroom, now: float
) -> ReconcileResult:
    """Return the actions for one agent; see the module docstring."""
    obstacles = tuple(
        why for why in pool.blocked if why.code != "agent-cap"
    )  # counted below, from the sessions
    pool = pool._replace(blocked=obstacles)
    draft = Draft(pool, facts, demand, room, now)
    ending = next((why for why in pool.blocked if why.code in ENDING), None)
    _handle_requests(draft, ending)
    _end_overruns(draft)
    if ending:
        _end_all(draft, ending)
    if not pool.blocked:
        _end_surplus(draft)
        _cancel_drains(draft)
    _stop_drained(draft)
    if not pool.blocked:
        _restart_changed(draft)
        scale_up.assign_all(draft)
        _stop_unneeded(draft)
        _cancel_drains(draft)
    explained = scale_up.explain(draft)
    due = [at for s in draft.sessions.values() for at in deadlines(pool, s)]
    due += [demand.next_due] if demand.next_due is not None else []
    wake_at = min((at for at in due if at > now), default=None)
    reason = scale_up.summary(draft, explained)
    return ReconcileResult(draft.actions(), wake_at, explained, reason, draft.lacks_headroom)


def _reachable(session: Session) -> bool:
    """Return whether an action may touch it: not if unknown, starting or stopping."""
    if session.state == STARTING:
        return session.run != 0 or is_new_manual(session)
    return session.state not in (UNKNOWN, STOPPING)


def _handle_requests(draft: Draft, ending: Blocked | None) -> None:
    for session in draft.undecided():
        if session.asked not in _REQUESTS or not _reachable(session):
            continue
        anew = session.asked in ("restart", "clear") and not ending
        if anew and not _is_surplus(draft, session):
            if not is_new_manual(session):  # it starts anyway
                _restart(draft, session)
        elif is_live(session):
            draft.stop(session, _stop_reason(session))
        elif session.asked != "delete":  # its record is deleted; nothing to end
            draft.change(session, STOPPED, _stop_reason(session))


def _stop_reason(session: Session) -> str:
    """Return the reason; a stopped named session stays asleep until work or mail needs it."""
    reason = _REQUESTS[session.asked]
    return f"{ASLEEP}: {reason}" if session.origin == NAMED else reason


def _is_surplus(draft: Draft, session: Session) -> bool:
    """Return whether it drains as surplus: a restart request must not bring it back."""
    return session.state == DRAINING and draft.is_pooled(session) and draft.slack() <= 0


def _restart(draft: Draft, session: Session) -> None:
    reason = _REQUESTS[session.asked]
    if draft.pool.blocked:
        _postpone(draft, session, draft.pool.blocked[0].message)
    elif session.run:
        draft.restart(session, reason)
    elif session.asked == "clear":
        draft.change(session, IDLE if is_live(session) else STOPPED, "cleared")
    elif not session.interactive:
        _end_backoff(draft, session, reason)
    elif why := _restart_obstacle(draft, session):
        _postpone(draft, session, why)
    else:
        draft.run(session, "", reason)


def _end_backoff(draft: Draft, session: Session, reason: str) -> None:
    """Restart a session without a run: end its back-off."""
    if is_live(session) or (draft.has_free_slot(session) and not draft.is_pooled(session)):
        draft.change(session, IDLE, reason)
    else:
        draft.change(session, STOPPED, reason)


def _restart_obstacle(draft: Draft, session: Session) -> str:
    """Return why it cannot run now. A user's own session may, whatever the caps say."""
    if is_live(session):
        return ""
    if not draft.may_return(session):
        return "another session uses its name"
    full = draft.is_pooled(session) and draft.total_capacity(returning=session.id) <= 0
    return "session limit reached" if full else ""


def _postpone(draft: Draft, session: Session, why: str) -> None:
    pending = f"restart pending: {why}"
    if session.pending != pending:
        draft.change(session, session.state, session.reason, pending)


def _end_overruns(draft: Draft) -> None:
    for session in draft.undecided():
        due = timeout_at(draft.pool, session)
        if due is not None and due <= draft.now:
            limit = format_span(draft.pool.run_timeout or 0.0)
            draft.stop(session, f"time limit exceeded ({limit})", timeout=True)


def _end_all(draft: Draft, why: Blocked) -> None:
    """End all sessions of a suspended or removed agent; those in use finish first."""
    for session in draft.undecided():
        if session.state in BACKING_OFF and why.code == "gone":
            draft.change(session, STOPPED, why.message)
        elif not is_live(session) or not _reachable(session) or session.state == DRAINING:
            continue
        elif is_new_manual(session) and not is_kept(session):
            draft.stop(session, why.message)
        elif session.state != STARTING:
            _drain_or_stop(draft, session, why.message)


def _drain_or_stop(draft: Draft, session: Session, reason: str) -> None:
    if is_kept(session) or is_busy(session, draft.now):
        draft.drain(session, reason)
    else:
        draft.stop(session, reason)


def _end_surplus(draft: Draft) -> None:
    """End the surplus after a cap was lowered: idle sessions first, those a user holds last."""
    surplus = -draft.slack()
    if surplus <= 0:
        return
    own = [s for s in draft.undecided() if draft.is_pooled(s) and s.state in (IDLE, RUNNING)]
    held = {s.id: bool(restart_blocker(s, draft.now)) for s in own}
    own.sort(key=lambda s: (held[s.id], is_busy(s, draft.now), -s.slot))
    for session in own[:surplus]:
        _drain_or_stop(draft, session, "session limit was lowered")


def _cancel_drains(draft: Draft) -> None:
    """Cancel drains if there is room again and something needs the session."""
    for session in draft.undecided():
        if session.state != DRAINING or draft.slack() <= 0 or not _wanted(draft, session):
            continue
        if session.run and not session.interactive and not session.work:
            continue  # its item is done; only its process has to end
        at_work = is_busy(session, draft.now)
        draft.change(session, RUNNING if at_work else IDLE, "needed again")


def _wanted(draft: Draft, session: Session) -> bool:
    if is_kept(session) or not draft.is_pooled(session):
        return True
    if draft.items or any(id == session.id for id, _ in draft.demand.reserved):
        return True
    return draft.pooled_count() < scale_up.minimum(draft.pool)


def _stop_drained(draft: Draft) -> None:
    for session in draft.undecided():
        if session.state != DRAINING or is_kept(session):
            continue
        if not is_busy(session, draft.now):
            draft.stop(session, session.reason or "drained")
        elif session.drain_by is not None and session.drain_by <= draft.now:
            limit = format_span(draft.pool.drain_timeout)
            draft.stop(session, f"drain timeout exceeded ({limit})")


def _restart_changed(draft: Draft) -> None:
    """Restart terminals whose definition changed, unless in use."""
    for session in draft.undecided():
        facts = draft.facts[session.id]
        drifted = facts.drift == "restart" and session.interactive
        if drifted and session.state in (IDLE, RUNNING):
            what = ", ".join(facts.drifted) or "its definition"
            why = restart_blocker(session, draft.now)
            if why:
                _postpone(draft, session, f"{what} changed, but {why}")
            else:
                draft.restart(session, f"{what} changed")
        elif session.pending and not drifted and not session.asked and _reachable(session):
            draft.change(session, session.state, session.reason)


def _stop_unneeded(draft: Draft) -> None:
    """Stop what nothing needs: pool sessions at once, others after their idle limits."""
    useless = [s for s in draft.undecided() if draft.is_pooled(s) and _is_unneeded(draft, s)]
    unneeded = draft.pooled_count() - scale_up.minimum(draft.pool)
    spare = min(unneeded, len(useless) - len(draft.items))
    useless.sort(key=lambda s: (is_live(s), -s.slot))
    for session in useless[: max(0, spare)]:
        _finish(draft, session, "stopped (idle)")
    _make_room(draft)
    for session in draft.undecided():
        if not draft.is_pooled(session):
            _stop_long_idle(draft, session)


def _make_room(draft: Draft) -> None:
    """Stop idle minimum sessions if another session has an item and no place."""
    idle = [s for s in draft.idle() if draft.is_pooled(s) and _is_unneeded(draft, s)]
    for session in idle[: scale_up.crowded_out(draft)]:
        draft.stop(session, "makes room for a session with work")


def _is_unneeded(draft: Draft, session: Session) -> bool:
    if session.state in BACKING_OFF:
        return session in draft.backoff_over()
    return session.state == IDLE and not is_kept(session) and not is_busy(session, draft.now)


def _finish(draft: Draft, session: Session, reason: str) -> None:
    if is_live(session):
        draft.stop(session, reason)
    else:
        draft.change(session, STOPPED, reason)


def _stop_long_idle(draft: Draft, session: Session) -> None:
    overdue = any(at <= draft.now for at in idle_deadlines(draft.pool, session))
    if session.idle_since is None or not overdue or restart_blocker(session, draft.now):
        return
    idle = draft.now - session.idle_since
    limit = draft.pool.idle_timeout
    if limit is None or idle < limit:
        draft.stop(session, f"{ASLEEP}: idle for {format_span(idle)}")
    elif not _always(draft, session):
        draft.stop(session, f"idle for {format_span(idle)}")
    elif session.interactive:
        draft.restart(session, f"idle for {format_span(idle)}")


def _always(draft: Draft, session: Session) -> bool:
    named = (name for name in draft.pool.named if name.always)
    return session.origin == NAMED and any(name.alias == session.alias for name in named)
