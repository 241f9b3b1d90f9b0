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
7. work and mail: assign to idle sessions, then start new ones
8. idle sessions: stop those that nothing needs

Drains: a drained session finishes what it does and takes nothing new. It stops when it is idle or
when `drain_timeout` is over, unless a user is attached or has pinned it. If demand comes back
before that, the drain is cancelled.

Level-triggered: the decision follows from the present state, never from the event that led here.
A lost or duplicated event, a crash or a restart of the controller therefore changes nothing but
the time of the next look, and once the actions are carried out, a second call returns none.
The invariants in tests/support/reconcile_rules.py check this for generated inputs.
"""

from collections.abc import Iterator, Sequence

from gascity.control.decide import reasons
from gascity.control.decide.actions import Demand, Headroom, ObservedSession, ReconcileResult
from gascity.control.decide.draft import Draft
from gascity.control.decide.types import (
    ASLEEP,
    BACKING_OFF,
    Blocked,
    Pool,
    backoff_end,
    deadlines,
    format_span,
    idle_deadlines,
    is_asleep,
    is_busy,
    is_ending,
    is_kept,
    is_live,
    is_new_manual,
    is_spare,
    made_room,
    restart_blocker,
    time_limit,
    timeout_at,
)
from gascity.model.work import (
    DRAINING,
    IDLE,
    MANUAL,
    NAMED,
    RUNNING,
    SELF_RESTART,
    STARTING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    WAITING,
    Session,
)

ENDING = ("suspended", "gone")  # codes that end existing sessions
_REQUESTS = {
    "stop": "stopped by user",
    "drain": "the session finished and asked to stop",
    "restart": "restart requested",
    SELF_RESTART: "the session asked for a restart",
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
        _assign_all(draft)
        _stop_unneeded(draft)
        _cancel_drains(draft)
    explained = _explain(draft)
    due = [at for s in draft.sessions.values() for at in deadlines(pool, s)]
    due += [demand.next_due] if demand.next_due is not None else []
    wake_at = min((at for at in due if at > now), default=None)
    reason = _summary(draft, explained)
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
        if session.asked == "drain" and session.work and session.run and not session.interactive:
            # Its run decides what becomes of the item, so it is left to end by itself.
            if session.state != DRAINING:
                draft.drain(session, _REQUESTS["drain"])
            continue
        anew = session.asked in ("restart", SELF_RESTART, "clear") and not ending
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
            limit = format_span(time_limit(draft.pool, session) or 0.0)
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
    own = [
        s for s in draft.undecided() if draft.is_pooled(s) and s.state in (IDLE, RUNNING, WAITING)
    ]
    held = {s.id: bool(restart_blocker(s, draft.now)) for s in own}
    own.sort(key=lambda s: (held[s.id], is_busy(s, draft.now), -s.slot))
    for session in own[:surplus]:
        _drain_or_stop(draft, session, "session limit was lowered")


def _cancel_drains(draft: Draft) -> None:
    """Cancel drains if there is room again and something needs the session."""
    for session in draft.undecided():
        if session.state != DRAINING or draft.slack() <= 0 or not _wanted(draft, session):
            continue
        if session.asked == "drain":
            continue
        if session.run and not session.interactive and not session.work:
            continue  # its item is done; only its process has to end
        at_work = is_busy(session, draft.now)
        draft.change(session, RUNNING if at_work else IDLE, "needed again")


def _wanted(draft: Draft, session: Session) -> bool:
    if is_kept(session) or not draft.is_pooled(session):
        return True
    if session.work and session.run:  # such as after its agent's directory came back
        return True
    if draft.items or any(id == session.id for id, _ in draft.demand.reserved):
        return True
    return draft.pooled_count() < _minimum(draft.pool)


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
        if drifted and session.state in (IDLE, RUNNING, WAITING):
            what = ", ".join(facts.drifted) or "its definition"
            why = restart_blocker(session, draft.now)
            if why:
                _postpone(draft, session, f"{what} changed, but {why}")
            else:
                draft.restart(session, f"{what} changed")
        elif session.pending and not drifted and not session.asked and _reachable(session):
            draft.change(session, session.state, session.reason)


# Assigning queued work and mail: to idle sessions first, then to new ones within the caps


def _minimum(pool: Pool) -> int:
    return max(pool.minimum, 1 if pool.needed > 0 else 0)


def _assign_all(draft: Draft) -> None:
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
    for session in draft.takers():
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
        ready = session in draft.takers() and not is_busy(session, draft.now)
        back = not is_live(session) and _may_start(draft) and draft.may_return(session)
        if ready or back:
            _assign(draft, session, work)


def _crowded_out(draft: Draft) -> list[str]:
    """Return reserved items whose sessions cannot run because others fill the caps."""
    if draft.blocked or draft.total_capacity() > 0:
        return []
    found = [(draft.sessions.get(id), work) for id, work in draft.demand.reserved]
    waiting = [w for s, w in found if s and not is_live(s) and not backoff_end(s, draft.now)]
    return waiting[sum(map(is_ending, draft.sessions.values())) :]


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
    ready = [s for s in draft.takers() if not is_busy(s, draft.now) and not s.attached]
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
    wanted = _minimum(draft.pool)
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


# Idle sessions


def _stop_unneeded(draft: Draft) -> None:
    """Stop what nothing needs: pool sessions at once, others after their idle limits."""
    useless = [s for s in draft.undecided() if draft.is_pooled(s) and _is_unneeded(draft, s)]
    unneeded = draft.pooled_count() - _minimum(draft.pool)
    takers = len(useless) if draft.pool.typed else 0  # the others are in the way of queued items
    spare = min(unneeded, len(useless) - min(takers, len(draft.items)))
    useless.sort(key=lambda s: (is_live(s), -s.slot))
    for session in useless[: max(0, spare)]:
        _finish(draft, session, "stopped (idle)")
    _make_room(draft)
    for session in draft.undecided():
        if not draft.is_pooled(session):
            _stop_long_idle(draft, session)


def _make_room(draft: Draft) -> None:
    """Stop idle sessions if others have an item and no place: of the pool, then longest idle.

    A session that a user created gives way only without a process; its conversation stays.
    """
    idle = [s for s in draft.idle() if _gives_way(draft, s)]
    idle.sort(key=lambda s: (not draft.is_pooled(s), s.idle_since or 0.0))
    for session, work in zip(idle, _crowded_out(draft), strict=False):
        draft.stop(session, made_room(work))


def _gives_way(draft: Draft, session: Session) -> bool:
    if draft.is_pooled(session):
        return _is_unneeded(draft, session)
    return is_spare(session, draft.now) and not _always(draft, session)


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


# Explaining


def _explain(draft: Draft) -> tuple[Blocked, ...]:
    """Return why the rest of the work waits; empty if nothing waits."""
    given = {(s.id, s.work) for s in draft.sessions.values()}
    left = [entry for entry in draft.demand.reserved if entry not in given]
    if not (draft.items or left or (draft.demand.mail and not draft.active())):
        return ()
    if draft.pool.blocked:
        return draft.pool.blocked
    return tuple(draft.blocked) or (_cap(draft) if draft.items or _crowded_out(draft) else ())


def _cap(draft: Draft) -> tuple[Blocked, ...]:
    most = draft.pool.maximum
    backing = len(draft.backing_off())
    waiting = next((s for s in draft.sessions.values() if s.state == WAITING), None)
    if most is not None and draft.live_count() >= most and waiting:
        return (reasons.waits_for_user(waiting),)
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


def _summary(draft: Draft, explained: tuple[Blocked, ...]) -> str:
    """Return one line for `city status`."""
    if draft.pool.blocked:
        return draft.pool.blocked[0].message
    states = [s.state for s in draft.sessions.values()]
    not_running = sum(states.count(state) for state in (IDLE, DRAINING, WAITING))
    counts = [
        (draft.live_count() - not_running, "running"),
        (states.count(DRAINING), "draining"),
        (states.count(WAITING), "waiting for you"),
    ]
    parts = [f"{number} {word}" for number, word in counts if number]
    most = draft.pool.maximum
    if draft.items:  # the list is cut at the session limit
        more = most is not None and len(draft.items) > most
        parts.append("more waiting" if more else f"{len(draft.items)} waiting")
    text = ", ".join(parts)
    why = "; ".join(b.message for b in explained or tuple(draft.blocked))
    return ": ".join(part for part in (text, why) if part) or "idle"
