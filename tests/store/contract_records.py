"""What every store must do with sessions, runs, mail, nudges, events and decisions."""

from contextlib import suppress

import pytest

from gascity.model.work import (
    CRASHED,
    HUMAN,
    IDLE,
    RUNNING,
    STOPPED,
    Decision,
    Stale,
)
from gascity.store.port import Store
from tests.store.making import AGENT, enter, put, run, session, told


class SessionContract:
    """Sessions and runs."""

    def test_a_session_is_kept_as_it_was_added(self, store: Store) -> None:
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
        assert told(store) == [("session.created", "s1")]
        assert store.events()[0].actor == "me"

    def test_an_alias_belongs_to_one_live_session(self, store: Store) -> None:
        enter(store, "s1", alias="ash")
        with pytest.raises(ValueError, match="ash"):
            enter(store, "s2", alias="ash")
        store.set_session("s1", {"state": STOPPED}, 2.0)
        enter(store, "s2", alias="ash")
        with pytest.raises(ValueError, match="taken"):
            store.set_session("s1", {"state": RUNNING}, 3.0)
        assert [one.id for one in store.sessions(live=True)] == ["s2"]

    def test_sessions_are_listed_live_ones_first_then_the_latest(self, store: Store) -> None:
        for id, state, updated in (
            ("s1", STOPPED, 9.0),
            ("s2", RUNNING, 1.0),
            ("s3", CRASHED, 3.0),
            ("s4", IDLE, 2.0),
        ):
            enter(store, id, state=state, updated=updated)
        enter(store, "s5", agent="other", state=STOPPED, updated=5.0)

        def listed(**filters: object) -> list[str]:
            return [one.id for one in store.sessions(**filters)]  # type: ignore[arg-type]

        assert listed() == ["s4", "s2", "s1", "s5", "s3"]
        assert listed(live=True) == ["s4", "s2"]
        assert listed(live=False, agent=AGENT) == ["s1", "s3"]
        assert listed(agent="other") == ["s5"]

    def test_sessions_are_found_by_id_alias_name_and_beginning(self, store: Store) -> None:
        enter(store, "aaaa-1111", alias="ash", state=STOPPED, updated=5.0)
        enter(store, "aaaa-2222", alias="ash", state=STOPPED, updated=6.0)
        enter(store, "bbbb-3333", alias="oak", name="boss")

        def found(reference: str) -> list[str]:
            return [one.id for one in store.find_sessions(reference)]

        assert found("aaaa-1111") == ["aaaa-1111"]
        assert found("oak") == found("boss") == found("bbbb") == ["bbbb-3333"]
        assert found("ash") == ["aaaa-2222", "aaaa-1111"]
        assert found("aaaa") == ["aaaa-2222", "aaaa-1111"]
        assert found("bbb") == found("") == found("cccc") == found("%") == []
        enter(store, "cccc-4444", alias="ash")
        assert found("ash") == ["cccc-4444"]

    def test_a_session_changes_column_by_column(self, store: Store) -> None:
        enter(store, "s1")
        last = store.last_event()
        changed = store.set_session(
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

    def test_a_change_without_an_event_is_not_told(self, store: Store) -> None:
        enter(store, "s1")
        last = store.last_event()
        store.set_session("s1", {}, 5.0)
        found = store.session("s1")
        assert found
        assert found.updated == 5.0
        assert store.last_event() == last

    def test_a_change_is_refused_where_it_makes_no_sense(self, store: Store) -> None:
        enter(store, "s1", generation=4)
        with pytest.raises(Stale):
            store.set_session("s1", {"state": IDLE}, 2.0, generation=3, event="session.idle")
        with pytest.raises(KeyError):
            store.set_session("s2", {"state": IDLE}, 2.0)
        with pytest.raises(ValueError, match="colour"):
            store.set_session("s1", {"colour": "red"}, 2.0)
        assert store.session("s1") == session("s1", generation=4)
        assert store.set_session("s1", {"state": IDLE}, 2.0, generation=4).state == IDLE

    def test_a_deleted_session_takes_runs_and_nudges_along_but_not_work(self, store: Store) -> None:
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
        assert told(store)[-1] == ("session.deleted", "s1")

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
        store.set_run(first.id, {"ended": 5.0, "outcome": "succeeded", "usage": {"output": 1}})
        assert store.runs(open=True) == [third, second]
        assert store.runs(session="s1", open=True) == [third]
        (ended,) = store.runs(open=False)
        assert (ended.id, ended.outcome, ended.usage) == (first.id, "succeeded", {"output": 1})
        with pytest.raises(KeyError):
            store.set_run(99, {"ended": 1.0})
        with pytest.raises(KeyError):
            store.add_run(run("nobody"))

    def test_what_was_spent_is_the_sum_of_ended_runs(self, store: Store) -> None:
        enter(store, "s1", agent="a")
        enter(store, "s2", agent="b")
        costs = (("s1", 10.0, 1.5), ("s1", 20.0, 2.0), ("s2", 20.0, 4.0), ("s2", None, 8.0))
        for who, ended, cost in costs:
            store.add_run(run(who, ended=ended, cost=cost))
        store.add_run(run("s1", ended=30.0))
        assert store.spent(0.0) == 7.5
        assert store.spent(10.1) == 6.0
        assert store.spent(0.0, ["a"]) == 3.5
        assert store.spent(20.0, ["a", "b"]) == 6.0
        assert store.spent(0.0, []) == store.spent(99.0) == 0.0


class PostContract:
    """Mail and nudges."""

    def test_mail_is_read_and_archived(self, store: Store) -> None:
        first = store.send("s1", "mayor", "Tests", "They fail.", 2.0)
        second = store.send(HUMAN, "ash", "Hello", "You there?", 3.0)
        store.send(HUMAN, "oak", "Other", "Not for you", 3.0)
        assert store.mail(first.id) == first
        assert store.mail(99) is None
        assert store.inbox(["mayor", "ash"]) == [second, first]
        assert store.unread() == {"mayor": 1, "ash": 1, "oak": 1}
        assert store.mark_mail([first.id, first.id, 99], 4.0) == 1
        assert store.mark_mail([first.id], 5.0) == 0
        read = store.mail(first.id)
        assert read == first._replace(read=4.0)
        assert store.inbox(["mayor", "ash"], unread=True) == [second]
        assert store.inbox(["mayor"]) == [read]
        assert store.mark_mail([first.id, second.id], 6.0, archive=True) == 2
        assert store.inbox(["mayor", "ash"]) == store.inbox([]) == []
        assert store.unread() == {"oak": 1}
        assert [type for type, _ in told(store)] == [
            *["mail.sent"] * 3,
            "mail.read",
            *["mail.archived"] * 2,
        ]

    def test_a_reply_keeps_the_thread(self, store: Store) -> None:
        first = store.send("a", "b", "One", "", 1.0)
        reply = store.send("b", "a", "Re: One", "", 2.0, reply_to=first.id)
        again = store.send("a", "b", "Re: One", "", 3.0, reply_to=reply.id)
        other = store.send("a", "b", "Two", "", 4.0)
        assert first.thread == reply.thread == again.thread == first.id
        assert other.thread == other.id
        with pytest.raises(KeyError):
            store.send("a", "b", "", "", 5.0, reply_to=99)
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


class HappeningsContract:
    """Events, decisions, notes, and writes that belong together."""

    def test_events_are_numbered_in_order(self, store: Store) -> None:
        assert store.last_event() == 0
        for number in range(5):
            data = {"number": number, "text": "“ü”"}
            store.record("controller.started", "city", float(number), data, actor="me")
        assert [event.seq for event in store.events()] == [1, 2, 3, 4, 5]
        assert [event.data["number"] for event in store.events(2, limit=2)] == [2, 3]
        assert store.last_event() == 5
        event = store.events(4)[0]
        assert (event.at, event.actor, event.data["text"]) == (4.0, "me", "“ü”")
        with pytest.raises(ValueError, match="weather"):
            store.record("weather.changed", "", 1.0, {})

    def test_the_same_decision_again_only_counts_up(self, store: Store) -> None:
        wait, start = Decision(1.0, "a", "wait", "cap"), Decision(2.0, "a", "start", "work")
        store.decide([wait, wait._replace(at=2.0)])
        store.decide([wait._replace(at=3.0), wait._replace(subject="b", at=3.5)])
        store.decide([start._replace(at=4.0), wait._replace(at=5.0)])
        assert store.decisions(["a"]) == [
            Decision(5.0, "a", "wait", "cap", 1),
            Decision(4.0, "a", "start", "work", 1),
            Decision(3.0, "a", "wait", "cap", 3),
        ]
        assert [one.at for one in store.decisions(["b", "a"])] == [5.0, 4.0, 3.5, 3.0]
        assert [one.at for one in store.decisions(["a", "b"], limit=2)] == [5.0, 4.0]
        assert store.decisions(["c"]) == store.decisions([]) == []

    def test_notes_are_kept_for_the_next(self, store: Store) -> None:
        assert store.noted("cursor") == ""
        store.note("cursor", "1")
        store.note("cursor", "2")
        assert store.noted("cursor") == "2"

    def test_writes_that_belong_together_are_there_together_or_not_at_all(
        self, store: Store
    ) -> None:
        with store.writing():
            put(store)
            with store.writing():
                enter(store, "s1")
        assert store.counts()["open"] == 1
        with suppress(RuntimeError), store.writing():
            put(store)
            enter(store, "s2")
            with store.writing():
                store.note("key", "value")
            raise RuntimeError
        assert store.counts()["open"] == 1
        assert store.session("s2") is None
        assert store.noted("key") == ""
        assert len(store.events()) == 2
        assert put(store).id == "w-2"

    def test_a_part_that_failed_is_undone_and_the_rest_goes_on(self, store: Store) -> None:
        with store.writing():
            kept = put(store)
            with suppress(RuntimeError), store.writing():
                put(store)
                raise RuntimeError
            with pytest.raises(ValueError, match="no work"):
                put(store, depends_on=("w-99",))
            with pytest.raises(KeyError):
                store.add_nudge("nobody", "hello", 1.0)
        assert [work.id for work in store.list_work()] == [kept.id]
        assert len(store.events()) == 1

    def test_a_store_in_use_is_sound(self, store: Store) -> None:
        put(store, depends_on=(put(store).id,))
        enter(store, "s1")
        assert store.faults() == []
