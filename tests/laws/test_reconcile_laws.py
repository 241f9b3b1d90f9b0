"""Deciding keeps its laws for any sessions there might be, not only for those that come about."""

from hypothesis import given
from hypothesis import strategies as st

from gascity.control.decide.actions import Demand, Headroom, ObservedSession
from gascity.control.decide.types import Blocked, NamedSlot, Pool
from gascity.model.work import (
    CRASHED,
    DRAINING,
    IDLE,
    LIVE,
    MANUAL,
    NAMED,
    POOL,
    QUARANTINED,
    RATE_LIMITED,
    RUNNING,
    SELF_RESTART,
    STARTING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    Session,
)
from tests.support.reconcile_rules import Asked, check_verdict

NOW = 1000.0
REQUESTS = ("stop", "drain", "restart", SELF_RESTART, "clear", "delete")
_NAMES = ("mayor", "deputy")
_REASONS = {"suspended": "suspended", "gone": "gone", "broken": "broken"}
_TIMES = st.sampled_from([None, 0.0, NOW - 1, NOW, NOW + 1, NOW + 500])


@st.composite
def sessions(draw: st.DrawFn, number: int) -> ObservedSession:
    """A session that a store could have: only live ones have a run, and only those hold work."""
    state = draw(st.sampled_from([*LIVE, STOPPED, CRASHED, QUARANTINED, RATE_LIMITED]))
    origin = draw(st.sampled_from([POOL, POOL, NAMED, MANUAL]))
    interactive = origin == NAMED or draw(st.booleans())
    going = state in LIVE and (state in (RUNNING, STOPPING, UNKNOWN) or interactive)
    run = number + 1 if going and state != STARTING else 0
    works = state in (RUNNING, DRAINING, STOPPING, UNKNOWN) and run and draw(st.booleans())
    waits = state in (CRASHED, QUARANTINED, RATE_LIMITED)
    one = Session(
        id=f"s{number}",
        agent="north/builder",
        origin=origin,
        slot=number + 1 if origin != MANUAL else 0,
        alias=f"builder-{number + 1}",
        state=state,
        reason=draw(st.sampled_from(["", "asleep: idle"])),
        created=float(number),
        updated=draw(st.floats(0, 900)),
        interactive=interactive,
        run=run,
        work=f"held-{number}" if works else "",
        started=draw(_TIMES),
        idle_since=draw(_TIMES) if state == IDLE else None,
        attached=bool(run) and interactive and draw(st.booleans()),
        pinned=draw(st.sampled_from([None, None, 5.0])),
        retry_at=draw(_TIMES) or NOW if waits else None,
        drain_by=draw(_TIMES) if state == DRAINING else None,
        asked=draw(st.sampled_from(["", "", "", "", *REQUESTS])),
        busy_until=draw(_TIMES) if interactive else None,
    )
    drift = draw(st.sampled_from(["", "", "restart", "hot", "next start"]))
    return ObservedSession(one, drift, ("prompt",) if drift else ())


@st.composite
def cases(draw: st.DrawFn) -> Asked:
    facts = [draw(sessions(number)) for number in range(draw(st.integers(0, 6)))]
    alias = dict(
        zip(_NAMES, (f.session.id for f in facts if f.session.origin == NAMED), strict=False)
    )
    facts = [
        f._replace(session=f.session._replace(alias=name)) if alias.get(name) == f.session.id else f
        for f in facts
        for name in [next((n for n, id in alias.items() if id == f.session.id), "")]
    ]
    codes = draw(st.lists(st.sampled_from(sorted(_REASONS)), max_size=1))
    most = draw(st.sampled_from([0, 1, 2, 3, 5, None]))
    pool = Pool(
        "north/builder",
        minimum=draw(st.integers(0, 2)),
        maximum=most,
        names=draw(st.sampled_from([(), ("ash", "oak")])),
        named=tuple(
            NamedSlot(name, draw(st.booleans())) for name in _NAMES[: draw(st.integers(0, 2))]
        ),
        idle_timeout=draw(st.sampled_from([None, 100.0])),
        sleep_after_idle=draw(st.sampled_from([None, 50.0])),
        run_timeout=draw(st.sampled_from([None, 100.0])),
        blocked=tuple(Blocked(code, _REASONS[code]) for code in codes if draw(st.booleans())),
        awaits=draw(st.sampled_from([(), (), ("db",)])),
        needed=draw(st.integers(0, 1)),
        taken=draw(st.sampled_from([frozenset(), frozenset({"ash", "builder", "mayor"})])),
    )
    ids = [f.session.id for f in facts]
    reserved = draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    demand = Demand(
        items=tuple(f"w{n}" for n in range(draw(st.integers(0, 4)))),
        reserved=tuple((id, f"for-{id}") for id in reserved),
        mail=draw(st.integers(0, 1)),
        next_due=draw(_TIMES),
    )
    room = Headroom(
        tuple(
            (draw(st.integers(-2, 5)), Blocked("cap", "full"))
            for _ in range(draw(st.integers(0, 2)))
        )
    )
    leaving = sum(f.session.state in (DRAINING, STOPPING) for f in facts)
    return Asked(pool, tuple(facts), demand, room._replace(ending=(leaving,) * len(room.caps)), NOW)


@given(cases())
def test_a_verdict_keeps_its_laws_and_a_second_look_asks_for_nothing(asked: Asked) -> None:
    check_verdict(asked, asked.result())


@given(cases())
def test_the_order_of_sessions_does_not_matter(asked: Asked) -> None:
    turned = asked._replace(facts=asked.facts[::-1])
    assert turned.result() == asked.result()


@given(cases())
def test_what_is_left_waiting_is_explained(asked: Asked) -> None:
    result = asked.result()
    given_out = {action.work for action in result.actions if hasattr(action, "work")}
    if set(asked.demand.items) - given_out:
        assert result.blocked, result
        assert result.reason != "idle"
