"""Events, scheduling decisions, and the controller's notes."""

import json
from collections.abc import Iterable, Mapping, Sequence

from gascity.model.work import HUMAN, Decision, Event
from gascity.store.sqlite import statements
from gascity.store.sqlite.connection import Connection
from gascity.store.sqlite.rows import to_decision, to_event

_KINDS = ("work.", "session.", "agent.", "mail.", "controller.", "config.")


class EventLog:
    """The tables event, decision and note."""

    def __init__(self, connection: Connection) -> None:
        self._query = connection.query
        self._transaction = connection.transaction

    def record_event(
        self, type: str, subject: str, now: float, data: Mapping[str, object], actor: str = HUMAN
    ) -> None:
        if not type.startswith(_KINDS):
            raise ValueError(f"unknown event type `{type}`")
        with self._transaction():
            self.append_event(type, subject, now, data, actor)

    def append_event(
        self, type: str, subject: str, now: float, data: Mapping[str, object], actor: str
    ) -> None:
        """Add an event to the open transaction, so that it commits with the change it reports."""
        self._query(statements.INSERT_EVENT, (now, type, actor, subject, json.dumps(data)))

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        return [to_event(row) for row in self._query(statements.EVENTS_AFTER, (after, limit))]

    def last_event(self) -> int:
        return int(self._query(statements.LAST_EVENT)[0][0])

    def record_decisions(self, decisions: Iterable[Decision]) -> None:
        with self._transaction():
            for decision in decisions:
                at, subject, action, reason, times = decision
                repeated = (times, at, subject, action, reason)
                if not self._query(statements.REPEAT_DECISION, repeated):
                    self._query(statements.INSERT_DECISION, decision)

    def decisions(self, subjects: Sequence[str], limit: int = 50) -> list[Decision]:
        rows = [
            row
            for subject in dict.fromkeys(subjects)
            for row in self._query(statements.DECISIONS_OF, (subject, limit))
        ]
        newest_first = sorted(map(to_decision, rows), key=lambda row: row.at, reverse=True)
        return newest_first[:limit]

    def set_note(self, key: str, value: str) -> None:
        with self._transaction():
            self._query(statements.SET_NOTE, (key, value))

    def get_note(self, key: str) -> str:
        rows = self._query(statements.GET_NOTE, (key,))
        return str(rows[0][0]) if rows else ""
