"""Live state of the controller: sessions, their runs, and what is in progress.

It mirrors the store and changes only inside the transaction of a round. Runs spawned in a round
are held back until it is committed (`unreleased`), so nothing runs that is not recorded. After a
failed commit, `reset` kills them and drops everything.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from gascity.control.decide.types import Blocked
from gascity.control.launch import PendingStart
from gascity.control.session_index import SessionIndex
from gascity.control.workers import Workers
from gascity.model.names import parse_name
from gascity.model.work import ClaimToken, Decision, Run, Session, StaleTokenError
from gascity.runtimes.port import RunHandle, Runtime
from gascity.store.port import Store
from gascity.workdir.prepare_session import PreparedSession

CONTROLLER = "controller"  # actor of the controller's events


class ActiveRun(NamedTuple):
    """A run in progress."""

    run: Run
    runtime: Runtime
    handle: RunHandle
    files: tuple[str, ...] = ()  # temporary files written for it


class StopProgress(NamedTuple):
    """A run that is being stopped: why, the next stage, and when that is due."""

    ours: str  # stop, timeout, cancel, restart
    stage: int
    next_at: float  # monotonic clock


class LiveState:
    """Sessions and their runs. The loop sets `now` (wall clock) and `monotonic` each round."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        store: Store,
        runtimes: Mapping[str, Runtime],
        workers: Workers,
    ) -> None:
        self.root = root
        self.environ = environ
        self.store = store
        self.runtimes = runtimes
        self.workers = workers
        self.now = 0.0
        self.monotonic = 0.0
        self.startup_timeout = 60.0  # seconds until a working directory must be ready
        self.sessions = SessionIndex()
        self.active_runs: dict[str, ActiveRun] = {}  # by session id, like the next three
        self.stopping: dict[str, StopProgress] = {}
        self.preparing: dict[str, PendingStart] = {}
        self.prepared: dict[str, PreparedSession] = {}
        self.typing_queue: set[str] = set()  # sessions with text to type into their terminal
        self.unreleased: list[tuple[str, ActiveRun]] = []  # spawned, not yet committed
        self.start_failures: dict[str, Blocked] = {}  # by agent: why its last start failed
        self.dirty: dict[str, None] = {}
        self.mail_changed = False
        self.stopping_city = False  # all sessions are being stopped
        self.decisions: list[Decision] = []

    def mark_dirty(self, agent: str) -> None:
        """Have the agent reconciled in this round."""
        self.dirty[agent] = None

    def record_decision(self, subject: str, action: str, reason: str) -> None:
        self.decisions.append(Decision(self.now, subject, action, reason))

    def change(self, session: Session, event: str = "", **columns: object) -> Session:
        """Write changed columns of a session to the store and to the index."""
        event_data = {"agent": session.agent, "state": columns.get("state", session.state)}
        if columns.get("reason"):
            event_data["reason"] = columns["reason"]
        after = self.store.update_session(
            session.id, columns, self.now, event=event, data=event_data, actor=CONTROLLER
        )
        self.sessions.put(after)
        self.mark_dirty(session.agent)
        return after

    def renamed(self, session: Session) -> Session:
        """Return a session that starts again, under a new alias if its own is in use now."""
        other = self.sessions.by_alias(session.alias)
        if other is None or other.id == session.id:
            return session
        slot = max((other.slot for other in self.sessions.of(session.agent)), default=0) + 1
        bare = parse_name(session.agent).bare
        names = (f"{bare}-{n}" for n in count(slot))
        alias = next(name for name in names if self.sessions.by_alias(name) is None)
        return self.change(session, slot=slot, alias=alias)

    def release_item(self, session: Session, item: str, reason: str) -> None:
        """Put a claimed item back in the queue without counting the attempt."""
        token = ClaimToken(session.id, session.generation)
        with suppress(StaleTokenError):  # finished or claimed by another session meanwhile
            self.store.reopen(
                item, self.now, token=token, reason=reason, uncounted=True, actor=CONTROLLER
            )

    def mark_mail(self, session: Session, ids: list[int]) -> None:
        """Mark messages as read by a session."""
        self.store.mark_mail(ids, self.now, actor=session.id)
        self.mail_changed = True

    def cancel_start(self, session: Session) -> None:
        """Cancel a start whose working directory is still being prepared."""
        pending = self.preparing.pop(session.id, None)
        if pending is not None and pending.work is not None:
            self.release_item(pending.session, pending.work.id, "its start was cancelled")

    def reset(self) -> None:
        """Drop everything, and kill runs that were spawned but not committed."""
        self.workers.forget()
        self.kill_unreleased(lambda _: True)
        for kept in (self.active_runs, self.stopping, self.preparing, self.prepared):
            kept.clear()
        self.decisions = []
        self.typing_queue.clear()
        self.start_failures.clear()
        self.dirty.clear()
        self.sessions = SessionIndex()

    def kill_unreleased(self, agents: Callable[[str], bool]) -> None:
        """Kill uncommitted runs of the given agents."""
        kept = []
        for id, active in self.unreleased:
            session = self.sessions.get(id)
            if session is None or agents(session.agent):
                with suppress(OSError):
                    active.runtime.kill(active.handle)
                self.active_runs.pop(id, None)
            else:
                kept.append((id, active))
        self.unreleased = kept
