"""What is let go of, and when: nothing in the store grows without a bound."""

from gascity.store.claims import Claims
from gascity.store.rows import marks
from gascity.store.schema import SETTLED

DAY = 86400.0
WORK_AGE, WORK_KEPT = 30 * DAY, 1_000  # settled work
SESSION_AGE, SESSIONS_KEPT = 7 * DAY, 200  # ended sessions that nobody named or pinned
RUN_AGE = 30 * DAY  # ended runs of sessions that stay, once their work is gone
MAIL_AGE = 30 * DAY  # read or archived
NUDGE_AGE = DAY  # delivered
EVENTS_KEPT = 50_000
DECISIONS_KEPT, DECISIONS_KEPT_EACH = 20_000, 200

_OLD_WORK = f"""{SETTLED} AND updated < ?
    AND number NOT IN (SELECT number FROM work WHERE {SETTLED} ORDER BY updated DESC LIMIT ?)
    AND NOT EXISTS (SELECT 1 FROM dependency WHERE needs = work.id)"""
_ENDED = "state IN ('stopped', 'crashed')"
_OLD_SESSIONS = f"""{_ENDED} AND updated < ? AND pinned IS NULL AND name = '' AND origin <> 'named'
    AND id NOT IN (SELECT id FROM session WHERE {_ENDED} ORDER BY updated DESC LIMIT ?)
    AND NOT EXISTS (SELECT 1 FROM run WHERE run.session = session.id AND ended IS NULL)
    AND NOT EXISTS (SELECT 1 FROM work WHERE work.session = session.id AND work.session <> ''
        AND status IN ('open', 'claimed'))"""
_OLD_RUNS = "ended < ? AND NOT EXISTS (SELECT 1 FROM work WHERE work.id = run.work)"
_TOO_MANY = """number IN (SELECT number FROM (SELECT number,
    row_number() OVER (PARTITION BY subject ORDER BY number DESC) AS place FROM decision)
    WHERE place > ?)"""


class Retention(Claims):
    """The store's memory has an end."""

    def prune(self, now: float) -> list[str]:
        """Let go of what is older than its retention. Open work and live sessions never go.

        Gives the files that nothing in the store names any more: logs and exit files of runs.
        """
        with self.writing():
            files = self._prune_work(now) + self._prune_runs(now)
            self._prune_the_rest(now)
            kept = self._logs_kept(files)
        return [path for path in dict.fromkeys(files) if path and path not in kept]

    def _prune_work(self, now: float) -> list[str]:
        """What others depend on goes after them."""
        files: list[str] = []
        sql = f"DELETE FROM work WHERE {_OLD_WORK} RETURNING log"
        while rows := self.ask(sql, (now - WORK_AGE, WORK_KEPT)):
            files += [log for (log,) in rows]
        return files

    def _prune_runs(self, now: float) -> list[str]:
        old = f"session IN (SELECT id FROM session WHERE {_OLD_SESSIONS})"
        values = (now - SESSION_AGE, SESSIONS_KEPT)
        rows = self.ask(f"DELETE FROM run WHERE {old} RETURNING log, exit_file", values)
        self.ask(f"DELETE FROM session WHERE {_OLD_SESSIONS}", values)
        rows += self.ask(
            f"DELETE FROM run WHERE {_OLD_RUNS} RETURNING log, exit_file", (now - RUN_AGE,)
        )
        return [path for row in rows for path in row]

    def _prune_the_rest(self, now: float) -> None:
        self.ask(
            "DELETE FROM mail WHERE COALESCE(read, archived) IS NOT NULL"
            " AND MAX(COALESCE(read, 0), COALESCE(archived, 0)) < ?",
            (now - MAIL_AGE,),
        )
        self.ask("DELETE FROM nudge WHERE delivered < ?", (now - NUDGE_AGE,))
        for table, number, kept in (
            ("event", "seq", EVENTS_KEPT),
            ("decision", "number", DECISIONS_KEPT),
        ):
            last = f"(SELECT MAX({number}) FROM {table})"
            self.ask(f"DELETE FROM {table} WHERE {number} <= {last} - ?", (kept,))
        self.ask(f"DELETE FROM decision WHERE {_TOO_MANY}", (DECISIONS_KEPT_EACH,))

    def _logs_kept(self, files: list[str]) -> set[str]:
        """Those that work or runs which stay still name."""
        kept: set[str] = set()
        for start in range(0, len(files), 500):
            some = files[start : start + 500]
            for table in ("work", "run"):
                sql = f"SELECT log FROM {table} WHERE log IN ({marks(some)})"
                kept.update(log for (log,) in self.ask(sql, some))
        return kept
