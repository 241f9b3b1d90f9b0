"""What happened and why: events, decisions, and what a controller leaves for the next."""

import json
from collections.abc import Iterable, Mapping, Sequence

from gascity.model.work import HUMAN, Decision, Event
from gascity.store.book import Book
from gascity.store.rows import DECISION, EVENT, to_decision, to_event

_KINDS = ("work.", "session.", "agent.", "mail.", "controller.", "config.")


class Happenings(Book):
    """Events, decisions, notes."""

    def record(
        self, type: str, subject: str, now: float, data: Mapping[str, object], actor: str = HUMAN
    ) -> None:
        """An event of the controller's or the configuration's."""
        if not type.startswith(_KINDS):
            raise ValueError(f"`{type}` is no kind of event")
        with self.writing():
            self._tell(type, subject, now, data, actor)

    def _tell(
        self, type: str, subject: str, now: float, data: Mapping[str, object], actor: str
    ) -> None:
        """Part of a transaction that is open."""
        values = (now, type, actor, subject, json.dumps(data))
        self.ask(
            "INSERT INTO event (at, type, actor, subject, data) VALUES (?, ?, ?, ?, ?)", values
        )

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """In order, those after a number."""
        sql = f"SELECT {EVENT} FROM event WHERE seq > ? ORDER BY seq LIMIT ?"
        return [to_event(row) for row in self.ask(sql, (after, limit))]

    def last_event(self) -> int:
        """The number of the latest, or 0."""
        return int(self.ask("SELECT COALESCE(MAX(seq), 0) FROM event")[0][0])

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Keep decisions; the same one again only counts up."""
        with self.writing():
            for one in decisions:
                self._decide(one)

    def _decide(self, one: Decision) -> None:
        latest = "(SELECT MAX(number) FROM decision WHERE subject = ?)"
        same = self.ask(
            f"UPDATE decision SET times = times + ?, at = ? WHERE number = {latest}"
            " AND action = ? AND reason = ? RETURNING number",
            (one.times, one.at, one.subject, one.action, one.reason),
        )
        if not same:
            self.ask(f"INSERT INTO decision ({DECISION}) VALUES (?, ?, ?, ?, ?)", one)

    def decisions(self, subjects: Sequence[str], limit: int = 50) -> list[Decision]:
        """Of any of the subjects, newest first."""
        sql = f"SELECT {DECISION} FROM decision WHERE subject = ? ORDER BY number DESC LIMIT ?"
        found = [
            row for subject in dict.fromkeys(subjects) for row in self.ask(sql, (subject, limit))
        ]
        newest = sorted(map(to_decision, found), key=lambda one: one.at, reverse=True)
        return newest[:limit]

    def note(self, key: str, value: str) -> None:
        """Leave something for the next controller."""
        with self.writing():
            self.ask("INSERT OR REPLACE INTO note (key, value) VALUES (?, ?)", (key, value))

    def noted(self, key: str) -> str:
        """What was left under this key, or nothing."""
        rows = self.ask("SELECT value FROM note WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""
