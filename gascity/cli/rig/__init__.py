"""`city rig`: the projects that agents work on, and where they are on this machine."""

import click

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "list": ("gascity.cli.rig.list", "list_rigs", "List rigs and their agents."),
    "add": ("gascity.cli.rig.edit", "add_rig", "Add a rig, or set its path on this machine."),
    "remove": ("gascity.cli.rig.edit", "remove", "Remove a rig from the city."),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS, page="how-to/rigs")
def rig() -> None:
    """Manage rigs (the projects agents work on)."""
