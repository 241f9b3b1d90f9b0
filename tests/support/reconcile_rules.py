"""Laws of every single verdict, whatever it was asked about."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gascity.control.reconcile import reconcile
from gascity.control.standing import leaving, live
from gascity.control.world import (
    Change,
    Demand,
    Facts,
    Pool,
    Restart,
    Room,
    Start,
    Stop,
    Turn,
    Verdict,
)
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

_RANK = {Stop: 0, Restart: 0, Change: 1, Turn: 2, Start: 3}


class Asked(NamedTuple):
    """All that one decision is made from."""

    pool: Pool
    facts: tuple[Facts, ...]
    demand: Demand = Demand()
    room: Room = Room()
    now: float = 1000.0

    def verdict(self) -> Verdict:
        return reconcile(*self)


def in_terminal(pool: Pool, origin: str) -> bool:
    """Sessions that people deal with are, where that is possible: here in one rig."""
    return pool.interactive or (origin != POOL and pool.agent.startswith("north/"))


def check_verdict(asked: Asked, verdict: Verdict) -> None:
    """What holds of every verdict, whatever the sessions look like."""
    ranks = [_RANK[type(action)] for action in verdict.actions]
    assert ranks == sorted(ranks), f"out of order: {verdict.actions}"
    assert verdict.wake_at is None or verdict.wake_at > asked.now, "it wakes for the past"
    _check_sessions(asked, verdict)
    _check_items(asked.demand, verdict)
    _check_openings(asked, verdict)
    later = imagined(asked, verdict)
    _check_surplus(later)
    if verdict.actions:
        again = later.verdict()
        assert not again.actions, f"{verdict.actions} and then {again.actions}"


def _check_sessions(asked: Asked, verdict: Verdict) -> None:
    sessions = {f.session.id: f.session for f in asked.facts}
    for action in verdict.actions:
        assert action.reason or isinstance(action, Change), f"no reason: {action}"
        if isinstance(action, Start):
            continue
        session = sessions[action.session]
        assert session.state not in (UNKNOWN, STOPPING), f"{action} touches {session.state}"
        held = session.attached or session.pinned is not None
        ends = isinstance(action, Stop) and action.how != "drain" and not action.timeout
        if held and (ends or isinstance(action, Restart)):
            assert session.asked, f"{action} against a person"


def _check_items(demand: Demand, verdict: Verdict) -> None:
    reserved = {work: id for id, work in demand.reserved}
    given = [(a, a.work) for a in verdict.actions if isinstance(a, Start | Turn) and a.work]
    assert len({work for _, work in given}) == len(given), "one item was given twice"
    open_to_all = [work for _, work in given if work not in reserved]
    assert open_to_all == list(demand.items[: len(open_to_all)]), "an urgent item was passed over"
    for action, work in given:
        if work in reserved:
            assert isinstance(action, Turn), f"{work} is reserved"
            assert action.session == reserved[work], f"{work} is reserved"


def _check_openings(asked: Asked, verdict: Verdict) -> None:
    sessions = {f.session.id: f.session for f in asked.facts}
    opened = [a for a in verdict.actions if isinstance(a, Start)]
    turned = [a for a in verdict.actions if isinstance(a, Turn)]
    back = [a for a in turned if not live(sessions[a.session]) and not sessions[a.session].asked]
    if asked.pool.blocked:
        assert not opened, "it starts though it is blocked"
        assert not turned, "it runs though it is blocked"
    if not opened and not back:
        return
    assert not asked.pool.awaits, "it starts before what it depends on"
    number = len(opened) + len(back)
    assert asked.room.free is None or number <= asked.room.free, "beyond a cap"
    there = sum(live(session) for session in sessions.values())
    most = asked.pool.maximum
    assert most is None or there + number <= most, "beyond its own cap"


def _check_surplus(later: Asked) -> None:
    """Too many of them stay only where none of the pool's own could be let go."""
    staying = [f.session for f in later.facts if live(f.session) and not leaving(f.session)]
    most = later.pool.maximum
    if later.pool.blocked or most is None or len(staying) <= most:
        return
    own = [s for s in staying if s.origin == POOL and s.state in (IDLE, RUNNING)]
    assert not own, f"{len(staying)} of {most} stay"


def imagined(asked: Asked, verdict: Verdict) -> Asked:
    """What a second look would see if all were done as said, and nothing had ended yet."""
    pool, facts, demand, room, now = asked
    there = {f.session.id: f for f in facts}
    for number, action in enumerate(verdict.actions):
        if isinstance(action, Start):
            there[f"new{number}"] = _started(f"new{number}", pool, action, now)
        else:
            there[action.session] = _after(there[action.session], action, now)
    after = tuple(f for f in there.values() if not _forgotten(f, demand))
    opened = _number(after, live) - _number(facts, live)
    gone = _number(after, leaving) - _number(facts, leaving)
    caps = tuple((left - opened, why) for left, why in room.caps)
    going = None if room.leaving is None else tuple(n + gone for n in room.leaving)
    given = {a.work for a in verdict.actions if isinstance(a, Start | Turn)}
    items = tuple(item for item in demand.items if item not in given)
    reserved = tuple(entry for entry in demand.reserved if entry[1] not in given)
    left = demand._replace(items=items, reserved=reserved)
    return Asked(pool, after, left, Room(caps, going), now)


def _started(id: str, pool: Pool, action: Start, now: float) -> Facts:
    return Facts(
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


def _after(facts: Facts, action: Turn | Stop | Change | Restart, now: float) -> Facts:
    session = facts.session
    answered = session._replace(asked="", pending="")
    if isinstance(action, Restart):
        return Facts(answered._replace(state=STARTING))
    if isinstance(action, Turn):
        return Facts(_turned(answered, action, now))
    if isinstance(action, Stop):
        state = DRAINING if action.how == "drain" else STOPPING
        return facts._replace(session=answered._replace(state=state, drain_by=action.by))
    if action.pending:
        return facts._replace(session=session._replace(pending=action.pending))
    changed = answered._replace(state=action.state, reason=action.reason)
    return facts._replace(session=changed._replace(retry_at=None, drain_by=None))


def _turned(session: Session, action: Turn, now: float) -> Session:
    seated = session._replace(
        slot=action.slot or session.slot, alias=action.alias or session.alias, retry_at=None
    )
    if session.interactive or action.work or action.about:
        run = session.run or 1
        return seated._replace(state=RUNNING, work=action.work, run=run, started=now, drain_by=None)
    return seated._replace(state=IDLE, idle_since=now, drain_by=None)


def _number(facts: Iterable[Facts], test: Callable[[Session], bool]) -> int:
    return sum(test(f.session) for f in facts)


def _forgotten(facts: Facts, demand: Demand) -> bool:
    session = facts.session
    wanted = any(id == session.id for id, _ in demand.reserved)
    over = session.state == STOPPED and not session.asked
    return over and session.origin != NAMED and not wanted
