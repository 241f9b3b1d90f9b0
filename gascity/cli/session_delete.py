"""`city session delete`: a session, its directory and its logs taken away."""

import os
import time
from contextlib import suppress

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.identity import actor, caller
from gascity.cli.session_ask import stop_and_wait
from gascity.cli.session_names import session_argument, the_session
from gascity.cli.session_rows import called, session_row, shown_path
from gascity.control.client import controller_state
from gascity.control.inspect import is_over
from gascity.materialise.removal import remove_directory
from gascity.model.problems import CityError, Problem
from gascity.model.work import POOL, STARTING, Session

_PAUSE, _PATIENCE = 0.05, 20.0  # with others that are being started meanwhile


@click.command("delete")
@session_argument
@click.option("--force", is_flag=True, help="Stop it first, and lose what is nowhere else.")
@json_option
@pass_context
def delete(context: Context, reference: str | None, force: bool) -> int:
    """Take a session away, with its working directory and its logs.

    Refused while it is live, and where the directory holds anything that is nowhere else.
    """
    session = the_session(context, reference)
    if not is_over(session):
        if not force:
            raise CityError(_still_there(session))
        session = stop_and_wait(context, session)
    _remove_directory(context, session, force)
    store = context.store()
    runs = store.runs(session=session.id)
    store.delete_session(session.id, time.time(), actor(caller(context.environ)))
    for path in (path for run in runs for path in (run.log, run.exit_file) if path):
        with suppress(FileNotFoundError):
            os.unlink(path)
    context.say(
        lambda: {"session": session_row(session, context.root)},
        lambda: [f"{called(session)} is gone."],
    )
    return 0


def _still_there(session: Session) -> Problem:
    words = f"`{called(session)}` is {session.state}: only a stopped session can be deleted"
    hint = f"`city session stop {session.alias}` first, or --force"
    return Problem("still-there", words, None, hint)


def _remove_directory(context: Context, session: Session, force: bool) -> None:
    """Take its directory away unless another session has it; CityError if something would go."""
    deadline = time.monotonic() + _PATIENCE

    def taken() -> list[str]:
        others = [one for one in context.store().sessions() if one.id != session.id]
        begins = (one for one in others if one.state == STARTING and one.agent == session.agent)
        if any(begins) and controller_state(context.root).running:
            if time.monotonic() < deadline:
                raise _NotYet  # it may have been given this directory, and has not said so
            return [session.workdir]
        # A pool's session that is over never comes back to where it worked.
        return [one.workdir for one in others if not (is_over(one) and one.origin == POOL)]

    while True:
        try:
            against = remove_directory(
                context.root, session.workdir, context.environ, taken=taken, force=force
            )
            break
        except _NotYet:
            time.sleep(_PAUSE)
    if against:
        words = f"{shown_path(context.root, session.workdir)}: {'; '.join(against)}"
        hint = "nothing was removed; save it, or --force loses it"
        raise CityError(Problem("would-lose", words, None, hint))


class _NotYet(Exception):
    """It cannot be told just now."""
