"""`city session attach`: a person's terminal inside a session's."""

import os
import sys
from collections.abc import Mapping

import click

from gascity.cli.context import Context, pass_context
from gascity.cli.output import complain
from gascity.cli.session_names import session_argument, the_session
from gascity.cli.session_rows import called
from gascity.cli.session_view import follow
from gascity.cli.session_wait import ask, wait_until
from gascity.model.problems import CityError, Problem
from gascity.model.work import IDLE, LIVE, RUNNING, Session
from gascity.runtimes.runtime import handle_of
from gascity.runtimes.tmux import TmuxRuntime

_LONGEST = 90.0  # that a stopped session may take to be there again
_NESTED = ("TMUX", "TMUX_PANE")  # with these, tmux refuses to run inside another tmux


@click.command("attach")
@session_argument
@pass_context
def attach(context: Context, reference: str | None) -> int:
    """Take part in a session's terminal; detach as tmux does, with Ctrl-b d.

    One that is stopped is started first. A session without a terminal has its log followed.
    """
    session = the_session(context, reference)
    if not session.interactive:
        complain(f"{called(session)} is in no terminal: following its log")
        follow(context, session)
        return 0
    refuse_pipe()
    enter(context, session if session.run else _there(context, session))
    return 0


def refuse_pipe() -> None:
    """Only a person at a terminal can take part."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        words = "attaching needs a terminal, and there is none here"
        hint = "`city session peek` shows the last lines, `city session nudge` leaves a text"
        raise CityError(Problem("no-terminal", words, None, hint))


def _there(context: Context, session: Session) -> Session:
    """The session once it runs; one that is stopped is asked to start."""
    if session.state not in LIVE:
        complain(f"{called(session)} is {session.state}: starting it")
        session = ask(context, session, "start")
    after = wait_until(context, session, _settled, _LONGEST, f"{called(session)} is to start")
    if not after.run:
        words = f"`{called(after)}` did not start: {after.reason or after.state}"
        raise CityError(Problem("start-failed", words, None, "`city status` says what is wrong"))
    return after


def _settled(session: Session) -> bool:
    going = session.state in (RUNNING, IDLE) and bool(session.run)
    return going or not (session.asked or session.state in LIVE)


def enter(context: Context, session: Session) -> None:
    """Become the terminal's client: this process does not come back."""
    run = context.store().run(session.run) if session.run else None
    runtime = TmuxRuntime(context.root, context.environ)
    command = list(runtime.attach_command(handle_of(run))) if run is not None else []
    if not command:
        words = f"`{called(session)}` is {session.state}, and has no terminal to take part in"
        raise CityError(Problem("no-terminal", words, None, "`city session logs` shows its log"))
    complain(f"{called(session)}: Ctrl-b d leaves it, and it goes on")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(command[0], command, _outside(context.environ))


def _outside(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in _NESTED}
