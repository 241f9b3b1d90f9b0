"""`city agent list`."""

from collections.abc import Iterator, Mapping

import click

from gascity.cli.cached import answer_and_keep
from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.rows import agent_lines, agent_row
from gascity.control.places import stale_file
from gascity.model.city import City
from gascity.source.disk import Disk


@click.command("list")
@json_option
@pass_context
def list_agents(context: Context) -> int:
    """List every agent of the city."""
    return answer_and_keep(context, "agent list", _agent_list)


def _agent_list(context: Context, disk: Disk) -> tuple[Mapping[str, object], Iterator[str], str]:
    """The answer as JSON, as lines, and what goes to stderr beside it."""
    city = context.city(disk=disk)
    # Read through the disk, so that a kept answer is thrown away when this changes.
    stale = (disk.read(stale_file(disk.root)) or b"").decode().splitlines()
    rows = [agent_row(one, stale) for one in city.agents]
    lines = agent_lines(rows, context.width, context.colour)
    return {"agents": rows}, iter(lines), _note(city)


def _note(city: City) -> str:
    broken = [str(one.name) for one in city.agents if one.broken]
    errors = sum(problem.is_error for problem in city.everything_wrong)
    if broken:
        return f"city: broken: {', '.join(broken)}; `city check` says why"
    if errors:
        return f"city: {errors} error{'s' if errors > 1 else ''}; `city check` shows them"
    return ""
