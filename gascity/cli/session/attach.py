"""`city session attach`: attach to a session's terminal."""

import os
import sys
from collections.abc import Mapping

from gascity.cli.command import command
from gascity.cli.context import CommandContext, pass_context
from gascity.cli.output import print_stderr
from gascity.cli.problems import city_error
from gascity.cli.session.find import resolve_session, session_argument
from gascity.cli.session.rows import session_name
from gascity.cli.session.view import follow
from gascity.cli.session.wait import request_action, wait_until
from gascity.model.work import IDLE, LIVE, RUNNING, Session
from gascity.runtimes.port import handle_of

_START_TIMEOUT = 90.0  # seconds that a stopped session may take to start
_NESTED = ("TMUX", "TMUX_PANE")  # with these set, tmux refuses to run inside another tmux


@command("attach", examples=("city session attach mayor-1",), page="how-to/sessions")
@session_argument
@pass_context
def attach(context: CommandContext, reference: str | None) -> int:
    """Attach to a session's terminal.

    Detach with Ctrl-b d, as in tmux. Starts a stopped session first. For a session
    without a terminal, follows its log.
    """
    session = resolve_session(context, reference)
    if not session.interactive:
        print_stderr(f"{session_name(session)} has no terminal; following its log")
        follow(context, session)
        return 0
    require_terminal()
    enter(context, session if session.run else _started(context, session))
    return 0


def require_terminal() -> None:
    """Raise CityError if stdin or stdout is not a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        message = "attaching needs a terminal"
        hint = "run `city session peek` to see its output, `city session nudge` to send a message"
        raise city_error("no-terminal", message, hint)


def _started(context: CommandContext, session: Session) -> Session:
    """Start a stopped session and return it once it runs."""
    if session.state not in LIVE:
        print_stderr(f"{session_name(session)} is {session.state}; starting it")
        session = request_action(context, session, "start")
    after = wait_until(
        context, session, _start_finished, _START_TIMEOUT, f"{session_name(session)} starts"
    )
    if not after.run:
        message = f"`{session_name(after)}` failed to start: {after.reason or after.state}"
        raise city_error("start-failed", message, "run `city status` to see why")
    return after


def _start_finished(session: Session) -> bool:
    running = session.state in (RUNNING, IDLE) and bool(session.run)
    return running or not (session.asked or session.state in LIVE)


def enter(context: CommandContext, session: Session) -> None:
    """Replace this process with the terminal's client."""
    run = context.store().run(session.run) if session.run else None
    command: list[str] = []
    if run is not None:
        command = list(context.runtime(run.runtime).attach_command(handle_of(run)))
    if not command:
        message = f"`{session_name(session)}` is {session.state} and has no terminal"
        raise city_error("no-terminal", message, "run `city session logs` to see its log")
    print_stderr(f"{session_name(session)}: press Ctrl-b d to detach; it keeps running")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(command[0], command, _without_tmux(context.environ))


def _without_tmux(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in _NESTED}
