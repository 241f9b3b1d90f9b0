"""Decide what the end of a run means for its work and its session. Failure is not loss."""

from collections.abc import Mapping

from gascity.control.standing import span
from gascity.control.world import Limits as Limits
from gascity.model.records import NamedTuple
from gascity.model.work import (
    BROKE,
    CANCELLED,
    CLAIMED,
    CRASHED,
    DONE,
    ENDED_BY_US,
    FAILED,
    IDLE,
    LIMITED,
    LOST,
    NEVER_RAN,
    QUARANTINED,
    RATE_LIMITED,
    STOPPED,
    STOPPING,
    SUCCEEDED,
    TIMED_OUT,
    Result,
    Session,
    Work,
)

LEAVE, FINISH, REOPEN = "leave", "finish", "reopen"  # what becomes of the work

QUARANTINE_AFTER = 5  # lost runs in a row
LONGEST_WAIT = 300.0  # after a crash
LIMIT_WAIT, LONGEST_LIMIT_WAIT = 60.0, 1800.0  # where the provider does not say how long
BRIEF = 30.0  # a terminal that ends by itself within this time did not get anywhere

# Signals a program brings on itself; any other that ends it came from outside. Linux numbers.
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
_OURS = {"stop": "it was stopped", "restart": "it was restarted", "cancel": "it was cancelled"}
_SIGNALS = range(129, 193)  # exit statuses that read as signals


class Ending(NamedTuple):
    """How a run ended. `ours`: stop, restart, timeout or cancel, if we ended it.

    `exit_code` None: it left none. `limited_until`: it hit a rate limit; 0 if it did not say until
    when. `error`: the provider's own words for a result that is none.
    """

    exit_code: int | None
    ran: bool = True
    ours: str = ""
    limited_until: float | None = None
    error: str = ""
    summary: str = ""
    usage: Mapping[str, int] | None = None
    cost: float | None = None


class Settlement(NamedTuple):
    """What an ending comes to: writes that are one transaction, fenced by the token."""

    outcome: str  # of the run
    reason: str  # in words, for the work or, without any, the session
    work: str = LEAVE
    status: str = ""  # for FINISH: done, failed or cancelled
    result: Result | None = None
    failed: bool = False  # for REOPEN: a failure is counted
    uncounted: bool = False  # for REOPEN: the attempt is taken back
    not_before: float | None = None  # for REOPEN
    state: str = IDLE  # of the session
    session_reason: str = ""
    crashes: int = 0
    retry_at: float | None = None


def settle(
    work: Work | None, session: Session, ending: Ending, limits: Limits, now: float
) -> Settlement:
    """`work` is what the run was for, as it is now; settled or in other hands, it is left alone."""
    outcome, reason = _outcome(session, ending)
    after = _session_after(session, ending, outcome, reason, now)
    if work is None or not _holds(work, session):
        return after
    return _with_work(after, work, session, ending, limits)


def signal_name(status: int | None) -> str:
    """The signal that an exit status stands for; nothing if it stands for none."""
    if status is None or status not in _SIGNALS:
        return ""
    number = status - 128
    return _FAULTS.get(number) or _FROM_OUTSIDE.get(number) or f"signal {number}"


def _holds(work: Work, session: Session) -> bool:
    holder = (work.session, work.generation)
    return work.status == CLAIMED and holder == (session.id, session.generation)


def _outcome(session: Session, ending: Ending) -> tuple[str, str]:
    """How it ended, and in words. What we did ourselves comes before what it left behind."""
    if ending.ours == "timeout":
        return TIMED_OUT, "its run took longer than it may"
    if ending.ours:
        return ENDED_BY_US, _OURS[ending.ours]
    if not ending.ran:
        return NEVER_RAN, ending.error or "it never ran"
    if ending.limited_until is not None:
        return LIMITED, "its provider's rate limit was reached"
    if ending.exit_code is None:
        return LOST, "its process is gone and left no exit status"
    return _by_status(session, ending, ending.exit_code)


def _by_status(session: Session, ending: Ending, status: int) -> tuple[str, str]:
    signal = signal_name(status)
    if ending.error and not session.interactive:
        return BROKE, ending.error  # it said so itself: gemini ends so with a status above 128
    if signal and status - 128 not in _FAULTS:
        return LOST, f"its process was ended from outside ({signal})"
    if signal:
        return BROKE, f"its process ended by {signal}"
    if status != 0 and session.interactive:
        return BROKE, f"its terminal ended with status {status}"
    if status != 0:
        return BROKE, f"it ended with status {status}"
    return SUCCEEDED, ""


def _session_after(
    session: Session, ending: Ending, outcome: str, reason: str, now: float
) -> Settlement:
    if outcome == LIMITED:
        return _limited(session, ending, reason, now)
    if outcome in (LOST, NEVER_RAN) or (outcome == BROKE and session.interactive):
        return _crashed(session, outcome, reason, now)
    if _too_brief(session, outcome, now):
        return _crashed(session, outcome, reason, now)
    over = session.interactive or ending.ours == "stop"
    words = reason if over else ""
    if ending.ours == "stop" and session.state == STOPPING:
        words = session.reason or reason  # why it was to stop decides whether it comes back
    elif session.interactive and outcome == SUCCEEDED:
        words = "it ended by itself"
    kept = session.crashes if outcome == ENDED_BY_US else 0
    return Settlement(
        outcome, reason, state=STOPPED if over else IDLE, session_reason=words, crashes=kept
    )


def _too_brief(session: Session, outcome: str, now: float) -> bool:
    """A terminal that ends as soon as it starts would be started again without end."""
    started = now if session.started is None else session.started
    return session.interactive and outcome == SUCCEEDED and 0 <= now - started < BRIEF


def _crashed(session: Session, outcome: str, reason: str, now: float) -> Settlement:
    crashes = session.crashes + 1
    if crashes >= QUARANTINE_AFTER:
        words = f"{reason or 'it ended at once'}; {crashes} times in a row"
        return Settlement(
            outcome,
            reason,
            state=QUARANTINED,
            session_reason=words,
            crashes=crashes,
            retry_at=now + LONGEST_WAIT,
        )
    wait = 0.0 if crashes == 1 else 2.0 ** (crashes - 1)
    return Settlement(
        outcome,
        reason,
        state=CRASHED,
        session_reason=reason or "it ended as soon as it started",
        crashes=crashes,
        retry_at=now + wait,
    )


def _limited(session: Session, ending: Ending, reason: str, now: float) -> Settlement:
    """The session waits, the longer the more often it happens in a row.

    What the provider says is heeded, but for one that says so again and again: soon, and soon.
    """
    told, often = ending.limited_until or 0.0, min(session.crashes, 11)
    wait = min(LIMIT_WAIT * 2.0**often, LONGEST_LIMIT_WAIT)
    soonest = now + min(2.0**often, LONGEST_LIMIT_WAIT) if often else now
    until = max(told, soonest) if told > now else now + wait
    return Settlement(
        LIMITED,
        reason,
        state=RATE_LIMITED,
        session_reason=f"{reason}, for {span(until - now)}",
        crashes=session.crashes + 1,
        retry_at=until,
    )


def _with_work(
    after: Settlement, work: Work, session: Session, ending: Ending, limits: Limits
) -> Settlement:
    reopened = after._replace(work=REOPEN)
    if after.outcome == LIMITED:
        return reopened._replace(uncounted=True, not_before=after.retry_at)
    if ending.ours == "cancel":
        return after._replace(work=FINISH, status=CANCELLED)
    if after.outcome in (ENDED_BY_US, NEVER_RAN):
        return reopened._replace(uncounted=True)
    result = Result(ending.exit_code, ending.summary, ending.usage, ending.cost)
    if after.outcome == SUCCEEDED:
        if session.interactive:  # a terminal that is closed says nothing about the work in it
            words = "its session ended without a word about it"
            return reopened._replace(uncounted=True, reason=words)
        return after._replace(work=FINISH, status=DONE, result=result)
    if after.outcome == LOST or session.interactive:
        if work.attempts < limits.max_attempts:
            return reopened
        words = f"{after.reason}, at attempt {work.attempts} of {limits.max_attempts}"
        return after._replace(work=FINISH, status=FAILED, result=result, reason=words)
    if work.failures + 1 <= limits.retries:
        return reopened._replace(failed=True)
    return after._replace(work=FINISH, status=FAILED, result=result)
