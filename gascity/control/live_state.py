"""Live state of the controller: sessions, their runs, and what is in progress.

It mirrors the store and changes only inside the transaction of a round. Runs spawned in a round
are held back until it is committed (`unreleased`), so nothing runs that is not recorded. After a
failed commit, `reset` kills them and drops everything.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from gascity.control.blocked_directories import BlockedDirectory
from gascity.control.decide.types import BACKING_OFF, Blocked, caps_of, is_ending, is_live
from gascity.control.item_environment import ItemEnvironments
from gascity.control.run_config import RunConfig
from gascity.control.workers import Workers
from gascity.model.names import parse_name
from gascity.model.work import (
    NAMED,
    ClaimToken,
    Decision,
    Run,
    Session,
    StaleTokenError,
    Work,
    WorkResult,
)
from gascity.runtimes.port import RunHandle, Runtime
from gascity.store.port import Store
from gascity.workdir.prepare_session import PreparedSession

if TYPE_CHECKING:
    from typing import Unpack

    from gascity.model.session_changes import SessionChanges

CONTROLLER = "controller"  # actor of the controller's events

# Columns of a session without a run, and of one whose request, drain and back-off are over.
NO_RUN: "SessionChanges" = {"run": 0, "pid": 0, "work": ""}
NO_REQUEST: "SessionChanges" = {"asked": "", "pending": "", "retry_at": None, "drain_by": None}


class PendingStart(NamedTuple):
    """A start in progress: what the run is for."""

    session: Session
    work: Work | None
    text: str  # the message; the prompt comes from the prepared directory
    resume: bool  # continue its conversation
    stays: bool  # in its directory and on its branch; also without a conversation to continue
    about: str = ""  # purpose of a run without a work item
    by: float = 0.0  # when its directory must be ready (monotonic clock)
    nudges: tuple[int, ...] = ()  # delivered with its text


class ActiveRun(NamedTuple):
    """A run in progress."""

    run: Run
    runtime: Runtime
    handle: RunHandle
    files: tuple[str, ...] = ()  # temporary files written for it


def by_runtime(runs: Iterable[ActiveRun]) -> Iterator[tuple[Runtime, list[RunHandle]]]:
    """Yield each runtime with the handles of its runs."""
    handles: dict[int, tuple[Runtime, list[RunHandle]]] = {}
    for active in runs:
        handles.setdefault(id(active.runtime), (active.runtime, []))[1].append(active.handle)
    yield from handles.values()


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
        environ: dict[str, str],
        store: Store,
        runtimes: Mapping[str, Runtime],
        run_config: RunConfig,
    ) -> None:
        self.root = root
        self.environ = environ
        self.environments = ItemEnvironments(environ)
        self.store = store
        self.runtimes = runtimes
        self.run_config = run_config  # replaced by a reload
        self.workers = Workers()
        self.now = 0.0
        self.monotonic = 0.0
        self.sessions = SessionIndex()
        self.active_runs: dict[str, ActiveRun] = {}  # by session id, like the tables below
        self.ended: list[str] = []  # sessions whose run has ended; a later round records that
        self.stopping: dict[str, StopProgress] = {}
        self.preparing: dict[str, PendingStart] = {}
        self.prepared: dict[str, PreparedSession] = {}
        self.screens_due: set[str] = set()  # sessions whose terminal must be looked at
        self.unreleased: list[tuple[str, ActiveRun]] = []  # spawned, not yet committed
        self.reusable: list[ActiveRun] = []  # ended and committed; their files are not deleted yet
        self.start_failures: dict[str, Blocked] = {}  # by agent: why its last start failed
        self.unstarted: dict[str, str] = {}  # by agent: the session of that start
        self.blocked_directories: list[BlockedDirectory] = []
        self.dirty: dict[str, None] = {}
        self.mail_changed = False
        self.stopping_city = False  # all sessions are being stopped
        self.decisions: list[Decision] = []

    def mark_dirty(self, *agents: str) -> None:
        """Have agents reconciled in this round."""
        self.dirty.update(dict.fromkeys(agents))

    def record_decision(self, subject: str, action: str, reason: str) -> None:
        self.decisions.append(Decision(self.now, subject, action, reason))

    def write_decisions(self) -> None:
        """Write the decisions of this round to the store."""
        decisions, self.decisions = self.decisions, []
        self.store.record_decisions(decisions)

    def find_session(self, id: str) -> Session | None:
        """Return a session, also one that the index does not hold."""
        return self.sessions.get(id) or self.store.session(id)

    def change(
        self, session: Session, event: str = "", **columns: "Unpack[SessionChanges]"
    ) -> Session:
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
        user = self.sessions.by_alias(session.alias)
        if user is None or user.id == session.id:
            return session
        slot = max((other.slot for other in self.sessions.of(session.agent)), default=0) + 1
        bare = parse_name(session.agent).bare
        names = (f"{bare}-{n}" for n in count(slot))
        alias = next(name for name in names if self.sessions.by_alias(name) is None)
        return self.change(session, slot=slot, alias=alias)

    # Claimed items

    def finish_item(
        self,
        session: Session,
        item: str,
        status: str,
        result: WorkResult | None,
        reason: str,
        *,
        lost: bool = False,
    ) -> None:
        """Finish the item that a session has claimed; `lost`: its run was, so it did not fail."""
        token = ClaimToken(session.id, session.generation)
        self.store.finish(
            item, status, result, self.now, token=token, reason=reason, lost=lost, actor=CONTROLLER
        )
        self.environments.forget(item)
        self.record_decision(item, status, reason or "completed")

    def release_item(self, token: ClaimToken, item: str, reason: str) -> None:
        """Put a claimed item back in the queue; no run was started for it."""
        # It may have been finished, claimed by another session or deleted meanwhile.
        with suppress(StaleTokenError, KeyError):
            self.store.reopen(
                item, self.now, token=token, reason=reason, never_ran=True, actor=CONTROLLER
            )

    def mark_mail(self, session: Session, ids: list[int]) -> None:
        """Mark messages as read by a session."""
        self.store.mark_mail(ids, self.now, actor=session.id)
        self.mail_changed = True

    def cancel_start(self, session: Session) -> None:
        """Cancel a start whose working directory is still being prepared."""
        pending = self.preparing.pop(session.id, None)
        if pending is not None and pending.work is not None:
            token = ClaimToken(session.id, pending.session.generation)
            self.release_item(token, pending.work.id, "its start was cancelled")

    def reset(self) -> None:
        """Drop everything, and kill runs that were spawned but not committed."""
        self.workers.forget()
        self.kill_unreleased(lambda _: True)
        for table in (self.active_runs, self.stopping, self.preparing, self.prepared):
            table.clear()
        self.decisions, self.ended = [], []
        self.reusable.clear()
        self.screens_due.clear()
        self.start_failures.clear()
        self.unstarted.clear()
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


class SessionIndex:
    """The sessions that matter for decisions, by id, agent and alias, with counts by cap.

    Updating one costs the same however many there are.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._of: dict[str, dict[str, None]] = {}  # session ids by agent
        self.live_counts: Counter[str] = Counter()  # by cap: city, rig NAME, agent NAME
        self.ending_counts: Counter[str] = Counter()  # the part that drains or stops
        self._by_alias: dict[str, str] = {}  # live sessions
        # By stem: aliases in use that differ only by a number.
        self._similar: dict[str, dict[str, None]] = {}
        self.slot_freed = False  # a live session ended since the last check

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, id: str) -> Session | None:
        return self._sessions.get(id)

    def of(self, agent: str) -> list[Session]:
        """Return the agent's sessions in order of creation."""
        return [self._sessions[id] for id in self._of.get(agent, ())]

    def agents(self) -> list[str]:
        return list(self._of)

    def put(self, session: Session) -> None:
        """Add or update a session; drop it if it no longer matters."""
        slot_freed, before = self.slot_freed, self._sessions.get(session.id)
        if before is not None and _index_keys(before) == _index_keys(session):
            self._sessions[session.id] = session
            return
        self.drop(session.id)
        was_live = before is not None and is_live(before)
        self.slot_freed = slot_freed or (was_live and not is_live(session))
        if not _matters(session):
            return
        self._sessions[session.id] = session
        self._of.setdefault(session.agent, {})[session.id] = None
        if is_live(session):
            self.live_counts.update(caps_of(session))
            self._by_alias[session.alias] = session.id
            self._similar.setdefault(_stem(session.alias), {})[session.alias] = None
        if is_ending(session):
            self.ending_counts.update(caps_of(session))

    def drop(self, id: str) -> None:
        session = self._sessions.pop(id, None)
        if session is None:
            return
        _remove(self._of, session.agent, id)
        if self._by_alias.get(session.alias) == id:
            del self._by_alias[session.alias]
            _remove(self._similar, _stem(session.alias), session.alias)
        if is_ending(session):
            self.ending_counts.subtract(caps_of(session))
        if is_live(session):
            self.live_counts.subtract(caps_of(session))
            self.slot_freed = True

    def by_alias(self, alias: str) -> Session | None:
        """Return the live session with this alias."""
        return self._sessions.get(self._by_alias.get(alias, ""))

    def similar_aliases(self, name: str) -> list[str]:
        """Return aliases in use that equal the name, or the name and a number."""
        return list(self._similar.get(_stem(name), ()))

    def live_count(self, agent: str) -> int:
        return sum(map(is_live, self.of(agent)))


def _matters(session: Session) -> bool:
    """Return whether it is live, backs off, has a configured name, or has an open request."""
    if is_live(session) or session.asked or session.origin == NAMED:
        return True
    return session.state in BACKING_OFF and session.retry_at is not None


def _index_keys(session: Session) -> tuple[object, ...]:
    """Return everything that the index sorts a session by."""
    live, ending = is_live(session), is_ending(session)
    return session.agent, session.alias, live, ending, _matters(session)


def _remove(groups: dict[str, dict[str, None]], name: str, member: str) -> None:
    """Remove a member from its group, and the group with its last member."""
    del groups[name][member]
    if not groups[name]:
        del groups[name]


def _stem(alias: str) -> str:
    start, mark, number = alias.rpartition("-")
    return start if mark and number.isdecimal() else alias
