"""Which session is meant: on the command line, by the session one is in, and by the shell."""

import os
from collections.abc import Callable
from typing import Any

import click

from gascity.cli.context import Context
from gascity.cli.session_find import find_session
from gascity.model.problems import CityError
from gascity.model.work import Session
from gascity.store.port import StoreFault


def the_session(context: Context, reference: str | None) -> Session:
    """The session of that name; without one, the session that the command runs in."""
    meant = reference or context.environ.get("CITY_SESSION_ID")
    if not meant:
        raise click.UsageError("name a session: `city session list` shows them")
    return find_session(context, meant)


def complete_session(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Names of sessions for the shell; a broken store completes nothing rather than failing."""
    del parameter
    ours = Context(os.environ, os.getcwd(), context.find_root().params.get("chosen"))
    try:
        store = ours.store_if_any()
        sessions = store.sessions() if store is not None else []
    except (CityError, StoreFault):
        return []
    names = [name for one in sessions for name in (one.alias, one.name) if name]
    names += [one.id for one in sessions] if len(incomplete) >= 4 else []
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def session_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """The SESSION argument, with completion; inside a session it may be left out."""
    return click.argument(
        "reference", metavar="[SESSION]", required=False, shell_complete=complete_session
    )(function)


def named_session_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """The SESSION argument of a command that takes more behind it."""
    return click.argument("reference", metavar="SESSION", shell_complete=complete_session)(function)
