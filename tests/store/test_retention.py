"""Retention: which records are deleted when, and which never."""

import pytest

from gascity.model.work import (
    CRASHED,
    DONE,
    FAILED,
    NAMED,
    QUARANTINED,
    STOPPED,
    Decision,
)
from gascity.store.sqlite import retention
from gascity.store.sqlite.retention import DAY
from gascity.store.sqlite.store import SqliteStore
from tests.store.records import AGENT, enter, put, run

NOW = 1000 * DAY


@pytest.fixture(autouse=True)
def keeps_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep only one of the newest of each kind."""
    for name in ("WORK_KEPT", "SESSIONS_KEPT"):
        monkeypatch.setattr(retention, name, 1)
    for name in ("EVENTS_KEPT", "DECISIONS_KEPT"):
        monkeypatch.setattr(retention, name, 5)
    monkeypatch.setattr(retention, "DECISIONS_KEPT_EACH", 2)


def settled(store: SqliteStore, days: float, status: str = DONE, **fields: object) -> str:
    id = put(store, **fields).id
    store.finish(id, status, None, NOW - days * DAY, token=None)
    return id


def test_finished_work_is_deleted_after_thirty_days_except_the_newest(store: SqliteStore) -> None:
    waiting, _ = put(store).id, settled(store, 31, FAILED)
    young, newest = settled(store, 29), settled(store, 40)
    store.prune(NOW)
    assert {work.id for work in store.list_work()} == {waiting, young}
    store.prune(NOW + 100 * DAY)
    assert {work.id for work in store.list_work()} == {waiting, young}, f"{newest} was older"


def test_work_stays_as_long_as_its_dependents(store: SqliteStore) -> None:
    settled(store, 0)
    failed = settled(store, 99, FAILED)
    waiting = put(store, depends_on=(failed,)).id
    first = settled(store, 99)
    settled(store, 99, depends_on=(first,))
    store.prune(NOW)
    assert [work.id for work in store.list_work()] == [waiting, failed, "w-1"]
    assert [work.id for work in store.unfinished_dependencies(waiting)] == [failed]
    assert store.integrity_errors() == []


def test_ended_sessions_are_deleted_after_seven_days_unless_named_or_pinned(
    store: SqliteStore,
) -> None:
    old, work = NOW - 8 * DAY, {}
    for id, fields in {
        "old": {"state": STOPPED},
        "crashed": {"state": CRASHED},
        "young": {"state": STOPPED, "updated": NOW - 6 * DAY},
        "newest": {"state": STOPPED, "updated": NOW - 5 * DAY},
        "pinned": {"state": STOPPED, "pinned": 1.0},
        "called": {"state": STOPPED, "name": "mine"},
        "named": {"state": STOPPED, "origin": NAMED},
        "live": {},
        "waits": {"state": QUARANTINED},
        "owns": {"state": STOPPED},
    }.items():
        enter(store, id, **{"updated": old, **fields})
        work[id] = put(store, session="owns") if id == "owns" else None
    store.prune(NOW)
    kept = {session.id for session in store.sessions()}
    assert kept == {"young", "newest", "pinned", "called", "named", "live", "waits", "owns"}


def test_files_that_no_record_refers_to_are_returned(store: SqliteStore) -> None:
    enter(store, "old", state=STOPPED)
    enter(store, "newest", state=STOPPED, updated=NOW)
    enter(store, "live")
    gone, stays = settled(store, 31), settled(store, 1)
    for work in (gone, stays):
        store.update_work(work, {"log": f"{work}.log"}, NOW - (31 if work == gone else 1) * DAY)
    store.add_run(run("old", work=stays, log=f"{stays}.log", exit_file="a.exit", ended=2.0))
    store.add_run(run("old", work=stays, log="first-try.log", exit_file="b.exit", ended=1.0))
    store.add_run(run("live", work=gone, log=f"{gone}.log", exit_file="c.exit", ended=3.0))
    going_on = store.add_run(run("live", log="d.log", exit_file="d.exit"))
    assert sorted(store.prune(NOW)) == sorted(
        ["a.exit", "b.exit", "c.exit", "first-try.log", f"{gone}.log"]
    )
    assert store.runs() == [going_on]
    assert store.prune(NOW) == []


def test_read_or_archived_mail_and_delivered_nudges_are_deleted(store: SqliteStore) -> None:
    enter(store, "s1")
    unread, read, archived, lately = (store.send_mail("a", "b", "", "", 1.0).id for _ in range(4))
    store.mark_mail([read], NOW - 31 * DAY)
    store.mark_mail([archived], NOW - 40 * DAY, archive=True)
    store.mark_mail([lately], NOW - 31 * DAY)
    store.mark_mail([lately], NOW - 2 * DAY, archive=True)
    delivered, waiting = (store.add_nudge("s1", "x", 1.0).id for _ in range(2))
    store.mark_nudges([delivered], NOW - 2 * DAY)
    store.prune(NOW)
    assert [id for id in (unread, read, archived, lately) if store.mail(id)] == [unread, lately]
    assert store.connection.query("SELECT id FROM nudge") == [(waiting,)]


def test_the_newest_events_and_decisions_stay_and_numbering_continues(store: SqliteStore) -> None:
    for number in range(9):
        store.record_event("config.changed", "city", 1.0, {"number": number})
        store.record_decisions([Decision(float(number), "a", "wait", str(number))])
    for subject in "bcd":
        store.record_decisions([Decision(9.0, subject, "wait", "")])
    store.prune(NOW)
    assert [event.seq for event in store.events()] == [5, 6, 7, 8, 9]
    assert [decision.reason for decision in store.decisions(["a"])] == ["8", "7"]
    assert len(store.decisions(["a", "b", "c", "d"])) == 5
    store.record_event("config.changed", "city", 1.0, {})
    assert store.last_event() == 10


def test_open_and_claimed_work_is_never_deleted(store: SqliteStore) -> None:
    token = enter(store, "s1")
    put(store)
    put(store)
    store.claim(token, 2.0, agent=AGENT)
    store.prune(NOW)
    assert len(store.list_work()) == 2
    assert store.session("s1")
