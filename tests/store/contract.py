"""What every store must do with work. An adapter is held to it by one `store` fixture."""

import pytest

from gascity.model.work import CANCELLED, CLAIMED, DONE, FAILED, OPEN, Result, Stale, Token
from gascity.store.port import Store
from tests.store.making import AGENT, enter, put, told

OTHER = "rig/mayor"


class WorkContract:
    """Work that is put, listed, counted."""

    def test_work_is_kept_as_it_was_put(self, store: Store) -> None:
        first = put(store)
        work = put(
            store,
            5.0,
            title="Mend it",
            prefix="rig",
            priority=1,
            depends_on=(first.id,),
            not_before=9.0,
            sender="s1",
            parent=first.id,
            depth=1,
        )
        assert work == store.work(work.id)
        assert (work.id, work.agent, work.title, work.body) == ("rig-2", AGENT, "Mend it", "a body")
        assert (work.status, work.priority, work.created, work.updated) == (OPEN, 1, 5.0, 5.0)
        assert (work.depends_on, work.not_before) == ((first.id,), 9.0)
        assert (work.sender, work.parent, work.depth) == ("s1", first.id, 1)
        assert (work.attempts, work.failures, work.result, work.session) == (0, 0, None, "")
        assert store.work("w-99") is None

    def test_one_counter_numbers_the_work_of_all_prefixes(self, store: Store) -> None:
        assert [put(store, prefix=prefix).id for prefix in "abca"] == ["a-1", "b-2", "c-3", "a-4"]

    def test_dependencies_stay_in_their_order_and_count_once(self, store: Store) -> None:
        a, b, c = (put(store).id for _ in range(3))
        assert put(store, depends_on=(c, a, b, a)).depends_on == (c, a, b)

    def test_work_cannot_depend_on_what_is_not_there_nor_on_itself(self, store: Store) -> None:
        there = put(store).id
        for needs in (("w-77",), (there, "w-2")):
            with pytest.raises(ValueError, match="no work"):
                put(store, depends_on=needs)
        assert [work.id for work in store.list_work()] == [there]
        assert put(store).id == "w-2", "a refused item uses no number up"

    def test_listing_is_newest_first_and_filters(self, store: Store) -> None:
        token = enter(store, "s1")
        ids = [put(store, agent=agent).id for agent in (AGENT, OTHER, AGENT, AGENT)]
        store.claim(token, 2.0, work=ids[2])
        store.finish(ids[0], DONE, None, 3.0, token=None)

        def listed(**filters: object) -> list[str]:
            return [work.id for work in store.list_work(**filters)]  # type: ignore[arg-type]

        assert listed() == ids[::-1]
        assert listed(limit=2) == ids[:1:-1]
        assert listed(agent=OTHER) == [ids[1]]
        assert listed(status=(OPEN,)) == [ids[3], ids[1]]
        assert listed(status=(OPEN, CLAIMED), agent=AGENT) == [ids[3], ids[2]]
        assert listed(status=(DONE, FAILED)) == [ids[0]]
        assert listed(status=(DONE, OPEN), agent=AGENT) == [ids[3], ids[0]]
        assert listed(session="s1") == [ids[2]]
        assert listed(session="s2") == []
        with pytest.raises(ValueError, match="no status"):
            listed(status=("asleep",))

    def test_counts_know_all_five_words(self, store: Store) -> None:
        assert store.counts() == {OPEN: 0, CLAIMED: 0, DONE: 0, FAILED: 0, CANCELLED: 0}
        put(store)
        store.finish(put(store).id, FAILED, None, 2.0, token=None)
        put(store, agent=OTHER)
        assert store.counts() == {OPEN: 2, CLAIMED: 0, DONE: 0, FAILED: 1, CANCELLED: 0}
        assert store.counts(OTHER) == {OPEN: 1, CLAIMED: 0, DONE: 0, FAILED: 0, CANCELLED: 0}

    def test_agents_with_work_that_is_not_settled_are_known(self, store: Store) -> None:
        assert store.open_agents() == []
        token = enter(store, "s1")
        claimed, settled = put(store), put(store, agent="c")
        put(store, agent="b")
        put(store, agent="b")
        store.claim(token, 2.0, work=claimed.id)
        store.finish(settled.id, DONE, None, 2.0, token=None)
        assert sorted(store.open_agents()) == ["b", AGENT]

    def test_notes_on_work_change_columns_and_tell_nothing(self, store: Store) -> None:
        id = put(store).id
        last = store.last_event()
        store.note_work(id, {"branch": "city/a", "commits": 3, "log": "run.log"}, 4.0)
        work = store.work(id)
        assert work
        assert (work.branch, work.commits, work.log, work.updated) == ("city/a", 3, "run.log", 4.0)
        assert store.last_event() == last
        with pytest.raises(ValueError, match="status"):
            store.note_work(id, {"status": DONE}, 5.0)
        with pytest.raises(KeyError):
            store.note_work("w-99", {"branch": "x"}, 5.0)


class QueueContract:
    """What is claimable, and in which order."""

    def test_the_most_urgent_comes_first_then_who_came_first(self, store: Store) -> None:
        late, urgent, early = put(store, priority=4), put(store, priority=0), put(store)
        usual = put(store)
        order = [urgent.id, early.id, usual.id, late.id]
        assert [work.id for work in store.claimable(AGENT, 2.0, 10)] == order
        assert [store.position(id, 2.0) for id in order] == [0, 1, 2, 3]
        assert [work.id for work in store.claimable(AGENT, 2.0, 2)] == order[:2]

    def test_work_of_other_agents_is_neither_claimable_nor_before(self, store: Store) -> None:
        put(store, agent=OTHER, priority=0)
        mine = put(store)
        assert store.claimable(AGENT, 2.0, 10) == [mine]
        assert store.position(mine.id, 2.0) == 0

    def test_work_waits_for_its_time(self, store: Store) -> None:
        put(store, not_before=20.0)
        put(store, not_before=10.0)
        assert store.claimable(AGENT, 9.9, 10) == []
        assert store.next_due(AGENT, 9.9) == 10.0
        assert len(store.claimable(AGENT, 10.0, 10)) == 1
        assert store.next_due(AGENT, 10.0) == 20.0
        assert store.next_due(AGENT, 20.0) is None
        assert store.next_due(OTHER, 0.0) is None

    def test_work_waits_until_all_it_depends_on_is_done(self, store: Store) -> None:
        first, second = put(store), put(store)
        after = put(store, depends_on=(first.id, second.id))
        assert [work.id for work in store.waits_for(after.id)] == [first.id, second.id]
        store.finish(first.id, DONE, None, 2.0, token=None)
        assert [work.id for work in store.waits_for(after.id)] == [second.id]
        assert after.id not in [work.id for work in store.claimable(AGENT, 2.0, 10)]
        store.finish(second.id, DONE, None, 3.0, token=None)
        assert [work.id for work in store.claimable(AGENT, 3.0, 10)] == [after.id]
        assert store.waits_for(after.id) == []

    @pytest.mark.parametrize("status", [FAILED, CANCELLED])
    def test_work_after_what_failed_or_was_cancelled_waits_on(
        self, store: Store, status: str
    ) -> None:
        first = put(store)
        after = put(store, depends_on=(first.id,))
        store.finish(first.id, status, None, 2.0, token=None)
        later = put(store, depends_on=(first.id,))
        assert store.claimable(AGENT, 9.0, 10) == []
        assert [work.status for work in store.waits_for(after.id)] == [status]
        store.reopen(first.id, 3.0, token=None, reason="once more")
        store.finish(first.id, DONE, None, 4.0, token=None)
        assert [w.id for w in store.claimable(AGENT, 9.0, 10)] == [after.id, later.id]

    def test_reopening_what_was_done_makes_others_wait_again(self, store: Store) -> None:
        first = put(store)
        after = put(store, depends_on=(first.id,))
        store.finish(first.id, DONE, None, 2.0, token=None)
        store.reopen(first.id, 3.0, token=None, reason="it was not right")
        assert [work.id for work in store.claimable(AGENT, 9.0, 10)] == [first.id]
        assert [work.id for work in store.waits_for(after.id)] == [first.id]

    def test_whose_open_work_waits_for_an_item_is_known(self, store: Store) -> None:
        first = put(store)
        put(store, agent="b", depends_on=(first.id,))
        put(store, agent="b", depends_on=(first.id,))
        over = put(store, agent="c", depends_on=(first.id,))
        store.finish(over.id, CANCELLED, None, 2.0, token=None)
        assert store.dependents(first.id) == ["b"]
        assert store.dependents(over.id) == []

    def test_work_that_was_slung_in_the_course_of_other_work_is_counted(self, store: Store) -> None:
        parent = put(store)
        put(store, parent=parent.id)
        put(store, parent=parent.id)
        assert (store.children(parent.id), store.children("w-2"), store.children("")) == (2, 0, 0)

    def test_what_depends_on_done_work_does_not_wait(self, store: Store) -> None:
        first = put(store)
        store.finish(first.id, DONE, None, 2.0, token=None)
        after = put(store, depends_on=(first.id,))
        assert store.claimable(AGENT, 2.0, 1) == [after]

    def test_reserved_work_is_for_its_session_alone(self, store: Store) -> None:
        mine, theirs = enter(store, "s1"), enter(store, "s2")
        work = put(store, session="s1")
        assert (work.session, work.reserved) == ("s1", True)
        assert store.claimable(AGENT, 2.0, 10) == []
        assert store.claimable(AGENT, 2.0, 10, session="s2") == []
        assert store.claimable(AGENT, 2.0, 10, session="s1") == [work]
        assert store.claim(theirs, 2.0, agent=AGENT, work=work.id) is None
        claimed = store.claim(mine, 2.0, agent=AGENT)
        assert claimed
        assert claimed.id == work.id
        again = store.reopen(work.id, 3.0, token=mine, reason="lost")
        assert (again.session, again.reserved, again.status) == ("s1", True, OPEN)
        assert store.claim(theirs, 3.0, agent=AGENT) is None


class ClaimContract:
    """Work that changes hands."""

    def test_a_claim_takes_the_next_item_and_counts_an_attempt(self, store: Store) -> None:
        token = enter(store, "s1", generation=7)
        put(store)
        urgent = put(store, priority=0)
        work = store.claim(token, 3.0, agent=AGENT)
        assert work == store.work(urgent.id)
        assert work
        assert (work.status, work.session, work.generation) == (CLAIMED, "s1", 7)
        assert (work.attempts, work.updated, work.reserved) == (1, 3.0, False)
        assert urgent.id not in [one.id for one in store.claimable(AGENT, 3.0, 10, session="s1")]

    def test_a_claim_finds_nothing_where_nothing_is_claimable(self, store: Store) -> None:
        token = enter(store, "s1")
        later = put(store, not_before=10.0)
        assert store.claim(token, 2.0, agent=AGENT) is None
        assert store.claim(token, 2.0, work=later.id) is None
        assert store.claim(token, 2.0, work="w-99") is None
        assert store.counts()[OPEN] == 1

    def test_a_claim_takes_the_item_asked_for_or_else_the_next(self, store: Store) -> None:
        first, second, third = (enter(store, id) for id in ("s1", "s2", "s3"))
        one, two, three = put(store), put(store), put(store)

        def claimed(token: Token, work: str) -> str | None:
            found = store.claim(token, 2.0, agent=AGENT, work=work)
            return found and found.id

        assert claimed(first, two.id) == two.id
        assert claimed(second, two.id) == one.id
        assert claimed(third, two.id) == three.id

    def test_a_session_that_holds_an_item_gets_that_again(self, store: Store) -> None:
        token = enter(store, "s1")
        put(store)
        put(store)
        held = store.claim(token, 2.0, agent=AGENT)
        assert store.claim(token, 9.0, agent=AGENT) == held
        assert store.counts()[CLAIMED] == 1

    def test_an_older_start_of_a_session_can_claim_nothing(self, store: Store) -> None:
        old = enter(store, "s1")
        put(store)
        store.set_session("s1", {"generation": 2}, 2.0)
        for token in (old, Token("s1", 3), Token("nobody", 1)):
            with pytest.raises(Stale):
                store.claim(token, 3.0, agent=AGENT)
        assert store.counts()[OPEN] == 1
        assert store.claim(Token("s1", 2), 3.0, agent=AGENT)

    def test_the_holder_settles_its_work(self, store: Store) -> None:
        token = enter(store, "s1")
        id = put(store).id
        store.claim(token, 2.0, agent=AGENT)
        result = Result(0, "mended", {"input": 10, "output": 2}, 0.25)
        work = store.finish(id, DONE, result, 3.0, token=token, reason="it said so")
        assert work == store.work(id)
        assert (work.status, work.result, work.reason) == (DONE, result, "it said so")
        assert (work.session, work.updated) == ("s1", 3.0)

    def test_a_result_may_say_little_or_nothing(self, store: Store) -> None:
        for result in (None, Result(), Result(exit_code=3)):
            id = put(store).id
            store.finish(id, FAILED, result, 2.0, token=None)
            work = store.work(id)
            assert work
            assert work.result == result

    def test_settling_again_the_same_way_changes_nothing(self, store: Store) -> None:
        token = enter(store, "s1")
        id = put(store).id
        store.claim(token, 2.0, agent=AGENT)
        settled = store.finish(id, DONE, Result(0, "first"), 3.0, token=token)
        last = store.last_event()
        for by in (token, None):
            assert store.finish(id, DONE, Result(1, "second"), 4.0, token=by) == settled
        assert store.last_event() == last
        for by in (token, None):
            with pytest.raises(Stale, match="done"):
                store.finish(id, FAILED, None, 4.0, token=by)

    def test_only_the_holder_may_settle_or_reopen(self, store: Store) -> None:
        first, second = enter(store, "s1"), enter(store, "s2")
        id = put(store).id
        with pytest.raises(Stale):
            store.finish(id, DONE, None, 2.0, token=first)
        store.claim(first, 2.0, agent=AGENT)
        for token in (second, Token("s1", 2)):
            with pytest.raises(Stale) as stale:
                store.finish(id, DONE, None, 3.0, token=token)
            assert stale.value.holder == "s1"
            with pytest.raises(Stale):
                store.reopen(id, 3.0, token=token, reason="mine now")
        work = store.work(id)
        assert work
        assert (work.status, work.session) == (CLAIMED, "s1")

    def test_who_lost_an_item_can_do_nothing_with_it_any_more(self, store: Store) -> None:
        first, second = enter(store, "s1"), enter(store, "s2")
        id = put(store).id
        store.claim(first, 2.0, agent=AGENT)
        store.reopen(id, 3.0, token=None, reason="lost")
        store.claim(second, 4.0, agent=AGENT)
        store.finish(id, DONE, None, 5.0, token=second)
        for status in (DONE, FAILED):
            with pytest.raises(Stale):
                store.finish(id, status, None, 6.0, token=first)
        with pytest.raises(Stale):
            store.reopen(id, 6.0, token=first, reason="again")

    def test_a_person_settles_what_is_open_or_claimed(self, store: Store) -> None:
        token = enter(store, "s1")
        claimed, waiting = put(store).id, put(store).id
        store.claim(token, 2.0, agent=AGENT)
        for id in (claimed, waiting):
            assert store.finish(id, CANCELLED, None, 3.0, token=None).status == CANCELLED
        with pytest.raises(Stale):
            store.finish(claimed, DONE, None, 4.0, token=token)

    def test_work_that_is_not_there_cannot_change(self, store: Store) -> None:
        with pytest.raises(KeyError):
            store.finish("w-9", DONE, None, 2.0, token=None)
        with pytest.raises(KeyError):
            store.reopen("w-9", 2.0, token=None, reason="")
        with pytest.raises(ValueError, match="open"):
            store.finish(put(store).id, OPEN, None, 2.0, token=None)

    def test_lost_work_is_open_again_and_failures_are_counted(self, store: Store) -> None:
        token = enter(store, "s1")
        id = put(store).id
        store.claim(token, 2.0, agent=AGENT)
        work = store.reopen(id, 3.0, token=token, reason="killed from outside")
        assert work == store.work(id)
        assert (work.status, work.session, work.attempts, work.failures) == (OPEN, "", 1, 0)
        assert work.reason == "killed from outside"
        store.claim(token, 4.0, agent=AGENT)
        work = store.reopen(id, 5.0, token=token, reason="exit 1", failed=True, not_before=9.0)
        assert (work.attempts, work.failures, work.not_before) == (2, 1, 9.0)
        assert store.claim(token, 8.0, agent=AGENT) is None
        store.claim(token, 9.0, agent=AGENT)
        work = store.reopen(id, 10.0, token=token, reason="our own stop", uncounted=True)
        assert (work.attempts, work.failures) == (2, 1)

    def test_a_persons_retry_starts_the_counters_anew(self, store: Store) -> None:
        token = enter(store, "s1")
        id = put(store).id
        store.claim(token, 2.0, agent=AGENT)
        store.reopen(id, 3.0, token=token, reason="", failed=True)
        store.claim(token, 3.0, agent=AGENT)
        store.finish(id, FAILED, Result(1), 4.0, token=token)
        work = store.reopen(id, 5.0, token=None, reason="try again")
        assert (work.attempts, work.failures, work.result, work.status) == (0, 0, None, OPEN)
        assert (work.session, work.generation) == ("", 0)

    def test_every_change_of_work_is_told_with_its_agent(self, store: Store) -> None:
        token = enter(store, "s1")
        last = store.last_event()
        id = put(store).id
        store.claim(token, 2.0, agent=AGENT)
        store.reopen(id, 3.0, token=token, reason="lost")
        store.finish(id, FAILED, None, 4.0, token=None, reason="no use")
        store.reopen(id, 5.0, token=None, reason="again")
        store.finish(id, CANCELLED, None, 6.0, token=None)
        store.finish(put(store).id, DONE, None, 7.0, token=None)
        words = "created claimed reopened failed reopened cancelled created done".split()
        assert [type for type, _ in told(store, last)] == [f"work.{word}" for word in words]
        events = store.events(last)
        assert all(event.data["agent"] == AGENT for event in events)
        assert [event.at for event in events[:6]] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        assert [event.actor for event in events[:4]] == ["human", "s1", "s1", "human"]
        assert events[3].data["reason"] == "no use"
