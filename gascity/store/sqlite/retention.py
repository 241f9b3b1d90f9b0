"""Deletion of old records, so that no table grows without bound."""

from collections.abc import Callable, Sequence

from gascity.store.sqlite import statements
from gascity.store.sqlite.rows import Row

Query = Callable[[str, Sequence[object]], list[Row]]

DAY = 86400.0
WORK_AGE, WORK_KEPT = 30 * DAY, 1_000  # finished work
SESSION_AGE, SESSIONS_KEPT = 7 * DAY, 200  # ended sessions without a name or a pin
RUN_AGE = 30 * DAY  # ended runs of sessions that are kept, after their work is deleted
MAIL_AGE = 30 * DAY  # read or archived mail
NUDGE_AGE = DAY  # delivered nudges
EVENTS_KEPT = 50_000
DECISIONS_KEPT, DECISIONS_KEPT_EACH = 20_000, 200

_BATCH = 500  # values bound in one query


def prune(query: Query, now: float) -> list[str]:
    """Delete old records of every table; return the files that no remaining record refers to."""
    files = [*_prune_work(query, now), *_prune_sessions_and_runs(query, now)]
    query(statements.DELETE_OLD_MAIL, (now - MAIL_AGE,))
    query(statements.DELETE_OLD_NUDGES, (now - NUDGE_AGE,))
    query(statements.DELETE_OLD_EVENTS, (EVENTS_KEPT,))
    query(statements.DELETE_OLD_DECISIONS, (DECISIONS_KEPT,))
    query(statements.DELETE_SURPLUS_DECISIONS, (DECISIONS_KEPT_EACH,))
    used = _logs_in_use(query, files)
    return [path for path in dict.fromkeys(files) if path and path not in used]


def _prune_work(query: Query, now: float) -> list[str]:
    """Delete finished work in rounds: an item goes only after all that depend on it."""
    files: list[str] = []
    while rows := query(statements.DELETE_OLD_WORK, (now - WORK_AGE, WORK_KEPT)):
        files += [log for (log,) in rows]
    return files


def _prune_sessions_and_runs(query: Query, now: float) -> list[str]:
    values = (now - SESSION_AGE, SESSIONS_KEPT)
    rows = query(statements.DELETE_RUNS_OF_OLD_SESSIONS, values)
    query(statements.DELETE_OLD_SESSIONS, values)
    rows += query(statements.DELETE_OLD_RUNS, (now - RUN_AGE,))
    return [path for row in rows for path in row]


def _logs_in_use(query: Query, files: Sequence[str]) -> set[str]:
    """Return the logs that remaining work or runs still refer to."""
    batches = [files[start : start + _BATCH] for start in range(0, len(files), _BATCH)]
    return {
        log
        for batch in batches
        for table in ("work", "run")
        for (log,) in query(statements.logs_in_use(table, batch), batch)
    }
