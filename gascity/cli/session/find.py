"""Finds the session or agent that an argument names."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from gascity.cli.context import CommandContext, completion_context
from gascity.cli.problems import city_error
from gascity.model.names import near
from gascity.model.problems import CityError

if TYPE_CHECKING:
    from gascity.model.work import Session
    from gascity.store.port import Store


def complete_session(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete session names; a broken store completes nothing rather than failing."""
    from gascity.store.port import StoreError

    del parameter
    try:
        store = completion_context(ctx).store_if_any()
        sessions = store.sessions() if store is not None else []
    except (CityError, StoreError):
        return []
    names = [name for session in sessions for name in (session.alias, session.name) if name]
    names += [session.id for session in sessions] if len(incomplete) >= 4 else []
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def session_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the SESSION argument, optional inside a session."""
    return click.argument(
        "reference", metavar="[SESSION]", required=False, shell_complete=complete_session
    )(function)


def named_session_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add a required SESSION argument, for commands that take more arguments after it."""
    return click.argument("reference", metavar="SESSION", shell_complete=complete_session)(function)


def session_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--session`, which selects an agent and the directory of one of its sessions."""
    return click.option(
        "--session",
        metavar="SESSION",
        shell_complete=complete_session,
        help="Use this session's agent and directory.",
    )(function)


def refuse_both(agent: str | None, session: str | None) -> None:
    """Raise UsageError if both an agent and a session are given."""
    if agent is not None and session is not None:
        raise click.UsageError("pass an agent or --session, not both")


def resolve_session(context: CommandContext, reference: str | None) -> "Session":
    """Return the named session; without a name, the one that the command runs in."""
    name = reference or context.environ.get("CITY_SESSION_ID")
    if not name:
        raise click.UsageError("missing SESSION; run `city session list` to see the sessions")
    return find_session(context, name)


def find_session(context: CommandContext, reference: str) -> "Session":
    """Return one session by id, alias, name or the start of its id.

    Raises CityError for none or several. Does not create a store.
    """
    store = context.store_if_any()
    matches = store.find_sessions(reference) if store is not None else []
    if len(matches) == 1 or (matches and _ended_of_that_name(matches[0], reference)):
        return matches[0]  # several ended sessions had the name; the latest comes first
    if matches:
        ids = ", ".join(f"`{match.id}` ({_label(match)})" for match in matches)
        message = f"`{reference}` may mean {ids}"
        raise city_error("ambiguous-name", message, "use one of the ids")
    known = store.sessions() if store is not None else []
    names = {name for session in known for name in (session.alias, session.name) if name}
    similar = " or ".join(f"`{name}`" for name in near(reference, names))
    hint = f"did you mean {similar}?" if similar else "run `city session list` to see the sessions"
    raise city_error("unknown-session", f"there is no session `{reference}`", hint)


def _ended_of_that_name(session: "Session", reference: str) -> bool:
    from gascity.model.work import LIVE

    return reference in (session.alias, session.name) and session.state not in LIVE


def _label(session: "Session") -> str:
    return f"{session.alias or session.name}, {session.state}"


def find_agent_name(context: CommandContext, store: "Store | None", reference: str) -> str:
    """Return an agent's qualified name; a deleted agent is known by its work and sessions."""
    if store is not None and (
        store.list_work(agent=reference, limit=1) or store.sessions(agent=reference)
    ):
        return reference
    return str(context.agent(reference)[1].name)


def find_agent_or_session(
    context: CommandContext, store: "Store | None", reference: str
) -> "str | Session":
    """Return an agent's name, else a session; for neither, raise the error for an agent."""
    try:
        return find_agent_name(context, store, reference)
    except CityError:
        if store is None or not store.find_sessions(reference):
            raise
        return find_session(context, reference)
