"""Work: put, looked at, and counted. Here is the one predicate of what is claimable."""

from collections.abc import Iterable, Mapping, Sequence

from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    DONE,
    FAILED,
    OPEN,
    NewWork,
    Work,
)
from gascity.store.rows import WORK, marks, setting, to_work
from gascity.store.schema import SETTLED, UNSETTLED
from gascity.store.sessions import Sessions

# THE predicate: its values are now and the session that asks. Claiming, demand and position in the
# queue differ only in what they add to it.
CLAIMABLE = (
    "status = 'open' AND waiting = 0 AND (not_before IS NULL OR not_before <= ?)"
    " AND session IN ('', ?)"
)
IN_TURN = "ORDER BY priority, number"

_STATUSES = (OPEN, CLAIMED, DONE, FAILED, CANCELLED)
_NOTABLE = frozenset({"branch", "base", "workdir", "commits", "log", "reason"})


class Queue(Sessions):
    """What there is to do."""

    def put(self, new: NewWork, now: float) -> Work:
        """Keep new work, as `<prefix>-<number>`. Unknown or cyclic `depends_on`: ValueError.

        What was put before with the same key is that work, and nothing is kept.
        """
        needs = tuple(dict.fromkeys(new.depends_on))
        with self.writing():
            before = self.ask(f"SELECT {WORK} FROM work WHERE key = ?", (new.key,))
            if new.key and before:
                return to_work(before[0])
            waiting = self._not_done(needs)
            last = self.ask("SELECT seq FROM sqlite_sequence WHERE name = 'work'")
            number = last[0][0] + 1 if last else 1
            id = f"{new.prefix}-{number}"
            self.ask(
                "INSERT INTO work (number, id, agent, title, body, status, priority, waiting,"
                " created, updated, not_before, session, reserved, depends_on, sender, parent,"
                " depth, key)"
                " VALUES (?, ?, ?, ?, ?, 'open', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(number, id, new.agent, new.title, new.body, new.priority, waiting),
                    *(now, now, new.not_before, new.session, bool(new.session)),
                    *(" ".join(needs), new.sender, new.parent, new.depth, new.key or None),
                ),
            )
            for other in needs:
                self.ask("INSERT INTO dependency (work, needs) VALUES (?, ?)", (id, other))
            work = self._sure(id)
            told: dict[str, object] = {"agent": new.agent, "status": OPEN, "title": new.title}
            told |= {"priority": new.priority, "session": new.session}
            self._tell("work.created", id, now, told, new.sender)
            return work

    def _not_done(self, needs: Sequence[str]) -> int:
        """How many of these are not done. What is new can only need what was there before, so
        that no circle can come about."""
        rows = self.ask(f"SELECT id, status FROM work WHERE id IN ({marks(needs)})", needs)
        found: dict[str, str] = dict(rows)
        unknown = [id for id in needs if id not in found]
        if unknown:
            raise ValueError(f"there is no work {', '.join(unknown)} to depend on")
        return sum(status != DONE for status in found.values())

    def work(self, id: str) -> Work | None:
        """One item, or none."""
        rows = self.ask(f"SELECT {WORK} FROM work WHERE id = ?", (id,))
        return to_work(rows[0]) if rows else None

    def _sure(self, id: str) -> Work:
        work = self.work(id)
        if work is None:
            raise KeyError(id)
        return work

    def list_work(
        self,
        *,
        agent: str | None = None,
        status: Sequence[str] = (),
        session: str | None = None,
        limit: int | None = None,
    ) -> list[Work]:
        """Newest first."""
        where, values = [_which(status)], list[object]()
        if agent is not None:
            where.append("agent = ?")
            values.append(agent)
        if session is not None:
            where.append("session = ? AND session <> ''")
            values.append(session)
        terms = " AND ".join(term for term in where if term) or "1"
        # Left to itself, SQLite would rather read all work there ever was than sort what is open.
        index = "INDEXED BY work_unsettled" if UNSETTLED in terms and session is None else ""
        sql = f"SELECT {WORK} FROM work {index} WHERE {terms} ORDER BY number DESC LIMIT ?"
        return self._works(sql, (*values, -1 if limit is None else limit))

    def _works(self, sql: str, values: Sequence[object]) -> list[Work]:
        return [to_work(row) for row in self.ask(sql, values)]

    def claimable(self, agent: str, now: float, limit: int, session: str = "") -> list[Work]:
        """THE predicate of claiming and of demand, most urgent first, then first come.

        Open, its time has come, all it depends on is done, and reserved for nobody, or for
        `session`. Without `session`, what is reserved for any session is left out.
        """
        sql = f"SELECT {WORK} FROM work WHERE agent = ? AND {CLAIMABLE} {IN_TURN} LIMIT ?"
        return self._works(sql, (agent, now, session, limit))

    def reserved(self, agent: str, now: float, session: str) -> Work | None:
        """The next claimable item that is for this session alone."""
        sql = f"SELECT {WORK} FROM work WHERE agent = ? AND {CLAIMABLE} AND session = ?"
        found = self._works(f"{sql} {IN_TURN} LIMIT 1", (agent, now, session, session))
        return found[0] if found else None

    def reservations(self) -> list[tuple[str, str]]:
        """Agents and sessions of theirs that have open work of their own."""
        sql = "SELECT DISTINCT agent, session FROM work WHERE session <> '' AND status = 'open'"
        return [(agent, session) for agent, session in self.ask(sql)]

    def position(self, id: str, now: float) -> int:
        """How many claimable items of its agent stand before it; 0: it is next."""
        rows = self.ask(
            f"SELECT agent, session, priority, number FROM work WHERE id = ? AND {UNSETTLED}", (id,)
        )
        if not rows:
            return 0
        agent, session, priority, number = rows[0]
        before = "(priority, number) < (?, ?)"
        sql = f"SELECT COUNT(*) FROM work WHERE agent = ? AND {CLAIMABLE} AND {before}"
        return int(self.ask(sql, (agent, now, session, priority, number))[0][0])

    def waits_for(self, id: str) -> list[Work]:
        """What it depends on that is not done."""
        needs = "SELECT needs FROM dependency WHERE work = ?"
        where = f"id IN ({needs}) AND status <> 'done'"
        return self._works(f"SELECT {WORK} FROM work WHERE {where} ORDER BY number", (id,))

    def dependents(self, id: str) -> list[str]:
        """Agents whose open work waits for it, or has waited for it."""
        rows = self.ask(
            "SELECT DISTINCT work.agent FROM dependency JOIN work ON work.id = dependency.work"
            " WHERE dependency.needs = ? AND work.status = 'open'",
            (id,),
        )
        return [agent for (agent,) in rows]

    def children(self, id: str) -> int:
        """How much work was slung in the course of it."""
        return int(
            self.ask("SELECT COUNT(*) FROM work WHERE parent = ? AND parent <> ''", (id,))[0][0]
        )

    def next_due(self, agent: str, now: float) -> float | None:
        """When the next open item of the agent is due that is not yet."""
        due = "status = 'open' AND not_before IS NOT NULL AND agent = ? AND not_before > ?"
        found = self.ask(f"SELECT MIN(not_before) FROM work WHERE {due}", (agent, now))[0][0]
        return None if found is None else float(found)

    def counts(self, agent: str | None = None) -> dict[str, int]:
        """How much work there is by status: all five words."""
        found = dict.fromkeys(_STATUSES, 0)
        mine, values = ("", ()) if agent is None else ("agent = ? AND ", (agent,))
        for part in (UNSETTLED, SETTLED):
            sql = f"SELECT status, COUNT(*) FROM work WHERE {mine}{part} GROUP BY status"
            found.update(self.ask(sql, values))
        return found

    def open_agents(self) -> list[str]:
        """Agents that have open or claimed work."""
        # Hops from one agent to the next in the index, however many items each has.
        first = f"SELECT MIN(agent) FROM work WHERE {UNSETTLED}"
        rows = self.ask(
            f"WITH RECURSIVE hop (agent) AS ({first} UNION ALL"
            f" SELECT ({first} AND work.agent > hop.agent) FROM hop WHERE hop.agent IS NOT NULL)"
            " SELECT agent FROM hop WHERE agent IS NOT NULL"
        )
        return [agent for (agent,) in rows]

    def note_work(self, id: str, changes: Mapping[str, object], now: float) -> None:
        """Put down branch, base, workdir, commits, log or reason of work; no event."""
        columns, values = setting({**changes}, _NOTABLE)
        columns = f"{columns}, updated = ?" if columns else "updated = ?"
        with self.writing():
            sql = f"UPDATE work SET {columns} WHERE id = ? RETURNING number"
            if not self.ask(sql, (*values, now, id)):
                raise KeyError(id)


def _which(status: Iterable[str]) -> str:
    """A term for these statuses. Written out, for a value would keep partial indexes from use."""
    words = set(status)
    if unknown := words - set(_STATUSES):
        raise ValueError(f"`{unknown.pop()}` is no status of work")
    if not words:
        return ""
    listed = ", ".join(f"'{word}'" for word in sorted(words))
    parts = [f"status IN ({listed})"]
    parts += [UNSETTLED] if words <= {OPEN, CLAIMED} else []
    parts += [SETTLED] if words <= {DONE, FAILED, CANCELLED} else []
    return " AND ".join(parts)
