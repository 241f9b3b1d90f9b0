"""Frequent queries use indexes, so their cost does not grow with the store."""

from collections.abc import Callable

import pytest

from gascity.model.work import CLAIMED, DONE, OPEN, ClaimToken, Decision
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
    "next-due": lambda store: store.next_due(AGENT, 2.0),
    "open-agents": lambda store: store.open_agents(),
    "counts": lambda store: store.work_counts(),
    "counts-of-one": lambda store: store.work_counts(AGENT),
    "list-open": lambda store: store.list_work(status=(OPEN, CLAIMED)),
    "list-agent": lambda store: store.list_work(agent=AGENT),
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
    "inbox": lambda store: store.inbox(["a", "b"]),
    "unread": lambda store: store.unread_counts(),
    "mark-mail": lambda store: store.mark_mail([1, 2], 2.0),
    "nudges": lambda store: store.nudges("s1"),
    "mark-nudges": lambda store: store.mark_nudges([1], 2.0),
    "events": lambda store: store.events(5),
    "last-event": lambda store: store.last_event(),
    "decide": lambda store: store.record_decisions([Decision(1.0, "a", "b", "c")]),
    "decisions": lambda store: store.decisions(["a", "b"]),
    "delete": lambda store: store.delete_session("s1", 2.0),
}


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
            through = [step for step in steps if is_through(step)]
            assert not through, f"{sql}\n{steps}"


def is_through(step: str) -> bool:
    """Does it read a whole table? Partial indexes are only as long as what is of their kind;
    sqlite_sequence has a row for each table."""
    small = ("sqlite_sequence", "hop", "CONSTANT ROW")
    partial = ("work_unsettled", "work_settled", "session_live", "run_open", "mail_unread")
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
