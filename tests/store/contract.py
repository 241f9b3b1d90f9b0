"""The contract of stores about work. A back end needs only a `store` fixture."""

import pytest

from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    DONE,
    FAILED,
    OPEN,
    RUNNING,
    STOPPED,
    ClaimToken,
    StaleTokenError,
    WorkResult,
)
from gascity.store.port import Store
from tests.store.records import AGENT, enter, event_types, put, session

OTHER = "rig/mayor"


class WorkContract:
    """Adding, listing and counting work."""

    def test_work_is_stored_as_added(self, store: Store) -> None:
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
            start_from=first.id,
            no_reflection=True,
        )
        assert work == store.work(work.id)
        assert (work.id, work.agent, work.title, work.body) == ("rig-2", AGENT, "Mend it", "a body")
        assert (work.status, work.priority, work.created, work.updated) == (OPEN, 1, 5.0, 5.0)
        assert (work.depends_on, work.not_before) == ((first.id,), 9.0)
        assert (work.sender, work.parent, work.depth) == ("s1", first.id, 1)
        assert (work.start_from, first.start_from) == (first.id, "")
        assert (work.no_reflection, first.no_reflection) == (True, False)
        assert (work.attempts, work.failures, work.result, work.session) == (0, 0, None, "")
        assert store.work("w-99") is None

    @pytest.mark.parametrize(
        ("state", "to"), [(RUNNING, "caller"), (STOPPED, "lead"), (None, "lead")]
    )
    def test_a_result_is_mailed_to_the_sender_or_to_its_agent(
        self, store: Store, state: str | None, to: str
    ) -> None:
        if state is not None:
            store.add_session(session("caller", state=state))
        work = put(store, sender="caller", answer_to="lead")
        plain = put(store, sender="caller")
        for id in (work.id, plain.id):
            store.finish(id, DONE, WorkResult(summary="It works."), 7.0, token=None)
        [mail] = store.inbox(["caller", "lead"])
        assert (mail.sender, mail.to, mail.at) == (AGENT, to, 7.0)
        assert (mail.subject, mail.body) == (f"{work.id} done", "It works.")
        store.finish(work.id, DONE, None, 8.0, token=None)  # again: it was mailed already
        assert len(store.inbox(["caller", "lead"])) == 1

    def test_one_counter_numbers_the_work_of_all_prefixes(self, store: Store) -> None:
        assert [put(store, prefix=prefix).id for prefix in "abca"] == ["a-1", "b-2", "c-3", "a-4"]

    def test_dependencies_stay_in_their_order_and_count_once(self, store: Store) -> None:
        a, b, c = (put(store).id for _ in range(3))
        assert put(store, depends_on=(c, a, b, a)).depends_on == (c, a, b)

    def test_work_cannot_depend_on_missing_work_or_itself(self, store: Store) -> None:
        there = put(store).id
        for needs in (("w-77",), (there, "w-2")):
            with pytest.raises(ValueError, match="no such work item"):
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
        assert listed(agents=(OTHER,), status=(OPEN,)) == [ids[1]]
        assert (listed(agents=(AGENT, OTHER)), listed(agents=())) == (ids[::-1], [])
        assert listed(before=ids[2]) == [ids[1], ids[0]]
        assert listed(before=ids[2], agents=(AGENT,), limit=1) == [ids[0]]
        assert listed(status=(OPEN,)) == [ids[3], ids[1]]
        assert listed(status=(OPEN, CLAIMED), agent=AGENT) == [ids[3], ids[2]]
        assert listed(status=(DONE, FAILED)) == [ids[0]]
        assert listed(status=(DONE, OPEN), agent=AGENT) == [ids[3], ids[0]]
        assert listed(session="s1") == [ids[2]]
        assert listed(session="s2") == []
        with pytest.raises(ValueError, match="unknown work status"):
            listed(status=("asleep",))
        assert sorted(store.work_agents()) == sorted((AGENT, OTHER))
        assert store.count_work() == 4
        assert store.count_work(agents=(AGENT,), status=(DONE, OPEN)) == 2
        assert (store.count_work(agents=()), store.count_work(status=(FAILED,))) == (0, 0)

    def test_counts_include_all_five_statuses(self, store: Store) -> None:
        assert store.work_counts() == {OPEN: 0, CLAIMED: 0, DONE: 0, FAILED: 0, CANCELLED: 0}
        put(store)
        store.finish(put(store).id, FAILED, None, 2.0, token=None)
        put(store, agent=OTHER)
        assert store.work_counts() == {OPEN: 2, CLAIMED: 0, DONE: 0, FAILED: 1, CANCELLED: 0}
        assert store.work_counts(OTHER) == {OPEN: 1, CLAIMED: 0, DONE: 0, FAILED: 0, CANCELLED: 0}

    def test_agents_with_unfinished_work_are_listed(self, store: Store) -> None:
        assert store.open_agents() == []
        token = enter(store, "s1")
        claimed, settled = put(store), put(store, agent="c")
        put(store, agent="b")
        put(store, agent="b")
        store.claim(token, 2.0, work=claimed.id)
        store.finish(settled.id, DONE, None, 2.0, token=None)
        assert sorted(store.open_agents()) == ["b", AGENT]

    def test_open_work_is_counted_by_agent(self, store: Store) -> None:
        assert store.open_counts() == {}
        claimed, finished = put(store), put(store, agent="c")
        put(store, agent="b")
        put(store, agent="b")
        put(store, agent=OTHER)
        store.claim(enter(store, "s1"), 2.0, work=claimed.id)
        store.finish(finished.id, DONE, None, 2.0, token=None)
        assert store.open_counts() == {"b": 2, OTHER: 1}

    @pytest.mark.parametrize("status", [DONE, FAILED, CANCELLED])
    def test_finished_work_of_all_agents_is_listed_newest_first(
        self, store: Store, status: str
    ) -> None:
        put(store)
        works = [put(store, agent=agent) for agent in (AGENT, OTHER, AGENT, OTHER)]
        others = [put(store, agent="b") for _ in (DONE, FAILED, CANCELLED)]
        for work in works:
            store.finish(work.id, status, None, 2.0, token=None)
        for work, other in zip(others, (DONE, FAILED, CANCELLED), strict=True):
            if other != status:
                store.finish(work.id, other, None, 2.0, token=None)
        ids = [work.id for work in reversed(works)]

        def listed(limit: int | None = None, before: str = "") -> list[str]:
            found = store.list_work(status=(status,), limit=limit, before=before)
            return [work.id for work in found]

        assert listed() == ids
        assert listed(limit=2) == ids[:2]
        assert listed(limit=2, before=ids[0]) == ids[1:3]
        assert store.work_counts()[status] == 4

    def test_updating_work_sets_columns_and_records_no_event(self, store: Store) -> None:
        id = put(store).id
        last = store.last_event()
        store.update_work(id, {"branch": "city/a", "commits": 3, "log": "run.log"}, 4.0)
        work = store.work(id)
        assert work
        assert (work.branch, work.commits, work.log, work.updated) == ("city/a", 3, "run.log", 4.0)
        assert store.last_event() == last
        with pytest.raises(ValueError, match="status"):
            store.update_work(id, {"status": DONE}, 5.0)
        with pytest.raises(KeyError):
            store.update_work("w-99", {"branch": "x"}, 5.0)


class QueueContract:
    """Claimable work and its order."""

    def test_the_queue_is_ordered_by_priority_then_age(self, store: Store) -> None:
        late, urgent, early = put(store, priority=4), put(store, priority=0), put(store)
        usual = put(store)
        order = [urgent.id, early.id, usual.id, late.id]
        assert [work.id for work in store.claimable(AGENT, 2.0, 10)] == order
        assert [store.position(id, 2.0) for id in order] == [0, 1, 2, 3]
        assert [work.id for work in store.claimable(AGENT, 2.0, 2)] == order[:2]

    def test_work_of_other_agents_does_not_count(self, store: Store) -> None:
        put(store, agent=OTHER, priority=0)
        mine = put(store)
        assert store.claimable(AGENT, 2.0, 10) == [mine]
        assert store.position(mine.id, 2.0) == 0

    def test_work_is_not_claimable_before_its_time(self, store: Store) -> None:
        put(store, not_before=20.0)
        put(store, not_before=10.0)
        assert store.claimable(AGENT, 9.9, 10) == []
        assert store.next_due(AGENT, 9.9) == 10.0
        assert len(store.claimable(AGENT, 10.0, 10)) == 1
        assert store.next_due(AGENT, 10.0) == 20.0
        assert store.next_due(AGENT, 20.0) is None
        assert store.next_due(OTHER, 0.0) is None

    def test_work_waits_until_all_dependencies_are_done(self, store: Store) -> None:
        first, second = put(store), put(store)
        after = put(store, depends_on=(first.id, second.id))
        assert [work.id for work in store.unfinished_dependencies(after.id)] == [
            first.id,
            second.id,
        ]
        store.finish(first.id, DONE, None, 2.0, token=None)
        assert [work.id for work in store.unfinished_dependencies(after.id)] == [second.id]
        assert after.id not in [work.id for work in store.claimable(AGENT, 2.0, 10)]
        store.finish(second.id, DONE, None, 3.0, token=None)
        assert [work.id for work in store.claimable(AGENT, 3.0, 10)] == [after.id]
        assert store.unfinished_dependencies(after.id) == []

    @pytest.mark.parametrize("status", [FAILED, CANCELLED])
    def test_failed_or_cancelled_dependencies_keep_work_waiting(
        self, store: Store, status: str
    ) -> None:
        first = put(store)
        after = put(store, depends_on=(first.id,))
        store.finish(first.id, status, None, 2.0, token=None)
        later = put(store, depends_on=(first.id,))
        assert store.claimable(AGENT, 9.0, 10) == []
        assert [work.status for work in store.unfinished_dependencies(after.id)] == [status]
        store.reopen(first.id, 3.0, token=None, reason="once more")
        store.finish(first.id, DONE, None, 4.0, token=None)
        assert [w.id for w in store.claimable(AGENT, 9.0, 10)] == [after.id, later.id]

    def test_reopening_done_work_makes_dependents_wait_again(self, store: Store) -> None:
        first = put(store)
        after = put(store, depends_on=(first.id,))
        store.finish(first.id, DONE, None, 2.0, token=None)
        store.reopen(first.id, 3.0, token=None, reason="it was not right")
        assert [work.id for work in store.claimable(AGENT, 9.0, 10)] == [first.id]
        assert [work.id for work in store.unfinished_dependencies(after.id)] == [first.id]

    def test_agents_with_dependent_work_are_listed(self, store: Store) -> None:
        first = put(store)
        put(store, agent="b", depends_on=(first.id,))
        put(store, agent="b", depends_on=(first.id,))
        over = put(store, agent="c", depends_on=(first.id,))
        store.finish(over.id, CANCELLED, None, 2.0, token=None)
        assert store.dependent_agents(first.id) == ["b"]
        assert store.dependent_agents(over.id) == []

    def test_work_slung_during_other_work_is_counted(self, store: Store) -> None:
        parent = put(store)
        put(store, parent=parent.id)
        put(store, parent=parent.id)
        assert (store.child_count(parent.id), store.child_count("w-2"), store.child_count("")) == (
            2,
            0,
            0,
        )

    def test_delegated_work_is_found_from_both_ends(self, store: Store) -> None:
        root = put(store)
        put(store)
        child = put(store, parent=root.id, depth=1)
        other = put(store, parent=root.id, depth=1)
        below = put(store, parent=child.id, depth=2)
        later = put(store)
        put(store, parent=later.id, depth=1)
        assert store.children([root.id]) == [child, other]
        assert store.children([child.id, other.id]) == [below]
        assert store.children([below.id]) == store.children([]) == store.children([""]) == []
        assert store.delegations(9) == [later, root]
        assert store.delegations(1) == [later]

    def test_a_list_of_work_is_filtered_by_words(self, store: Store) -> None:
        login = put(store, title="Fix the LOGIN test")
        failed = put(store, agent="shop", title="100% of the_tests")
        store.finish(failed.id, FAILED, None, 2.0, token=None)
        failed = store.list_work(status=(FAILED,))[0]
        assert store.list_work(words=["login", "fix"]) == [login]
        assert store.list_work(words=["polecat"]) == store.list_work(words=[login.id]) == [login]
        assert store.list_work(words=["0%", "e_t"]) == [failed]
        assert store.list_work(words=["login"], status=(FAILED,)) == []
        assert store.list_work(words=["test"], status=(FAILED,), limit=1) == [failed]
        assert store.list_work(words=["test"], before=failed.id) == [login]
        assert store.list_work(words=["%"]) == store.list_work(words=["_"]) == [failed]
        assert store.list_work(words=["!"]) == []
        assert store.count_work(words=["test"]) == 2
        assert store.count_work(words=["test"], agents=["shop"], status=(FAILED,)) == 1

    def test_work_that_depends_on_done_work_is_claimable(self, store: Store) -> None:
        first = put(store)
        store.finish(first.id, DONE, None, 2.0, token=None)
        after = put(store, depends_on=(first.id,))
        assert store.claimable(AGENT, 2.0, 1) == [after]

    def test_only_its_session_can_claim_reserved_work(self, store: Store) -> None:
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
    """Claiming, finishing and reopening."""

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

    def test_a_claim_returns_none_if_nothing_is_claimable(self, store: Store) -> None:
        token = enter(store, "s1")
        later = put(store, not_before=10.0)
        assert store.claim(token, 2.0, agent=AGENT) is None
        assert store.claim(token, 2.0, work=later.id) is None
        assert store.claim(token, 2.0, work="w-99") is None
        assert store.work_counts()[OPEN] == 1

    def test_a_claim_takes_the_requested_item_or_the_next(self, store: Store) -> None:
        first, second, third = (enter(store, id) for id in ("s1", "s2", "s3"))
        one, two, three = put(store), put(store), put(store)

        def claimed(token: ClaimToken, work: str) -> str | None:
            found = store.claim(token, 2.0, agent=AGENT, work=work)
            return found and found.id

        assert claimed(first, two.id) == two.id
        assert claimed(second, two.id) == one.id
        assert claimed(third, two.id) == three.id

    def test_a_repeated_claim_returns_the_held_item(self, store: Store) -> None:
        token = enter(store, "s1")
        put(store)
        put(store)
        held = store.claim(token, 2.0, agent=AGENT)
        assert store.claim(token, 9.0, agent=AGENT) == held
        assert store.work_counts()[CLAIMED] == 1

    def test_an_older_generation_cannot_claim(self, store: Store) -> None:
        old = enter(store, "s1")
        put(store)
        store.update_session("s1", {"generation": 2}, 2.0)
        for token in (old, ClaimToken("s1", 3), ClaimToken("nobody", 1)):
            with pytest.raises(StaleTokenError):
                store.claim(token, 3.0, agent=AGENT)
        assert store.work_counts()[OPEN] == 1
        assert store.claim(ClaimToken("s1", 2), 3.0, agent=AGENT)

    def test_the_holder_finishes_its_work(self, store: Store) -> None:
        token = enter(store, "s1")
        id = put(store).id
        store.claim(token, 2.0, agent=AGENT)
        result = WorkResult(0, "mended", {"input": 10, "output": 2}, 0.25)
        work = store.finish(id, DONE, result, 3.0, token=token, reason="it said so")
        assert work == store.work(id)
        assert (work.status, work.result, work.reason) == (DONE, result, "it said so")
        assert (work.session, work.updated) == ("s1", 3.0)

    def test_a_result_may_be_partial_or_missing(self, store: Store) -> None:
        for result in (None, WorkResult(), WorkResult(exit_code=3)):
            id = put(store).id
            store.finish(id, FAILED, result, 2.0, token=None)
            work = store.work(id)
            assert work
            assert work.result == result

    def test_finishing_again_the_same_way_changes_nothing(self, store: Store) -> None:
        token = enter(store, "s1")
        id = put(store).id
        store.claim(token, 2.0, agent=AGENT)
        settled = store.finish(id, DONE, WorkResult(0, "first"), 3.0, token=token)
        last = store.last_event()
        for by in (token, None):
            assert store.finish(id, DONE, WorkResult(1, "second"), 4.0, token=by) == settled
        assert store.last_event() == last
        for by in (token, None):
            with pytest.raises(StaleTokenError, match="done"):
                store.finish(id, FAILED, None, 4.0, token=by)

    def test_only_the_holder_may_finish_or_reopen(self, store: Store) -> None:
        first, second = enter(store, "s1"), enter(store, "s2")
        id = put(store).id
        with pytest.raises(StaleTokenError):
            store.finish(id, DONE, None, 2.0, token=first)
        store.claim(first, 2.0, agent=AGENT)
        for token in (second, ClaimToken("s1", 2)):
            with pytest.raises(StaleTokenError) as stale:
                store.finish(id, DONE, None, 3.0, token=token)
            assert stale.value.holder == "s1"
            with pytest.raises(StaleTokenError):
                store.reopen(id, 3.0, token=token, reason="mine now")
        work = store.work(id)
        assert work
        assert (work.status, work.session) == (CLAIMED, "s1")

    def test_a_former_holder_can_change_nothing(self, store: Store) -> None:
        first, second = enter(store, "s1"), enter(store, "s2")
        id = put(store).id
        store.claim(first, 2.0, agent=AGENT)
        store.reopen(id, 3.0, token=None, reason="lost")
        store.claim(second, 4.0, agent=AGENT)
        store.finish(id, DONE, None, 5.0, token=second)
        for status in (DONE, FAILED):
            with pytest.raises(StaleTokenError):
                store.finish(id, status, None, 6.0, token=first)
        with pytest.raises(StaleTokenError):
            store.reopen(id, 6.0, token=first, reason="again")

    def test_a_user_finishes_open_or_claimed_work(self, store: Store) -> None:
        token = enter(store, "s1")
        claimed, waiting = put(store).id, put(store).id
        store.claim(token, 2.0, agent=AGENT)
        for id in (claimed, waiting):
            assert store.finish(id, CANCELLED, None, 3.0, token=None).status == CANCELLED
        with pytest.raises(StaleTokenError):
            store.finish(claimed, DONE, None, 4.0, token=token)

    def test_missing_work_cannot_change(self, store: Store) -> None:
        with pytest.raises(KeyError):
            store.finish("w-9", DONE, None, 2.0, token=None)
        with pytest.raises(KeyError):
            store.reopen("w-9", 2.0, token=None, reason="")
        with pytest.raises(ValueError, match="open"):
            store.finish(put(store).id, OPEN, None, 2.0, token=None)

    def test_reopening_counts_attempts_and_failures(self, store: Store) -> None:
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
        assert (work.attempts, work.attempts_since_retry, work.failures) == (3, 2, 1)
        store.claim(token, 11.0, agent=AGENT)
        work = store.reopen(id, 12.0, token=token, reason="no directory", never_ran=True)
        assert (work.attempts, work.attempts_since_retry, work.failures) == (3, 2, 1)

    @pytest.mark.parametrize(
        ("status", "lost", "failures"),
        [(FAILED, False, 2), (FAILED, True, 1), (DONE, False, 1), (CANCELLED, False, 1)],
    )
    def test_the_last_failure_is_counted_too(
        self, store: Store, status: str, lost: bool, failures: int
    ) -> None:
        token = enter(store, "s1")
        id = put(store).id
        store.claim(token, 2.0, agent=AGENT)
        store.reopen(id, 3.0, token=token, reason="exit 1", failed=True)
        store.claim(token, 4.0, agent=AGENT)
        work = store.finish(id, status, None, 5.0, token=token, lost=lost)
        assert (work.attempts, work.failures) == (2, failures)

    def test_work_that_never_started_has_no_failures(self, store: Store) -> None:
        assert store.finish(put(store).id, FAILED, None, 2.0, token=None).failures == 0

    def test_a_users_retry_keeps_the_counters_and_resets_those_of_the_limits(
        self, store: Store
    ) -> None:
        token = enter(store, "s1")
        id = put(store).id
        store.claim(token, 2.0, agent=AGENT)
        store.reopen(id, 3.0, token=token, reason="", failed=True)
        store.claim(token, 3.0, agent=AGENT)
        store.finish(id, FAILED, WorkResult(1), 4.0, token=token)
        work = store.reopen(id, 5.0, token=None, reason="try again")
        assert (work.attempts, work.failures, work.result, work.status) == (2, 2, None, OPEN)
        assert (work.attempts_since_retry, work.failures_since_retry) == (0, 0)
        assert (work.session, work.generation) == ("", 0)
        store.claim(token, 6.0, agent=AGENT)
        work = store.reopen(id, 7.0, token=token, reason="exit 1", failed=True)
        assert (work.attempts, work.failures) == (3, 3)
        assert (work.attempts_since_retry, work.failures_since_retry) == (1, 1)
        store.claim(token, 8.0, agent=AGENT)
        work = store.reopen(id, 9.0, token=token, reason="our own stop", uncounted=True)
        assert (work.attempts, work.attempts_since_retry) == (4, 1)

    def test_moved_work_starts_again_with_the_other_agent(self, store: Store) -> None:
        token = enter(store, "s1")
        id = put(store, session="s1").id
        store.claim(token, 2.0, work=id)
        store.update_work(id, {"branch": "city/a", "commits": 3, "log": "run.log"}, 2.0)
        store.reopen(id, 3.0, token=token, reason="lost", failed=True, not_before=99.0)
        last = store.last_event()
        work = store.move_work(id, OTHER, 4.0, start_from="city/a")
        assert (work.agent, work.status, work.start_from) == (OTHER, OPEN, "city/a")
        assert (work.attempts, work.failures, work.session, work.reserved) == (0, 0, "", False)
        assert (work.branch, work.workdir, work.commits, work.log) == ("", "", 0, "")
        assert store.work(id) == work
        assert [item.id for item in store.claimable(OTHER, 4.0, 9)] == [id]
        assert store.claimable(AGENT, 99.0, 9) == []
        (event,) = store.events(last)
        assert (event.type, event.subject, event.actor) == ("work.moved", id, "human")
        assert event.data["agent"] == OTHER

    def test_only_open_work_can_be_moved(self, store: Store) -> None:
        token = enter(store, "s1")
        claimed, done = put(store).id, put(store).id
        store.claim(token, 2.0, work=claimed)
        store.finish(done, DONE, None, 2.0, token=None)
        for id in (claimed, done):
            with pytest.raises(ValueError, match="is "):
                store.move_work(id, OTHER, 3.0, start_from="")
        with pytest.raises(KeyError):
            store.move_work("w-99", OTHER, 3.0, start_from="")

    def test_a_renamed_agent_keeps_its_unfinished_work_and_unread_mail(self, store: Store) -> None:
        token = enter(store, "s1")
        done, claimed, queued = put(store).id, put(store).id, put(store).id
        store.finish(done, DONE, None, 2.0, token=None)
        store.claim(token, 2.0, work=claimed)
        read, unread = (store.send_mail("human", AGENT, "", "hi", 2.0).id for _ in range(2))
        store.mark_mail([read], 2.0)
        last = store.last_event()
        assert store.rename_agent(AGENT, "rig/new", 3.0) == [claimed, queued]
        agents = [work.agent for work in store.list_work()]
        assert agents == ["rig/new", "rig/new", AGENT]
        assert [mail.id for mail in store.inbox(["rig/new"])] == [unread]
        assert event_types(store, last) == [("work.moved", claimed), ("work.moved", queued)]
        store.finish(claimed, DONE, None, 4.0, token=token)

    def test_every_change_of_work_records_an_event_with_its_agent(self, store: Store) -> None:
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
        assert [type for type, _ in event_types(store, last)] == [f"work.{word}" for word in words]
        events = store.events(last)
        assert all(event.data["agent"] == AGENT for event in events)
        assert [event.at for event in events[:6]] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        assert [event.actor for event in events[:4]] == ["human", "s1", "s1", "human"]
        assert events[3].data["reason"] == "no use"
