"""The sessions that count, and how many there are by every cap."""

from gascity.control.live_state import SessionIndex
from gascity.model.work import (
    CRASHED,
    DRAINING,
    IDLE,
    NAMED,
    POOL,
    RUNNING,
    STOPPED,
    Session,
)


def session(id: str, agent: str = "dome/quality.tester", **more: object) -> Session:
    made = Session(id, agent, POOL, 1, id, RUNNING, "", 0.0, 0.0)
    return made._replace(**more)  # type: ignore[arg-type]


def test_every_cap_counts_a_live_session_once() -> None:
    sessions = SessionIndex()
    sessions.put(session("a"))
    sessions.put(session("a", state=IDLE))
    sessions.put(session("b", "tester"))
    assert {name: n for name, n in sessions.live_counts.items() if n} == {
        "city": 2,
        "agent quality.tester": 1,
        "rig dome": 1,
        "agent tester": 1,
    }


def test_an_ended_session_frees_a_slot_and_is_dropped() -> None:
    sessions = SessionIndex()
    sessions.put(session("a"))
    sessions.slot_freed = False
    sessions.put(session("a", state=STOPPED))
    assert (
        sessions.slot_freed,
        sessions.live_counts["city"],
        len(sessions),
        sessions.agents(),
    ) == (
        True,
        0,
        0,
        [],
    )


def test_those_that_wait_for_their_time_or_have_names_stay() -> None:
    sessions = SessionIndex()
    sessions.put(session("a", state=CRASHED, retry_at=9.0))
    sessions.put(session("b", state=STOPPED, origin=NAMED))
    sessions.put(session("c", state=STOPPED, asked="start"))
    sessions.put(session("d", state=CRASHED))
    assert [one.id for one in sessions] == ["a", "b", "c"]
    assert sessions.live_counts["city"] == 0


def test_ending_sessions_are_counted_separately() -> None:
    sessions = SessionIndex()
    sessions.put(session("a", state=DRAINING))
    sessions.put(session("b"))
    assert (sessions.live_counts["city"], sessions.ending_counts["city"]) == (2, 1)
    sessions.drop("a")
    assert (sessions.live_counts["city"], sessions.ending_counts["city"]) == (1, 0)


def test_an_alias_names_its_current_session() -> None:
    sessions = SessionIndex()
    sessions.put(session("a", alias="ash"))
    assert sessions.by_alias("ash") is not None
    sessions.put(session("a", alias="oak"))
    assert sessions.by_alias("ash") is None
    assert sessions.by_alias("oak") is not None
