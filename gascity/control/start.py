"""Start sessions: claim an item, prepare the working directory, spawn the run, record it.

A start takes several rounds of the loop. `begin` increments the session's generation, claims the
item with the new token and has a worker thread prepare the working directory. When that is done,
`_launch` spawns the run, which its wrapper holds back until the transaction is committed. Between
the two, the item may have been cancelled or the session stopped; then the start is dropped.
"""

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from gascity.control.decide import reasons
from gascity.control.decide.actions import CreateSession, RunSession
from gascity.control.decide.outcome import is_claimed_by
from gascity.control.decide.types import Blocked
from gascity.control.launch import RunLaunch, make_run_spec, message_text
from gascity.control.live_state import CONTROLLER, NO_REQUEST, ActiveRun, LiveState, PendingStart
from gascity.control.run_config import AgentRunConfig
from gascity.model.problems import CityError, Problem
from gascity.model.values import format_duration
from gascity.model.work import (
    CRASHED,
    FAILED,
    IDLE,
    NAMED,
    POOL,
    RUNNING,
    STARTING,
    STOPPED,
    ClaimToken,
    Mail,
    Run,
    Session,
    Work,
)
from gascity.runtimes import interactive_runtime
from gascity.runtimes.port import RunHandle, Runtime, with_handle
from gascity.store.port import Store
from gascity.workdir.prepare_session import PreparedSession, WorkdirRequest

if TYPE_CHECKING:
    from gascity.model.session_changes import SessionChanges

MAIL = "mail"  # `about` of a run that handles unread mail
REFLECTION = "reflection"  # `about` of a run that follows a work item, with its id
_UNFIT = (
    "message-not-passed",
    "template-failed",
    "unknown-branch",
)  # the item itself cannot be started, so it fails


def mail_of(run: Run) -> list[int]:
    """Return the ids of the messages that a run was given."""
    word, _, ids = run.about.partition(" ")
    return [int(id) for id in ids.split(",")] if word == MAIL and ids else []


def start_branch(store: Store, work: Work) -> str:
    """Return the branch that an item starts from; empty: the rig's default branch."""
    source = store.work(work.start_from) if work.start_from else None
    return (source.branch if source is not None else "") or work.start_from


class SessionStarter:
    """Starts sessions and gives them work."""

    def __init__(self, live: LiveState) -> None:
        self.live = live

    # Actions of the reconciler

    def create(self, action: CreateSession) -> None:
        """Create a session; without work it idles in its slot."""
        live, config = self.live, self.live.run_config.agent(action.agent)
        if config is None:
            return
        terminal = config.pool.interactive or (action.origin == NAMED and config.terminal)
        session = Session(
            id=str(uuid4()),
            agent=action.agent,
            origin=action.origin,
            slot=action.slot,
            alias=action.alias,
            state=STARTING,
            reason=action.reason,
            created=live.now,
            updated=live.now,
            interactive=terminal,
            runtime=interactive_runtime(live.runtimes) if terminal else config.runtime,
        )
        before = self._unstarted(session)
        if before is None and config.resumes and not terminal and action.origin == POOL:
            before = self._last_ended(session)
        if before is not None:
            session = self._reuse(before, session)
        else:
            session = live.store.add_session(session, CONTROLLER)
        live.sessions.put(session)
        live.record_decision(session.id, "start", action.reason)
        if terminal or action.work or action.about:
            self.begin(config, session, action.work, action.reason, action.about)
        else:
            live.change(session, state=IDLE, idle_since=live.now)

    def _unstarted(self, new: Session) -> Session | None:
        """Return the session of the agent's last failed start, so that tries leave one row."""
        live = self.live
        session = live.store.session(live.unstarted.pop(new.agent, ""))
        return None if session is None or session.run or session.state != STOPPED else session

    def _last_ended(self, new: Session) -> Session | None:
        """Return the slot's last session, which the new one continues with `wake_mode = "resume"`.

        One with work of its own is left to that.
        """
        store = self.live.store
        reserved = {session for _, session in store.reservations()}
        for session in store.sessions(agent=new.agent, live=False):
            same = (session.origin, session.slot, session.interactive) == (POOL, new.slot, False)
            if same and session.state == STOPPED and session.id not in reserved:
                return session
        return None

    def _reuse(self, before: Session, new: Session) -> Session:
        changes: SessionChanges = {
            "origin": new.origin,
            "slot": new.slot,
            "alias": new.alias,
            "state": new.state,
            "reason": new.reason,
            "interactive": new.interactive,
            "runtime": new.runtime,
        }
        return self.live.change(before, "", **changes)

    def run(self, session: Session, action: RunSession) -> None:
        """Run an existing session for an item, for mail, or to open its terminal."""
        live, config = self.live, self.live.run_config.agent(session.agent)
        if config is None or session.id in live.preparing:
            return
        if action.alias:
            session = live.change(session, slot=action.slot, alias=action.alias)
        if session.id in live.active_runs:
            if session.interactive and action.work:
                self._assign_in_terminal(config, session, action.work)
            elif session.interactive and action.about == MAIL:
                self._type_mail(config, session)
        elif session.interactive or action.work or action.about:
            self.begin(config, session, action.work, action.reason, action.about)
        else:
            self._rest(session, action.reason)

    def _rest(self, session: Session, reason: str) -> None:
        """Let a session idle in its slot."""
        idle: SessionChanges = {
            "state": IDLE,
            "reason": reason,
            "idle_since": self.live.now,
            "work": "",
            "asked": "",
            "pending": "",
            "retry_at": None,
        }
        self.live.change(session, "", **idle)

    def _assign_in_terminal(self, config: AgentRunConfig, session: Session, item: str) -> None:
        """Give an item to a session in a terminal; it is typed there when the terminal is ready."""
        live = self.live
        work = self._claim(session, item)
        if work is None:
            return
        text = message_text(config, work, (), ())
        if work.start_from:  # the terminal stays on its branch
            text += f"\n\nStart from the branch `{start_branch(live.store, work)}`."
        live.store.add_nudge(session.id, text, live.now, CONTROLLER, f"work {work.id}")
        live.screens_due.add(session.id)
        self._record_place(work, session, live.active_runs[session.id].run.log, work.base)
        live.change(session, "session.started", state=RUNNING, work=work.id, idle_since=None)

    def _type_mail(self, config: AgentRunConfig, session: Session) -> None:
        """Have unread messages typed into an idle terminal; they are read once that is done."""
        live, mail = self.live, self._mail(session)
        if mail:
            text = message_text(config, None, mail, ())
            about = f"mail {','.join(str(message.id) for message in mail)}"
            live.store.add_nudge(session.id, text, live.now, CONTROLLER, about)
            live.screens_due.add(session.id)

    # Starting

    def begin(
        self,
        config: AgentRunConfig,
        session: Session,
        item: str,
        reason: str,
        about: str = "",
        message: str = "",
    ) -> None:
        """Start a session: claim its item, prepare its directory, then launch it.

        With `message`, its last conversation continues with just that.
        """
        live = self.live
        mail = self._mail(session) if about == MAIL else []
        if about == MAIL and not mail and not item:
            self._rest(session, "its mail was read meanwhile")
            return
        wanted = live.store.work(item) if item else None
        reserved = wanted is not None and wanted.reserved
        stays = session.interactive or config.resumes or reserved or bool(message)
        resume = stays and bool(session.conversation)
        starting: SessionChanges = {
            **NO_REQUEST,
            "state": STARTING,
            "reason": reason,
            "generation": session.generation + 1,
            "conversation": session.conversation if resume else str(uuid4()),
            "run": 0,
            "pid": 0,
            "idle_since": None,
            "work": item,
        }
        session = live.change(session, "", **starting)
        work = self._claim(session, item) if item else None
        if item and work is None:
            self._rest(session, "another session took its item")
            return
        if work is not None:
            live.record_decision(work.id, "start", f"{session.alias} takes it")
        nudges = [] if session.interactive or message else live.store.nudges(session.id)
        purpose = f"{MAIL} {','.join(str(message.id) for message in mail)}" if mail else about
        by = live.monotonic + live.run_config.city.session.startup_timeout
        text = message or message_text(config, work, mail, nudges)
        given = tuple(nudge.id for nudge in nudges)
        pending = PendingStart(session, work, text, resume, stays, purpose, by, given)
        live.preparing[session.id] = pending
        self._prepare(config, pending)

    def _claim(self, session: Session, item: str) -> Work | None:
        token = ClaimToken(session.id, session.generation)
        return self.live.store.claim(token, self.live.now, work=item)

    def _mail(self, session: Session) -> list[Mail]:
        store = self.live.store
        names = [name for name in (session.agent, session.id, session.alias) if name]
        messages = store.inbox(names, unread=True)
        senders = {message.sender: store.session(message.sender) for message in messages}
        return [
            message._replace(sender=sender.alias)
            if (sender := senders[message.sender])
            else message
            for message in messages
        ]

    def _prepare(self, config: AgentRunConfig, pending: PendingStart) -> None:
        """Prepare the directory; at once if nothing changed since the last time."""
        live, session, work = self.live, pending.session, pending.work
        start = start_branch(live.store, work) if work else ""
        others = (other for other in live.sessions.of(session.agent) if other.id != session.id)
        request = WorkdirRequest(
            session=session.id,
            alias=session.alias,
            slot=session.slot,
            work=work.id if work else "",
            workdir=session.workdir,
            branch=session.branch,
            resume=pending.stays and not (start and work and not work.branch),
            work_branch=work.branch if work else "",
            start=start,
            taken=frozenset(other.workdir for other in others if other.workdir),
            blocked={entry.path: entry.message for entry in live.blocked_directories},
            environ=live.environments.values(work.id if work else ""),
        )
        before = live.prepared.get(session.id)
        if before is not None and before.workdir in request.blocked:
            before = None
        if before is not None and config.preparer.is_current(config.agent, before, request):
            del live.preparing[session.id]
            self._start_in(before, config, pending)
            return
        live.workers.put(
            partial(config.preparer.prepare, config.agent, request),
            partial(self._prepared, config, session),
            partial(self._not_prepared, session),
        )

    def _prepared(
        self, config: AgentRunConfig, session: Session, prepared: PreparedSession
    ) -> None:
        """Continue a start whose directory is ready, unless it was cancelled meanwhile."""
        pending = self._take_pending(session)
        if pending is not None:
            self._start_in(prepared, config, pending)

    def _start_in(
        self, prepared: PreparedSession, config: AgentRunConfig, pending: PendingStart
    ) -> None:
        """Start a session in its directory, unless something is wrong with that."""
        live, session = self.live, pending.session
        if prepared.blocked:
            self.start_failed(pending, reasons.directory_blocked(prepared.blocked))
            return
        if errors := [problem for problem in prepared.problems if problem.is_error]:
            self.start_failed(pending, Blocked(errors[0].code, _with_file(errors[0])))
            return
        for note in prepared.notes:
            live.record_decision(session.id, "note", note)
        live.prepared[session.id] = prepared
        self._launch(config, pending, prepared)

    def _not_prepared(self, session: Session, error: Exception) -> None:
        pending = self._take_pending(session)
        if pending is not None:
            self.start_failed(pending, _blocked_by(error))

    def _take_pending(self, session: Session) -> PendingStart | None:
        """Return and remove a start in progress; None if it was cancelled or lost its item."""
        pending = self.live.preparing.get(session.id)
        if pending is None or pending.session.generation != session.generation:
            return None
        del self.live.preparing[session.id]
        if pending.work is not None and not self._still_has(session, pending.work.id):
            self._rest(session, f"{pending.work.id} was finished meanwhile")
            return None
        return pending

    def _still_has(self, session: Session, item: str) -> bool:
        work = self.live.store.work(item)
        return work is not None and is_claimed_by(work, session)

    def _launch(
        self, config: AgentRunConfig, pending: PendingStart, prepared: PreparedSession
    ) -> None:
        live, session, work = self.live, pending.session, pending.work
        launch: RunLaunch | None = None
        try:
            runtime = live.runtimes[session.runtime]
            if missing := runtime.missing_requirement():
                raise CityError(Problem("missing-runtime", f"{session.runtime} needs {missing}"))
            environ = live.environments.of(work.id if work else "")
            reuse = live.reusable.pop() if live.reusable else None
            launch = make_run_spec(live.root, config, pending, prepared, environ, reuse)
            handle = runtime.spawn(launch.spec)
        except (OSError, CityError, KeyError) as error:
            for path in launch.files if launch else ():
                with suppress(OSError):
                    os.unlink(path)
            self.start_failed(pending, _blocked_by(error))
            return
        run = self._record_run(pending, launch, runtime, handle)
        live.start_failures.pop(session.agent, None)
        live.unstarted.pop(session.agent, None)
        if pending.nudges:  # not before: a start that fails delivers nothing
            live.store.mark_nudges(pending.nudges, live.now)
        if session.interactive:
            self._greet(config, session)
        if work is not None:
            placed = session._replace(workdir=prepared.workdir, branch=prepared.branch)
            self._record_place(work, placed, run.log, prepared.base or work.base)
        waits = session.interactive and work is None
        # Not idle before its screen is known: it may show a dialog.
        state = RUNNING if not waits else STARTING if config.terminal_rules.known else IDLE
        live.change(
            session,
            "session.started",
            state=state,
            reason=f"working on {work.id}" if work else "",
            run=run.id,
            pid=run.pid,
            conversation=launch.conversation,
            workdir=prepared.workdir,
            branch=prepared.branch,
            prints=prepared.fingerprint,
            started=live.now,
            idle_since=live.now if waits else None,
        )

    def _record_run(
        self, pending: PendingStart, launch: RunLaunch, runtime: Runtime, handle: RunHandle
    ) -> Run:
        """Record a spawned run; it is released once the transaction is committed."""
        live, session, spec = self.live, pending.session, launch.spec
        run = Run(
            id=0,
            session=session.id,
            generation=session.generation,
            work=pending.work.id if pending.work else "",
            runtime=session.runtime,
            started=live.now,
            log=spec.log,
            exit_file=spec.exit_file,
            about=pending.about,
            token=launch.token,
        )
        run = with_handle(run, handle)
        active = ActiveRun(run, runtime, handle, launch.files)
        # Before the write: if that fails, the run must be killed.
        live.unreleased.append((session.id, active))
        active = active._replace(run=live.store.add_run(run))
        live.unreleased[-1] = (session.id, active)
        live.active_runs[session.id] = active
        return active.run

    def _greet(self, config: AgentRunConfig, session: Session) -> None:
        """Have the agent's `nudge` setting and queued nudges typed into a new terminal."""
        live, greeting = self.live, config.agent.settings.nudge
        if greeting:
            live.store.add_nudge(session.id, greeting, live.now, CONTROLLER)
        live.screens_due.add(session.id)

    def _record_place(self, work: Work, session: Session, log: str, base: str) -> None:
        """Record with an item where it runs."""
        where = {
            "log": log,
            "workdir": session.workdir,
            "branch": session.branch,
            "base": base,
            "reason": f"{session.alias} is working on it",
        }
        self.live.store.update_work(work.id, where, self.live.now)

    # Failed starts

    def next_at(self) -> float | None:
        """Return when the next preparation exceeds the startup timeout."""
        return min((pending.by for pending in self.live.preparing.values()), default=None)

    def fail_overdue(self) -> None:
        """Fail starts whose directory is not ready in time."""
        live = self.live
        for id, pending in list(live.preparing.items()):
            if pending.by <= live.monotonic:
                del live.preparing[id]
                limit = format_duration(live.run_config.city.session.startup_timeout)
                message = f"working directory not ready within {limit}"
                self.start_failed(pending, Blocked("start-timeout", message))

    def start_failed(self, pending: PendingStart, why: Blocked) -> None:
        """Queue the item again and block the agent until something changes.

        An item that itself cannot be started fails instead, so that it does not block the others.
        """
        live, session = self.live, pending.session
        if pending.about.startswith(REFLECTION):  # its item is done, and the next may well start
            live.record_decision(pending.about.partition(" ")[2], "note", why.message)
            self._rest(session, why.message)
            return
        if pending.work is not None and why.code in _UNFIT:
            live.finish_item(session, pending.work.id, FAILED, None, why.message)
        else:
            if pending.work is not None and why.code == "missing-env":
                live.environments.start_failed(pending.work.id, why)
                live.mark_dirty(session.agent)
            else:
                live.start_failures[session.agent] = why
                live.record_decision(session.agent, "wait", why.message)
            if pending.work is not None:
                token = ClaimToken(session.id, session.generation)
                live.release_item(token, pending.work.id, why.message)
        state = CRASHED if session.interactive else STOPPED
        live.change(session, "session.stopped", state=state, reason=why.message, work="")
        if session.origin == POOL and state == STOPPED and not live.store.runs(session=session.id):
            live.unstarted[session.agent] = session.id


def _blocked_by(error: Exception) -> Blocked:
    match error:
        case CityError():
            return Blocked(error.problems[0].code, error.problems[0].message)
        case OSError():
            return Blocked("refused", f"{error.filename or 'start'}: {error.strerror}")
        case KeyError():
            return Blocked("unknown-runtime", f"there is no runtime {error}")
    return Blocked("start-failed", f"{type(error).__name__}: {error}")


def _with_file(problem: Problem) -> str:
    """Return the message of a problem; that of an MCP server's file names it."""
    file = problem.place.file if problem.place is not None else ""
    named = file and "/mcp/" in f"/{file}" and file not in problem.message
    return f"{file}: {problem.message}" if named else problem.message
