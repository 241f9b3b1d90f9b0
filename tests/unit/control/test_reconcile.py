"""Every rule about sessions, one by one. Each case also has to keep the laws of all verdicts."""

import pytest

from gascity.control.decide.actions import (
    Action,
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
from gascity.control.decide.types import Blocked, NamedSlot, Pool
from gascity.model.work import (
    CRASHED,
    DRAINING,
    IDLE,
    MANUAL,
    NAMED,
    POOL,
    QUARANTINED,
    RATE_LIMITED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    Session,
)
from tests.support.reconcile_rules import Asked, check_verdict

NOW = 1000.0
BUILDER = Pool("north/builder", maximum=3)
DESK = Pool("north/builder", maximum=3, interactive=True)
SUSPENDED = Blocked("suspended", "suspended")
GONE = Blocked("gone", "there is no such agent any more")
BROKEN = Blocked("broken", "its definition is broken")
CITY_FULL = Blocked("city-cap", "the city has 4 of 4 sessions")
NOTHING = Demand()


def session(id: str = "s1", state: str = IDLE, slot: int = 1, **more: object) -> Session:
    """One of the pool; what runs has a run, and what is idle has been since just now."""
    going = state in (RUNNING, DRAINING, STOPPING, UNKNOWN)
    usual = Session(
        id=id,
        agent="north/builder",
        origin=POOL,
        slot=slot,
        alias=f"builder-{slot}",
        state=state,
        reason="",
        created=float(slot),
        updated=900.0,
        run=7 if going else 0,
        work=f"work-of-{id}" if going else "",
        started=900.0,
        idle_since=990.0 if state == IDLE else None,
    )
    return usual._replace(**more)  # type: ignore[arg-type]


def terminal(id: str = "s1", state: str = IDLE, slot: int = 1, **more: object) -> Session:
    live = state in (IDLE, RUNNING, DRAINING)
    run = {"run": 7 if live else 0, "interactive": True, "work": ""}
    return session(id, state, slot, **{**run, **more})


def decide(
    pool: Pool = BUILDER,
    *there: Session | ObservedSession,
    demand: Demand = NOTHING,
    room: Headroom | None = None,
    now: float = NOW,
) -> ReconcileResult:
    facts = tuple(
        one if isinstance(one, ObservedSession) else ObservedSession(one) for one in there
    )
    asked = Asked(pool, facts, demand, room or Headroom(), now)
    result = asked.result()
    check_verdict(asked, result)
    return result


def brief(action: Action) -> str:
    """An action without its reason: what the tables compare."""
    match action:
        case CreateSession():
            return f"start {action.alias} {action.work or action.about or '-'}"
        case RunSession():
            return f"turn {action.session} {action.work or action.about or '-'}"
        case StopSession():
            return f"{action.how} {action.session}"
        case RestartSession():
            return f"restart {action.session}"
        case UpdateSession():
            return f"{'pending' if action.pending else action.state} {action.session}"


def done(result: ReconcileResult) -> list[str]:
    return [brief(action) for action in result.actions]


def waiting(*items: str) -> Demand:
    return Demand(items=items)


# Who takes what waits


@pytest.mark.parametrize(
    ("there", "items", "expected"),
    [
        pytest.param([], ["a"], ["start builder-1 a"], id="a-new-session"),
        pytest.param([], ["a", "b"], ["start builder-1 a", "start builder-2 b"], id="two-of-them"),
        pytest.param(
            [],
            ["a", "b", "c", "d"],
            ["start builder-1 a", "start builder-2 b", "start builder-3 c"],
            id="no-more-than-the-maximum",
        ),
        pytest.param([session("s1")], ["a"], ["turn s1 a"], id="an-idle-one-first"),
        pytest.param(
            [session("s2", slot=2), session("s1")],
            ["a", "b"],
            ["turn s1 a", "turn s2 b"],
            id="the-lowest-slot-first",
        ),
        pytest.param(
            [session("s2", RUNNING, 2)],
            ["a"],
            ["start builder-1 a"],
            id="the-lowest-free-slot",
        ),
        pytest.param(
            [session("s1"), session("s2", RUNNING, 2)],
            ["a", "b"],
            ["turn s1 a", "start builder-3 b"],
            id="idle-then-new",
        ),
        pytest.param([session("s1", DRAINING, work="")], [], [], id="nobody-for-nothing"),
        pytest.param(
            [session("s1", CRASHED, retry_at=NOW)],
            ["a"],
            ["turn s1 a"],
            id="one-whose-back-off-is-over",
        ),
        pytest.param(
            [session("s1", CRASHED, retry_at=NOW + 8)],
            ["a"],
            ["start builder-2 a"],
            id="a-crash-costs-only-its-slot",
        ),
        pytest.param(
            [session("s1", UNKNOWN), session("s2", UNKNOWN, 2), session("s3", UNKNOWN, 3)],
            ["a"],
            [],
            id="unknown-ones-count",
        ),
        pytest.param([session("s1", STARTING)], [], [], id="what-is-being-made-is-let-be"),
        pytest.param([session("s1", STOPPING)], [], [], id="what-is-being-ended-is-let-be"),
        pytest.param(
            [terminal("s1"), terminal("s2", slot=2, busy_until=NOW + 9)],
            ["a", "b"],
            ["turn s1 a", "start builder-3 b"],
            id="a-terminal-that-is-at-work-is-not-interrupted",
        ),
        pytest.param(
            [terminal("s1", attached=True)],
            ["a"],
            ["start builder-2 a"],
            id="nothing-is-typed-where-a-person-is",
        ),
    ],
)
def test_items_go_to_sessions(there: list[Session], items: list[str], expected: list[str]) -> None:
    assert done(decide(BUILDER, *there, demand=waiting(*items))) == expected


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param(session("s1", slot=2), ["turn s1 r", "start builder-1 a"], id="idle"),
        pytest.param(session("s1", STOPPED, 2), ["turn s1 r", "start builder-1 a"], id="stopped"),
        pytest.param(session("s1", RUNNING, 2), ["start builder-1 a"], id="at-work"),
        pytest.param(
            terminal("s1", slot=2, attached=True),
            ["turn s1 r", "start builder-1 a"],
            id="a-person's",
        ),
        pytest.param(
            session("s1", CRASHED, 2, retry_at=NOW + 5), ["start builder-1 a"], id="backing-off"
        ),
        pytest.param(
            session("s1", STARTING, 0, origin=MANUAL), ["turn s1 r", "start builder-1 a"], id="new"
        ),
    ],
)
def test_a_reserved_item_goes_only_to_its_session(there: Session, expected: list[str]) -> None:
    demand = Demand(items=("a",), reserved=(("s1", "r"),))
    assert done(decide(BUILDER, there, demand=demand)) == expected


def test_a_session_that_returns_to_a_taken_slot_gets_another() -> None:
    old, new = session("old", STOPPED), session("new", RUNNING)
    (turn,) = decide(BUILDER, old, new, demand=Demand(reserved=(("old", "r"),))).actions
    assert isinstance(turn, RunSession)
    assert (turn.session, turn.slot, turn.alias) == ("old", 2, "builder-2")


def test_an_idle_session_makes_room_for_one_with_a_reserved_item() -> None:
    pool = BUILDER._replace(minimum=1, maximum=1)
    old, idle = session("old", STOPPED, 2), session("idle")
    assert done(decide(pool, old, idle, demand=Demand(reserved=(("old", "r"),)))) == ["stop idle"]


def test_the_longest_idle_session_without_a_process_makes_room_for_a_reserved_item() -> None:
    old = session("old", STOPPED, 2, origin=MANUAL)
    idle = [
        session("held", slot=3, origin=MANUAL, idle_since=NOW - 9, pinned=1.0),
        session("last", slot=4, origin=MANUAL, idle_since=NOW - 1),
        session("first", slot=5, origin=MANUAL, idle_since=NOW - 5),
        terminal("open", slot=6, origin=MANUAL, idle_since=NOW - 9),
    ]
    pool = BUILDER._replace(maximum=4)
    (stop,) = decide(pool, old, *idle, demand=Demand(reserved=(("old", "r"),))).actions
    assert stop == StopSession("first", "stop", "made room for r")


def test_without_an_item_that_waits_idle_sessions_keep_their_place() -> None:
    idle = session("idle", slot=3, origin=MANUAL)
    assert done(decide(BUILDER._replace(maximum=1), idle)) == []


def test_an_item_for_a_session_that_is_not_there_waits() -> None:
    assert done(decide(demand=Demand(reserved=(("s9", "r"),)))) == []


# Names and slots


@pytest.mark.parametrize(
    ("pool", "taken", "expected"),
    [
        (Pool("north/pack.builder", maximum=1), [], "builder"),
        (Pool("builder", maximum=2), [], "builder-1"),
        (Pool("builder", maximum=None), [], "builder-1"),
        (Pool("builder", maximum=2, names=("ash", "oak")), [], "ash"),
        (Pool("builder", maximum=3, names=("ash", "oak")), [1], "oak"),
        (Pool("builder", maximum=3, names=("ash", "oak")), [1, 2], "builder-3"),
        (Pool("builder", maximum=1, taken=frozenset({"builder"})), [], "builder-2"),
        (Pool("builder", maximum=3, names=("ash",), taken=frozenset({"ash"})), [], "builder-2"),
    ],
)
def test_a_session_is_called_by_its_slot(pool: Pool, taken: list[int], expected: str) -> None:
    there = [session(f"s{slot}", RUNNING, slot, alias=f"x{slot}") for slot in taken]
    (start,) = decide(pool, *there, demand=waiting("a")).actions
    assert isinstance(start, CreateSession)
    assert start.alias == expected


# Caps


def full(*left: int) -> Headroom:
    return Headroom(tuple((number, CITY_FULL) for number in left))


@pytest.mark.parametrize(
    ("room", "started"),
    [(full(), 3), (full(2), 2), (full(5, 1), 1), (full(0), 0), (full(3, -1), 0)],
)
def test_every_cap_has_a_say(room: Headroom, started: int) -> None:
    result = decide(demand=waiting("a", "b", "c"), room=room)
    assert len(result.actions) == started
    assert result.blocked == ((CITY_FULL,) if started < 3 else ())


def test_waiting_work_names_the_full_cap() -> None:
    there = [session(f"s{n}", RUNNING, n) for n in (1, 2, 3)]
    result = decide(BUILDER, *there, demand=waiting("a", "b"))
    assert result.blocked == (Blocked("agent-cap", "north/builder session limit reached (3 of 3)"),)
    assert result.reason == "3 running, 2 waiting: north/builder session limit reached (3 of 3)"


def test_a_pool_without_a_maximum_is_bounded_by_the_room() -> None:
    pool = BUILDER._replace(maximum=None)
    assert len(decide(pool, demand=waiting(*"abcdef")).actions) == 6
    assert len(decide(pool, demand=waiting(*"abcdef"), room=full(4)).actions) == 4


@pytest.mark.parametrize(
    ("there", "most", "expected"),
    [
        pytest.param(
            [session("s1"), session("s2", RUNNING, 2), session("s3", RUNNING, 3)],
            2,
            ["stop s1"],
            id="the-idle-go-first",
        ),
        pytest.param(
            [session("s1", RUNNING), session("s2", RUNNING, 2)], 1, ["drain s2"], id="newest-slot"
        ),
        pytest.param(
            [session("s1", RUNNING), session("s2", RUNNING, 2, pinned=1.0)],
            1,
            ["drain s1"],
            id="what-a-person-holds-goes-last",
        ),
        pytest.param(
            [session("s1", pinned=1.0), terminal("s2", RUNNING, 2, attached=True)],
            0,
            ["drain s1", "drain s2"],
            id="and-is-never-just-stopped",
        ),
        pytest.param(
            [session("s1", DRAINING, drain_by=NOW + 9), session("s2", RUNNING, 2)],
            1,
            [],
            id="one-that-drains-already-counts",
        ),
        pytest.param(
            [session("s1", UNKNOWN), session("s2", RUNNING, 2)],
            1,
            ["drain s2"],
            id="unknown-ones-are-not-touched",
        ),
        pytest.param(
            [terminal("s1", origin=MANUAL), terminal("s2", slot=2, origin=MANUAL)],
            1,
            ["turn s1 a"],
            id="a-person's-own-are-not-surplus",
        ),
    ],
)
def test_a_lowered_maximum_lets_go_of_some(
    there: list[Session], most: int, expected: list[str]
) -> None:
    assert (
        sorted(done(decide(BUILDER._replace(maximum=most), *there, demand=waiting("a"))))
        == expected
    )


def test_a_drain_has_an_end() -> None:
    pool = BUILDER._replace(maximum=0, drain_timeout=50.0)
    (drain,) = decide(pool, session("s1", RUNNING)).actions
    assert drain == StopSession("s1", "drain", "session limit was lowered", NOW + 50.0)


def test_a_lowered_city_cap_counts_sessions_that_end_elsewhere() -> None:
    there = [session("s1", RUNNING), session("s2", RUNNING, 2)]
    over = ((-2, CITY_FULL),)
    assert done(decide(BUILDER, *there, room=Headroom(over, (0,)))) == ["drain s2", "drain s1"]
    assert done(decide(BUILDER, *there, room=Headroom(over, (1,)))) == ["drain s2"]
    assert done(decide(BUILDER, *there, room=Headroom(over, (2,)))) == []


# Drains


FULL = BUILDER._replace(maximum=0)


@pytest.mark.parametrize(
    ("there", "pool", "expected"),
    [
        pytest.param(session(state=DRAINING, run=0, work=""), BUILDER, ["stop s1"], id="done"),
        pytest.param(session(state=DRAINING, work=""), BUILDER, [], id="its-run-goes-on"),
        pytest.param(terminal(state=DRAINING), BUILDER, ["stop s1"], id="terminal-without-work"),
        pytest.param(terminal(state=DRAINING, work="w"), FULL, [], id="terminal-with-work"),
        pytest.param(terminal(state=DRAINING, busy_until=NOW + 1), BUILDER, [], id="busy"),
        pytest.param(session(state=DRAINING, drain_by=NOW + 1), FULL, [], id="in-time"),
        pytest.param(session(state=DRAINING, drain_by=NOW), FULL, ["stop s1"], id="too-late"),
        pytest.param(session(state=DRAINING), BUILDER, ["running s1"], id="its-agent-is-back"),
        pytest.param(
            terminal(state=DRAINING, drain_by=1.0, attached=True),
            BUILDER._replace(maximum=0),
            [],
            id="never-while-a-person-is-there",
        ),
        pytest.param(
            session(state=DRAINING, drain_by=1.0, pinned=5.0),
            BUILDER._replace(maximum=0),
            [],
            id="never-while-pinned",
        ),
        pytest.param(
            terminal(state=DRAINING, attached=True), BUILDER, ["idle s1"], id="room-and-a-person"
        ),
        pytest.param(
            terminal(state=DRAINING, origin=MANUAL), BUILDER, ["idle s1"], id="room-for-a-person's"
        ),
        pytest.param(
            session(state=DRAINING), BUILDER._replace(minimum=1), ["running s1"], id="the-minimum"
        ),
        pytest.param(
            session(state=DRAINING), BUILDER._replace(blocked=(SUSPENDED,)), [], id="suspended"
        ),
    ],
)
def test_a_drain_comes_to_its_end_or_is_called_off(
    there: Session, pool: Pool, expected: list[str]
) -> None:
    assert done(decide(pool, there)) == expected


def test_a_drain_is_called_off_when_work_and_room_are_back() -> None:
    there = session(state=DRAINING)
    result = decide(BUILDER._replace(maximum=1), there, demand=waiting("a"))
    assert done(result) == ["running s1"]
    full = decide(BUILDER._replace(maximum=0), there, demand=waiting("a"))
    assert done(full) == []


def test_a_drained_session_takes_the_next_item_instead_of_stopping() -> None:
    there = session(state=DRAINING, run=0, work="")
    result = decide(BUILDER._replace(maximum=1), there, demand=waiting("a"))
    assert done(result) == ["idle s1", "turn s1 a"]


# When nothing is left to do


@pytest.mark.parametrize(
    ("there", "pool", "expected"),
    [
        pytest.param([session()], BUILDER, ["stop s1"], id="ends-at-once"),
        pytest.param([session(pinned=1.0)], BUILDER, [], id="not-if-pinned"),
        pytest.param([terminal(attached=True)], BUILDER, [], id="not-if-attached"),
        pytest.param([terminal(busy_until=NOW + 5)], BUILDER, [], id="not-if-at-work"),
        pytest.param([session()], BUILDER._replace(minimum=1), [], id="not-below-the-minimum"),
        pytest.param([session()], BUILDER._replace(needed=1), [], id="not-if-another-needs-it"),
        pytest.param(
            [session(), session("s2", slot=2), session("s3", slot=3)],
            BUILDER._replace(minimum=1),
            ["stop s3", "stop s2"],
            id="the-highest-slots",
        ),
        pytest.param(
            [session(), session("s2", RUNNING, 2)],
            BUILDER._replace(minimum=1),
            ["stop s1"],
            id="who-works-counts-towards-the-minimum",
        ),
        pytest.param(
            [session("s1", CRASHED, retry_at=NOW)],
            BUILDER,
            ["stopped s1"],
            id="nor-for-the-crashed",
        ),
        pytest.param(
            [session("s1", CRASHED, retry_at=NOW + 1)], BUILDER, [], id="who-still-backs-off"
        ),
        pytest.param([terminal(origin=MANUAL)], BUILDER, [], id="a-person's-own-stays"),
        pytest.param(
            [terminal(origin=NAMED, alias="mayor")],
            BUILDER._replace(named=(NamedSlot("mayor", False),)),
            [],
            id="one-with-a-name-stays",
        ),
        pytest.param(
            [terminal(origin=NAMED, alias="mayor")], BUILDER, ["stop s1"], id="whose-name-is-gone"
        ),
    ],
)
def test_idle_sessions_end(there: list[Session], pool: Pool, expected: list[str]) -> None:
    assert done(decide(pool, *there)) == expected


@pytest.mark.parametrize(
    ("least", "needed", "there", "expected"),
    [
        (1, 0, [], ["start builder-1 -"]),
        (2, 0, [session()], ["start builder-2 -"]),
        (0, 2, [], ["start builder-1 -"]),
        (1, 0, [session("s1", CRASHED, retry_at=NOW + 9)], []),
        (1, 0, [session("s1", CRASHED, retry_at=NOW)], ["turn s1 -"]),
        (1, 0, [session("s1", DRAINING, drain_by=NOW + 9)], ["running s1"]),
        (1, 0, [terminal(origin=MANUAL)], ["start builder-2 -"]),
    ],
)
def test_the_minimum_is_kept_without_work(
    least: int, needed: int, there: list[Session], expected: list[str]
) -> None:
    assert done(decide(BUILDER._replace(minimum=least, needed=needed), *there)) == expected


@pytest.mark.parametrize(
    ("idle_for", "limits", "expected"),
    [
        pytest.param(99, {"idle_timeout": 100.0}, [], id="not-yet"),
        pytest.param(100, {"idle_timeout": 100.0}, ["stop s1"], id="idle-timeout"),
        pytest.param(100, {"sleep_after_idle": 100.0}, ["stop s1"], id="sleep"),
        pytest.param(5000, {}, [], id="no-limit"),
    ],
)
@pytest.mark.parametrize("origin", [MANUAL, NAMED])
def test_user_sessions_end_after_their_idle_limits(
    idle_for: float, limits: dict[str, float], expected: list[str], origin: str
) -> None:
    pool = DESK._replace(named=(NamedSlot("mayor", False),), **limits)  # type: ignore[arg-type]
    there = terminal(origin=origin, alias="mayor", idle_since=NOW - idle_for)
    assert done(decide(pool, there)) == expected
    for held in ({"attached": True}, {"pinned": 1.0}, {"busy_until": NOW + 1.0}):
        assert done(decide(pool, there._replace(**held))) == []  # type: ignore[arg-type]


def test_a_sleeping_session_says_so() -> None:
    pool = DESK._replace(sleep_after_idle=60.0)
    (stop,) = decide(pool, terminal(origin=MANUAL, idle_since=0.0)).actions
    assert stop.reason == "asleep: idle for 17m"


# Sessions with names

MAYOR = DESK._replace(named=(NamedSlot("mayor", True),))
DEPUTY = DESK._replace(named=(NamedSlot("deputy", False),))


def named(state: str = IDLE, **more: object) -> Session:
    return terminal("m", state, **{"origin": NAMED, "alias": "mayor", **more})


@pytest.mark.parametrize(
    ("there", "demand", "expected"),
    [
        pytest.param([], NOTHING, ["start mayor -"], id="is-started"),
        pytest.param([named()], NOTHING, [], id="is-there"),
        pytest.param([named(STOPPED)], NOTHING, ["turn m -"], id="is-resumed"),
        pytest.param([named(STOPPED, retry_at=NOW + 4)], NOTHING, [], id="backs-off"),
        pytest.param([named(CRASHED, retry_at=NOW + 4)], NOTHING, [], id="crashed"),
        pytest.param([named(CRASHED, retry_at=NOW - 4)], NOTHING, ["turn m -"], id="is-back"),
        pytest.param([named(STOPPED, reason="asleep: idle")], NOTHING, [], id="sleeps"),
        pytest.param(
            [named(STOPPED, reason="asleep: idle")], waiting("a"), ["turn m a"], id="woken-by-work"
        ),
        pytest.param(
            [named(STOPPED, reason="asleep: idle")],
            Demand(mail=1),
            ["turn m mail"],
            id="woken-by-mail",
        ),
        pytest.param([], waiting("a", "b"), ["start mayor a", "start builder-2 b"], id="works-too"),
    ],
)
def test_a_session_that_is_to_be_there_always(
    there: list[Session], demand: Demand, expected: list[str]
) -> None:
    assert done(decide(MAYOR, *there, demand=demand)) == expected


def test_the_latest_session_with_a_name_is_resumed() -> None:
    old = named(STOPPED)._replace(id="old", updated=1.0)
    new = named(STOPPED)._replace(id="new", updated=2.0, slot=2)
    assert done(decide(MAYOR, old, new)) == ["turn new -"]


def test_an_older_session_with_a_name_does_not_replace_one_that_backs_off() -> None:
    crashed = named(CRASHED, retry_at=NOW + 5)
    old = named(STOPPED)._replace(id="old", slot=2)
    assert done(decide(MAYOR, crashed, old)) == []


def test_an_always_running_session_restarts_when_idle_for_too_long() -> None:
    pool = MAYOR._replace(idle_timeout=60.0)
    assert done(decide(pool, named(idle_since=NOW - 60.0))) == ["restart m"]


def test_a_name_on_demand_goes_to_the_first_session_that_demand_starts() -> None:
    assert done(decide(DEPUTY)) == []
    assert done(decide(DEPUTY, demand=waiting("a", "b"))) == ["start deputy a", "start builder-2 b"]
    stopped = named(STOPPED, alias="deputy")
    assert done(decide(DEPUTY, stopped)) == []
    assert done(decide(DEPUTY, stopped, demand=waiting("a"))) == ["turn m a"]


# Waiting


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (RATE_LIMITED, Blocked("rate-limited", "rate limit reached; retrying in 12m")),
        (QUARANTINED, Blocked("crash-loop", "crashed repeatedly; retrying in 12m")),
    ],
)
def test_a_rate_limit_blocks_the_whole_agent(state: str, expected: Blocked) -> None:
    there = [session("s1", state, retry_at=NOW + 720), session("s2", slot=2)]
    result = decide(MAYOR._replace(minimum=3), *there, demand=waiting("a"))
    assert (result.actions, result.blocked) == ((), (expected,))
    assert result.reason == f"1 waiting: {expected.message}"
    assert result.wake_at == NOW + 720
    later = decide(BUILDER, *there, demand=waiting("a", "b"), now=NOW + 720)
    assert done(later) == ["turn s2 a", "turn s1 b"]


def test_the_longest_backoff_is_reported() -> None:
    limited = session("s1", RATE_LIMITED, retry_at=NOW + 60)
    looping = session("s2", QUARANTINED, 2, retry_at=NOW + 90)
    (why,) = decide(BUILDER, limited, looping, demand=waiting("a")).blocked
    assert why == Blocked("crash-loop", "crashed repeatedly; retrying in 90s")


def test_a_crash_that_occupies_the_only_slot_is_reported() -> None:
    there = session("s1", CRASHED, retry_at=NOW + 8)
    result = decide(BUILDER._replace(maximum=1), there, demand=waiting("a"))
    assert result.actions == ()
    assert result.blocked == (Blocked("backing-off", "north/builder crashed; retrying in 8s"),)


def test_nothing_starts_before_its_dependencies() -> None:
    pool = MAYOR._replace(minimum=2, awaits=("db", "cache"))
    result = decide(pool, demand=waiting("a"))
    assert result.actions == ()
    assert result.blocked == (Blocked("depends-on", "waits for db, cache to start"),)
    assert done(decide(pool, named(), demand=waiting("a"))) == ["turn m a"]


@pytest.mark.parametrize("why", [SUSPENDED, GONE])
def test_a_suspended_agent_comes_to_its_end(why: Blocked) -> None:
    pool = MAYOR._replace(blocked=(why,), minimum=2)
    there = [
        session("idle"),
        session("busy", RUNNING, 2),
        terminal("held", slot=3, attached=True),
        terminal("new", STARTING, 0, origin=MANUAL),
        session("lost", UNKNOWN, 5),
        session("made", STARTING, 6),
    ]
    result = decide(pool, *there, demand=waiting("a"))
    assert sorted(done(result)) == ["drain busy", "drain held", "stop idle", "stop new"]
    assert result.blocked == (why,)
    assert result.reason == why.message


def test_obstacles_are_not_reported_if_no_work_waits() -> None:
    assert decide(BUILDER._replace(blocked=(BROKEN,))).blocked == ()


def test_another_obstacle_leaves_live_sessions_unchanged() -> None:
    pool = MAYOR._replace(blocked=(BROKEN,), minimum=2, maximum=1)
    there = [
        session(),
        session("s2", RUNNING, 2),
        ObservedSession(terminal("s3", slot=3), "restart"),
    ]
    result = decide(pool, *there, demand=waiting("a"))
    assert (result.actions, result.blocked) == ((), (BROKEN,))


def test_a_maximum_of_zero_ends_existing_sessions() -> None:
    none = Blocked("agent-cap", "max_active_sessions = 0")
    pool = BUILDER._replace(maximum=0, blocked=(none,))
    result = decide(pool, session(), demand=waiting("a"))
    assert done(result) == ["stop s1"]
    assert result.blocked[0].code == "agent-cap"


# What people ask for


@pytest.mark.parametrize(
    ("there", "asked", "expected"),
    [
        (session(), "stop", ["stop s1"]),
        (session(state=RUNNING), "stop", ["stop s1"]),
        (session(state=RUNNING, pinned=1.0), "stop", ["stop s1"]),
        (session(state=RUNNING), "drain", ["drain s1"]),
        (session(state=RUNNING, work=""), "drain", ["stop s1"]),
        (session(state=DRAINING), "drain", []),
        (terminal(state=RUNNING, work="w-1"), "drain", ["stop s1"]),
        (session(state=RUNNING), "delete", ["stop s1"]),
        (session(state=RUNNING), "restart", ["restart s1"]),
        (session(state=RUNNING), "clear", ["restart s1"]),
        (terminal(attached=True), "restart", ["restart s1"]),
        (terminal(attached=True), "clear", ["restart s1"]),
        (session(pinned=1.0), "clear", ["idle s1"]),
        (session(state=DRAINING, run=0, work="", pinned=1.0), "clear", ["idle s1"]),
        (session(pinned=1.0), "restart", ["idle s1"]),
        (terminal(state=STOPPED, origin=MANUAL), "clear", ["stopped s1"]),
        (terminal(state=STOPPED, origin=MANUAL), "restart", ["turn s1 -"]),
        (session(state=QUARANTINED, retry_at=NOW + 9), "restart", ["stopped s1"]),
        (session(state=QUARANTINED, retry_at=NOW + 9), "stop", ["stopped s1"]),
        (session(state=STOPPED), "delete", []),
        (session(state=STARTING, slot=0, origin=MANUAL), "stop", ["stop s1"]),
        (session(state=STARTING, slot=0, origin=MANUAL), "clear", ["turn s1 -"]),
        (session(state=STARTING), "stop", []),
        (session(state=UNKNOWN), "stop", []),
        (session(state=STOPPING), "restart", []),
    ],
)
def test_requests_to_a_session_are_carried_out(
    there: Session, asked: str, expected: list[str]
) -> None:
    assert done(decide(BUILDER, there._replace(asked=asked))) == expected


@pytest.mark.parametrize("asked", ["stop", "drain"])
def test_a_named_session_that_was_stopped_sleeps(asked: str) -> None:
    (stop,) = decide(MAYOR, named(asked=asked)).actions
    assert isinstance(stop, StopSession)
    assert done(decide(MAYOR, named(STOPPED, reason=stop.reason))) == []


def test_a_session_without_a_run_is_cleared_at_once() -> None:
    (change,) = decide(BUILDER, session(pinned=1.0, asked="clear")).actions
    assert change == UpdateSession("s1", IDLE, "cleared")


def test_a_restart_while_nothing_may_start_waits() -> None:
    there = terminal(asked="restart")
    result = decide(DESK._replace(blocked=(BROKEN,)), there)
    assert done(result) == ["pending s1"]
    assert done(decide(DESK._replace(blocked=(SUSPENDED,)), there)) == ["stop s1"]


def test_a_restart_waits_for_a_place_and_for_its_name() -> None:
    pooled_count = terminal(state=STOPPED, asked="restart")
    assert done(decide(DESK._replace(maximum=0), pooled_count)) == ["pending s1"]
    taken = MAYOR._replace(taken=frozenset({"mayor"}))
    assert done(decide(taken, named(STOPPED, asked="restart"))) == ["pending m"]


def test_a_restart_ends_a_quarantine() -> None:
    there = session(state=QUARANTINED, retry_at=NOW + 99, asked="restart")
    assert done(decide(BUILDER, there, demand=waiting("a"))) == ["stopped s1", "start builder-1 a"]


def test_a_user_session_starts_whatever_the_caps_say() -> None:
    there = [session("s1", RUNNING), terminal("new", STARTING, 0, origin=MANUAL)]
    result = decide(BUILDER._replace(maximum=2), *there, room=full(-1, 0))
    assert "turn new -" in done(result)
    limited = session("s1", RATE_LIMITED, retry_at=NOW + 60)
    assert done(decide(BUILDER, limited, there[1])) == ["turn new -"]
    assert done(decide(BUILDER._replace(blocked=(BROKEN,)), there[1])) == []


# Mail


@pytest.mark.parametrize(
    ("there", "pool", "expected"),
    [
        pytest.param([], BUILDER, ["start builder-1 mail"], id="starts-one"),
        pytest.param([session()], BUILDER, ["turn s1 mail"], id="an-idle-one-reads"),
        pytest.param([session(state=RUNNING)], BUILDER, [], id="somebody-is-awake"),
        pytest.param([session(state=STARTING)], BUILDER, [], id="somebody-wakes-up"),
        pytest.param([], BUILDER._replace(wake_on_mail=False), [], id="not-wanted"),
        pytest.param([], BUILDER._replace(maximum=0), [], id="no-room"),
        pytest.param([], BUILDER._replace(blocked=(SUSPENDED,)), [], id="suspended"),
    ],
)
def test_mail_wakes_a_session(there: list[Session], pool: Pool, expected: list[str]) -> None:
    assert done(decide(pool, *there, demand=Demand(mail=2))) == expected


# Time limits and drift


@pytest.mark.parametrize("state", [RUNNING, DRAINING])
def test_a_run_over_its_time_limit_is_ended_even_if_a_user_holds_it(state: str) -> None:
    pool = BUILDER._replace(run_timeout=100.0)
    (stop,) = decide(pool, session(state=state, started=NOW - 100, pinned=1.0)).actions
    assert stop == StopSession("s1", "stop", "time limit exceeded (100s)", timeout=True)
    assert decide(pool, session(state=RUNNING, started=NOW - 99)).wake_at == NOW + 1
    assert done(decide(pool, terminal(state=RUNNING, started=0.0, work="w"))) == []


@pytest.mark.parametrize(
    ("there", "drift", "expected"),
    [
        pytest.param(terminal(origin=MANUAL), "restart", ["restart s1"], id="idle"),
        pytest.param(terminal(state=RUNNING), "restart", ["restart s1"], id="running"),
        pytest.param(terminal(attached=True), "restart", ["pending s1"], id="attached"),
        pytest.param(terminal(pinned=1.0), "restart", ["pending s1"], id="pinned"),
        pytest.param(terminal(state=RUNNING, work="w"), "restart", ["pending s1"], id="at-work"),
        pytest.param(terminal(busy_until=NOW + 1), "restart", ["pending s1"], id="busy"),
        pytest.param(terminal(state=STOPPED, origin=NAMED), "restart", [], id="stopped"),
        pytest.param(terminal(origin=MANUAL), "next start", [], id="next-start"),
        pytest.param(terminal(origin=MANUAL), "hot", [], id="hot"),
        pytest.param(session(state=RUNNING), "restart", [], id="one-run-an-item"),
    ],
)
def test_a_changed_definition_restarts_terminals(
    there: Session, drift: str, expected: list[str]
) -> None:
    assert done(decide(BUILDER, ObservedSession(there, drift, ("prompt",)))) == expected


def test_a_draining_session_that_is_needed_again_restarts_if_its_definition_changed() -> None:
    there = ObservedSession(terminal(state=DRAINING, origin=MANUAL), "restart", ("prompt",))
    assert done(decide(DESK, there, demand=waiting("a"))) == ["restart s1", "start builder-2 a"]


def test_a_pending_restart_reports_its_obstacle_once() -> None:
    there = terminal(attached=True)
    (change,) = decide(DESK, ObservedSession(there, "restart", ("prompt", "mcp"))).actions
    words = "restart pending: prompt, mcp changed, but a user is attached"
    assert change == UpdateSession("s1", IDLE, "", words)
    known = there._replace(pending=words)
    assert done(decide(DESK, ObservedSession(known, "restart", ("prompt", "mcp")))) == []
    assert decide(DESK, known).actions == (UpdateSession("s1", IDLE, ""),)  # it was changed back


# When to look again


@pytest.mark.parametrize(
    ("there", "pool", "demand", "expected"),
    [
        ([], BUILDER, NOTHING, None),
        ([], BUILDER, Demand(next_due=NOW + 30), NOW + 30),
        ([], BUILDER, Demand(next_due=NOW - 30), None),
        ([session(state=CRASHED, retry_at=NOW + 8)], BUILDER, Demand(next_due=NOW + 30), NOW + 8),
        ([session(state=DRAINING, drain_by=NOW + 5)], FULL, NOTHING, NOW + 5),
        (
            [terminal(state=DRAINING, drain_by=NOW + 5, attached=True)],
            BUILDER._replace(maximum=0),
            NOTHING,
            None,
        ),
        ([terminal(origin=MANUAL)], DESK._replace(idle_timeout=60.0), NOTHING, 1050.0),
        ([terminal(origin=MANUAL)], DESK._replace(sleep_after_idle=20.0), NOTHING, 1010.0),
        ([terminal(origin=MANUAL, pinned=1.0)], DESK._replace(idle_timeout=60.0), NOTHING, None),
        ([terminal()], DESK._replace(minimum=1, idle_timeout=60.0), NOTHING, None),
        ([session(state=RUNNING)], BUILDER._replace(run_timeout=200.0), NOTHING, 1100.0),
        ([terminal(attached=True, busy_until=NOW + 7)], DESK, NOTHING, NOW + 7),
    ],
)
def test_it_wakes_when_time_alone_changes_a_decision(
    there: list[Session], pool: Pool, demand: Demand, expected: float | None
) -> None:
    assert decide(pool, *there, demand=demand).wake_at == expected


def test_a_drain_that_begins_is_looked_at_again_when_it_has_to_end() -> None:
    pool = BUILDER._replace(maximum=0, drain_timeout=50.0)
    assert decide(pool, session(state=RUNNING)).wake_at == NOW + 50.0


@pytest.mark.parametrize(
    ("there", "demand", "expected"),
    [
        ([], NOTHING, "idle"),
        ([session(state=RUNNING)], NOTHING, "1 running"),
        (
            [session(state=RUNNING), session("s2", DRAINING, 2, work="")],
            NOTHING,
            "1 running, 1 draining",
        ),
        ([], waiting("a", "b"), "2 running"),
    ],
)
def test_status_gets_one_line(there: list[Session], demand: Demand, expected: str) -> None:
    assert decide(BUILDER, *there, demand=demand).reason == expected
