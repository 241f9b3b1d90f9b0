"""`city session`: the sessions there are, what they do, and what is asked of them."""

import click

from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.groups import LazyGroup
from gascity.cli.session_rows import pinned_first, session_lines, session_row
from gascity.cli.session_view import as_seen
from gascity.model.names import parse_name
from gascity.model.work import (
    CRASHED,
    DRAINING,
    IDLE,
    QUARANTINED,
    RATE_LIMITED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    Session,
)

_STATES = (
    STARTING,
    RUNNING,
    IDLE,
    DRAINING,
    STOPPING,
    STOPPED,
    CRASHED,
    QUARANTINED,
    RATE_LIMITED,
    UNKNOWN,
)
_COMMANDS = {
    "list": ("gascity.cli.session", "list_sessions", "List sessions, the live ones first."),
    "show": ("gascity.cli.session_show", "show_session", "Show one session, and its runs."),
    "new": ("gascity.cli.session_new", "new_session", "Start a session of an agent."),
    "attach": ("gascity.cli.session_attach", "attach", "Take part in a session's terminal."),
    "peek": ("gascity.cli.session_view", "peek", "Show the last lines of a session."),
    "logs": ("gascity.cli.session_view", "logs", "Show what a session's runs printed."),
    "nudge": ("gascity.cli.session_change", "nudge", "Leave a session a text to read next."),
    "stop": ("gascity.cli.session_ask", "stop", "End what a session does."),
    "clear": ("gascity.cli.session_ask", "clear", "Let a session forget its conversation."),
    "delete": ("gascity.cli.session_delete", "delete", "Take a session and its directory away."),
    "rename": ("gascity.cli.session_change", "rename", "Give a session a name."),
    "pin": ("gascity.cli.session_change", "pin", "Put a session on top of the list."),
    "unpin": ("gascity.cli.session_change", "unpin", "Take a session off the top again."),
    # As packs written for others call them.
    "kill": ("gascity.cli.session_ask", "kill", ""),
    "wake": ("gascity.cli.session_ask", "wake", ""),
    "reset": ("gascity.cli.session_ask", "reset", ""),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS)
def session() -> None:
    """The sessions of agents: see them, talk to them, end them.

    SESSION is an id, its beginning, an alias or a name. Inside a session it may be left out.
    """


@click.command("list")
@click.option("--agent", metavar="NAME", shell_complete=complete_agent, help="Only of this agent.")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(_STATES),
    help=f"Only in this state: {', '.join(_STATES)}.",
)
@click.option("--all", "everything", is_flag=True, help="Also all that ended.")
@json_option
@pass_context
def list_sessions(
    context: Context, agent: str | None, states: tuple[str, ...], everything: bool
) -> int:
    """List sessions: those that are live or wait, then the last ten that ended."""
    store = context.store_if_any()
    found = store.sessions() if store is not None else []
    if agent is not None:
        found = _of_agent(context, found, agent)
    wanted = as_seen(context, (one for one in found if not states or one.state in states))
    found = pinned_first(wanted)
    context.say(
        lambda: {"sessions": [session_row(one, context.root) for one in found]},
        lambda: session_lines(
            found, context.width, context.colour, everything=everything or bool(states)
        ),
    )
    return 0


def _of_agent(context: Context, sessions: list[Session], reference: str) -> list[Session]:
    """Those of the agents that a name may mean; the city is read only if there are none."""
    wanted = parse_name(reference)
    found = []
    for session in sessions:
        name = parse_name(session.agent)
        same = name.bare == wanted.bare and wanted.rig in (None, name.rig)
        if same and wanted.binding in (None, name.binding):
            found.append(session)
    if not found:
        context.agent(reference)  # an agent that does not exist is no empty list
    return found
