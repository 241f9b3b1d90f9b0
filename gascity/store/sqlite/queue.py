"""The work queue: adding, listing, claiming and finishing work.

Claims are fenced. A claim records the session and its generation, a counter that each start of the
session increments, and the two together are the claim token. Every write by an agent repeats its
token as a condition of the UPDATE, so a process that was replaced (its session restarted, its work
given to another session) can finish or reopen nothing, however late it wakes up. The check and the
change are one statement inside one transaction; there is no moment between them.

What can be claimed is decided by one SQL condition, `statements.CLAIMABLE`. The scheduler's demand,
the position in the queue and the claim itself all use it, so work that counts as demand can be
claimed, and a claim takes exactly the item that was first in the queue.
"""

from collections.abc import Mapping, Sequence

from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    DONE,
    FAILED,
    FINISHED,
    HUMAN,
    OPEN,
    ClaimToken,
    NewWork,
    StaleTokenError,
    Work,
    WorkResult,
)
from gascity.store.sqlite import statements
from gascity.store.sqlite.connection import Connection
from gascity.store.sqlite.events import EventLog
from gascity.store.sqlite.rows import column_values, result_columns, to_work

_STATUSES = (OPEN, CLAIMED, DONE, FAILED, CANCELLED)
_CHANGEABLE = frozenset({"branch", "base", "workdir", "commits", "log", "reason"})
_NO_LIMIT = -1


class WorkQueue:
    """The tables work and dependency."""

    def __init__(self, connection: Connection, events: EventLog) -> None:
        self._query = connection.query
        self._transaction = connection.transaction
        self._events = events

    # Adding

    def add_work(self, new: NewWork, now: float) -> Work:
        depends_on = tuple(dict.fromkeys(new.depends_on))
        with self._transaction():
            if new.key and (rows := self._query(statements.WORK_BY_KEY, (new.key,))):
                return to_work(rows[0])
            waiting = self._count_not_done(depends_on)
            last = self._query(statements.LAST_WORK_NUMBER)
            number = last[0][0] + 1 if last else 1
            id = f"{new.prefix}-{number}"
            self._query(
                statements.INSERT_WORK,
                (
                    *(number, id, new.agent, new.title, new.body, new.priority, waiting),
                    *(now, now, new.not_before, new.session, bool(new.session)),
                    *(" ".join(depends_on), new.sender, new.parent, new.depth, new.key or None),
                ),
            )
            for needed in depends_on:
                self._query(statements.INSERT_DEPENDENCY, (id, needed))
            data: dict[str, object] = {"agent": new.agent, "status": OPEN, "title": new.title}
            data |= {"priority": new.priority, "session": new.session}
            self._events.append_event("work.created", id, now, data, new.sender)
            return self._existing(id)

    def _count_not_done(self, ids: Sequence[str]) -> int:
        """Return how many of these items are not done; ValueError if one does not exist.

        New work can depend only on work that exists, so dependencies never form a cycle.
        """
        statuses: dict[str, str] = dict(self._query(statements.work_statuses(ids), ids))
        unknown = [id for id in ids if id not in statuses]
        if unknown:
            raise ValueError(f"cannot depend on {', '.join(unknown)}: no such work item")
        return sum(status != DONE for status in statuses.values())

    # Reading

    def work(self, id: str) -> Work | None:
        rows = self._query(statements.WORK_BY_ID, (id,))
        return to_work(rows[0]) if rows else None

    def _existing(self, id: str) -> Work:
        work = self.work(id)
        if work is None:
            raise KeyError(id)
        return work

    def _works(self, sql: str, values: Sequence[object]) -> list[Work]:
        return [to_work(row) for row in self._query(sql, values)]

    def list_work(
        self,
        *,
        agent: str | None = None,
        status: Sequence[str] = (),
        session: str | None = None,
        limit: int | None = None,
    ) -> list[Work]:
        if unknown := set(status) - set(_STATUSES):
            raise ValueError(f"unknown work status `{unknown.pop()}`")
        sql = statements.list_work(status, agent=agent is not None, session=session is not None)
        values = [value for value in (agent, session) if value is not None]
        return self._works(sql, (*values, _NO_LIMIT if limit is None else limit))

    def claimable(self, agent: str, now: float, limit: int, session: str = "") -> list[Work]:
        return self._works(statements.CLAIMABLE_WORK, (agent, now, session, limit))

    def reserved(self, agent: str, now: float, session: str) -> Work | None:
        works = self._works(statements.RESERVED_WORK, (agent, now, session, session))
        return works[0] if works else None

    def reservations(self) -> list[tuple[str, str]]:
        return [(agent, session) for agent, session in self._query(statements.RESERVATIONS)]

    def position(self, id: str, now: float) -> int:
        rows = self._query(statements.QUEUE_PLACE, (id,))
        if not rows:
            return 0
        agent, session, priority, number = rows[0]
        values = (agent, now, session, priority, number)
        return int(self._query(statements.COUNT_BEFORE, values)[0][0])

    def unfinished_dependencies(self, id: str) -> list[Work]:
        return self._works(statements.UNFINISHED_DEPENDENCIES, (id,))

    def dependent_agents(self, id: str) -> list[str]:
        return [agent for (agent,) in self._query(statements.DEPENDENT_AGENTS, (id,))]

    def child_count(self, id: str) -> int:
        return int(self._query(statements.COUNT_CHILDREN, (id,))[0][0])

    def next_due(self, agent: str, now: float) -> float | None:
        due = self._query(statements.NEXT_DUE, (agent, now))[0][0]
        return None if due is None else float(due)

    def work_counts(self, agent: str | None = None) -> dict[str, int]:
        counts = dict.fromkeys(_STATUSES, 0)
        values = () if agent is None else (agent,)
        for sql in statements.work_counts(agent=agent is not None):
            counts.update(self._query(sql, values))
        return counts

    def open_agents(self) -> list[str]:
        return [agent for (agent,) in self._query(statements.OPEN_AGENTS)]

    # Changing

    def update_work(self, id: str, changes: Mapping[str, object], now: float) -> None:
        values = column_values(changes, _CHANGEABLE)
        with self._transaction():
            if not self._query(statements.update_work(changes), (*values, now, id)):
                raise KeyError(id)

    def claim(
        self, token: ClaimToken, now: float, *, agent: str = "", work: str = ""
    ) -> Work | None:
        with self._transaction():
            rows = self._query(statements.SESSION_AND_CLAIM, (token.session,))
            generation, held = rows[0] if rows else (None, None)
            if generation != token.generation:
                raise StaleTokenError(f"session {token.session} was restarted or deleted")
            if held is not None:  # a repeated claim, for example after a lost reply
                return self._existing(held)
            claimed = self._claim(statements.CLAIM_BY_ID, token, work, now) if work else None
            if claimed is None and agent:
                claimed = self._claim(statements.CLAIM_NEXT, token, agent, now)
            return claimed

    def _claim(self, sql: str, token: ClaimToken, value: str, now: float) -> Work | None:
        rows = self._query(sql, (*token, now, value, now, token.session))
        if not rows:
            return None
        work = to_work(rows[0])
        data = {**_event_data(work), "generation": work.generation, "attempt": work.attempts}
        self._events.append_event("work.claimed", work.id, now, data, token.session)
        return work

    def finish(
        self,
        id: str,
        status: str,
        result: WorkResult | None,
        now: float,
        *,
        token: ClaimToken | None,
        reason: str = "",
        actor: str = HUMAN,
    ) -> Work:
        if status not in FINISHED:
            raise ValueError(f"cannot finish work as `{status}`")
        values = (status, now, reason, *result_columns(result), id)
        with self._transaction():
            if token is None:
                rows = self._query(statements.FINISH, values)
            else:
                rows = self._query(statements.FINISH_AS_HOLDER, (*values, *token))
            if not rows:
                return self._already_finished(id, status, token)
            work = to_work(rows[0])
            if status == DONE:
                self._query(statements.ADD_TO_WAITING, (-1, id))
            data = {**_event_data(work), "reason": reason}
            self._events.append_event(f"work.{status}", id, now, data, _actor(actor, token))
            return work

    def _already_finished(self, id: str, status: str, token: ClaimToken | None) -> Work:
        """Return the work if this token finished it with this status; else StaleTokenError."""
        work = self._existing(id)
        if work.status != status or not _is_holder(token, work):
            raise _stale(work)
        return work

    def reopen(
        self,
        id: str,
        now: float,
        *,
        token: ClaimToken | None,
        reason: str,
        not_before: float | None = None,
        failed: bool = False,
        uncounted: bool = False,
        actor: str = HUMAN,
    ) -> Work:
        with self._transaction():
            work = self._existing(id)
            if token is not None and (work.status != CLAIMED or not _is_holder(token, work)):
                raise _stale(work)
            finished = work.status in FINISHED
            attempts = 0 if finished else max(0, work.attempts - uncounted)
            failures = 0 if finished else work.failures + failed
            self._query(statements.REOPEN, (now, reason, not_before, attempts, failures, id))
            if work.status == DONE:
                self._query(statements.ADD_TO_WAITING, (1, id))
            data = {
                **_event_data(work),
                "status": OPEN,
                "reason": reason,
                "not_before": not_before,
            }
            self._events.append_event("work.reopened", id, now, data, _actor(actor, token))
            return self._existing(id)


def _is_holder(token: ClaimToken | None, work: Work) -> bool:
    return token is None or token == (work.session, work.generation)


def _actor(actor: str, token: ClaimToken | None) -> str:
    """Return the actor for the event: by default the session of the token, if there is one."""
    return actor if token is None or actor != HUMAN else token.session


def _stale(work: Work) -> StaleTokenError:
    holder = f" by session {work.session}" if work.status != OPEN and work.session else ""
    return StaleTokenError(f"{work.id} is {work.status}{holder}", work.session if holder else "")


def _event_data(work: Work) -> dict[str, object]:
    return {"agent": work.agent, "status": work.status, "session": work.session}
