"""`city rig`: the projects the city works on, and where they are on this machine."""

from collections.abc import Iterator

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.groups import LazyGroup
from gascity.cli.output import BOLD, paint, table
from gascity.model.city import City, Rig

_COMMANDS = {
    "list": ("gascity.cli.rig", "list_rigs", "List the rigs, and who works there."),
    "add": ("gascity.cli.rig_edit", "add_rig", "Add a project, or say where it is."),
    "remove": ("gascity.cli.rig_edit", "remove", "Take a rig out of the city."),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS)
def rig() -> None:
    """The projects the city works on."""


@click.command("list")
@json_option
@pass_context
def list_rigs(context: Context) -> int:
    """List the rigs, where they are, and who works there."""
    city = context.city()
    rows = [_row(city, one) for one in city.rigs]
    context.say({"rigs": rows}, lambda: _lines(rows, context))
    context.mention(city.problems)
    return 0


def _row(city: City, one: Rig) -> dict[str, object]:
    here = [str(agent.name) for agent in city.agents if agent.name.rig == one.name]
    return {
        "name": one.name,
        "path": one.path,
        "prefix": one.prefix,
        "agents": here,
        "git": one.git,
    }


def _lines(rows: list[dict[str, object]], context: Context) -> Iterator[str]:
    if not rows:
        yield "No rigs. `city rig add PATH` adds one."
        return
    cells = [
        [
            str(row["name"]),
            str(row["prefix"]),
            "yes" if row["git"] else "-",
            str(len(row["agents"]) if isinstance(row["agents"], list) else 0),
            str(row["path"] or "(nowhere on this machine)"),
        ]
        for row in rows
    ]
    lines = table(cells, ("RIG", "PREFIX", "GIT", "AGENTS", "PATH"), context.width)
    yield paint(lines[0], BOLD, context.colour)
    yield from lines[1:]
