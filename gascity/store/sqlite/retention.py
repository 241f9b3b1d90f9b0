"""Deletion of old records, so that no table grows without bound."""

from gascity.store.sqlite import statements
from gascity.store.sqlite.connection import Connection

DAY = 86400.0
WORK_AGE, WORK_KEPT = 30 * DAY, 1_000  # finished work
SESSION_AGE, SESSIONS_KEPT = 7 * DAY, 200  # ended sessions without a name or a pin
RUN_AGE = 30 * DAY  # ended runs of sessions that are kept, after their work is deleted
MAIL_AGE = 30 * DAY  # read or archived mail
NUDGE_AGE = DAY  # delivered nudges
EVENTS_KEPT = 50_000
DECISIONS_KEPT, DECISIONS_KEPT_EACH = 20_000, 200

_BATCH = 500  # values bound in one query


class Retention:
    """Prunes every table."""

    def __init__(self, connection: Connection) -> None:
        self._query = connection.query
        self._transaction = connection.transaction

    def prune(self, now: float) -> list[str]:
        with self._transaction():
            files = self._prune_work(now) + self._prune_sessions_and_runs(now)
            self._prune_mail_and_events(now)
            used = self._logs_in_use(files)
        return [path for path in dict.fromkeys(files) if path and path not in used]

    def _prune_work(self, now: float) -> list[str]:
        """Delete finished work in rounds: an item goes only after all that depend on it."""
        files: list[str] = []
        while rows := self._query(statements.DELETE_OLD_WORK, (now - WORK_AGE, WORK_KEPT)):
            files += [log for (log,) in rows]
        return files

    def _prune_sessions_and_runs(self, now: float) -> list[str]:
        values = (now - SESSION_AGE, SESSIONS_KEPT)
        rows = self._query(statements.DELETE_RUNS_OF_OLD_SESSIONS, values)
        self._query(statements.DELETE_OLD_SESSIONS, values)
        rows += self._query(statements.DELETE_OLD_RUNS, (now - RUN_AGE,))
        return [path for row in rows for path in row]

    def _prune_mail_and_events(self, now: float) -> None:
        self._query(statements.DELETE_OLD_MAIL, (now - MAIL_AGE,))
        self._query(statements.DELETE_OLD_NUDGES, (now - NUDGE_AGE,))
        self._query(statements.DELETE_OLD_EVENTS, (EVENTS_KEPT,))
        self._query(statements.DELETE_OLD_DECISIONS, (DECISIONS_KEPT,))
        self._query(statements.DELETE_SURPLUS_DECISIONS, (DECISIONS_KEPT_EACH,))

    def _logs_in_use(self, files: list[str]) -> set[str]:
        """Return the logs that remaining work or runs still refer to."""
        used: set[str] = set()
        for start in range(0, len(files), _BATCH):
            batch = files[start : start + _BATCH]
            for table in ("work", "run"):
                used.update(
                    log for (log,) in self._query(statements.logs_in_use(table, batch), batch)
                )
        return used
