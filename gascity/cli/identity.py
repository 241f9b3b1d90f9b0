"""The caller of a command: a session, known by its environment, or a user."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from gascity.cli.context import CommandContext
from gascity.cli.problems import city_error
from gascity.model.problems import CityError
from gascity.model.work import CLAIMED, DRAINING, HUMAN, ClaimToken, Session, Work


class Caller(NamedTuple):
    """One start of one session, as its environment names it."""

    session: str
    generation: int
    agent: str
    work: str

    @property
    def token(self) -> ClaimToken:
        return ClaimToken(self.session, self.generation)


def caller(environ: Mapping[str, str]) -> Caller | None:
    """Return the session that calls; None for a user."""
    session = environ.get("CITY_SESSION_ID", "")
    generation = environ.get("CITY_GENERATION", "")
    if not session:
        return None
    return Caller(
        session,
        int(generation) if generation.isdecimal() else 0,
        environ.get("CITY_AGENT", ""),
        environ.get("CITY_WORK_ID", ""),
    )


def current_session(context: CommandContext, who: Caller) -> Session | None:
    """Return the caller's session; None if it was deleted or restarted since."""
    store = context.store_if_any()
    session = store.session(who.session) if store is not None else None
    return session if session is not None and session.generation == who.generation else None


def writing_caller(context: CommandContext) -> Caller | None:
    """Return who is about to write; None for a user. CityError for a replaced session."""
    who = caller(context.environ)
    if who is not None and current_session(context, who) is None:
        raise _stale(who)
    return who


def session_caller(context: CommandContext) -> Caller:
    """Return the calling session; CityError for a user."""
    who = caller(context.environ)
    if who is None:
        message = "this command only works inside a session (CITY_SESSION_ID is not set)"
        raise city_error("no-session", message, "run `city session list` to see the sessions")
    return who


def own_session(context: CommandContext) -> tuple[Caller, Session]:
    """Return the caller and its session; CityError for a user or a replaced session."""
    who = session_caller(context)
    session = current_session(context, who)
    if session is None:
        raise _stale(who)
    return who, session


def update_own_session(
    context: CommandContext,
    who: Caller,
    changes: Mapping[str, object],
    event: str,
    data: Mapping[str, object],
) -> None:
    """Change the caller's own session; StaleTokenError if it was restarted since."""
    context.store().update_session(
        who.session,
        changes,
        time.time(),
        generation=who.generation,
        event=event,
        data=data,
        actor=who.session,
    )


def request_for_self(context: CommandContext, who: Caller, action: str) -> None:
    """Ask the controller to do something with the caller's own session."""
    update_own_session(context, who, {"asked": action}, "session.asked", {"what": action})


def _stale(who: Caller) -> CityError:
    message = f"session {who.session} was deleted or restarted since start {who.generation}"
    hint = "nothing was changed; end this process, another one has replaced it"
    return city_error("stale-session", message, hint)


def actor(who: Caller | None) -> str:
    """Return the caller's name in events."""
    return who.session if who is not None else HUMAN


def held_work(context: CommandContext, who: Caller) -> Work | None:
    """Return the work item that this start of the caller's session has claimed."""
    store = context.store_if_any()
    claimed = store.list_work(session=who.session, status=(CLAIMED,)) if store is not None else []
    return next((work for work in claimed if work.generation == who.generation), None)


def is_draining(session: Session) -> bool:
    """Return whether the session must end instead of taking more work."""
    return session.state == DRAINING or session.asked in ("drain", "stop")
