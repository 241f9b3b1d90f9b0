"""Invariants that every reconcile result must satisfy."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gascity.control.decide.actions import (
    CreateSession,
    Demand,
    Headroom,
    ObservedSession,
    ReconcileResult,
    RestartSession,
    RunSession,
    StopSession,
    UpdateSession,
)
from gascity.control.decide.reconcile import reconcile
from gascity.control.decide.types import Pool, is_ending, is_live
from gascity.model.work import (
    DRAINING,
    IDLE,
    NAMED,
    POOL,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    Session,
)

_RANK = {StopSession: 0, RestartSession: 0, UpdateSession: 1, RunSession: 2, CreateSession: 3}


class Asked(NamedTuple):
    """All inputs of one reconcile."""

    pool: Pool
    facts: tuple[ObservedSession, ...]
    demand: Demand = Demand()
    room: Headroom = Headroom()
    now: float = 1000.0

    def result(self) -> ReconcileResult:
        return reconcile(*self)


def in_terminal(pool: Pool, origin: str) -> bool:
    """Return whether a session runs in a terminal. User sessions do only in the rig `north`."""
    return pool.interactive or (origin != POOL and pool.agent.startswith("north/"))


def check_verdict(asked: Asked, result: ReconcileResult) -> None:
    """Assert the invariants that hold for every result and every set of sessions."""
    ranks = [_RANK[type(action)] for action in result.actions]
    assert ranks == sorted(ranks), f"out of order: {result.actions}"
    assert result.wake_at is None or result.wake_at > asked.now, "it wakes for the past"
    _check_sessions(asked, result)
    _check_items(asked.demand, result)
    _check_openings(asked, result)
    later = imagined(asked, result)
    _check_surplus(later)
    if result.actions:
        again = later.result()
        assert not again.actions, f"{result.actions} and then {again.actions}"


def _check_sessions(asked: Asked, result: ReconcileResult) -> None:
    sessions = {f.session.id: f.session for f in asked.facts}
    for action in result.actions:
        assert action.reason or isinstance(action, UpdateSession), f"no reason: {action}"
        if isinstance(action, CreateSession):
            continue
        session = sessions[action.session]
        assert session.state not in (UNKNOWN, STOPPING), f"{action} touches {session.state}"
        held = session.attached or session.pinned is not None
        ends = isinstance(action, StopSession) and action.how != "drain" and not action.timeout
        if held and (ends or isinstance(action, RestartSession)):
            assert session.asked, f"{action} of a session that a user holds"


def _check_items(demand: Demand, result: ReconcileResult) -> None:
    reserved = {work: id for id, work in demand.reserved}
    given = [
        (a, a.work) for a in result.actions if isinstance(a, CreateSession | RunSession) and a.work
    ]
    assert len({work for _, work in given}) == len(given), "one item was given twice"
    open_to_all = [work for _, work in given if work not in reserved]
    assert open_to_all == list(demand.items[: len(open_to_all)]), "an urgent item was passed over"
    for action, work in given:
        if work in reserved:
            assert isinstance(action, RunSession), f"{work} is reserved"
            assert action.session == reserved[work], f"{work} is reserved"


def _check_openings(asked: Asked, result: ReconcileResult) -> None:
    sessions = {f.session.id: f.session for f in asked.facts}
    opened = [a for a in result.actions if isinstance(a, CreateSession)]
    turned = [a for a in result.actions if isinstance(a, RunSession)]
    back = [a for a in turned if not is_live(sessions[a.session]) and not sessions[a.session].asked]
    if asked.pool.blocked:
        assert not opened, "it starts though it is blocked"
        assert not turned, "it runs though it is blocked"
    if not opened and not back:
        return
    assert not asked.pool.awaits, "it starts before what it depends on"
    number = len(opened) + len(back)
    assert asked.room.free is None or number <= asked.room.free, "beyond a cap"
    there = sum(is_live(session) for session in sessions.values())
    most = asked.pool.maximum
    assert most is None or there + number <= most, "beyond its own cap"


def _check_surplus(later: Asked) -> None:
    """Assert that surplus sessions stay only where no pool session could be stopped."""
    staying = [f.session for f in later.facts if is_live(f.session) and not is_ending(f.session)]
    most = later.pool.maximum
    if later.pool.blocked or most is None or len(staying) <= most:
        return
    own = [s for s in staying if s.origin == POOL and s.state in (IDLE, RUNNING)]
    assert not own, f"{len(staying)} of {most} stay"


def imagined(asked: Asked, result: ReconcileResult) -> Asked:
    """Return the inputs of a second reconcile if all actions were done and no run had ended."""
    pool, facts, demand, room, now = asked
    there = {f.session.id: f for f in facts}
    for number, action in enumerate(result.actions):
        if isinstance(action, CreateSession):
            there[f"new{number}"] = _started(f"new{number}", pool, action, now)
        else:
            there[action.session] = _after(there[action.session], action, now)
    after = tuple(f for f in there.values() if not _forgotten(f, demand))
    opened = _number(after, is_live) - _number(facts, is_live)
    gone = _number(after, is_ending) - _number(facts, is_ending)
    caps = tuple((left - opened, why) for left, why in room.caps)
    going = None if room.ending is None else tuple(n + gone for n in room.ending)
    given = {a.work for a in result.actions if isinstance(a, CreateSession | RunSession)}
    items = tuple(item for item in demand.items if item not in given)
    reserved = tuple(entry for entry in demand.reserved if entry[1] not in given)
    left = demand._replace(items=items, reserved=reserved)
    return Asked(pool, after, left, Headroom(caps, going), now)


def _started(id: str, pool: Pool, action: CreateSession, now: float) -> ObservedSession:
    return ObservedSession(
        Session(
            id=id,
            agent=action.agent,
            origin=action.origin,
            slot=action.slot,
            alias=action.alias,
            state=STARTING,
            reason=action.reason,
            created=now,
            updated=now,
            interactive=in_terminal(pool, action.origin),
            work=action.work,
        )
    )


def _after(
    facts: ObservedSession,
    action: RunSession | StopSession | UpdateSession | RestartSession,
    now: float,
) -> ObservedSession:
    session = facts.session
    answered = session._replace(asked="", pending="")
    if isinstance(action, RestartSession):
        return ObservedSession(answered._replace(state=STARTING))
    if isinstance(action, RunSession):
        return ObservedSession(_turned(answered, action, now))
    if isinstance(action, StopSession):
        drains = action.how == "drain"
        asked = "drain" if drains and session.asked == "drain" else ""
        ended = answered._replace(
            state=DRAINING if drains else STOPPING, drain_by=action.by, asked=asked
        )
        return facts._replace(session=ended)
    if action.pending:
        return facts._replace(session=session._replace(pending=action.pending))
    changed = answered._replace(state=action.state, reason=action.reason)
    return facts._replace(session=changed._replace(retry_at=None, drain_by=None))


def _turned(session: Session, action: RunSession, now: float) -> Session:
    seated = session._replace(
        slot=action.slot or session.slot, alias=action.alias or session.alias, retry_at=None
    )
    if session.interactive or action.work or action.about:
        run = session.run or 1
        return seated._replace(state=RUNNING, work=action.work, run=run, started=now, drain_by=None)
    return seated._replace(state=IDLE, idle_since=now, drain_by=None)


def _number(facts: Iterable[ObservedSession], test: Callable[[Session], bool]) -> int:
    return sum(test(f.session) for f in facts)


def _forgotten(facts: ObservedSession, demand: Demand) -> bool:
    session = facts.session
    wanted = any(id == session.id for id, _ in demand.reserved)
    over = session.state == STOPPED and not session.asked
    return over and session.origin != NAMED and not wanted
