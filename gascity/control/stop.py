"""Stop runs in stages: interrupt, terminate, kill, each with all processes the run started."""

from gascity.control.decide.types import RestartSession, StopSession, UpdateSession
from gascity.control.live_state import LiveState, StopProgress
from gascity.model.work import DRAINING, IDLE, LIVE, STOPPED, STOPPING, Session

_KILL = 2  # the last stage
_AGAIN = 1.0  # seconds until a run that survived a kill is killed again


class SessionStopper:
    """Stops runs; each stage gets `grace` seconds."""

    def __init__(self, live: LiveState) -> None:
        self.live = live
        self.grace = 5.0

    def stop(self, session: Session, action: StopSession) -> None:
        """Carry out a stop or drain."""
        ours = "timeout" if action.timeout else "stop"
        self.live.record_decision(session.id, action.how, action.reason)
        if action.how == "drain":
            self.live.change(
                session,
                "session.draining",
                state=DRAINING,
                reason=action.reason,
                drain_by=action.by,
                asked="",
            )
        else:
            self.begin_stop(session, ours, action.reason)

    def restart(self, session: Session, action: RestartSession) -> None:
        self.live.record_decision(session.id, "restart", action.reason)
        if session.asked == "clear":
            session = self.live.change(session, conversation="", snippet="")
        if session.id in self.live.active_runs:
            self.begin_stop(session, "restart", action.reason)
        else:
            self.live.change(session, state=STOPPED, reason=action.reason, asked="", pending="")

    def update(self, session: Session, action: UpdateSession) -> None:
        """Carry out an update of a session that keeps running."""
        columns: dict[str, object] = {"pending": action.pending, "reason": action.reason}
        if session.asked == "clear" and not action.pending:
            columns |= {"conversation": "", "snippet": ""}
        if not action.pending:
            columns |= {"asked": "", "retry_at": None, "drain_by": None}
            if action.state == IDLE:
                columns["idle_since"] = session.idle_since or self.live.now
        self.live.record_decision(session.id, "note", action.pending or action.reason)
        self.live.change(session, "session.changed", state=action.state, **columns)

    def begin_stop(self, session: Session, ours: str, reason: str) -> None:
        """Start to stop a session's run; a session without a run is stopped at once."""
        live = self.live
        if session.id in live.preparing:
            live.cancel_start(session)
        active = live.active_runs.get(session.id)
        if active is None:
            if session.state in LIVE or session.retry_at is not None or session.asked:
                live.change(
                    session,
                    "session.stopped",
                    state=STOPPED,
                    reason=reason,
                    work="",
                    run=0,
                    pid=0,
                    asked="",
                    pending="",
                    retry_at=None,
                    drain_by=None,
                )
            live.prepared.pop(session.id, None)
            return
        if session.id in live.stopping:
            return
        # Recorded, so that a controller that adopts the run knows why it is being stopped.
        live.change(session, "session.stopping", state=STOPPING, reason=reason, asked=ours)
        live.stopping[session.id] = StopProgress(ours, 0, live.monotonic)
        self.escalate(session.id)

    def escalate(self, session: str) -> None:
        """Take the next stage for a run that has not ended."""
        live = self.live
        stopping, active = live.stopping.get(session), live.active_runs.get(session)
        if stopping is None or active is None:
            live.stopping.pop(session, None)
            return
        stage = stopping.stage
        (active.runtime.interrupt, active.runtime.terminate, active.runtime.kill)[stage](
            active.handle
        )
        live.stopping[session] = StopProgress(
            stopping.ours, min(stage + 1, _KILL), live.monotonic + self.grace
        )

    def escalate_due(self, *, at_once: bool = False) -> None:
        """Take the next stage for every run whose grace period is over, or for all at once."""
        live = self.live
        due = [
            id
            for id, progress in live.stopping.items()
            if at_once or progress.next_at <= live.monotonic
        ]
        last = [id for id in due if at_once or live.stopping[id].stage == _KILL]
        self._kill([id for id in last if id in live.active_runs])
        for id in due:
            if id not in last:
                self.escalate(id)

    def _kill(self, sessions: list[str]) -> None:
        """Kill several runs with one scan of the process table."""
        live = self.live
        active = [live.active_runs[id] for id in sessions]
        for runtime in {id(run.runtime): run.runtime for run in active}.values():
            runtime.kill_all([run.handle for run in active if run.runtime is runtime])
        for id_ in sessions:
            ours = live.stopping[id_].ours
            live.stopping[id_] = StopProgress(ours, _KILL, live.monotonic + max(self.grace, _AGAIN))

    def next_at(self) -> float | None:
        return min((stopping.next_at for stopping in self.live.stopping.values()), default=None)
