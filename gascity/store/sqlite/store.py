"""The store in an SQLite file, `.gc/city.db`, shared by all processes that work on a city.

Claims are fenced. A claim records the session and its generation, a counter that each start of the
session increments, and the two together are the claim token. Every write by an agent repeats its
token as a condition of the UPDATE, so a process that was replaced (its session restarted, its work
given to another session) can finish or reopen nothing, however late it wakes up. The check and the
change are one statement inside one transaction; there is no moment between them.

What can be claimed is decided by one SQL condition, `statements.CLAIMABLE`. The scheduler's demand,
the position in the queue and the claim itself all use it, so work that counts as demand can be
claimed, and a claim takes exactly the item that was first in the queue.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gascity.host import is_portable
from gascity.model.values import JsonObject
from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    DONE,
    FAILED,
    FINISHED,
    HUMAN,
    LIVE,
    OPEN,
    ClaimToken,
    Decision,
    Event,
    Mail,
    NewWork,
    Nudge,
    Run,
    Session,
    StaleTokenError,
    Work,
    WorkResult,
)
from gascity.store.port import Activity, ConflictError, SessionKey
from gascity.store.sqlite import statements
from gascity.store.sqlite.connection import Connection
from gascity.store.sqlite.retention import prune
from gascity.store.sqlite.rows import (
    column_values,
    result_columns,
    to_column,
    to_decision,
    to_event,
    to_json,
    to_mail,
    to_nudge,
    to_run,
    to_session,
    to_usage,
    to_work,
)

if TYPE_CHECKING:
    from gascity.model.session_changes import SessionChanges
    from gascity.store.port import RunUsage, Store, Wakeups

_STATUSES = (OPEN, CLAIMED, DONE, FAILED, CANCELLED)
_WORK_CHANGEABLE = frozenset("branch base workdir commits log reason answer_to".split())
_SESSION_CHANGEABLE = frozenset(Session._fields) - {"id", "created", "updated"}
_RUN_CHANGEABLE = frozenset(Run._fields) - {"id", "session"}
_EVENT_KINDS = ("work.", "session.", "agent.", "mail.", "mcp.", "controller.", "config.")
_SHORTEST_PREFIX = 4  # of an id, to find a session by
_NO_LIMIT = -1


class SqliteStore:
    """`Store` on one connection; `gascity/store/port.py` describes the methods."""

    def __init__(self, root: str, *, relaxed: bool = False, new: bool = False) -> None:
        self.connection = connection = Connection(root, relaxed=relaxed, new=new)
        self.close = connection.close
        self.transaction = connection.transaction
        self._one_write = connection.one_write
        self._writes = connection.writes
        self.changed = connection.changed
        self.deleted = connection.deleted
        self.rescue = connection.rescue
        self.integrity_errors = connection.integrity_errors
        self._query = connection.query

    def subscribe(self) -> "Wakeups":
        from gascity.store.sqlite import wakeups  # here, because most commands never wait

        if not is_portable():
            return wakeups.WriteWatch(os.path.dirname(self.connection.path))
        subscriber = f"{os.getpid()}-{id(self):x}"
        self.connection.subscriber = subscriber
        return wakeups.MessageSocket(self.connection.root, subscriber)

    def prune(self, now: float) -> list[str]:
        with self.transaction():
            return prune(self._query, now)

    # Work

    def add_work(self, new: NewWork, now: float) -> Work:
        depends_on = tuple(dict.fromkeys(new.depends_on))
        with self.transaction():
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
                    *(new.start_from, new.no_reflection, new.answer_to),
                ),
            )
            for needed in depends_on:
                self._query(statements.INSERT_DEPENDENCY, (id, needed))
            data: JsonObject = {"agent": new.agent, "status": OPEN, "title": new.title}
            data |= {"priority": new.priority, "session": new.session}
            self._append_event("work.created", id, now, data, new.sender)
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
        agents: Collection[str] | None = None,
        status: Sequence[str] = (),
        session: str | None = None,
        limit: int | None = None,
        before: str = "",
        words: Sequence[str] = (),
    ) -> list[Work]:
        _check_statuses(status)
        names = agents if agent is None else (agent,)
        sql = statements.list_work(
            status, names, session=session is not None, before=bool(before), words=len(words)
        )
        values = [
            *(names or ()),
            *(() if session is None else (session,)),
            *map(statements.containing, words),
            *filter(None, (before,)),
        ]
        return self._works(sql, (*values, _NO_LIMIT if limit is None else limit))

    def count_work(
        self,
        *,
        agents: Collection[str] | None = None,
        status: Sequence[str] = (),
        words: Sequence[str] = (),
    ) -> int:
        _check_statuses(status)
        sql = statements.count_work(status, agents, len(words))
        values = (*(agents or ()), *map(statements.containing, words))
        return int(self._query(sql, values)[0][0])

    def work_agents(self) -> list[str]:
        return [agent for (agent,) in self._query(statements.WORK_AGENTS)]

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

    def children(self, ids: Sequence[str]) -> list[Work]:
        return self._works(statements.children(ids), ids)

    def delegations(self, limit: int) -> list[Work]:
        return self._works(statements.DELEGATIONS, (limit,))

    def next_due(self, agent: str, now: float) -> float | None:
        due = self._query(statements.NEXT_DUE, (agent, now))[0][0]
        return None if due is None else float(due)

    def work_counts(self, agent: str | None = None) -> dict[str, int]:
        if agent is None:
            rows = self._query(statements.COUNT_BY_STATUS)
        else:
            rows = self._query(statements.COUNT_BY_STATUS_OF_AGENT, (agent,))
        return dict.fromkeys(_STATUSES, 0) | dict(rows)

    def open_counts(self) -> dict[str, int]:
        return dict(self._query(statements.OPEN_COUNTS))

    def open_agents(self) -> list[str]:
        return [agent for (agent,) in self._query(statements.OPEN_AGENTS)]

    def update_work(self, id: str, changes: Mapping[str, object], now: float) -> None:
        values = column_values(changes, _WORK_CHANGEABLE)
        with self._one_write():
            if not self._query(statements.update_work(changes), (*values, now, id)):
                raise KeyError(id)

    def claim(
        self, token: ClaimToken, now: float, *, agent: str = "", work: str = ""
    ) -> Work | None:
        with self._writes():
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
        data = {**_work_data(work), "generation": work.generation, "attempt": work.attempts}
        self._append_event("work.claimed", work.id, now, data, token.session)
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
        lost: bool = False,
        actor: str = HUMAN,
    ) -> Work:
        if status not in FINISHED:
            raise ValueError(f"cannot finish work as `{status}`")
        failed = int(status == FAILED and not lost)
        values = (status, now, reason, *result_columns(result), failed, id)
        with self._writes():
            if token is None:
                rows = self._query(statements.FINISH, values)
            else:
                rows = self._query(statements.FINISH_AS_HOLDER, (*values, *token))
            if not rows:
                return self._already_finished(id, status, token)
            work = to_work(rows[0])
            if status == DONE:
                self._query(statements.ADD_TO_WAITING, (-1, id))
            data = {**_work_data(work), "reason": reason}
            self._append_event(f"work.{status}", id, now, data, _actor(actor, token))
            if work.answer_to:
                self._mail_answer(work, now)
            return work

    def _mail_answer(self, work: Work, now: float) -> None:
        """Mail the result to the session that sent the item, or to its agent if that has ended."""
        session = self.session(work.sender)
        to = work.sender if session is not None and session.state in LIVE else work.answer_to
        body = (work.result.summary if work.result is not None else "") or work.reason
        self.send_mail(work.agent, to, f"{work.id} {work.status}", body, now)

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
        never_ran: bool = False,
        actor: str = HUMAN,
    ) -> Work:
        with self._writes():
            work = self._existing(id)
            if token is not None and (work.status != CLAIMED or not _is_holder(token, work)):
                raise _stale(work)
            if work.status in FINISHED:
                counted = before = (work.attempts, work.failures)
            else:
                attempts = max(work.attempts_before, work.attempts - never_ran)
                free = min(attempts, work.attempts_before + uncounted)
                before = (free, work.failures_before)
                counted = (attempts, work.failures + failed)
            self._query(statements.REOPEN, (now, reason, not_before, *counted, *before, id))
            if work.status == DONE:
                self._query(statements.ADD_TO_WAITING, (1, id))
            data = {
                **_work_data(work),
                "status": OPEN,
                "reason": reason,
                "not_before": not_before,
            }
            self._append_event("work.reopened", id, now, data, _actor(actor, token))
            return self._existing(id)

    def move_work(
        self, id: str, agent: str, now: float, *, start_from: str, actor: str = HUMAN
    ) -> Work:
        with self.transaction():
            before = self._existing(id)
            reason = f"moved from {before.agent}"
            rows = self._query(statements.MOVE_WORK, (agent, start_from, now, reason, id))
            if not rows:
                raise ValueError(f"cannot move {id}: it is {before.status}")
            data = {**_work_data(work := to_work(rows[0])), "from": before.agent}
            self._append_event("work.moved", id, now, data, actor)
            return work

    def rename_agent(self, old: str, new: str, now: float, actor: str = HUMAN) -> list[str]:
        with self.transaction():
            works = self._works(statements.RENAME_AGENT_OF_WORK, (new, old))
            for work in works:
                data = {**_work_data(work), "from": old}
                self._append_event("work.moved", work.id, now, data, actor)
            self._query(statements.RENAME_RECIPIENT, (new, old))
            return sorted(work.id for work in works)

    # Sessions and runs

    def add_session(self, session: Session, actor: str = HUMAN) -> Session:
        with self._writes():
            try:
                self._query(statements.INSERT_SESSION, [to_column(value) for value in session])
            except ConflictError:
                raise _alias_in_use(session.alias) from None
            data = {"origin": session.origin, **_session_data(session)}
            self._append_event("session.created", session.id, session.created, data, actor)
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

    def session_keys(self) -> list[SessionKey]:
        return [SessionKey(*row) for row in self._query(statements.SESSION_KEYS)]

    def sessions_by_id(self, ids: Sequence[str]) -> list[Session]:
        rows = self._query(statements.sessions_by_id(ids), ids)
        sessions = {session.id: session for session in map(to_session, rows)}
        return [sessions[id] for id in ids if id in sessions]

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
        changes: "SessionChanges",
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
        with self._writes() if event else self._one_write():
            try:
                rows = self._query(sql, (*values, now, id, *fence))
            except ConflictError:
                raise _alias_in_use(str(changes.get("alias") or id)) from None
            if not rows:
                raise self._update_refused(id, generation)
            session = to_session(rows[0])
            if event:
                event_data = {**_session_data(session), **(data or {})}
                self._append_event(event, id, now, event_data, actor)
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
        with self.transaction():
            self._query(statements.RELEASE_RESERVATIONS, (id,))
            for row in self._query(statements.DELETE_SESSION, (id,)):
                data = _session_data(to_session(row))
                self._append_event("session.deleted", id, now, data, actor)

    def add_run(self, run: Run) -> Run:
        values = [to_column(value) for value in run[1:]]
        with self._one_write():
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

    def runs_after(self, id: int, limit: int) -> list[Run]:
        return [to_run(row) for row in self._query(statements.RUNS_AFTER, (id, limit))]

    def update_run(self, id: int, changes: Mapping[str, object]) -> None:
        values = column_values(changes, _RUN_CHANGEABLE)
        with self._one_write():
            if not self._query(statements.update_run(changes), (*values, id)):
                raise KeyError(id)

    def total_cost(self, since: float, agents: Iterable[str] | None = None) -> float:
        if agents is None:
            rows = self._query(statements.TOTAL_COST, (since,))
        else:
            names = tuple(agents)
            rows = self._query(statements.total_cost_of(names), (since, *names))
        return float(rows[0][0])

    def run_usage(self, since: float) -> "Iterator[RunUsage]":
        for agent, ended, usage, cost in self._query(statements.RUN_USAGE, (since,)):
            yield agent, ended, to_usage(usage), cost

    def activity(self, since: float, step: float) -> list[Activity]:
        finished = self._query(statements.FINISHED_BY_STEP, (since, step))
        items = {(number, status): count for number, status, count in finished}
        costs: dict[int, float] = dict(self._query(statements.COST_BY_STEP, (since, step)))
        return [
            Activity(
                since + number * step,
                items.get((number, DONE), 0),
                items.get((number, FAILED), 0),
                costs.get(number, 0.0),
            )
            for number in sorted({number for number, _ in items} | costs.keys())
        ]

    # Mail and nudges

    def send_mail(
        self,
        sender: str,
        to: str,
        subject: str,
        body: str,
        now: float,
        *,
        reply_to: int | None = None,
    ) -> Mail:
        with self.transaction():
            thread = 0 if reply_to is None else self._thread(reply_to)
            values = (thread, sender, to, subject, body, now)
            mail = to_mail(self._query(statements.INSERT_MAIL, values)[0])
            if reply_to is None:
                self._query(statements.START_THREAD, (mail.id,))
                mail = mail._replace(thread=mail.id)
            data = {"from": sender, "to": to, "subject": subject, "thread": mail.thread}
            self._append_event("mail.sent", str(mail.id), now, data, sender)
            return mail

    def _thread(self, reply_to: int) -> int:
        rows = self._query(statements.MAIL_THREAD, (reply_to,))
        if not rows:
            raise KeyError(reply_to)
        return int(rows[0][0])

    def mail(self, id: int) -> Mail | None:
        rows = self._query(statements.MAIL_BY_ID, (id,))
        return to_mail(rows[0]) if rows else None

    def inbox(
        self,
        names: Sequence[str],
        *,
        unread: bool = False,
        limit: int | None = None,
        before: int | None = None,
    ) -> list[Mail]:
        sql = statements.inbox(names, unread=unread, before=before is not None)
        older = () if before is None else (before,)
        rows = self._query(sql, (*names, *older, _NO_LIMIT if limit is None else limit))
        return [to_mail(row) for row in rows]

    def count_inbox(self, names: Sequence[str], *, unread: bool = False) -> int:
        return int(self._query(statements.count_inbox(names, unread=unread), names)[0][0])

    def mark_mail(
        self, ids: Sequence[int], now: float, *, archive: bool = False, actor: str = HUMAN
    ) -> int:
        column = "archived" if archive else "read"
        with self.transaction():
            rows = self._query(statements.mark_mail(column, ids), (now, *ids))
            for id, sender, to in rows:
                data = {"from": sender, "to": to}
                self._append_event(f"mail.{column}", str(id), now, data, actor)
            return len(rows)

    def unread_counts(self) -> dict[str, int]:
        return dict(self._query(statements.UNREAD_COUNTS))

    def add_nudge(
        self, session: str, text: str, now: float, actor: str = HUMAN, about: str = ""
    ) -> Nudge:
        with self.transaction():
            try:
                rows = self._query(statements.INSERT_NUDGE, (session, text, now, about))
            except ConflictError:  # the foreign key: no such session
                raise KeyError(session) from None
            nudge = to_nudge(rows[0])
            ((agent,),) = self._query(statements.SESSION_AGENT, (session,))
            data = {"agent": agent, "nudge": nudge.id}  # not its text, which is for the session
            self._append_event("session.nudged", session, now, data, actor)
            return nudge

    def nudges(self, session: str) -> list[Nudge]:
        return [to_nudge(row) for row in self._query(statements.PENDING_NUDGES, (session,))]

    def mark_nudges(self, ids: Sequence[int], now: float) -> None:
        with self._one_write():
            self._query(statements.mark_nudges(ids), (now, *ids))

    def take_nudges(self, session: str, now: float) -> list[Nudge]:
        with self._one_write():
            rows = self._query(statements.TAKE_NUDGES, (now, session))
        return sorted(map(to_nudge, rows))

    def set_typing(self, id: int, since: float | None) -> bool:
        with self._one_write():
            return bool(self._query(statements.SET_TYPING, (since, id)))

    def drop_nudge(self, id: int) -> None:
        with self._one_write():
            self._query(statements.DELETE_NUDGE, (id,))

    # Events, decisions, notes

    def record_event(
        self, type: str, subject: str, now: float, data: Mapping[str, object], actor: str = HUMAN
    ) -> None:
        if not type.startswith(_EVENT_KINDS):
            raise ValueError(f"unknown event type `{type}`")
        with self._one_write():
            self._append_event(type, subject, now, data, actor)

    def _append_event(
        self, type: str, subject: str, now: float, data: Mapping[str, object], actor: str
    ) -> None:
        """Add an event to the open transaction, so that it commits with the change it reports."""
        self._query(statements.INSERT_EVENT, (now, type, actor, subject, to_json(data)))

    def events(
        self,
        after: int = 0,
        limit: int = 1000,
        *,
        types: Sequence[str] = (),
        since: float = 0.0,
        newest: bool = False,
    ) -> list[Event]:
        sql = statements.list_events(types, newest=newest)
        rows = self._query(sql, (*_event_values(after, types, since), limit))
        return [to_event(row) for row in (reversed(rows) if newest else rows)]

    def count_events(self, after: int = 0, *, types: Sequence[str] = (), since: float = 0.0) -> int:
        if not types and not since:
            return int(self._query(statements.COUNT_ALL_EVENTS, (after,))[0][0])
        sql = statements.count_events(types)
        return int(self._query(sql, _event_values(after, types, since))[0][0])

    def last_event(self) -> int:
        return int(self._query(statements.LAST_EVENT)[0][0])

    def record_decisions(self, decisions: Iterable[Decision]) -> None:
        with self._writes():
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
        with self._one_write():
            self._query(statements.SET_NOTE, (key, value))

    def get_note(self, key: str) -> str:
        rows = self._query(statements.GET_NOTE, (key,))
        return str(rows[0][0]) if rows else ""


def _check_statuses(status: Sequence[str]) -> None:
    if unknown := set(status) - set(_STATUSES):
        raise ValueError(f"unknown work status `{unknown.pop()}`")


def _event_values(after: int, types: Sequence[str], since: float) -> tuple[object, ...]:
    return (after, since, *(word for type in types for word in (type, type, type)))


def _is_holder(token: ClaimToken | None, work: Work) -> bool:
    return token is None or token == (work.session, work.generation)


def _actor(actor: str, token: ClaimToken | None) -> str:
    """Return the actor for the event: by default the session of the token, if there is one."""
    return actor if token is None or actor != HUMAN else token.session


def _stale(work: Work) -> StaleTokenError:
    holder = f" by session {work.session}" if work.status != OPEN and work.session else ""
    return StaleTokenError(f"{work.id} is {work.status}{holder}", work.session if holder else "")


def _work_data(work: Work) -> JsonObject:
    return {"agent": work.agent, "status": work.status, "session": work.session}


def _alias_in_use(alias: str) -> ConflictError:
    return ConflictError(f"a live session already uses the alias `{alias}`")


def _session_data(session: Session) -> JsonObject:
    return {
        "agent": session.agent,
        "alias": session.alias,
        "state": session.state,
        "reason": session.reason,
        "generation": session.generation,
    }


if TYPE_CHECKING:

    def _implements_the_port(store: SqliteStore) -> Store:
        return store
