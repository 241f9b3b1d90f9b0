"""Frequent queries use indexes, so their cost does not grow with the store."""

from collections.abc import Callable

import pytest

from gascity.model.work import CLAIMED, DONE, FAILED, OPEN, ClaimToken, Decision
from gascity.store.sqlite.store import SqliteStore
from tests.store.records import AGENT, enter, put

HOT: dict[str, Callable[[SqliteStore], object]] = {
    "claim": lambda store: store.claim(ClaimToken("s1", 1), 2.0, agent=AGENT),
    "claim-one": lambda store: store.claim(ClaimToken("s1", 1), 2.0, work="w-1"),
    "finish": lambda store: store.finish("w-1", DONE, None, 2.0, token=None),
    "reopen": lambda store: store.reopen("w-1", 2.0, token=None, reason=""),
    "put": lambda store: put(store, depends_on=("w-1",)),
    "note-work": lambda store: store.update_work("w-1", {"log": "x"}, 2.0),
    "claimable": lambda store: store.claimable(AGENT, 2.0, 5, session="s1"),
    "position": lambda store: store.position("w-1", 2.0),
    "waits-for": lambda store: store.unfinished_dependencies("w-1"),
    "dependents": lambda store: store.dependent_agents("w-1"),
    "children": lambda store: store.child_count("w-1"),
    "children-of": lambda store: store.children(["w-1", "w-2"]),
    "activity": lambda store: store.activity(1.0, 60.0),
    "next-due": lambda store: store.next_due(AGENT, 2.0),
    "open-agents": lambda store: store.open_agents(),
    "open-counts": lambda store: store.open_counts(),
    "counts": lambda store: store.work_counts(),
    "counts-of-one": lambda store: store.work_counts(AGENT),
    "list-open": lambda store: store.list_work(status=(OPEN, CLAIMED)),
    "list-failed": lambda store: store.list_work(status=(FAILED,), limit=5),
    "list-agent": lambda store: store.list_work(agent=AGENT),
    "list-agents": lambda store: store.list_work(agents=[AGENT, "b"], before="w-1", limit=5),
    "count-agents": lambda store: store.count_work(agents=[AGENT], status=(DONE,)),
    "work-agents": lambda store: store.work_agents(),
    "list-session": lambda store: store.list_work(session="s1"),
    "session": lambda store: store.session("s1"),
    "set-session": lambda store: store.update_session("s1", {"pid": 1}, 2.0, generation=1),
    "live": lambda store: store.sessions(live=True),
    "live-of-one": lambda store: store.sessions(live=True, agent=AGENT),
    "find": lambda store: store.find_sessions("ash-tree"),
    "runs": lambda store: store.runs(session="s1"),
    "runs-of-work": lambda store: store.runs(work="w-1"),
    "open-runs": lambda store: store.runs(open=True),
    "spent": lambda store: store.total_cost(1.0, [AGENT]),
    "sessions-by-id": lambda store: store.sessions_by_id(["s1", "s2"]),
    "count-inbox": lambda store: store.count_inbox(["a", "b"], unread=True),
    "older-mail": lambda store: store.inbox(["a", "b"], limit=5, before=9),
    "inbox": lambda store: store.inbox(["a", "b"]),
    "unread": lambda store: store.unread_counts(),
    "mark-mail": lambda store: store.mark_mail([1, 2], 2.0),
    "nudges": lambda store: store.nudges("s1"),
    "mark-nudges": lambda store: store.mark_nudges([1], 2.0),
    "events": lambda store: store.events(5),
    "newest-events": lambda store: store.events(0, 5, types=["work"], since=1.0, newest=True),
    "count-events": lambda store: store.count_events(5),
    "last-event": lambda store: store.last_event(),
    "decide": lambda store: store.record_decisions([Decision(1.0, "a", "b", "c")]),
    "decisions": lambda store: store.decisions(["a", "b"]),
    "delete": lambda store: store.delete_session("s1", 2.0),
}
COUNT_ALL = "(SELECT COUNT(*) FROM work)"


@pytest.mark.parametrize("question", HOT)
def test_no_query_scans_a_table(store: SqliteStore, question: str) -> None:
    enter(store, "s1")
    put(store)
    asked: list[str] = []
    store.connection.database.set_trace_callback(asked.append)
    HOT[question](store)
    store.connection.database.set_trace_callback(None)
    for sql in asked:
        if sql.split()[0] in ("SELECT", "UPDATE", "INSERT", "DELETE", "WITH"):
            steps = [row[3] for row in store.connection.query(f"EXPLAIN QUERY PLAN {sql}")]
            # Counting all rows reads the pages of an index, not its entries.
            counted = ["SCAN work USING COVERING INDEX work_agent"] * sql.count(COUNT_ALL)
            through = [step for step in steps if is_through(step) and step not in counted]
            assert not through, f"{sql}\n{steps}"


def is_through(step: str) -> bool:
    """Does it read a whole table? Partial indexes are only as long as what is of their kind;
    sqlite_sequence has a row for each table, a subquery groups by agent, and `counted` has a row
    for each status."""
    small = ("sqlite_sequence", "hop", "CONSTANT ROW", "(subquery", "counted")
    partial = ("work_unsettled", "session_live", "run_open", "mail_unread")
    about = step.removeprefix("SCAN ")
    return about != step and not about.startswith(small) and not about.endswith(partial)


def test_the_queue_is_read_from_an_index_without_sorting(store: SqliteStore) -> None:
    asked: list[str] = []
    enter(store, "s1")
    store.connection.database.set_trace_callback(asked.append)
    store.claimable(AGENT, 2.0, 1)
    store.claim(ClaimToken("s1", 1), 2.0, agent=AGENT)
    store.connection.database.set_trace_callback(None)
    queues = [sql for sql in asked if "ORDER BY priority" in sql]
    assert len(queues) == 2
    for sql in queues:
        steps = " ".join(row[3] for row in store.connection.query(f"EXPLAIN QUERY PLAN {sql}"))
        assert "work_ready (agent=?)" in steps
        assert "TEMP B-TREE" not in steps


@pytest.mark.parametrize("question", ["counts", "counts-of-one", "open-counts", "list-open"])
def test_unfinished_work_is_counted_without_reading_finished_work(
    store: SqliteStore, question: str
) -> None:
    put(store)
    asked: list[str] = []
    store.connection.database.set_trace_callback(asked.append)
    HOT[question](store)
    store.connection.database.set_trace_callback(None)
    (sql,) = asked
    steps = [row[3] for row in store.connection.query(f"EXPLAIN QUERY PLAN {sql}")]
    assert any("USING INDEX work_unsettled" in step for step in steps), f"{sql}\n{steps}"


@pytest.mark.parametrize("question", ["counts", "open-counts", "open-agents", "list-failed"])
def test_finished_work_adds_no_steps_to_a_query_of_status(
    store: SqliteStore, question: str
) -> None:
    def finish(status: str, items: int) -> None:
        with store.transaction():
            for _ in range(items):
                store.finish(put(store).id, status, None, 2.0, token=None)

    def steps() -> int:
        HOT[question](store)  # the first use of a query reads the schema
        passed: list[None] = []
        store.connection.database.set_progress_handler(lambda: passed.append(None), 1)
        HOT[question](store)
        store.connection.database.set_progress_handler(None, 1)
        return len(passed)

    put(store)
    finish(FAILED, 3)
    finish(DONE, 3)
    few = steps()
    finish(DONE, 100)
    assert steps() == few
