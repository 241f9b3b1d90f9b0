"""`city session`: list sessions."""

import click

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "list": ("gascity.cli.session.list", "list_sessions", "List sessions."),
    "show": ("gascity.cli.session.show", "show_session", "Show a session and its runs."),
    "new": ("gascity.cli.session.new", "new_session", "Start a session."),
    "attach": ("gascity.cli.session.attach", "attach", "Attach to a session's terminal."),
    "peek": ("gascity.cli.session.view", "peek", "Show the last lines of a session's output."),
    "logs": ("gascity.cli.session.view", "logs", "Show a session's log."),
    "nudge": ("gascity.cli.session.change", "nudge", "Send a session a message for its next turn."),
    "stop": ("gascity.cli.session.control", "stop", "Stop a session."),
    "clear": ("gascity.cli.session.control", "clear", "Clear a session's conversation."),
    "delete": (
        "gascity.cli.session.control",
        "delete",
        "Delete a session, its directory and its logs.",
    ),
    "rename": ("gascity.cli.session.change", "rename", "Rename a session."),
    "pin": ("gascity.cli.session.change", "pin", "Pin a session to the top of the list."),
    "unpin": ("gascity.cli.session.change", "unpin", "Unpin a session."),
    # Names that published packs call.
    "kill": ("gascity.cli.session.control", "kill", ""),
    "wake": ("gascity.cli.session.control", "wake", ""),
    "reset": ("gascity.cli.session.control", "reset", ""),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS, page="how-to/sessions")
def session() -> None:
    """List, attach to and stop sessions.

    SESSION is an id, the start of an id, an alias or a name. Inside a session it
    defaults to that session.
    """
