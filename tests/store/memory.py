"""A store without files or SQL: the port's contract in plain Python.

It proves that the port does not depend on SQLite, and it is the model that the laws compare the
real store with. Several stores can share one `Memory`, as several processes share a database.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from gascity.model.work import (
    CLAIMED,
    DONE,
    FAILED,
    FINISHED,
    HUMAN,
    LIVE,
    OPEN,
    QUARANTINED,
    RATE_LIMITED,
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

if TYPE_CHECKING:
    from gascity.store.port import RunUsage, Store

_KINDS = ("work.", "session.", "agent.", "mail.", "mcp.", "controller.", "config.")


class Memory:
    """The records. Every value is immutable, so copying the tables is a snapshot."""

    def __init__(self) -> None:
        self.works: dict[str, Work] = {}
        self.keys: dict[str, str] = {}  # work ids by key
        self.all_sessions: dict[str, Session] = {}
        self.all_runs: dict[int, Run] = {}
        self.all_mail: dict[int, Mail] = {}
        self.all_nudges: dict[int, Nudge] = {}
        self.notes: dict[str, str] = {}
        self.all_events: list[Event] = []
        self.all_decisions: list[Decision] = []
        self.last_ids: dict[str, int] = {}
        self.commits: list[object] = []  # the store that made each
        self.subscribers: list[int] = []
        self.write_lock = threading.RLock()

    def snapshot(self) -> dict[str, Any]:
        tables = vars(self).keys() - {"subscribers", "write_lock"}
        return {name: getattr(self, name).copy() for name in tables}

    def next_id(self, table: str) -> int:
        self.last_ids[table] = self.last_ids.get(table, 0) + 1
        return self.last_ids[table]


class EventfdWakeups:
    """Wake-ups by a counter of the kernel that every commit increments."""

    recheck: float | None = None

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        memory.subscribers.append(self.fd)

    def drain(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        self._memory.subscribers.remove(self.fd)
        os.close(self.fd)
        self.fd = -1


class MemoryStore:
    """`Store` in memory."""

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory or Memory()
        self._depth = 0
        self._seen = len(self._memory.commits)

    def close(self) -> None:
        pass

    @contextmanager
    def transaction(self) -> Iterator[None]:
        memory = self._memory
        with memory.write_lock:
            before = memory.snapshot()
            self._depth += 1
            try:
                yield
            except BaseException:
                vars(memory).update(before)
                raise
            finally:
                self._depth -= 1
            if not self._depth:
                memory.commits.append(self)
                for fd in memory.subscribers:
                    os.eventfd_write(fd, 1)

    def subscribe(self) -> EventfdWakeups:
        return EventfdWakeups(self._memory)

    def changed(self) -> bool:
        new, self._seen = self._memory.commits[self._seen :], len(self._memory.commits)
        return any(store is not self for store in new)

    def deleted(self) -> bool:
        return False

    def rescue(self, now: float) -> str:  # noqa: ARG002 - there is nothing to save it to
        return ""

    def integrity_errors(self) -> list[str]:
        return []

    def prune(self, now: float) -> list[str]:  # noqa: ARG002 - it keeps everything
        return []

    # Work

    def add_work(self, new: NewWork, now: float) -> Work:
        memory = self._memory
        if new.key in memory.keys:
            return memory.works[memory.keys[new.key]]
        depends_on = tuple(dict.fromkeys(new.depends_on))
        if unknown := [id for id in depends_on if id not in memory.works]:
            raise ValueError(f"cannot depend on {unknown}: no such work item")
        with self.transaction():
            id = f"{new.prefix}-{memory.next_id('work')}"
            work = Work(
                id,
                new.agent,
                new.title,
                new.body,
                OPEN,
                new.priority,
                attempts=0,
                failures=0,
                created=now,
                updated=now,
                not_before=new.not_before,
                session=new.session,
                reserved=bool(new.session),
                depends_on=depends_on,
                sender=new.sender,
                parent=new.parent,
                depth=new.depth,
                start_from=new.start_from,
                no_reflection=new.no_reflection,
                answer_to=new.answer_to,
            )
            memory.works[id] = work
            if new.key:
                memory.keys[new.key] = id
            data = {"agent": new.agent, "status": OPEN, "title": new.title}
            self._append("work.created", id, now, data, new.sender)
            return work

    def work(self, id: str) -> Work | None:
        return self._memory.works.get(id)

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
        if unknown := set(status) - {OPEN, CLAIMED, *FINISHED}:
            raise ValueError(f"unknown work status {unknown}")
        ids = list(self._memory.works)
        older = ids[: ids.index(before)] if before in ids else [] if before else ids
        works = [
            work
            for work in (self._memory.works[id] for id in reversed(older))
            if agent in (None, work.agent)
            and (agents is None or work.agent in agents)
            and (not status or work.status in status)
            and (session is None or (work.session == session != ""))
            and all(
                word.lower() in f"{work.id} {work.agent} {work.title}".lower() for word in words
            )
        ]
        return works[:limit]

    def count_work(
        self,
        *,
        agents: Collection[str] | None = None,
        status: Sequence[str] = (),
        words: Sequence[str] = (),
    ) -> int:
        return len(self.list_work(agents=agents, status=status, words=words))

    def work_agents(self) -> list[str]:
        return sorted({work.agent for work in self._memory.works.values()})

    def _claimable(self, work: Work, now: float, session: str) -> bool:
        return (
            work.status == OPEN
            and (work.not_before is None or work.not_before <= now)
            and not self.unfinished_dependencies(work.id)
            and work.session in ("", session)
        )

    def claimable(self, agent: str, now: float, limit: int, session: str = "") -> list[Work]:
        works = [
            work
            for work in self._memory.works.values()
            if work.agent == agent and self._claimable(work, now, session)
        ]
        return sorted(works, key=lambda work: work.priority)[:limit]

    def reserved(self, agent: str, now: float, session: str) -> Work | None:
        works = self.claimable(agent, now, len(self._memory.works), session)
        return next((work for work in works if work.session == session), None)

    def reservations(self) -> list[tuple[str, str]]:
        works = [w for w in self._memory.works.values() if w.session and w.status == OPEN]
        return list(dict.fromkeys((work.agent, work.session) for work in works))

    def position(self, id: str, now: float) -> int:
        item = self._memory.works.get(id)
        if item is None or item.status in FINISHED:
            return 0
        order = list(self._memory.works)
        before = [
            work
            for work in self.claimable(item.agent, now, len(order), item.session)
            if (work.priority, order.index(work.id)) < (item.priority, order.index(id))
        ]
        return len(before)

    def unfinished_dependencies(self, id: str) -> list[Work]:
        works = self._memory.works
        needed = set(works[id].depends_on) if id in works else set()
        return [work for work in works.values() if work.id in needed and work.status != DONE]

    def dependent_agents(self, id: str) -> list[str]:
        works = [w for w in self._memory.works.values() if id in w.depends_on and w.status == OPEN]
        return list(dict.fromkeys(work.agent for work in works))

    def child_count(self, id: str) -> int:
        return sum(work.parent == id != "" for work in self._memory.works.values())

    def children(self, ids: Sequence[str]) -> list[Work]:
        return [work for work in self._memory.works.values() if work.parent in ids and work.parent]

    def delegations(self, limit: int) -> list[Work]:
        parents = {work.parent for work in self._memory.works.values()}
        roots = [w for w in self._memory.works.values() if w.id in parents and not w.parent]
        return roots[::-1][:limit]

    def next_due(self, agent: str, now: float) -> float | None:
        dues = [
            work.not_before
            for work in self._memory.works.values()
            if work.agent == agent and work.status == OPEN and work.not_before is not None
        ]
        return min((due for due in dues if due > now), default=None)

    def work_counts(self, agent: str | None = None) -> dict[str, int]:
        counts = dict.fromkeys((OPEN, CLAIMED, *FINISHED), 0)
        for work in self.list_work(agent=agent):
            counts[work.status] += 1
        return counts

    def open_agents(self) -> list[str]:
        return sorted({work.agent for work in self.list_work(status=(OPEN, CLAIMED))})

    def open_counts(self) -> dict[str, int]:
        return dict(Counter(work.agent for work in self.list_work(status=(OPEN,))))

    def update_work(self, id: str, changes: Mapping[str, object], now: float) -> None:
        allowed = {"branch", "base", "workdir", "commits", "log", "reason"}
        _check_columns(changes, allowed)
        with self.transaction():
            fields: dict[str, Any] = {**changes, "updated": now}
            self._memory.works[id] = self._memory.works[id]._replace(**fields)

    def claim(
        self, token: ClaimToken, now: float, *, agent: str = "", work: str = ""
    ) -> Work | None:
        session = self.session(token.session)
        if session is None or session.generation != token.generation:
            raise StaleTokenError(f"{token.session} is out of date")
        works = self._memory.works
        for item in works.values():
            if item.status == CLAIMED and _is_holder(token, item):
                return item
        wanted = works.get(work)
        if wanted is None or not self._claimable(wanted, now, token.session):
            wanted = next(iter(self.claimable(agent, now, 1, token.session)), None)
        if wanted is None:
            return None
        return self._change_work(
            "work.claimed",
            now,
            token.session,
            wanted._replace(
                status=CLAIMED,
                session=token.session,
                generation=token.generation,
                attempts=wanted.attempts + 1,
                reason="",
            ),
        )

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
            raise ValueError(f"cannot finish work as {status}")
        work = self._memory.works[id]
        if work.status == status and _is_holder(token, work):
            return work
        wrong_holder = token is not None and not (
            work.status == CLAIMED and _is_holder(token, work)
        )
        if work.status in FINISHED or wrong_holder:
            raise StaleTokenError(f"{id} is {work.status}", work.session)
        failed = work.status == CLAIMED and status == FAILED and not lost
        failures = work.failures + failed
        after = work._replace(status=status, result=result, reason=reason, failures=failures)
        with self.transaction():
            after = self._change_work(f"work.{status}", now, _actor(actor, token), after)
            if work.answer_to:
                sender = self._memory.all_sessions.get(work.sender)
                alive = sender is not None and sender.state in LIVE
                body = (result.summary if result else "") or reason
                to = work.sender if alive else work.answer_to
                self.send_mail(work.agent, to, f"{id} {status}", body, now)
        return after

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
        work = self._memory.works[id]
        if token is not None and not (work.status == CLAIMED and _is_holder(token, work)):
            raise StaleTokenError(f"{id} is {work.status}", work.session)
        finished = work.status in FINISHED
        attempts, free = work.attempts, work.attempts
        if not finished:
            attempts = max(work.attempts_before, work.attempts - never_ran)
            free = min(attempts, work.attempts_before + uncounted)
        after = work._replace(
            status=OPEN,
            session=work.session if work.reserved else "",
            generation=0,
            attempts=attempts,
            failures=work.failures + (0 if finished else failed),
            attempts_before=free,
            failures_before=work.failures if finished else work.failures_before,
            result=None,
            not_before=not_before,
            reason=reason,
        )
        return self._change_work("work.reopened", now, _actor(actor, token), after)

    def move_work(
        self, id: str, agent: str, now: float, *, start_from: str, actor: str = HUMAN
    ) -> Work:
        work = self._memory.works[id]
        if work.status != OPEN:
            raise ValueError(f"{id} is {work.status}")
        moved = Work(
            **{
                **work._asdict(),
                **{"agent": agent, "start_from": start_from, "reason": f"moved from {work.agent}"},
                **{"session": "", "reserved": False, "generation": 0, "not_before": None},
                **{"attempts": 0, "failures": 0, "commits": 0, "log": ""},
                **{"attempts_before": 0, "failures_before": 0},
                **{"branch": "", "base": "", "workdir": ""},
            }
        )
        return self._change_work("work.moved", now, actor, moved)

    def rename_agent(self, old: str, new: str, now: float, actor: str = HUMAN) -> list[str]:
        unfinished = [
            work
            for work in self._memory.works.values()
            if work.agent == old and work.status not in FINISHED
        ]
        with self.transaction():
            for work in unfinished:
                renamed = work._replace(agent=new)
                self._memory.works[work.id] = renamed
                self._append("work.moved", work.id, now, {"agent": new, "from": old}, actor)
            for mail in self.inbox([old], unread=True):
                self._memory.all_mail[mail.id] = mail._replace(to=new)
        return sorted(work.id for work in unfinished)

    def _change_work(self, type: str, now: float, actor: str, work: Work) -> Work:
        work = work._replace(updated=now)
        with self.transaction():
            self._memory.works[work.id] = work
            data = {"agent": work.agent, "status": work.status, "session": work.session}
            data |= {"reason": work.reason, "attempt": str(work.attempts)}
            self._append(type, work.id, now, data, actor)
        return work

    # Sessions and runs

    def add_session(self, session: Session, actor: str = HUMAN) -> Session:
        self._check_alias(session)
        with self.transaction():
            self._memory.all_sessions[session.id] = session
            data = {"agent": session.agent, "state": session.state}
            self._append("session.created", session.id, session.created, data, actor)
        return session

    def _check_alias(self, session: Session) -> None:
        live = [other for other in self.sessions(live=True) if other.id != session.id]
        if session.state in LIVE and session.alias in [other.alias for other in live]:
            raise ConflictError(f"a live session already uses the alias {session.alias}")

    def session(self, id: str) -> Session | None:
        return self._memory.all_sessions.get(id)

    def sessions(
        self, *, agent: str | None = None, live: bool | None = None, limit: int | None = None
    ) -> list[Session]:
        sessions = [
            session
            for session in self._memory.all_sessions.values()
            if agent in (None, session.agent) and live in (None, session.state in LIVE)
        ]
        sessions.sort(key=lambda session: (session.state not in LIVE, -session.updated, session.id))
        return sessions[:limit]

    def session_keys(self) -> list[SessionKey]:
        def order(session: Session) -> tuple[float, ...]:
            waits = session.retry_at or session.state in (QUARANTINED, RATE_LIMITED)
            pinned = (session.pinned is None, -(session.pinned or 0))
            return (*pinned, session.state not in LIVE, not waits, -session.updated)

        by_id = sorted(self._memory.all_sessions.values(), key=lambda session: session.id)
        return [SessionKey(s.id, s.agent, s.state) for s in sorted(by_id, key=order)]

    def sessions_by_id(self, ids: Sequence[str]) -> list[Session]:
        sessions = self._memory.all_sessions
        return [sessions[id] for id in ids if id in sessions]

    def find_sessions(self, reference: str) -> list[Session]:
        if reference in self._memory.all_sessions:
            return [self._memory.all_sessions[reference]]
        if not reference:
            return []
        everything = self.sessions()
        named = [s for s in everything if reference in (s.alias, s.name)]
        if live := [session for session in named if session.state in LIVE]:
            return live
        prefixes = len(reference) >= 4
        return [s for s in everything if s in named or (prefixes and s.id.startswith(reference))]

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
        _check_columns(changes, set(Session._fields) - {"id", "created", "updated"})
        before = self._memory.all_sessions[id]
        if generation not in (None, before.generation):
            raise StaleTokenError(f"{id} was restarted", id)
        fields: dict[str, Any] = {**changes, "updated": now}
        after = before._replace(**fields)
        self._check_alias(after)
        with self.transaction():
            self._memory.all_sessions[id] = after
            if event:
                about = {"agent": after.agent, "state": after.state, **(data or {})}
                self._append(event, id, now, about, actor)
        return after

    def delete_session(self, id: str, now: float, actor: str = HUMAN) -> None:
        memory = self._memory
        with self.transaction():
            session = memory.all_sessions.pop(id, None)
            for work in self.list_work(session=id, status=(OPEN,)):
                memory.works[work.id] = work._replace(session="", reserved=False)
            memory.all_runs = _without_session(memory.all_runs, id)
            memory.all_nudges = _without_session(memory.all_nudges, id)
            if session is not None:
                self._append("session.deleted", id, now, {"agent": session.agent}, actor)

    def add_run(self, run: Run) -> Run:
        if run.session not in self._memory.all_sessions:
            raise KeyError(run.session)
        with self.transaction():
            added = run._replace(id=self._memory.next_id("run"))
            self._memory.all_runs[added.id] = added
        return added

    def run(self, id: int) -> Run | None:
        return self._memory.all_runs.get(id)

    def runs(
        self, *, session: str | None = None, work: str | None = None, open: bool | None = None
    ) -> list[Run]:
        return [
            run
            for run in reversed(self._memory.all_runs.values())
            if session in (None, run.session)
            and work in (None, run.work)
            and open in (None, run.ended is None)
        ]

    def runs_after(self, id: int, limit: int) -> list[Run]:
        return [run for run in self._memory.all_runs.values() if run.id > id][:limit]

    def update_run(self, id: int, changes: Mapping[str, object]) -> None:
        fields: dict[str, Any] = {**changes}
        with self.transaction():
            self._memory.all_runs[id] = self._memory.all_runs[id]._replace(**fields)

    def total_cost(self, since: float, agents: Iterable[str] | None = None) -> float:
        names = None if agents is None else set(agents)
        return sum(
            run.cost or 0.0
            for run in self._memory.all_runs.values()
            if run.ended is not None and run.ended >= since
            if names is None or self._memory.all_sessions[run.session].agent in names
        )

    def run_usage(self, since: float) -> "Iterator[RunUsage]":
        for run in self._memory.all_runs.values():
            if run.ended is not None and run.ended >= since:
                agent = self._memory.all_sessions[run.session].agent
                yield agent, run.ended, run.usage, run.cost

    def activity(self, since: float, step: float) -> list[Activity]:
        steps: dict[int, Activity] = {}

        def add(at: float, **more: float) -> None:
            number = int((at - since) / step)
            before = steps.get(number) or Activity(since + number * step, 0, 0, 0.0)
            sums = {name: getattr(before, name) + value for name, value in more.items()}
            steps[number] = before._replace(**sums)

        for work in self._memory.works.values():
            if work.status in (DONE, FAILED) and work.updated >= since:
                add(work.updated, **{work.status: 1})
        for run in self._memory.all_runs.values():
            if run.ended is not None and run.ended >= since and run.cost is not None:
                add(run.ended, cost=run.cost)
        return [steps[number] for number in sorted(steps)]

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
        thread = None if reply_to is None else self._memory.all_mail[reply_to].thread
        with self.transaction():
            id = self._memory.next_id("mail")
            mail = Mail(id, id if thread is None else thread, sender, to, subject, body, now)
            self._memory.all_mail[id] = mail
            self._append("mail.sent", str(id), now, {"from": sender, "to": to}, sender)
        return mail

    def mail(self, id: int) -> Mail | None:
        return self._memory.all_mail.get(id)

    def inbox(
        self,
        names: Sequence[str],
        *,
        unread: bool = False,
        limit: int | None = None,
        before: int | None = None,
    ) -> list[Mail]:
        messages = [
            mail
            for mail in reversed(self._memory.all_mail.values())
            if mail.to in names and mail.archived is None and not (unread and mail.read is not None)
            if before is None or mail.id < before
        ]
        return messages[:limit]

    def count_inbox(self, names: Sequence[str], *, unread: bool = False) -> int:
        return len(self.inbox(names, unread=unread))

    def mark_mail(
        self, ids: Sequence[int], now: float, *, archive: bool = False, actor: str = HUMAN
    ) -> int:
        field = "archived" if archive else "read"
        all_mail = self._memory.all_mail
        marked = [id for id in dict.fromkeys(ids) if id in all_mail]
        marked = [id for id in marked if getattr(all_mail[id], field) is None]
        with self.transaction():
            for id in marked:
                change: dict[str, Any] = {field: now}
                all_mail[id] = all_mail[id]._replace(**change)
                self._append(f"mail.{field}", str(id), now, {}, actor)
        return len(marked)

    def unread_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for mail in self._memory.all_mail.values():
            if mail.read is None and mail.archived is None:
                counts[mail.to] = counts.get(mail.to, 0) + 1
        return counts

    def add_nudge(
        self, session: str, text: str, now: float, actor: str = HUMAN, about: str = ""
    ) -> Nudge:
        agent = self._memory.all_sessions[session].agent
        with self.transaction():
            nudge = Nudge(self._memory.next_id("nudge"), session, text, now, about=about)
            self._memory.all_nudges[nudge.id] = nudge
            data = {"agent": agent, "nudge": nudge.id}
            self._append("session.nudged", session, now, data, actor)
        return nudge

    def nudges(self, session: str) -> list[Nudge]:
        nudges = self._memory.all_nudges.values()
        return [n for n in nudges if n.session == session and n.delivered is None]

    def mark_nudges(self, ids: Sequence[int], now: float) -> None:
        with self.transaction():
            for id in ids:
                nudge = self._memory.all_nudges[id]
                self._memory.all_nudges[id] = nudge._replace(delivered=now)

    def take_nudges(self, session: str, now: float) -> list[Nudge]:
        with self.transaction():
            taken = [nudge for nudge in self.nudges(session) if nudge.typing is None]
            self.mark_nudges([nudge.id for nudge in taken], now)
        return [nudge._replace(delivered=now) for nudge in taken]

    def set_typing(self, id: int, since: float | None) -> bool:
        with self.transaction():
            nudge = self._memory.all_nudges.get(id)
            if nudge is None or nudge.delivered is not None:
                return False
            self._memory.all_nudges[id] = nudge._replace(typing=since)
        return True

    def drop_nudge(self, id: int) -> None:
        with self.transaction():
            nudge = self._memory.all_nudges.get(id)
            if nudge is not None and nudge.delivered is None:
                del self._memory.all_nudges[id]

    # Events, decisions, notes

    def record_event(
        self, type: str, subject: str, now: float, data: Mapping[str, object], actor: str = HUMAN
    ) -> None:
        if not type.startswith(_KINDS):
            raise ValueError(f"unknown event type {type}")
        with self.transaction():
            self._append(type, subject, now, data, actor)

    def _append(
        self, type: str, subject: str, now: float, data: Mapping[str, object], actor: str
    ) -> None:
        seq = self._memory.next_id("event")
        self._memory.all_events.append(Event(seq, now, type, actor, subject, dict(data)))

    def _events(self, after: int, types: Sequence[str], since: float) -> list[Event]:
        return [
            event
            for event in self._memory.all_events
            if event.seq > after and event.at >= since
            if not types or any(f"{event.type}.".startswith(f"{type}.") for type in types)
        ]

    def events(
        self,
        after: int = 0,
        limit: int = 1000,
        *,
        types: Sequence[str] = (),
        since: float = 0.0,
        newest: bool = False,
    ) -> list[Event]:
        matching = self._events(after, types, since)
        return matching[-limit:] if newest else matching[:limit]

    def count_events(self, after: int = 0, *, types: Sequence[str] = (), since: float = 0.0) -> int:
        return len(self._events(after, types, since))

    def last_event(self) -> int:
        return self._memory.last_ids.get("event", 0)

    def record_decisions(self, decisions: Iterable[Decision]) -> None:
        kept = self._memory.all_decisions
        with self.transaction():
            for new in decisions:
                at = [index for index, old in enumerate(kept) if old.subject == new.subject]
                last = kept[at[-1]] if at else None
                if last is not None and last[1:4] == new[1:4]:
                    kept[at[-1]] = new._replace(times=last.times + new.times)
                else:
                    kept.append(new)

    def decisions(self, subjects: Sequence[str], limit: int = 50) -> list[Decision]:
        about = [one for one in self._memory.all_decisions if one.subject in subjects]
        return sorted(about, key=lambda decision: decision.at, reverse=True)[:limit]

    def set_note(self, key: str, value: str) -> None:
        with self.transaction():
            self._memory.notes[key] = value

    def get_note(self, key: str) -> str:
        return self._memory.notes.get(key, "")


def _is_holder(token: ClaimToken | None, work: Work) -> bool:
    return token is None or token == (work.session, work.generation)


def _actor(actor: str, token: ClaimToken | None) -> str:
    return actor if token is None or actor != HUMAN else token.session


def _check_columns(changes: Mapping[str, object], allowed: set[str]) -> None:
    if wrong := set(changes) - allowed:
        raise ValueError(f"cannot set {wrong}")


def _without_session(records: dict[int, Any], session: str) -> dict[int, Any]:
    return {id: record for id, record in records.items() if record.session != session}


if TYPE_CHECKING:
    implements_the_port: Callable[[MemoryStore], Store] = lambda store: store  # noqa: E731
