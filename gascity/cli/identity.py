"""The caller of a command, and whether it may use the command: every command comes through here."""

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gascity.cli.context import CommandContext
from gascity.cli.problems import city_error
from gascity.control.callers import Caller, claim_in, identify, stale_session
from gascity.control.permissions import FREE, Access, rule_of
from gascity.model.problems import CityError, Problem

if TYPE_CHECKING:
    from gascity.model.city import Agent
    from gascity.model.session_changes import SessionChanges
    from gascity.model.work import Session, Work

# A session that was restarted may still ask; they report that it is stale.
_FOR_STALE = ("hook", "hud", "prime")


def authorize(context: CommandContext, command: str) -> None:
    """Find out who calls, and raise CityError if it may not use the command."""
    context.access = Access(None, command, context.city)
    if rule_of(command).reach == FREE:
        return
    claim = claim_in(context.environ)
    root = context.found_root()
    if root is None:
        if claim is None:
            return  # there is no city, so there is no session either
        raise stale_session(Caller(claim.session, claim.generation, ""))
    caller = identify(context.store_if_any() if claim else None, root, claim, os.getpid())
    if caller is not None and caller.stale and command not in _FOR_STALE:
        raise stale_session(caller)
    context.access = Access(caller, command, context.city)
    context.access.check_command()


def caller(context: CommandContext) -> Caller | None:
    """Return the session that calls; None for a user."""
    return context.access.caller if context.access is not None else None


def access(context: CommandContext) -> Access:
    """Return what the caller may reach with this command."""
    return context.access or Access(None, "", context.city)


def current_session(context: CommandContext, who: Caller) -> "Session | None":
    """Return the caller's session; None if it was deleted or restarted since."""
    store = context.store_if_any()
    session = store.session(who.session) if store is not None else None
    return session if session is not None and session.generation == who.generation else None


def session_caller(context: CommandContext) -> Caller:
    """Return the calling session; CityError for a user."""
    who = caller(context)
    if who is None:
        message = "this command only works inside a session (CITY_SESSION_ID is not set)"
        raise city_error("no-session", message, "run `city session list` to see the sessions")
    return who


def own_session(context: CommandContext) -> "tuple[Caller, Session]":
    """Return the caller and its session; CityError for a user or a replaced session."""
    who = session_caller(context)
    session = current_session(context, who)
    if session is None:
        raise stale_session(who)
    return who, session


def update_own_session(
    context: CommandContext,
    who: Caller,
    changes: "SessionChanges",
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


def actor(who: Caller | None) -> str:
    """Return the caller's name in events."""
    from gascity.model.work import HUMAN

    return who.session if who is not None else HUMAN


def held_work(context: CommandContext, who: Caller) -> "Work | None":
    """Return the work item that this start of the caller's session has claimed."""
    from gascity.model.work import CLAIMED

    store = context.store_if_any()
    claimed = store.list_work(session=who.session, status=(CLAIMED,)) if store is not None else []
    return next((work for work in claimed if work.generation == who.generation), None)


def is_draining(session: "Session") -> bool:
    """Return whether the session must end instead of taking more work."""
    from gascity.model.work import DRAINING

    return session.state == DRAINING or session.asked in ("drain", "stop")


def check_visible(context: CommandContext, name: str, reference: str) -> None:
    """Raise CityError if the caller may not read about an agent.

    A hidden one does not exist for it: the error is that of a name that was never used.
    """
    limits = access(context)
    if limits.hides(name):
        raise unknown_agent(reference)
    if not limits.sees(name) and limits.caller is not None:
        message = f"`[agents_filter]` of `{limits.caller.agent}` does not allow `{name}`"
        raise limits.refused(message)


def unknown_agent(reference: str) -> CityError:
    """Return the error of an agent that does not exist, without similar names."""
    return CityError(Problem("unknown-agent", f"there is no agent `{reference}`"))


def visible_agent(context: CommandContext, reference: str) -> "Agent":
    """Return an agent that the caller may start or address; CityError if there is none."""
    limits = access(context)
    if limits.caller is None:
        return context.agent(reference)[1]
    try:
        agent = context.agent(reference)[1]
    except CityError as error:
        codes = [problem.code for problem in error.problems]
        raise unknown_agent(reference) if codes == ["unknown-agent"] else error from None
    if limits.hides(str(agent.name)):
        raise unknown_agent(reference)
    return agent
