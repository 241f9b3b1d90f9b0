"""`city work`: list, show and finish work items."""

import click

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "list": ("gascity.cli.work.commands", "list_work", "List work items, newest first."),
    "show": ("gascity.cli.work.commands", "show_work", "Show a work item."),
    "logs": ("gascity.cli.work.logs", "logs", "Show the log of a work item's last run."),
    "done": ("gascity.cli.work.commands", "done", "Mark a work item as done."),
    "fail": ("gascity.cli.work.commands", "fail", "Mark a work item as failed."),
    "retry": ("gascity.cli.work.commands", "retry", "Queue a failed or cancelled work item again."),
    "cancel": ("gascity.cli.work.commands", "cancel", "Cancel a work item and stop it if it runs."),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS, page="how-to/work")
def work() -> None:
    """List and manage work items."""
