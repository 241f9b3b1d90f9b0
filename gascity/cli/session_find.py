"""The session that a word means."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from gascity.cli.context import Context
from gascity.model.names import near
from gascity.model.problems import CityError, Problem

if TYPE_CHECKING:
    from gascity.model.work import Session


def session_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--session`, in place of an agent: the agent is then the session's."""
    return click.option(
        "--session",
        metavar="SESSION",
        shell_complete=_complete,
        help="Where this session works, and for its agent.",
    )(function)


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from gascity.cli.session_names import complete_session

    return complete_session(context, parameter, incomplete)


def one_of(agent: str | None, session: str | None) -> None:
    """An agent or one of its sessions, not both."""
    if agent is not None and session is not None:
        raise click.UsageError("a session has an agent: name one or the other")


def find_session(context: Context, reference: str) -> "Session":
    """One session by its id, alias or name, or by the beginning of its id.

    None or several: a CityError that names those that may be meant. No store is made for it.
    """
    store = context.store_if_any()
    found = store.find_sessions(reference) if store is not None else []
    if len(found) == 1 or (found and _by_name(found[0], reference)):
        return found[0]  # of those that had a name one after the other, the latest
    if found:
        several = ", ".join(f"`{one.id}` ({_called(one)})" for one in found)
        words = f"`{reference}` may mean {several}"
        raise CityError(Problem("ambiguous-name", words, None, "write one of the ids"))
    known = store.sessions() if store is not None else []
    names = {name for one in known for name in (one.alias, one.name) if name}
    alike = " or ".join(f"`{name}`" for name in near(reference, names))
    hint = f"did you mean {alike}?" if alike else "`city session list` shows what there is"
    words = f"there is no session `{reference}`"
    raise CityError(Problem("unknown-session", words, None, hint))


def _by_name(session: "Session", reference: str) -> bool:
    from gascity.model.work import LIVE

    named = reference in (session.alias, session.name)
    return named and session.state not in LIVE


def _called(session: "Session") -> str:
    return f"{session.alias or session.name}, {session.state}"
