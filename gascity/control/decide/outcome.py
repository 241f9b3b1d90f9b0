"""Decide what the end of a run means for its work item and its session. Pure.

A failure is not a loss. A run that exits with an error *failed*: the item is retried up to
`limits.retries` times. A run that was killed from outside or left no exit status is *lost*: that
says nothing about the item, so it is queued again up to `limits.max_attempts` starts, and the
session backs off, longer each time. A run that city stopped itself does not count at all.
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
_OURS = {"stop": "stopped", "restart": "restarted", "cancel": "cancelled"}
_SIGNALS = range(129, 193)  # exit statuses that mean signals


class Limits(NamedTuple):
    """Limits of retries after failures, and of total attempts if runs are lost."""

    retries: int = 0
    max_attempts: int = 3


class RunEnd(NamedTuple):
    """The end of a run. `ours`: stop, restart, timeout or cancel, if city ended it.

    `exit_code` None: it left none. `limited_until`: when its rate limit ends; 0 if not reported.
    `error`: the provider's own error message.
    """

    exit_code: int | None
    ran: bool = True
    ours: str = ""
    limited_until: float | None = None
    error: str = ""
    summary: str = ""
    usage: Mapping[str, int] | None = None
    cost: float | None = None


class RunOutcome(NamedTuple):
    """Changes to the run, its work item and its session, written in one transaction."""

    outcome: str  # of the run
    reason: str  # for the item or, without one, the session
    work: str = LEAVE
    status: str = ""  # for FINISH: done, failed or cancelled
    result: WorkResult | None = None
    failed: bool = False  # for REOPEN: count a failure
    uncounted: bool = False  # for REOPEN: do not count the attempt
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
    if run_end.ours == "timeout":
        return TIMED_OUT, "time limit exceeded"
    if run_end.ours:
        return STOPPED_BY_CITY, _OURS[run_end.ours]
    if not run_end.ran:
        return NEVER_RAN, run_end.error or "the run never started"
    if run_end.limited_until is not None:
        return LIMITED, "provider rate limit reached"
    if run_end.exit_code is None:
        return LOST, "the process disappeared without an exit status"
    return _by_status(session, run_end, run_end.exit_code)


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
    if _too_brief(session, outcome, now):
        return _crashed(session, outcome, reason, now)
    over = session.interactive or run_end.ours == "stop"
    words = reason if over else ""
    if run_end.ours == "stop" and session.state == STOPPING:
        words = session.reason or reason  # the reason decides whether it comes back
    elif session.interactive and outcome == SUCCEEDED:
        words = "exited"
    crashes = session.crashes if outcome == STOPPED_BY_CITY else 0
    return RunOutcome(
        outcome, reason, state=STOPPED if over else IDLE, session_reason=words, crashes=crashes
    )


def _too_brief(session: Session, outcome: str, now: float) -> bool:
    """Return whether a terminal exited right after its start; it would restart endlessly."""
    started = now if session.started is None else session.started
    return session.interactive and outcome == SUCCEEDED and 0 <= now - started < BRIEF


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
    wait = 0.0 if crashes == 1 else 2.0 ** (crashes - 1)
    return RunOutcome(
        outcome,
        reason,
        state=CRASHED,
        session_reason=reason or "exited right after its start",
        crashes=crashes,
        retry_at=now + wait,
    )


def _limited(session: Session, run_end: RunEnd, reason: str, now: float) -> RunOutcome:
    """Back off, longer each time in a row.

    The provider's own reset time counts, but not below a growing minimum: some keep saying "soon".
    """
    told, often = run_end.limited_until or 0.0, min(session.crashes, 11)
    wait = min(LIMIT_WAIT * 2.0**often, LONGEST_LIMIT_WAIT)
    soonest = now + min(2.0**often, LONGEST_LIMIT_WAIT) if often else now
    until = max(told, soonest) if told > now else now + wait
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
        if work.attempts < limits.max_attempts:
            return reopened
        words = f"{after.reason} (attempt {work.attempts} of {limits.max_attempts})"
        return after._replace(work=FINISH, status=FAILED, result=result, reason=words)
    if work.failures + 1 <= limits.retries:
        return reopened._replace(failed=True)
    return after._replace(work=FINISH, status=FAILED, result=result)
