"""Decide what the end of a run means for its work item and its session. Pure.

A failure is not a loss. A run that exits with an error *failed*: the item is retried up to
`limits.retries` times. A run that was killed from outside or left no exit status is *lost*: that
says nothing about the item, so it is queued again up to `limits.max_attempts` starts, and the
session backs off, longer each time. A run that city stopped itself does not count at all.

A session may ask to be restarted, or to be stopped, before its item is finished. That is neither,
but it counts as an attempt, and the next one waits, longer each time: otherwise an agent whose
instructions end with such a request would start its item endlessly.

The limits count from the last time that a user retried the item.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.control.decide.types import format_span
from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    CRASHED,
    DONE,
    FAILED,
    IDLE,
    LIMITED,
    LOST,
    NEVER_RAN,
    QUARANTINED,
    RATE_LIMITED,
    RUN_FAILED,
    SELF_RESTART,
    STOPPED,
    STOPPED_BY_CITY,
    STOPPING,
    SUCCEEDED,
    TIMED_OUT,
    Session,
    Work,
    WorkResult,
)

LEAVE, FINISH, REOPEN = "leave", "finish", "reopen"  # what to do with the work item

QUARANTINE_AFTER = 5  # consecutive lost runs
LONGEST_WAIT = 300.0  # longest back-off after a crash
LIMIT_WAIT, LONGEST_LIMIT_WAIT = 60.0, 1800.0  # if the provider reports no reset time
BRIEF = 30.0  # a terminal that exits within this time has crashed

# Signals that a program's own faults cause; any other comes from outside. Linux numbers.
_FAULTS = {
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    11: "SIGSEGV",
    13: "SIGPIPE",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}
_FROM_OUTSIDE = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 9: "SIGKILL", 15: "SIGTERM"}
_OURS = {
    "stop": "stopped",
    "restart": "restarted",
    "cancel": "cancelled",
    "drain": "its session asked to be stopped before it was finished",
    SELF_RESTART: "its session asked for a restart before it was finished",
}
_SIGNALS = range(129, 193)  # exit statuses that mean signals


class Limits(NamedTuple):
    """Limits of retries after failures, and of total attempts if runs are lost."""

    retries: int = 0
    max_attempts: int = 3


class RunEnd(NamedTuple):
    """The end of a run. `ours`: why city ended it, if it did.

    That is stop, restart, timeout or cancel; drain or self-restart if its session asked for it.
    `exit_code` None: it left none. `limited_until`: when its rate limit ends; 0 if not reported.
    `error`: the provider's own error message. `retrying`: the request that the program was sending
    again, with the model server's last answer.
    """

    exit_code: int | None
    ran: bool = True
    ours: str = ""
    limited_until: float | None = None
    error: str = ""
    summary: str = ""
    usage: Mapping[str, int] | None = None
    cost: float | None = None
    retrying: str = ""


class RunOutcome(NamedTuple):
    """Changes to the run, its work item and its session, written in one transaction."""

    outcome: str  # of the run
    reason: str  # for the item or, without one, the session
    work: str = LEAVE
    status: str = ""  # for FINISH: done, failed or cancelled
    result: WorkResult | None = None
    failed: bool = False  # for REOPEN: count a failure
    uncounted: bool = False  # for REOPEN: the attempt does not count against the limits
    not_before: float | None = None  # for REOPEN
    state: str = IDLE  # of the session
    session_reason: str = ""
    crashes: int = 0
    retry_at: float | None = None


def decide_outcome(
    work: Work | None, session: Session, run_end: RunEnd, limits: Limits, now: float
) -> RunOutcome:
    """Decide the outcome. `work` is left alone if it is finished or has another claimant."""
    outcome, reason = _outcome(session, run_end)
    after = _session_after(session, run_end, outcome, reason, now)
    if work is None or not is_claimed_by(work, session):
        return after
    if _gave_up(after, session, run_end):
        return _after_giving_up(after, work, limits, now)
    return _with_work(after, work, session, run_end, limits)


def signal_name(status: int | None) -> str:
    """Return the name of the signal that an exit status means; empty if none."""
    if status is None or status not in _SIGNALS:
        return ""
    number = status - 128
    return _FAULTS.get(number) or _FROM_OUTSIDE.get(number) or f"signal {number}"


def is_claimed_by(work: Work, session: Session) -> bool:
    """Return whether this start of the session holds the item."""
    holder = (work.session, work.generation)
    return work.status == CLAIMED and holder == (session.id, session.generation)


def _outcome(session: Session, run_end: RunEnd) -> tuple[str, str]:
    """Return outcome and reason. A stop by city overrides what the run left behind."""
    if run_end.ours == "timeout" and run_end.retrying and run_end.limited_until is not None:
        return LIMITED, "provider rate limit reached"
    if run_end.ours == "timeout":
        return TIMED_OUT, _timeout_reason(run_end)
    if run_end.ours:
        return STOPPED_BY_CITY, _OURS[run_end.ours]
    if not run_end.ran:
        return NEVER_RAN, run_end.error or "the run never started"
    if run_end.limited_until is not None:
        return LIMITED, "provider rate limit reached"
    if run_end.exit_code is None:
        return LOST, "the process disappeared without an exit status"
    return _by_status(session, run_end, run_end.exit_code)


def _timeout_reason(run_end: RunEnd) -> str:
    """Return what took too long: the cause may be a wrong API key, for example."""
    reason = "time limit exceeded"
    if run_end.retrying:
        return f"{reason} while a request was being retried: {run_end.retrying}"
    return reason


def _by_status(session: Session, run_end: RunEnd, status: int) -> tuple[str, str]:
    signal = signal_name(status)
    if run_end.error and not session.interactive:
        return RUN_FAILED, run_end.error  # gemini does so with a status above 128
    if signal and status - 128 not in _FAULTS:
        return LOST, f"the process was killed ({signal})"
    if signal:
        return RUN_FAILED, f"the process crashed ({signal})"
    if status != 0 and session.interactive:
        return RUN_FAILED, f"the terminal exited with status {status}"
    if status != 0:
        return RUN_FAILED, f"exited with status {status}"
    return SUCCEEDED, ""


def _session_after(
    session: Session, run_end: RunEnd, outcome: str, reason: str, now: float
) -> RunOutcome:
    if outcome == LIMITED:
        return _limited(session, run_end, reason, now)
    if outcome in (LOST, NEVER_RAN) or (outcome == RUN_FAILED and session.interactive):
        return _crashed(session, outcome, reason, now)
    if _too_brief(session, run_end, outcome, now):
        return _crashed(session, outcome, reason, now)
    stopped = run_end.ours in ("stop", "drain")
    over = session.interactive or stopped
    words = reason if over else ""
    if stopped and session.state == STOPPING:
        words = session.reason or reason  # the reason decides whether it comes back
    elif session.interactive and outcome == SUCCEEDED:
        words = "exited"
    crashes = session.crashes if outcome == STOPPED_BY_CITY else 0
    if run_end.ours == SELF_RESTART:
        crashes = 1  # counts if the next one follows right after its start
    return RunOutcome(
        outcome, reason, state=STOPPED if over else IDLE, session_reason=words, crashes=crashes
    )


def _too_brief(session: Session, run_end: RunEnd, outcome: str, now: float) -> bool:
    """Return whether a terminal exited right after its start; it would restart endlessly.

    The same if it asked for a restart, but not the first time.
    """
    started = now if session.started is None else session.started
    again = run_end.ours == SELF_RESTART and session.crashes > 0
    ended = outcome == SUCCEEDED or again
    return session.interactive and ended and 0 <= now - started < BRIEF


def _crashed(session: Session, outcome: str, reason: str, now: float) -> RunOutcome:
    crashes = session.crashes + 1
    if crashes >= QUARANTINE_AFTER:
        words = f"{reason or 'exited right after its start'} ({crashes} times in a row)"
        return RunOutcome(
            outcome,
            reason,
            state=QUARANTINED,
            session_reason=words,
            crashes=crashes,
            retry_at=now + LONGEST_WAIT,
        )
    return RunOutcome(
        outcome,
        reason,
        state=CRASHED,
        session_reason=reason or "exited right after its start",
        crashes=crashes,
        retry_at=now + _wait(crashes),
    )


def _limited(session: Session, run_end: RunEnd, reason: str, now: float) -> RunOutcome:
    """Back off, longer each time in a row.

    The provider's own reset time counts, but not below a growing minimum: some keep saying "soon".
    """
    limit_end, often = run_end.limited_until or 0.0, min(session.crashes, 11)
    wait = min(LIMIT_WAIT * 2.0**often, LONGEST_LIMIT_WAIT)
    soonest = now + min(2.0**often, LONGEST_LIMIT_WAIT) if often else now
    until = max(limit_end, soonest) if limit_end > now else now + wait
    return RunOutcome(
        LIMITED,
        reason,
        state=RATE_LIMITED,
        session_reason=f"{reason}; retrying in {format_span(until - now)}",
        crashes=session.crashes + 1,
        retry_at=until,
    )


def _with_work(
    after: RunOutcome, work: Work, session: Session, run_end: RunEnd, limits: Limits
) -> RunOutcome:
    reopened = after._replace(work=REOPEN)
    if after.outcome == LIMITED:
        return reopened._replace(uncounted=True, not_before=after.retry_at)
    if run_end.ours == "cancel":
        return after._replace(work=FINISH, status=CANCELLED)
    if after.outcome in (STOPPED_BY_CITY, NEVER_RAN):
        return reopened._replace(uncounted=True)
    result = WorkResult(run_end.exit_code, run_end.summary, run_end.usage, run_end.cost)
    if after.outcome == SUCCEEDED:
        if session.interactive:  # closing a terminal does not tell whether its item is done
            words = "its session ended without finishing it"
            return reopened._replace(uncounted=True, reason=words)
        return after._replace(work=FINISH, status=DONE, result=result)
    if after.outcome == LOST or session.interactive:
        if work.attempts_since_retry < limits.max_attempts:
            return reopened
        words = _last_attempt(after, work, limits)
        return after._replace(work=FINISH, status=FAILED, result=result, reason=words)
    if work.failures_since_retry + 1 <= limits.retries:
        return reopened._replace(failed=True)
    return after._replace(work=FINISH, status=FAILED, result=result)


def _gave_up(after: RunOutcome, session: Session, run_end: RunEnd) -> bool:
    """Return whether the session asked to be ended before its item was finished.

    A terminal may ask for a restart to continue with a new context, unless it keeps doing so.
    """
    continues = session.interactive and after.retry_at is None
    return run_end.ours == "drain" or (run_end.ours == SELF_RESTART and not continues)


def _after_giving_up(after: RunOutcome, work: Work, limits: Limits, now: float) -> RunOutcome:
    if work.attempts_since_retry >= limits.max_attempts:
        words = _last_attempt(after, work, limits)
        return after._replace(work=FINISH, status=FAILED, reason=words)
    return after._replace(work=REOPEN, not_before=now + _wait(work.attempts_since_retry))


def _last_attempt(after: RunOutcome, work: Work, limits: Limits) -> str:
    return f"{after.reason} (attempt {work.attempts_since_retry} of {limits.max_attempts})"


def _wait(count: int) -> float:
    """Return the back-off after this many losses or attempts: none after the first."""
    return 0.0 if count <= 1 else min(2.0 ** (count - 1), LONGEST_WAIT)
