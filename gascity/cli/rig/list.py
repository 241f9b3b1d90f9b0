"""`city rig list`."""

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import Column, json_row, table_lines
from gascity.model.city import City, Rig


@json_command("list", examples=("city rig list", "city rig list --json"), page="how-to/rigs")
def list_rigs(context: CommandContext) -> int:
    """List rigs and their agents."""
    city = context.city()
    columns = _columns(city)
    context.output(
        lambda: {"rigs": [json_row(columns, rig) for rig in city.rigs]},
        lambda: (
            table_lines(columns, city.rigs, context.width, context.colour)
            if city.rigs
            else ["No rigs; run `city rig add PATH` to add one."]
        ),
    )
    context.note_errors(city.problems)
    return 0


def _columns(city: City) -> tuple[Column[Rig], ...]:
    def agents(rig: Rig) -> list[str]:
        return [str(agent.name) for agent in city.agents if agent.name.rig == rig.name]

    def path(rig: Rig) -> str:
        missing = f"(no path on this machine; run `city rig add PATH --name {rig.name}`)"
        return rig.path or missing

    return (
        Column("name", lambda rig: rig.name, "RIG"),
        Column("path", lambda rig: rig.path),
        Column("prefix", lambda rig: rig.prefix, "PREFIX"),
        Column("", lambda rig: rig.git, "GIT", lambda rig: "yes" if rig.git else "-"),
        Column("agents", agents, "AGENTS", lambda rig: str(len(agents(rig)))),
        Column("git", lambda rig: rig.git),
        Column("", path, "PATH"),
    )
