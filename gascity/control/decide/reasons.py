"""Reasons why work is blocked; one function per reason returns its code and message.

`gascity/control/blocked.py` finds out which of them apply; the reconciler uses them for what it
counts itself. The codes are documented in docs/reference/waiting.md and never change.
"""

from collections.abc import Iterable

from gascity.control.decide.types import Blocked, backoff_end, format_span
from gascity.model.work import QUARANTINED, RATE_LIMITED, Session, Work, status_word


def depends_on_work(work: Work) -> Blocked:
    return Blocked("dependency", f"depends on {work.id} ({status_word(work.status)})")


def depends_on_blocked_work(work: Work, reason: Blocked) -> Blocked:
    return Blocked("dependency", f"depends on {work.id}, which is blocked: {reason.message}")


def depends_on_agents(names: Iterable[str]) -> Blocked:
    return Blocked("depends-on", f"waits for {', '.join(names)} to start")


def depends_on_blocked_agent(name: str, reason: Blocked) -> Blocked:
    return Blocked("depends-on", f"waits for {name} to start, which is blocked: {reason.message}")


def agent_gone(name: str) -> Blocked:
    return Blocked("gone", f"agent `{name}` no longer exists")


def not_accepted(name: str, binding: str) -> Blocked:
    """Return the reason of an agent whose pack the user has not accepted."""
    return Blocked(
        "not-accepted",
        f"you have not accepted the pack of {name}; see `city pack show {binding}`",
    )


def missing_environment(work: str, message: str) -> Blocked:
    """Return the reason of an item that lacks a variable; only a caller who has it can pass it."""
    return Blocked(
        "missing-env", f"{message}; run `city work retry {work}` from a shell that has it"
    )


def directory_blocked(message: str) -> Blocked:
    """Return the reason of a directory that all sessions share, with a process of an ended run."""
    return Blocked("directory-blocked", message)


def agent_full(name: str, live: int, maximum: int) -> Blocked:
    return Blocked("agent-cap", f"{name} session limit reached ({live} of {maximum})")


def waits_for_user(session: Session) -> Blocked:
    """Return the reason for a session whose terminal shows a dialog."""
    return Blocked("waiting", f"{session.alias} is {session.reason}")


def cap_code(cap: str) -> str:
    """Return the code of a full cap: of the city, of a rig, or of an agent across all rigs."""
    kind = cap.partition(" ")[0]
    return "total-cap" if kind == "agent" else f"{kind}-cap"


def cap_full(cap: str, live: int, limit: int) -> Blocked:
    """Return the reason for a full cap; `cap` is `city`, `rig NAME` or `agent NAME`."""
    kind, _, name = cap.partition(" ")
    scope = f"{name} (all rigs)" if kind == "agent" else cap
    if limit == 0:
        return Blocked(cap_code(cap), f"{scope} session limit is 0")
    return Blocked(cap_code(cap), f"{scope} session limit reached ({max(live, limit)} of {limit})")


def crashed(name: str, seconds: float) -> Blocked:
    return Blocked("backing-off", f"{name} crashed; retrying in {format_span(seconds)}")


def backing_off(sessions: Iterable[Session], now: float) -> Blocked | None:
    """Return why an agent must wait as a whole: its rate limit, or repeated crashes.

    Both concern the account or the setup, not one session, so no other session may start either.
    """
    waiting = [
        session
        for session in sessions
        if session.state in (RATE_LIMITED, QUARANTINED) and backoff_end(session, now) is not None
    ]
    if not waiting:
        return None
    last = max(waiting, key=lambda session: session.retry_at or 0.0)
    left = format_span((last.retry_at or 0.0) - now)
    if last.state == RATE_LIMITED:
        return Blocked("rate-limited", f"rate limit reached; retrying in {left}")
    return Blocked("crash-loop", f"crashed repeatedly; retrying in {left}")


def cost_limit(owner: str, spent: float, limit: float) -> Blocked:
    message = f"daily cost limit of {owner} reached (${spent:.2f} of ${limit:.2f})"
    return Blocked("cost-limit", message)


def no_controller() -> Blocked:
    return Blocked("no-controller", "controller is not running (to start it: `city start`)")


def controller_hung(pid: int) -> Blocked:
    message = f"controller (pid {pid}) is not responding (to replace it: `city restart`)"
    return Blocked("controller-hung", message)


def city_stopped() -> Blocked:
    return Blocked("no-controller", "the city was stopped (to start it: `city start`)")
