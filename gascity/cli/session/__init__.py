"""`city session`: list, attach to and stop sessions."""

import click

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "list": ("gascity.cli.session.show", "list_sessions", "List sessions."),
    "show": ("gascity.cli.session.show", "show_session", "Show a session and its runs."),
    "new": ("gascity.cli.session.start", "new_session", "Start a session."),
    "attach": ("gascity.cli.session.start", "attach", "Attach to a session's terminal."),
    "back": (
        "gascity.cli.session.back",
        "back",
        "Send a summary to the session that started or attached this one.",
    ),
    "peek": ("gascity.cli.session.logs", "peek", "Show the last lines of a session's output."),
    "logs": ("gascity.cli.session.logs", "logs", "Show a session's log."),
    "nudge": ("gascity.cli.session.change", "nudge", "Send a session a message for its next turn."),
    "stop": ("gascity.cli.session.change", "stop", "Stop a session."),
    "clear": ("gascity.cli.session.change", "clear", "Clear a session's conversation."),
    "delete": (
        "gascity.cli.session.change",
        "delete",
        "Delete a session, its directory and its logs.",
    ),
    "rename": ("gascity.cli.session.change", "rename", "Rename a session."),
    "pin": ("gascity.cli.session.change", "pin", "Pin a session to the top of the list."),
    "unpin": ("gascity.cli.session.change", "unpin", "Unpin a session."),
    # Names that published packs call.
    "kill": ("gascity.cli.session.change", "kill", ""),
    "wake": ("gascity.cli.session.change", "wake", ""),
    "reset": ("gascity.cli.session.change", "clear", ""),
}


@click.group(
    cls=LazyGroup,
    commands_at=_COMMANDS,
    examples=("city session list", "city session attach mayor-1"),
    page="how-to/sessions",
)
def session() -> None:
    """List, attach to and stop sessions.

    SESSION is an id, the start of an id, an alias or a name. Inside a session it
    defaults to that session.
    """
