"""Commands on one session, and the session or agent that an argument names."""

from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING

import click

from gascity.cli.command import command, json_command
from gascity.cli.context import CommandContext, F, completion_context, pass_context
from gascity.cli.identity import access, authorize, caller, check_visible, visible_agent
from gascity.cli.problems import city_error
from gascity.model.names import near
from gascity.model.problems import CityError

if TYPE_CHECKING:
    from gascity.model.work import Session


_LISTED = 10  # sessions that an ambiguous name is resolved to in a message


def complete_session(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete session names; a broken store completes nothing rather than failing."""
    from gascity.store.port import StoreError

    del parameter
    try:
        context = completion_context(ctx)
        authorize(context, "session list")
        store = context.store_if_any()
        sessions = store.sessions() if store is not None else []
        sessions = [session for session in sessions if access(context).sees(session.agent)]
    except (CityError, StoreError):
        return []
    names = [name for session in sessions for name in (session.alias, session.name) if name]
    names += [session.id for session in sessions] if len(incomplete) >= 4 else []
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def session_command(
    name: str, *examples: str, json: bool = True, required: bool = False, exact: bool = False
) -> Callable[[Callable[..., int]], click.Command]:
    """Make a function a command of `city session`; it gets the context and the session.

    SESSION defaults to the session in which the command runs. It is `required` where further
    arguments follow. `exact`: a name that several ended sessions had is refused, instead of
    meaning the latest.
    """
    metavar = "SESSION" if required else "[SESSION]"

    def decorate(function: Callable[..., int]) -> click.Command:
        def call(context: CommandContext, reference: str | None, **options: object) -> int:
            session = _resolve_session(context, reference, exact)
            access(context).check_owner(session.agent, session.id, f"session {session.alias}")
            return function(context, session, **options)

        argument = click.argument(
            "reference", metavar=metavar, required=required, shell_complete=complete_session
        )
        called = argument(update_wrapper(call, function))
        if json:
            return json_command(name, examples=examples, page="how-to/sessions")(called)
        return command(name, examples=examples, page="how-to/sessions")(pass_context(called))

    return decorate


def session_option(function: F) -> F:
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


def _resolve_session(context: CommandContext, reference: str | None, exact: bool) -> "Session":
    who = caller(context)
    name = reference or (who.session if who is not None else "")
    if not name:
        raise click.UsageError("missing SESSION; run `city session list` to see the sessions")
    return find_session(context, name, exact=exact)


def find_session(context: CommandContext, reference: str, *, exact: bool = False) -> "Session":
    """Return one session by id, alias, name or the start of its id.

    Of several ended sessions with that name it is the latest, unless `exact`. Raises CityError for
    none or several. Does not create a store.
    """
    store = context.store_if_any()
    limits = access(context)
    matches = store.find_sessions(reference) if store is not None else []
    matches = [session for session in matches if not limits.hides(session.agent)]
    latest = bool(matches) and not exact and _ended_of_that_name(matches[0], reference)
    if len(matches) == 1 or latest:
        return matches[0]  # several ended sessions had the name; the latest comes first
    if matches:
        ids = ", ".join(f"`{s.id}` ({s.agent}, {s.state})" for s in matches[:_LISTED])
        ids += f" and {len(matches) - _LISTED} more" if len(matches) > _LISTED else ""
        message = f"`{reference}` may mean {ids}"
        raise city_error("ambiguous-name", message, "use one of the ids")
    known = store.sessions() if store is not None else []
    seen = (session for session in known if limits.sees(session.agent))
    names = {name for session in seen for name in (session.alias, session.name) if name}
    similar = " or ".join(f"`{name}`" for name in near(reference, names))
    hint = f"did you mean {similar}?" if similar else "run `city session list` to see the sessions"
    raise city_error("unknown-session", f"there is no session `{reference}`", hint)


def _ended_of_that_name(session: "Session", reference: str) -> bool:
    from gascity.model.work import LIVE

    return reference in (session.alias, session.name) and session.state not in LIVE


def find_agent_name(context: CommandContext, reference: str) -> str:
    """Return an agent's qualified name; a deleted agent is known by its work and sessions.

    CityError if there is none, or the caller may not read about it.
    """
    try:
        name = str(visible_agent(context, reference).name)
    except CityError:
        store = context.store_if_any()
        if store is None or not (
            store.list_work(agent=reference, limit=1) or store.sessions(agent=reference)
        ):
            raise
        name = reference
    check_visible(context, name, reference)
    return name


def find_agent_or_session(context: CommandContext, reference: str) -> "tuple[str, Session | None]":
    """Return an agent's name; for the name of a session, its agent's and the session.

    If it names neither, raises the error for an agent.
    """
    try:
        return find_agent_name(context, reference), None
    except CityError:
        store = context.store_if_any()
        if store is None or not store.find_sessions(reference):
            raise
        session = find_session(context, reference)
        check_visible(context, session.agent, session.agent)
        return session.agent, session
