"""End runs: stop them in stages, and record the outcome of those that have ended."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gascity.control.blocked_directories import BlockedDirectory, write_blocked
from gascity.control.decide.actions import RestartSession, StopSession, UpdateSession
from gascity.control.decide.outcome import (
    FINISH,
    REOPEN,
    Limits,
    RunEnd,
    RunOutcome,
    decide_outcome,
)
from gascity.control.live_state import (
    CONTROLLER,
    NO_REQUEST,
    NO_RUN,
    ActiveRun,
    LiveState,
    StopProgress,
    by_runtime,
)
from gascity.control.run_config import AgentRunConfig
from gascity.control.start import REFLECTION, mail_of
from gascity.model.values import JsonObject
from gascity.model.work import (
    DRAINING,
    FAILED,
    IDLE,
    LIVE,
    LOST,
    NEVER_RAN,
    RUN_FAILED,
    SELF_RESTART,
    STOPPED,
    STOPPED_BY_CITY,
    STOPPING,
    SUCCEEDED,
    TIMED_OUT,
    UNKNOWN,
    ClaimToken,
    Run,
    Session,
    Work,
)
from gascity.render.run_output import RunOutput, parse
from gascity.runtimes.port import Leftover, RunLogs, RunState, RunStatus
from gascity.workdir.prepare_session import count_commits

if TYPE_CHECKING:
    from gascity.model.session_changes import SessionChanges

_AT_ONCE = 1 << 16  # larger logs are read in a worker thread
_LAST_LINES = 20  # kept as the summary of plain-text output
_KILL = 2  # the last stage
_AGAIN = 1.0  # seconds until a run that survived a kill is killed again
_LEFT_ALONE = 1.0  # seconds for processes of a run that ended by itself; then they are killed
_UNKILLABLE = 5.0  # seconds after which a process that was killed blocks its directory
_FIRST_LOOK = 0.01  # seconds until the next look at processes that were killed


class SessionStopper:
    """Stops runs; each stage gets `grace` seconds."""

    def __init__(self, live: LiveState) -> None:
        self.live = live
        self.grace = 5.0

    def stop(self, session: Session, action: StopSession) -> None:
        """Carry out a stop or drain."""
        self.live.record_decision(session.id, action.how, action.reason)
        if action.how == "drain":
            asked = "drain" if session.asked == "drain" else ""
            draining: SessionChanges = {
                "state": DRAINING,
                "reason": action.reason,
                "drain_by": action.by,
                "asked": asked,
            }
            self.live.change(session, "session.draining", **draining)
        elif action.timeout:
            self.begin_stop(session, "timeout", action.reason)
        else:
            ours = "drain" if session.asked == "drain" else "stop"
            self.begin_stop(session, ours, action.reason)

    def restart(self, session: Session, action: RestartSession) -> None:
        self.live.record_decision(session.id, "restart", action.reason)
        if session.asked == "clear":
            session = self.live.change(session, conversation="", snippet="")
        if session.id in self.live.active_runs:
            ours = SELF_RESTART if session.asked == SELF_RESTART else "restart"
            self.begin_stop(session, ours, action.reason)
        else:
            self.live.change(session, state=STOPPED, reason=action.reason, asked="", pending="")

    def update(self, session: Session, action: UpdateSession) -> None:
        """Carry out an update of a session that keeps running."""
        columns: SessionChanges = {
            "state": action.state,
            "pending": action.pending,
            "reason": action.reason,
        }
        if session.asked == "clear" and not action.pending:
            columns |= {"conversation": "", "snippet": ""}
        if not action.pending:
            columns |= {"asked": "", "retry_at": None, "drain_by": None}
            if action.state == IDLE:
                columns["idle_since"] = session.idle_since or self.live.now
        self.live.record_decision(session.id, "note", action.pending or action.reason)
        self.live.change(session, "session.changed", **columns)

    def begin_stop(self, session: Session, ours: str, reason: str) -> None:
        """Start to stop a session's run; a session without a run is stopped at once."""
        live = self.live
        if session.id in live.preparing:
            live.cancel_start(session)
        active = live.active_runs.get(session.id)
        if active is None:
            if session.state in LIVE or session.retry_at is not None or session.asked:
                ended: SessionChanges = {"state": STOPPED, "reason": reason, **NO_RUN, **NO_REQUEST}
                live.change(session, "session.stopped", **ended)
            live.prepared.pop(session.id, None)
            return
        if session.id in live.stopping or session.id in live.ended:
            return  # a run that ended by itself has its own result
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
        runtime = active.runtime
        (runtime.interrupt, runtime.terminate, runtime.kill)[stopping.stage](active.handle)
        live.stopping[session] = stopping._replace(
            stage=min(stopping.stage + 1, _KILL), next_at=live.monotonic + self.grace
        )

    def escalate_due(self, *, at_once: bool = False) -> None:
        """Take the next stage for every run whose grace period is over, or for all at once."""
        live = self.live
        stopping = live.stopping.items()
        due = {id: run for id, run in stopping if at_once or run.next_at <= live.monotonic}
        last = [id for id, progress in due.items() if at_once or progress.stage == _KILL]
        self._kill([id for id in last if id in live.active_runs])
        for id in [id for id in due if id not in last]:
            self.escalate(id)

    def _kill(self, sessions: list[str]) -> None:
        """Kill several runs with one scan of the process table."""
        live = self.live
        for runtime, handles in by_runtime(live.active_runs[id] for id in sessions):
            runtime.kill_all(handles)
        for id in sessions:
            again = live.monotonic + max(self.grace, _AGAIN)
            live.stopping[id] = live.stopping[id]._replace(stage=_KILL, next_at=again)

    def next_at(self) -> float | None:
        return min((stopping.next_at for stopping in self.live.stopping.values()), default=None)


class CollectedOutput(NamedTuple):
    """Output and working directory state of an ended run."""

    output: RunOutput
    commits: int


class Survivors(NamedTuple):
    """Processes that outlived the leader of their run."""

    since: float  # monotonic clock
    kill_at: float


class RunFinisher:
    """Detects ended runs and records their outcome.

    A run has ended when every process of it has. Until then its session keeps its directory and
    its work item, so two attempts at one item are never alive at once.
    """

    def __init__(self, live: LiveState) -> None:
        self.live = live
        self.reading: set[str] = set()  # sessions whose ended run is being read
        self._survivors: dict[str, Survivors] = {}  # by session
        self._without_survivors: set[str] = set()  # sessions whose ended run left none
        self._over: list[ActiveRun] = []
        self.to_restart: list[tuple[str, str]] = []  # session, and the item that it had
        self.to_reflect: list[tuple[str, str]] = []  # session, and the item that is done

    def take_finished(self) -> list[ActiveRun]:
        """Return the runs that were recorded since the last call, for housekeeping."""
        over, self._over = self._over, []
        return over

    def reset(self) -> None:
        self.reading.clear()
        self._survivors.clear()
        self._without_survivors.clear()
        self._over, self.to_restart, self.to_reflect = [], [], []

    def look(self, sessions: Collection[str]) -> None:
        """Look for survivors of several ended runs with one scan; `check` then needs none.

        A scan that finds any says nothing certain about the other runs. What a scan does not find
        cannot appear later: only a process of the run could have started it.
        """
        if len(sessions) < 2:
            return
        runs = {id: self.live.active_runs[id] for id in sessions if id in self.live.active_runs}
        ended = {
            id: run
            for id, run in runs.items()
            if run.runtime.status(run.handle).state in (RunState.EXITED, RunState.GONE)
        }
        for runtime, handles in by_runtime(ended.values()) if len(ended) > 1 else ():
            try:
                if any(runtime.leftovers(handles).values()):
                    continue
            except OSError:
                continue
            clear = set(handles)
            self._without_survivors |= {id for id, run in ended.items() if run.handle in clear}

    def check(self, session: str) -> bool:
        """Record a session's run if it has ended; return True if it must be checked again."""
        live = self.live
        active = live.active_runs.get(session)
        if active is None:
            return False
        seen = active.runtime.status(active.handle)
        if seen.state in (RunState.RUNNING, RunState.HELD):
            return False
        record = live.find_session(session)
        if record is None:
            live.active_runs.pop(session)
            return False
        if seen.state == RunState.UNKNOWN:
            if record.state != UNKNOWN:
                reason = "state of the run is unknown; leaving it alone"
                live.change(record, "session.unknown", state=UNKNOWN, reason=reason)
            return True
        if not self._all_gone(active, record, seen):
            return True
        live.active_runs.pop(session)
        self._read(active, seen)
        return False

    def look_again_in(self, session: str) -> float | None:
        """Return the seconds until the next look at a run's survivors; None if it has none."""
        survivors = self._survivors.get(session)
        if survivors is None:
            return None
        now = self.live.monotonic
        wait = min(max(_FIRST_LOOK, (now - survivors.since) / 2), _AGAIN)
        return min(wait, survivors.kill_at - now) if now < survivors.kill_at else wait

    def _all_gone(self, active: ActiveRun, session: Session, seen: RunStatus) -> bool:
        """Return whether every process of a run is gone, or blocks its directory for good.

        What is left of a run that ended by itself gets a moment to exit; of any other run it is
        killed at once.
        """
        live, runtime, handle = self.live, active.runtime, active.handle
        if session.id in self._without_survivors:
            self._without_survivors.discard(session.id)
            self._survivors.pop(session.id, None)
            return True
        try:
            left = runtime.leftovers([handle])[handle]
        except OSError:
            return False  # unknown is not gone
        if not left:
            self._survivors.pop(session.id, None)
            return True
        now = live.monotonic
        if session.id not in self._survivors:
            by_itself = seen.state == RunState.EXITED and session.id not in live.stopping
            self._survivors[session.id] = Survivors(now, now + _LEFT_ALONE * by_itself)
        kill_at = self._survivors[session.id].kill_at
        if now < kill_at:
            return False
        runtime.kill(handle)
        if now - kill_at >= _UNKILLABLE:
            del self._survivors[session.id]
            self._block_directory(active, session, left)
            return True
        if now - kill_at >= _AGAIN:
            reason = f"waiting for process {left[0].pid} ({left[0].name}) of its run to exit"
            if session.reason != reason:
                live.change(session, reason=reason)
                live.record_decision(session.work or session.id, "wait", reason)
        return False

    def _block_directory(
        self, active: ActiveRun, session: Session, left: Sequence[Leftover]
    ) -> None:
        live = self.live
        blocked = BlockedDirectory(
            session.workdir,
            session.agent,
            session.id,
            session.runtime,
            active.handle,
            tuple(left),
        )
        live.blocked_directories.append(blocked)
        write_blocked(live.store, live.blocked_directories)
        live.prepared.pop(session.id, None)
        for subject in filter(None, (session.id, session.work)):
            live.record_decision(subject, "note", blocked.message)
        data: JsonObject = {
            "agent": session.agent,
            "workdir": session.workdir,
            "pids": [process.pid for process in left],
        }
        live.store.record_event("session.directory-blocked", session.id, live.now, data, CONTROLLER)

    def _read(self, active: ActiveRun, seen: RunStatus) -> None:
        """Read the run's output; long logs and git in a worker thread."""
        record = self.live.sessions.get(active.run.session)
        config = self.live.run_config.agent(record.agent) if record else None
        facts = config.provider.facts if config and config.provider else None
        form = facts.headless.output if facts else "text"
        limited = (facts and facts.limits.rate_limit_pattern) or ""
        work = self._work(active)
        base, workdir = (work.base, work.workdir) if work else ("", "")
        environ, now, logs = self.live.environ, self.live.now, active.runtime.logs

        def job() -> CollectedOutput:
            text = _output(form, logs, active.run.log)
            output = parse(form, text, seen.exit_code, pattern=limited, now=now)
            if output.missing and config is not None:
                output = _without_servers(output, config.preparer.server_names(config.agent))
            return CollectedOutput(output, count_commits(workdir, base, environ) if base else 0)

        if not base and (form == "text" or (logs.size(active.run.log) or 0) < _AT_ONCE):
            self._finish(active, seen, job(), work)
            return

        def then(collected: CollectedOutput) -> None:
            self.reading.discard(active.run.session)
            self._finish(active, seen, collected, self._work(active))

        self.reading.add(active.run.session)
        self.live.workers.put(job, then, lambda _: then(CollectedOutput(RunOutput(), 0)))

    def _work(self, active: ActiveRun) -> Work | None:
        """Return the run's item; in a terminal, the item its session was given last."""
        record = self.live.sessions.get(active.run.session)
        item = (record.work if record else "") or active.run.work
        return self.live.store.work(item) if item else None

    def _finish(
        self, active: ActiveRun, seen: RunStatus, collected: CollectedOutput, work: Work | None
    ) -> None:
        live, run = self.live, active.run
        self._over.append(active)  # housekeeping deletes its exit file, so not before it was read
        session = live.find_session(run.session)
        if session is None or session.generation != run.generation:
            return
        ending = live.stopping.pop(session.id, None)
        ours = ending.ours if ending else ""
        if not ours and session.state == STOPPING:
            ours = session.asked  # recorded by the controller that started the stop
        output = collected.output
        ended = RunEnd(
            exit_code=seen.exit_code,
            ran=seen.ran,
            ours="stop" if ours == "restart" else ours,
            limited_until=_until(live.now, output.limited),
            error=output.error,
            summary=_with_denials(output),
            usage=output.usage,
            cost=output.cost,
            retrying=output.retrying,
        )
        config = self.live.run_config.agent(session.agent)
        limits = Limits(config.limits.retries, config.limits.max_attempts) if config else Limits()
        outcome = decide_outcome(work, session, ended, limits, live.now)
        if run.about.startswith(REFLECTION):
            outcome = self._finish_reflection(run, session, outcome, output)
        live.store.update_run(
            run.id,
            {
                "ended": live.now,
                "outcome": outcome.outcome,
                "exit_code": seen.exit_code,
                "usage": output.usage,
                "cost": output.cost,
            },
        )
        if work is not None and work.base and collected.commits != work.commits:
            live.store.update_work(work.id, {"commits": collected.commits}, live.now)
        if work is not None:
            self._finish_work(work, session, outcome, config)
        self._finish_session(session, outcome, output, ours)
        if work is not None and outcome.outcome == SUCCEEDED and not ours and config is not None:
            self._plan_reflection(config, work.id, run, session)
        # Mark mail as read even if the run failed: otherwise the same mail would start it forever.
        stopped = outcome.outcome == STOPPED_BY_CITY and not live.stopping_city
        mail = mail_of(run)
        if mail and (stopped or outcome.outcome in (SUCCEEDED, RUN_FAILED, TIMED_OUT)):
            live.mark_mail(session, mail)

    def _finish_reflection(
        self, run: Run, session: Session, outcome: RunOutcome, output: RunOutput
    ) -> RunOutcome:
        from gascity.control.reflection import neutral, record_reflection

        record_reflection(self.live, session, run.about, outcome.outcome, output)
        return neutral(outcome, session)

    def _plan_reflection(
        self, config: AgentRunConfig, item: str, run: Run, session: Session
    ) -> None:
        """Have a run follow an item that is done, if the agent's settings say so."""
        if not config.agent.settings.reflection or self.live.stopping_city:
            return
        from gascity.control.reflection import follows

        work = self.live.store.work(item)
        if work is not None and follows(config, work, run, session):
            self.to_reflect.append((session.id, item))

    def _finish_work(
        self, work: Work, session: Session, outcome: RunOutcome, config: AgentRunConfig | None
    ) -> None:
        live, store = self.live, self.live.store
        if outcome.work == FINISH:
            live.finish_item(
                session,
                work.id,
                outcome.status,
                outcome.result,
                outcome.reason,
                lost=outcome.outcome in (LOST, STOPPED_BY_CITY),
            )
            live.mark_dirty(*store.dependent_agents(work.id))
        elif outcome.work == REOPEN:
            spent = sum(run.cost or 0.0 for run in store.runs(work=work.id))
            over = _over_limit(config, spent)
            if over:
                live.finish_item(session, work.id, FAILED, outcome.result, over)
                return
            store.reopen(
                work.id,
                live.now,
                token=ClaimToken(session.id, session.generation),
                reason=outcome.reason,
                not_before=outcome.not_before,
                failed=outcome.failed,
                uncounted=outcome.uncounted,
                never_ran=outcome.outcome == NEVER_RAN,
                actor=CONTROLLER,
            )
            live.record_decision(work.id, "reopen", outcome.reason)
            live.mark_dirty(work.agent)  # not its session's agent if that was renamed meanwhile

    def _finish_session(
        self, session: Session, outcome: RunOutcome, output: RunOutput, ours: str
    ) -> None:
        live = self.live
        backs_off = outcome.retry_at is not None
        columns: SessionChanges = {
            **NO_RUN,
            "state": outcome.state,
            "reason": outcome.session_reason if backs_off or not ours else session.reason,
            "crashes": outcome.crashes,
            "retry_at": outcome.retry_at,
            "drain_by": None,
            "busy_until": None,
            "asked": "",
            "idle_since": live.now,
        }
        if output.conversation:
            columns["conversation"] = output.conversation
        if output.summary:
            columns["snippet"] = output.summary[:200]
        for nudge in live.store.nudges(session.id) if session.interactive else ():
            # Its item is queued again and its mail unread: the next start has them.
            if nudge.about:
                live.store.drop_nudge(nudge.id)
        live.change(session, "session.ended", **columns)
        # Without an item, a headless session has nothing to run for. One that asked for the restart
        # gets its item back from the queue, where it may have to wait.
        again = ours == "restart" and bool(session.interactive or session.work)
        if again or (ours == SELF_RESTART and session.interactive and not backs_off):
            self.to_restart.append((session.id, session.work))


def _over_limit(config: AgentRunConfig | None, spent: float) -> str:
    """Return why an item is not retried: its cost limit is used up."""
    limit = config.limits.cost_per_item if config else None
    if limit is None or spent < limit:
        return ""
    return f"cost limit reached (${spent:.2f} of ${limit:.2f}, limits.cost_per_item)"


def _until(now: float, wait: float | None) -> float | None:
    """Return when a rate limit ends; 0 if the provider did not say."""
    return None if wait is None else now + wait if wait else 0.0


def _without_servers(output: RunOutput, own: Collection[str]) -> RunOutput:
    """Return the output of a run that lacked MCP servers; without one of the city's it failed.

    A provider also reports servers that the user configured elsewhere.
    """
    missing = [f"`{name}` ({state})" for name, state in output.missing.items() if name in own]
    if not missing or output.error:
        return output
    return output._replace(error=f"MCP server {', '.join(missing)} did not start")


def _with_denials(output: RunOutput) -> str:
    """Return the summary of a run, with the tools that were refused: the model may not say it."""
    if not output.denied:
        return output.summary
    return f"{output.summary}\n[permission denied: {', '.join(output.denied)}]".lstrip()


def _output(form: str, logs: RunLogs, log: str) -> Iterable[bytes]:
    """Return what a run printed; nothing if its log is gone."""
    if form == "text":
        return [logs.tail(log, _LAST_LINES).encode()]
    return logs.read(log)
