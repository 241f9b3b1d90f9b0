"""Sessions and their runs."""

from collections.abc import Iterable, Mapping

from gascity.model.work import HUMAN, Run, Session, Stale
from gascity.store.book import Conflict
from gascity.store.post import Post
from gascity.store.rows import RUN, SESSION, marks, setting, to_column, to_run, to_session
from gascity.store.schema import LIVE

_SETTABLE = frozenset(Session._fields) - {"id", "created", "updated"}
_RUN_SETTABLE = frozenset(Run._fields) - {"id", "session"}
_SHORTEST_BEGINNING = 4


class Sessions(Post):
    """Conversations, and what runs for them."""

    def add_session(self, session: Session, actor: str = HUMAN) -> Session:
        """ValueError if a live session has its alias."""
        values = [to_column(value) for value in session]
        with self.writing():
            try:
                self.ask(f"INSERT INTO session ({SESSION}) VALUES ({marks(values)})", values)
            except Conflict:
                raise _taken(session.alias) from None
            told = {"origin": session.origin, **_about(session)}
            self._tell("session.created", session.id, session.created, told, actor)
        return session

    def session(self, id: str) -> Session | None:
        """By its whole id."""
        rows = self.ask(f"SELECT {SESSION} FROM session WHERE id = ?", (id,))
        return to_session(rows[0]) if rows else None

    def sessions(
        self, *, agent: str | None = None, live: bool | None = None, limit: int | None = None
    ) -> list[Session]:
        """Live ones first, then the latest updated; deleted ones are gone."""
        where = ["1"]
        if agent is not None:
            where.append("agent = ?")
        if live is not None:
            where.append(LIVE if live else f"NOT ({LIVE})")
        return self._sessions(" AND ".join(where), () if agent is None else (agent,), limit)

    def _sessions(
        self, where: str, values: tuple[object, ...], limit: int | None = None
    ) -> list[Session]:
        order = f"({LIVE}) DESC, updated DESC, id"
        sql = f"SELECT {SESSION} FROM session WHERE {where} ORDER BY {order} LIMIT ?"
        rows = self.ask(sql, (*values, -1 if limit is None else limit))
        return [to_session(row) for row in rows]

    def find_sessions(self, reference: str) -> list[Session]:
        """By whole id; else live by alias or name; else any by alias or name, latest first, or by
        the beginning of an id (4 letters or more). Several: it is ambiguous."""
        found = self._sessions("id = ?", (reference,))
        if found or not reference:
            return found
        called = "(alias = ? OR (name <> '' AND name = ?))"
        live = self._sessions(f"{called} AND {LIVE}", (reference, reference))
        if live or len(reference) < _SHORTEST_BEGINNING:
            return live or self._sessions(called, (reference, reference))
        # No letter of an id comes after the tilde.
        begins = f"{called} OR (id >= ? AND id < ? || '~')"
        return self._sessions(begins, (reference,) * 4)

    def set_session(
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
        """Change columns; `updated` moves. With `generation`: Stale if it is another by now."""
        columns, values = setting(changes, _SETTABLE)
        columns = f"{columns}, updated = ?" if columns else "updated = ?"
        fence = "" if generation is None else " AND generation = ?"
        fences = () if generation is None else (generation,)
        with self.writing():
            try:
                rows = self.ask(
                    f"UPDATE session SET {columns} WHERE id = ?{fence} RETURNING {SESSION}",
                    (*values, now, id, *fences),
                )
            except Conflict:
                raise _taken(str(changes.get("alias") or id)) from None
            if not rows:
                raise self._not_so(id, generation)
            session = to_session(rows[0])
            if event:
                self._tell(event, id, now, {**_about(session), **(data or {})}, actor)
            return session

    def _not_so(self, id: str, generation: int | None) -> Exception:
        session = self.session(id)
        if session is None:
            return KeyError(id)
        words = (
            f"session {session.alias or id} was started anew: {generation} is not its generation"
        )
        return Stale(words, session.id)

    def delete_session(self, id: str, now: float, actor: str = HUMAN) -> None:
        """It and its runs and nudges are gone; what it worked on stays.

        Work that was for it alone is for anybody now: nobody else could ever take it.
        """
        with self.writing():
            self.ask(
                "UPDATE work SET session = '', reserved = 0 WHERE session = ? AND session <> ''"
                " AND status = 'open'",
                (id,),
            )
            rows = self.ask(f"DELETE FROM session WHERE id = ? RETURNING {SESSION}", (id,))
            for row in rows:
                self._tell("session.deleted", id, now, _about(to_session(row)), actor)

    def add_run(self, run: Run) -> Run:
        """`run.id` is 0 and gets its number. KeyError if there is no such session."""
        values = [to_column(value) for value in run[1:]]
        with self.writing():
            try:
                ((id,),) = self.ask(
                    f"INSERT INTO run (agent, {RUN.removeprefix('id, ')}) VALUES"
                    f" ((SELECT agent FROM session WHERE id = ?), {marks(values)}) RETURNING id",
                    (run.session, *values),
                )
            except Conflict:
                raise KeyError(run.session) from None
        return run._replace(id=id)

    def run(self, id: int) -> Run | None:
        """One run, or none."""
        rows = self.ask(f"SELECT {RUN} FROM run WHERE id = ?", (id,))
        return to_run(rows[0]) if rows else None

    def runs(
        self, *, session: str | None = None, work: str | None = None, open: bool | None = None
    ) -> list[Run]:
        """Latest first; `open`: not ended."""
        named = {"session": session, "work": work}
        asked = {name: value for name, value in named.items() if value is not None}
        where = ["1", *(f"{name} = ?" for name in asked)]
        if open is not None:
            where.append("ended IS NULL" if open else "ended IS NOT NULL")
        # Left to itself, SQLite would rather read all runs there ever were than sort the open ones.
        index = "INDEXED BY run_open" if open and work is None else ""
        sql = f"SELECT {RUN} FROM run {index} WHERE {' AND '.join(where)} ORDER BY id DESC"
        return [to_run(row) for row in self.ask(sql, tuple(asked.values()))]

    def set_run(self, id: int, changes: Mapping[str, object]) -> None:
        """Change columns. KeyError if there is no such run."""
        columns, values = setting(changes, _RUN_SETTABLE)
        with self.writing():
            if not self.ask(f"UPDATE run SET {columns} WHERE id = ? RETURNING id", (*values, id)):
                raise KeyError(id)

    def spent(self, since: float, agents: Iterable[str] | None = None) -> float:
        """What runs that ended since then have cost, of these agents or of all."""
        sql = "SELECT TOTAL(cost) FROM run WHERE cost IS NOT NULL AND ended >= ?"
        if agents is None:
            return float(self.ask(sql, (since,))[0][0])
        names = tuple(agents)
        return float(self.ask(f"{sql} AND agent IN ({marks(names)})", (since, *names))[0][0])


def _taken(alias: str) -> ValueError:
    return ValueError(f"`{alias}` is taken by a session that is live")


def _about(session: Session) -> dict[str, object]:
    return {
        "agent": session.agent,
        "alias": session.alias,
        "state": session.state,
        "reason": session.reason,
        "generation": session.generation,
    }
