"""The contract of stores about sessions, runs, mail, nudges, events and decisions."""

import select
from contextlib import suppress
from typing import Any

import pytest

from gascity.model.work import (
    CRASHED,
    DONE,
    FAILED,
    HUMAN,
    IDLE,
    QUARANTINED,
    RUNNING,
    STOPPED,
    Decision,
    StaleTokenError,
)
from gascity.store.port import Activity, ConflictError, Store
from tests.store.records import AGENT, enter, event_types, put, run, session


class SessionContract:
    """Sessions and runs."""

    def test_a_session_is_stored_as_added(self, store: Store) -> None:
        whole = session(
            "s1",
            name="mine",
            interactive=True,
            prints={"prompt": "abc"},
            started=2.0,
            pinned=3.0,
            attached=True,
            crashes=2,
            asked="stop",
        )
        assert store.add_session(whole, actor="me") == whole
        assert store.session("s1") == whole
        assert store.session("s2") is None
        assert event_types(store) == [("session.created", "s1")]
        assert store.events()[0].actor == "me"

    def test_an_alias_belongs_to_one_live_session(self, store: Store) -> None:
        enter(store, "s1", alias="ash")
        with pytest.raises(ValueError, match="ash"):
            enter(store, "s2", alias="ash")
        store.update_session("s1", {"state": STOPPED}, 2.0)
        enter(store, "s2", alias="ash")
        with pytest.raises(ValueError, match="already uses the alias"):
            store.update_session("s1", {"state": RUNNING}, 3.0)
        assert [session.id for session in store.sessions(live=True)] == ["s2"]

    def test_live_sessions_are_listed_first_then_the_latest(self, store: Store) -> None:
        for id, state, updated in (
            ("s1", STOPPED, 9.0),
            ("s2", RUNNING, 1.0),
            ("s3", CRASHED, 3.0),
            ("s4", IDLE, 2.0),
        ):
            enter(store, id, state=state, updated=updated)
        enter(store, "s5", agent="other", state=STOPPED, updated=5.0)

        def listed(**filters: object) -> list[str]:
            return [session.id for session in store.sessions(**filters)]  # type: ignore[arg-type]

        assert listed() == ["s4", "s2", "s1", "s5", "s3"]
        assert listed(live=True) == ["s4", "s2"]
        assert listed(live=False, agent=AGENT) == ["s1", "s3"]
        assert listed(agent="other") == ["s5"]

    def test_session_keys_are_in_the_order_of_a_list(self, store: Store) -> None:
        enter(store, "s1", state=STOPPED, updated=9.0)
        enter(store, "s2", state=QUARANTINED, updated=1.0)
        enter(store, "s3", state=RUNNING, updated=1.0)
        enter(store, "s4", state=CRASHED, updated=2.0, retry_at=50.0)
        enter(store, "s5", state=STOPPED, updated=1.0, pinned=3.0)
        enter(store, "s6", state=IDLE, updated=1.0, pinned=4.0, agent="other")
        keys = store.session_keys()
        assert [key.id for key in keys] == ["s6", "s5", "s3", "s4", "s2", "s1"]
        assert keys[0] == ("s6", "other", IDLE)
        ids = ["s1", "gone", "s6"]
        assert [session.id for session in store.sessions_by_id(ids)] == ["s1", "s6"]
        assert store.sessions_by_id([]) == []

    def test_sessions_are_found_by_id_alias_name_and_id_prefix(self, store: Store) -> None:
        enter(store, "aaaa-1111", alias="ash", state=STOPPED, updated=5.0)
        enter(store, "aaaa-2222", alias="ash", state=STOPPED, updated=6.0)
        enter(store, "bbbb-3333", alias="oak", name="boss")

        def found(reference: str) -> list[str]:
            return [session.id for session in store.find_sessions(reference)]

        assert found("aaaa-1111") == ["aaaa-1111"]
        assert found("oak") == found("boss") == found("bbbb") == ["bbbb-3333"]
        assert found("ash") == ["aaaa-2222", "aaaa-1111"]
        assert found("aaaa") == ["aaaa-2222", "aaaa-1111"]
        assert found("bbb") == found("") == found("cccc") == found("%") == []
        enter(store, "cccc-4444", alias="ash")
        assert found("ash") == ["cccc-4444"]

    def test_single_columns_of_a_session_can_be_updated(self, store: Store) -> None:
        enter(store, "s1")
        last = store.last_event()
        changed = store.update_session(
            "s1",
            {"state": IDLE, "prints": {"env": "x"}, "attached": True, "idle_since": 4.0},
            5.0,
            event="session.idle",
            data={"work": "w-1"},
            actor="controller",
        )
        assert changed == store.session("s1")
        assert (changed.state, changed.prints, changed.attached) == (IDLE, {"env": "x"}, True)
        assert (changed.idle_since, changed.updated, changed.created) == (4.0, 5.0, 1.0)
        (event,) = store.events(last)
        assert (event.type, event.subject, event.actor) == ("session.idle", "s1", "controller")
        assert event.data["agent"] == AGENT
        assert (event.data["state"], event.data["work"]) == (IDLE, "w-1")

    def test_an_update_without_an_event_type_records_none(self, store: Store) -> None:
        enter(store, "s1")
        last = store.last_event()
        store.update_session("s1", {}, 5.0)
        found = store.session("s1")
        assert found
        assert found.updated == 5.0
        assert store.last_event() == last

    def test_invalid_updates_of_a_session_are_refused(self, store: Store) -> None:
        enter(store, "s1", generation=4)
        with pytest.raises(StaleTokenError):
            store.update_session("s1", {"state": IDLE}, 2.0, generation=3, event="session.idle")
        with pytest.raises(KeyError):
            store.update_session("s2", {"state": IDLE}, 2.0)
        with pytest.raises(ValueError, match="colour"):
            store.update_session("s1", {"colour": "red"}, 2.0)
        assert store.session("s1") == session("s1", generation=4)
        assert store.update_session("s1", {"state": IDLE}, 2.0, generation=4).state == IDLE

    def test_deleting_a_session_deletes_runs_and_nudges_but_not_work(self, store: Store) -> None:
        token = enter(store, "s1")
        work = put(store)
        store.claim(token, 2.0, agent=AGENT)
        number = store.add_run(run("s1", work=work.id)).id
        store.add_nudge("s1", "hello", 2.0)
        store.delete_session("s1", 3.0)
        assert store.session("s1") is None
        assert store.run(number) is None
        assert store.nudges("s1") == []
        assert store.work(work.id)
        assert event_types(store)[-1] == ("session.deleted", "s1")

    def test_runs_are_numbered_and_listed_latest_first(self, store: Store) -> None:
        enter(store, "s1")
        enter(store, "s2")
        first = store.add_run(run("s1", work="w-1", usage={"input": 4}, about="mail"))
        second = store.add_run(run("s2", work="w-1"))
        third = store.add_run(run("s1"))
        assert store.run(first.id) == first
        assert store.runs() == [third, second, first]
        assert store.runs(session="s1") == [third, first]
        assert store.runs(work="w-1") == [second, first]
        store.update_run(first.id, {"ended": 5.0, "outcome": "succeeded", "usage": {"output": 1}})
        assert store.runs(open=True) == [third, second]
        assert store.runs(session="s1", open=True) == [third]
        (ended,) = store.runs(open=False)
        assert (ended.id, ended.outcome, ended.usage) == (first.id, "succeeded", {"output": 1})
        with pytest.raises(KeyError):
            store.update_run(99, {"ended": 1.0})
        with pytest.raises(KeyError):
            store.add_run(run("nobody"))

    def test_the_total_cost_is_the_sum_over_ended_runs(self, store: Store) -> None:
        enter(store, "s1", agent="a")
        enter(store, "s2", agent="b")
        costs = (("s1", 10.0, 1.5), ("s1", 20.0, 2.0), ("s2", 20.0, 4.0), ("s2", None, 8.0))
        for who, ended, cost in costs:
            store.add_run(run(who, ended=ended, cost=cost))
        store.add_run(run("s1", ended=30.0))
        assert store.total_cost(0.0) == 7.5
        assert store.total_cost(10.1) == 6.0
        assert store.total_cost(0.0, ["a"]) == 3.5
        assert store.total_cost(20.0, ["a", "b"]) == 6.0
        assert store.total_cost(0.0, []) == store.total_cost(99.0) == 0.0

    def test_runs_after_an_id_come_in_order_up_to_the_limit(self, store: Store) -> None:
        enter(store, "s1")
        ids = [store.add_run(run("s1")).id for _ in range(3)]
        assert [found.id for found in store.runs_after(0, 2)] == ids[:2]
        assert [found.id for found in store.runs_after(ids[0], 9)] == ids[1:]
        assert store.runs_after(ids[-1], 9) == []

    def test_the_usage_of_ended_runs_is_listed(self, store: Store) -> None:
        enter(store, "s1", agent="a")
        enter(store, "s2", agent="b")
        store.add_run(run("s1", ended=10.0, cost=1.5, usage={"input": 3}))
        store.add_run(run("s2", ended=20.0))
        store.add_run(run("s2"))
        assert list(store.run_usage(10.0)) == [
            ("a", 10.0, {"input": 3}, 1.5),
            ("b", 20.0, None, None),
        ]
        assert list(store.run_usage(10.1)) == [("b", 20.0, None, None)]

    def test_activity_is_counted_in_steps_of_time(self, store: Store) -> None:
        enter(store, "s1")
        for at, status in ((9.0, DONE), (10.0, DONE), (14.0, FAILED), (19.9, DONE), (31.0, DONE)):
            store.finish(put(store).id, status, None, at, token=None)
        put(store, 12.0)
        for ended, cost in ((11.0, 1.5), (12.0, 0.5), (21.0, 2.0), (22.0, None), (None, 4.0)):
            store.add_run(run("s1", ended=ended, cost=cost))
        assert store.activity(10.0, 10.0) == [
            Activity(10.0, 2, 1, 2.0),
            Activity(20.0, 0, 0, 2.0),
            Activity(30.0, 1, 0, 0.0),
        ]
        assert store.activity(99.0, 1.0) == []


class MailContract:
    """Mail and nudges."""

    def test_mail_is_read_and_archived(self, store: Store) -> None:
        first = store.send_mail("s1", "mayor", "Tests", "They fail.", 2.0)
        second = store.send_mail(HUMAN, "ash", "Hello", "You there?", 3.0)
        store.send_mail(HUMAN, "oak", "Other", "Not for you", 3.0)
        assert store.mail(first.id) == first
        assert store.mail(99) is None
        assert store.inbox(["mayor", "ash"]) == [second, first]
        assert store.inbox(["mayor", "ash"], limit=1) == [second]
        assert store.inbox(["mayor", "ash"], before=second.id) == [first]
        assert store.count_inbox(["mayor", "ash"]) == 2
        assert store.unread_counts() == {"mayor": 1, "ash": 1, "oak": 1}
        assert store.mark_mail([first.id, first.id, 99], 4.0) == 1
        assert store.mark_mail([first.id], 5.0) == 0
        read = store.mail(first.id)
        assert read == first._replace(read=4.0)
        assert store.inbox(["mayor", "ash"], unread=True) == [second]
        assert store.count_inbox(["mayor", "ash"], unread=True) == 1
        assert store.inbox(["mayor"]) == [read]
        assert store.mark_mail([first.id, second.id], 6.0, archive=True) == 2
        assert store.inbox(["mayor", "ash"]) == store.inbox([]) == []
        assert store.unread_counts() == {"oak": 1}
        assert [type for type, _ in event_types(store)] == [
            *["mail.sent"] * 3,
            "mail.read",
            *["mail.archived"] * 2,
        ]

    def test_a_reply_keeps_the_thread(self, store: Store) -> None:
        first = store.send_mail("a", "b", "One", "", 1.0)
        reply = store.send_mail("b", "a", "Re: One", "", 2.0, reply_to=first.id)
        again = store.send_mail("a", "b", "Re: One", "", 3.0, reply_to=reply.id)
        other = store.send_mail("a", "b", "Two", "", 4.0)
        assert first.thread == reply.thread == again.thread == first.id
        assert other.thread == other.id
        with pytest.raises(KeyError):
            store.send_mail("a", "b", "", "", 5.0, reply_to=99)
        assert len(store.inbox(["b"])) == 3

    def test_nudges_wait_in_order_until_they_are_delivered(self, store: Store) -> None:
        enter(store, "s1")
        enter(store, "s2")
        first, second = (store.add_nudge("s1", text, 2.0) for text in ("one", "two"))
        store.add_nudge("s2", "three", 2.0)
        assert store.nudges("s1") == [first, second]
        store.mark_nudges([first.id], 3.0)
        assert store.nudges("s1") == [second]
        with pytest.raises(KeyError):
            store.add_nudge("nobody", "hello", 2.0)
        event = store.events()[2]
        assert (event.type, event.subject) == ("session.nudged", "s1")
        assert "one" not in str(event.data), "what a nudge says is for its session"

    def test_a_nudge_is_taken_by_one_and_never_while_it_is_typed(self, store: Store) -> None:
        enter(store, "s1")
        first = store.add_nudge("s1", "one", 2.0, about="work w-1")
        second = store.add_nudge("s1", "two", 2.0)
        assert store.set_typing(first.id, 3.0)
        assert store.nudges("s1") == [first._replace(typing=3.0), second]
        assert store.take_nudges("s1", 4.0) == [second._replace(delivered=4.0)]
        assert store.take_nudges("s1", 4.0) == []
        assert store.set_typing(first.id, None)
        assert store.take_nudges("s1", 5.0) == [first._replace(delivered=5.0)]
        assert not store.set_typing(first.id, 6.0)

    def test_a_dropped_nudge_is_gone_and_a_delivered_one_stays_delivered(
        self, store: Store
    ) -> None:
        enter(store, "s1")
        first, second = (store.add_nudge("s1", text, 2.0) for text in ("one", "two"))
        store.mark_nudges([first.id], 3.0)
        for nudge in (first, second):
            store.drop_nudge(nudge.id)
        assert store.nudges("s1") == []


class EventContract:
    """Events, decisions, notes and transactions."""

    def test_events_are_numbered_in_order(self, store: Store) -> None:
        assert store.last_event() == 0
        for number in range(5):
            data = {"number": number, "text": "“ü”"}
            store.record_event("controller.started", "city", float(number), data, actor="me")
        assert [event.seq for event in store.events()] == [1, 2, 3, 4, 5]
        assert [event.data["number"] for event in store.events(2, limit=2)] == [2, 3]
        assert store.last_event() == 5
        event = store.events(4)[0]
        assert (event.at, event.actor, event.data["text"]) == (4.0, "me", "“ü”")
        with pytest.raises(ValueError, match="weather"):
            store.record_event("weather.changed", "", 1.0, {})

    def test_events_are_selected_by_type_and_time_from_either_end(self, store: Store) -> None:
        assert store.count_events() == 0
        types = ("work.created", "mail.sent", "work.done", "controller.started", "work.created")
        for at, type in enumerate(types):
            store.record_event(type, "x", float(at), {})

        def listed(after: int = 0, limit: int = 9, **filters: Any) -> list[int]:
            return [event.seq for event in store.events(after, limit, **filters)]

        assert listed(types=["work"]) == [1, 3, 5]
        assert listed(types=["work.done", "mail"]) == [2, 3]
        assert listed(types=["wor", "work.", "work.creat"]) == []
        assert listed(since=2.0) == [3, 4, 5]
        assert listed(limit=2, types=["work"]) == [1, 3]
        assert listed(limit=2, types=["work"], newest=True) == [3, 5]
        assert listed(1, since=3.0, newest=True) == [4, 5]
        assert (store.count_events(), store.count_events(1, types=["work"])) == (5, 2)
        assert [store.count_events(after) for after in (3, 5, 9)] == [2, 0, 0]
        assert store.count_events(types=["mail", "work.done"], since=2.0) == 1

    def test_a_repeated_decision_only_counts_up(self, store: Store) -> None:
        wait, start = Decision(1.0, "a", "wait", "cap"), Decision(2.0, "a", "start", "work")
        store.record_decisions([wait, wait._replace(at=2.0)])
        store.record_decisions([wait._replace(at=3.0), wait._replace(subject="b", at=3.5)])
        store.record_decisions([start._replace(at=4.0), wait._replace(at=5.0)])
        assert store.decisions(["a"]) == [
            Decision(5.0, "a", "wait", "cap", 1),
            Decision(4.0, "a", "start", "work", 1),
            Decision(3.0, "a", "wait", "cap", 3),
        ]
        assert [decision.at for decision in store.decisions(["b", "a"])] == [5.0, 4.0, 3.5, 3.0]
        assert [decision.at for decision in store.decisions(["a", "b"], limit=2)] == [5.0, 4.0]
        assert store.decisions(["c"]) == store.decisions([]) == []

    def test_notes_are_saved_for_the_next_controller(self, store: Store) -> None:
        assert store.get_note("cursor") == ""
        store.set_note("cursor", "1")
        store.set_note("cursor", "2")
        assert store.get_note("cursor") == "2"

    def test_a_transaction_commits_all_writes_or_none(self, store: Store) -> None:
        with store.transaction():
            put(store)
            with store.transaction():
                enter(store, "s1")
        assert store.work_counts()["open"] == 1
        with suppress(RuntimeError), store.transaction():
            put(store)
            enter(store, "s2")
            with store.transaction():
                store.set_note("key", "value")
            raise RuntimeError
        assert store.work_counts()["open"] == 1
        assert store.session("s2") is None
        assert store.get_note("key") == ""
        assert len(store.events()) == 2
        assert put(store).id == "w-2"

    def test_a_failed_nested_transaction_is_undone_alone(self, store: Store) -> None:
        with store.transaction():
            kept = put(store)
            with suppress(RuntimeError), store.transaction():
                put(store)
                raise RuntimeError
            with pytest.raises(ValueError, match="no such work item"):
                put(store, depends_on=("w-99",))
            with pytest.raises(KeyError):
                store.add_nudge("nobody", "hello", 1.0)
        assert [work.id for work in store.list_work()] == [kept.id]
        assert len(store.events()) == 1

    def test_a_store_in_use_has_no_integrity_errors(self, store: Store) -> None:
        put(store, depends_on=(put(store).id,))
        enter(store, "s1")
        assert store.integrity_errors() == []


class SharingContract:
    """One store used by two: `other` is a second connection to the same records."""

    def test_only_writes_of_others_are_reported_once(self, store: Store, other: Store) -> None:
        put(store)
        assert not store.changed()
        put(other)
        assert store.changed()
        assert not store.changed()
        assert len(store.list_work()) == 2

    def test_a_write_by_another_wakes_subscribers(self, store: Store, other: Store) -> None:
        wakeups = store.subscribe()
        assert not readable(wakeups.fd)
        for _ in range(2):
            put(other)
            assert readable(wakeups.fd)
            wakeups.drain()
            assert not readable(wakeups.fd)
        wakeups.close()
        put(other)

    def test_an_alias_in_use_by_a_session_of_another_is_a_conflict(
        self, store: Store, other: Store
    ) -> None:
        enter(other, "s1", alias="ash")
        with pytest.raises(ConflictError, match="ash"):
            enter(store, "s2", alias="ash")
        assert store.session("s2") is None


def readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])
