"""The sessions that count, and how many there are by every cap."""

from gascity.control.roster import Roster
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
    roster = Roster()
    roster.put(session("a"))
    roster.put(session("a", state=IDLE))
    roster.put(session("b", "tester"))
    assert {name: n for name, n in roster.live.items() if n} == {
        "city": 2,
        "agent quality.tester": 1,
        "rig dome": 1,
        "agent tester": 1,
    }


def test_one_that_ends_frees_a_place_and_is_let_go() -> None:
    roster = Roster()
    roster.put(session("a"))
    roster.freed = False
    roster.put(session("a", state=STOPPED))
    assert (roster.freed, roster.live["city"], len(roster), roster.agents()) == (True, 0, 0, [])


def test_those_that_wait_for_their_time_or_have_names_stay() -> None:
    roster = Roster()
    roster.put(session("a", state=CRASHED, retry_at=9.0))
    roster.put(session("b", state=STOPPED, origin=NAMED))
    roster.put(session("c", state=STOPPED, asked="start"))
    roster.put(session("d", state=CRASHED))
    assert [one.id for one in roster] == ["a", "b", "c"]
    assert roster.live["city"] == 0


def test_those_on_their_way_out_are_told_apart() -> None:
    roster = Roster()
    roster.put(session("a", state=DRAINING))
    roster.put(session("b"))
    assert (roster.live["city"], roster.leaving["city"]) == (2, 1)
    roster.drop("a")
    assert (roster.live["city"], roster.leaving["city"]) == (1, 0)


def test_an_alias_names_whoever_has_it_now() -> None:
    roster = Roster()
    roster.put(session("a", alias="ash"))
    assert roster.called("ash") is not None
    roster.put(session("a", alias="oak"))
    assert roster.called("ash") is None
    assert roster.called("oak") is not None
