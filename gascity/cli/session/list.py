"""`city session list`."""

import click

from gascity.cli.command import command
from gascity.cli.context import CommandContext, agent_option, json_option, pass_context
from gascity.cli.session.rows import pinned_first, session_lines, session_row
from gascity.cli.session.view import with_attached
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


@command(
    "list",
    examples=(
        "city session list",
        "city session list --agent mayor --all",
        "city session list --state running",
    ),
    page="how-to/sessions",
)
@agent_option()
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(_STATES),
    help=f"Filter by state: {', '.join(_STATES)}.",
)
@click.option("--all", "everything", is_flag=True, help="Include ended sessions.")
@json_option
@pass_context
def list_sessions(
    context: CommandContext, agent: str | None, states: tuple[str, ...], everything: bool
) -> int:
    """List sessions.

    Shows live and waiting sessions, then the last ten that ended.
    """
    store = context.store_if_any()
    sessions = store.sessions() if store is not None else []
    if agent is not None:
        sessions = _of_agent(context, sessions, agent)
    selected = (session for session in sessions if not states or session.state in states)
    listed = pinned_first(with_attached(context, selected))
    context.output(
        lambda: {"sessions": [session_row(session, context.root) for session in listed]},
        lambda: session_lines(
            listed, context.width, context.colour, everything=everything or bool(states)
        ),
    )
    return 0


def _of_agent(context: CommandContext, sessions: list[Session], reference: str) -> list[Session]:
    """Filter by an agent name, qualified or not; the city is read only if nothing matches."""
    wanted = parse_name(reference)
    matches = []
    for session in sessions:
        name = parse_name(session.agent)
        same = name.bare == wanted.bare and wanted.rig in (None, name.rig)
        if same and wanted.binding in (None, name.binding):
            matches.append(session)
    if not matches:
        context.agent(reference)  # raises for an unknown agent
    return matches
