"""Runs brought to an end: interrupted, then asked, then killed, with all that they started."""

from gascity.control.crew import Crew, Ending
from gascity.control.world import Change, Restart, Stop
from gascity.model.work import DRAINING, IDLE, LIVE, STOPPED, STOPPING, Session

_KILL = 2  # the stage after which there is no further
_AGAIN = 1.0  # a run that was killed and is still there is killed again after this


class Stops:
    """Ends runs of a crew; each stage gets `grace` seconds."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.grace = 5.0

    def stop(self, session: Session, action: Stop) -> None:
        """Do what a verdict says about the end of a session."""
        ours = "timeout" if action.timeout else "stop"
        self.crew.decided(session.id, action.how, action.reason)
        if action.how == "drain":
            self.crew.change(
                session,
                "session.draining",
                state=DRAINING,
                reason=action.reason,
                drain_by=action.by,
                asked="",
            )
        else:
            self.end(session, ours, action.reason)

    def restart(self, session: Session, action: Restart) -> None:
        self.crew.decided(session.id, "restart", action.reason)
        if session.asked == "clear":
            session = self.crew.change(session, conversation="", snippet="")
        if session.id in self.crew.going:
            self.end(session, "restart", action.reason)
        else:
            self.crew.change(session, state=STOPPED, reason=action.reason, asked="", pending="")

    def note(self, session: Session, action: Change) -> None:
        """Put down what a verdict says about a session that goes on as it is."""
        columns: dict[str, object] = {"pending": action.pending, "reason": action.reason}
        if session.asked == "clear" and not action.pending:
            columns |= {"conversation": "", "snippet": ""}
        if not action.pending:
            columns |= {"asked": "", "retry_at": None, "drain_by": None}
            if action.state == IDLE:
                columns["idle_since"] = session.idle_since or self.crew.now
        self.crew.decided(session.id, "note", action.pending or action.reason)
        self.crew.change(session, "session.changed", state=action.state, **columns)

    def end(self, session: Session, ours: str, reason: str) -> None:
        """Begin to end what a session runs; one that runs nothing is over."""
        crew = self.crew
        if session.id in crew.preparing:
            crew.call_off(session)
        going = crew.going.get(session.id)
        if going is None:
            if session.state in LIVE or session.retry_at is not None or session.asked:
                crew.change(
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
            crew.furnished.pop(session.id, None)
            return
        if session.id in crew.ending:
            return
        # What is asked stays on record, so that whoever adopts the run knows why it ends.
        crew.change(session, "session.stopping", state=STOPPING, reason=reason, asked=ours)
        crew.ending[session.id] = Ending(ours, 0, crew.steady)
        self.further(session.id)

    def further(self, session: str) -> None:
        """Take the next step against a run that has not ended."""
        crew = self.crew
        ending, going = crew.ending.get(session), crew.going.get(session)
        if ending is None or going is None:
            crew.ending.pop(session, None)
            return
        stage = ending.stage
        (going.runtime.interrupt, going.runtime.terminate, going.runtime.kill)[stage](going.handle)
        crew.ending[session] = Ending(ending.ours, min(stage + 1, _KILL), crew.steady + self.grace)

    def go_on(self, *, at_once: bool = False) -> None:
        """Take the next step against every run that has had its time, or all of them."""
        crew = self.crew
        due = [id for id, one in crew.ending.items() if at_once or one.next_at <= crew.steady]
        last = [id for id in due if at_once or crew.ending[id].stage == _KILL]
        self._kill([id for id in last if id in crew.going])
        for id in due:
            if id not in last:
                self.further(id)

    def _kill(self, sessions: list[str]) -> None:
        """Kill many runs with one look at all processes."""
        crew = self.crew
        going = [crew.going[id] for id in sessions]
        for runtime in {id(one.runtime): one.runtime for one in going}.values():
            runtime.kill_all([one.handle for one in going if one.runtime is runtime])
        for id_ in sessions:
            ours = crew.ending[id_].ours
            crew.ending[id_] = Ending(ours, _KILL, crew.steady + max(self.grace, _AGAIN))

    def next_at(self) -> float | None:
        return min((ending.next_at for ending in self.crew.ending.values()), default=None)
