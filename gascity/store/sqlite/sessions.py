"""Sessions and their runs."""

from collections.abc import Iterable, Mapping

from gascity.model.work import HUMAN, Run, Session, StaleTokenError
from gascity.store.port import ConflictError
from gascity.store.sqlite import statements
from gascity.store.sqlite.connection import Connection
from gascity.store.sqlite.events import EventLog
from gascity.store.sqlite.rows import column_values, to_column, to_run, to_session

_SESSION_CHANGEABLE = frozenset(Session._fields) - {"id", "created", "updated"}
_RUN_CHANGEABLE = frozenset(Run._fields) - {"id", "session"}
_SHORTEST_PREFIX = 4  # of an id, to find a session by
_NO_LIMIT = -1


class SessionTable:
    """The tables session and run."""

    def __init__(self, connection: Connection, events: EventLog) -> None:
        self._query = connection.query
        self._transaction = connection.transaction
        self._events = events

    def add_session(self, session: Session, actor: str = HUMAN) -> Session:
        with self._transaction():
            try:
                self._query(statements.INSERT_SESSION, [to_column(value) for value in session])
            except ConflictError:
                raise _alias_in_use(session.alias) from None
            data = {"origin": session.origin, **_event_data(session)}
            self._events.append_event("session.created", session.id, session.created, data, actor)
        return session

    def session(self, id: str) -> Session | None:
        rows = self._query(statements.SESSION_BY_ID, (id,))
        return to_session(rows[0]) if rows else None

    def sessions(
        self, *, agent: str | None = None, live: bool | None = None, limit: int | None = None
    ) -> list[Session]:
        sql = statements.list_sessions(agent=agent is not None, live=live)
        values = () if agent is None else (agent,)
        return self._sessions(sql, *values, limit=limit)

    def _sessions(self, sql: str, *values: str, limit: int | None = None) -> list[Session]:
        rows = self._query(sql, (*values, _NO_LIMIT if limit is None else limit))
        return [to_session(row) for row in rows]

    def find_sessions(self, reference: str) -> list[Session]:
        session = self.session(reference)
        if session is not None or not reference:
            return [session] if session is not None else []
        live = self._sessions(statements.LIVE_SESSIONS_BY_NAME, reference, reference)
        if live:
            return live
        if len(reference) < _SHORTEST_PREFIX:
            return self._sessions(statements.SESSIONS_BY_NAME, reference, reference)
        return self._sessions(statements.SESSIONS_BY_NAME_OR_PREFIX, *(reference,) * 4)

    def update_session(
        self,
        id: str,
        changes: Mapping[str, object],
        now: float,
        *,
        generation: int | None = None,
        event: str = "",
        data: Mapping[str, object] | None = None,
        actor: str = HUMAN,
    ) -> Session:
        values = column_values(changes, _SESSION_CHANGEABLE)
        sql = statements.update_session(changes, fenced=generation is not None)
        fence = () if generation is None else (generation,)
        with self._transaction():
            try:
                rows = self._query(sql, (*values, now, id, *fence))
            except ConflictError:
                raise _alias_in_use(str(changes.get("alias") or id)) from None
            if not rows:
                raise self._update_refused(id, generation)
            session = to_session(rows[0])
            if event:
                event_data = {**_event_data(session), **(data or {})}
                self._events.append_event(event, id, now, event_data, actor)
            return session

    def _update_refused(self, id: str, generation: int | None) -> Exception:
        session = self.session(id)
        if session is None:
            return KeyError(id)
        message = (
            f"session {session.alias or id} was restarted:"
            f" its generation is {session.generation}, not {generation}"
        )
        return StaleTokenError(message, session.id)

    def delete_session(self, id: str, now: float, actor: str = HUMAN) -> None:
        with self._transaction():
            self._query(statements.RELEASE_RESERVATIONS, (id,))
            for row in self._query(statements.DELETE_SESSION, (id,)):
                data = _event_data(to_session(row))
                self._events.append_event("session.deleted", id, now, data, actor)

    def add_run(self, run: Run) -> Run:
        values = [to_column(value) for value in run[1:]]
        with self._transaction():
            try:
                ((id,),) = self._query(statements.INSERT_RUN, (run.session, *values))
            except ConflictError:  # no such session, hence no agent
                raise KeyError(run.session) from None
        return run._replace(id=id)

    def run(self, id: int) -> Run | None:
        rows = self._query(statements.RUN_BY_ID, (id,))
        return to_run(rows[0]) if rows else None

    def runs(
        self, *, session: str | None = None, work: str | None = None, open: bool | None = None
    ) -> list[Run]:
        filters = {
            name: value
            for name, value in (("session", session), ("work", work))
            if value is not None
        }
        rows = self._query(statements.list_runs(filters, open), tuple(filters.values()))
        return [to_run(row) for row in rows]

    def update_run(self, id: int, changes: Mapping[str, object]) -> None:
        values = column_values(changes, _RUN_CHANGEABLE)
        with self._transaction():
            if not self._query(statements.update_run(changes), (*values, id)):
                raise KeyError(id)

    def total_cost(self, since: float, agents: Iterable[str] | None = None) -> float:
        if agents is None:
            rows = self._query(statements.TOTAL_COST, (since,))
        else:
            names = tuple(agents)
            rows = self._query(statements.total_cost_of(names), (since, *names))
        return float(rows[0][0])


def _alias_in_use(alias: str) -> ConflictError:
    return ConflictError(f"a live session already uses the alias `{alias}`")


def _event_data(session: Session) -> dict[str, object]:
    return {
        "agent": session.agent,
        "alias": session.alias,
        "state": session.state,
        "reason": session.reason,
        "generation": session.generation,
    }
