"""`city agent list`; agents as JSON objects and list entries."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from gascity.cli.cached_answer import Report, answer_and_cache
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import DIM, RED, Column, Entry, entry_lines, json_row, plural
from gascity.control.paths import stale_file
from gascity.model.city import Agent, City
from gascity.source.disk import Disk

Row = Mapping[str, object]
_BROKEN = {
    "broken": "broken; run `city check` to see why",
    "stale": "broken; its last valid definition stays active (run `city check` to see why)",
}


@json_command("list", examples=("city agent list", "city agent list --json"), page="how-to/agents")
def list_agents(context: CommandContext) -> int:
    """List agents."""
    return answer_and_cache(context, "agent-list", _agent_list)


def _agent_list(context: CommandContext, disk: Disk) -> Report:
    city = context.city(disk=disk)
    # Read through the disk, so that a cached answer is dropped when this file changes.
    stale = (disk.read(stale_file(disk.root)) or b"").decode().splitlines()
    rows = [agent_row(agent, stale) for agent in city.agents]
    lines = _lines(rows, context.width, context.colour)
    return Report(lambda: {"agents": rows}, lines, _note(city))


def _note(city: City) -> str:
    broken = [str(agent.name) for agent in city.agents if agent.broken]
    if broken:
        return f"city: broken agents: {', '.join(broken)}; run `city check` to see why"
    errors = sum(problem.is_error for problem in city.all_problems)
    return f"city: {plural(errors, 'error')}; run `city check` for details" if errors else ""


def _maximum(agent: Agent) -> object:
    most = agent.settings.max_active_sessions
    return None if most == -1 else most


def _columns(stale: Collection[str]) -> tuple[Column[Agent], ...]:
    def state(agent: Agent) -> str:
        return ("stale" if str(agent.name) in stale else "broken") if agent.broken else "ok"

    return (
        Column("name", lambda agent: str(agent.name)),
        Column("bare", lambda agent: agent.name.bare),
        Column("rig", lambda agent: agent.name.rig),
        Column("binding", lambda agent: agent.name.binding),
        Column("provider", lambda agent: agent.provider),
        Column("description", lambda agent: agent.settings.description),
        Column("execution", lambda agent: agent.settings.execution),
        Column("session_state", lambda agent: agent.settings.session_state),
        Column("hidden", lambda agent: agent.settings.hidden),
        Column("min", lambda agent: agent.settings.min_active_sessions),
        Column("max", _maximum),
        Column("source", lambda agent: agent.home.directory),
        Column("layer", lambda agent: agent.layer),
        Column("state", state),
        Column("covers", lambda agent: list(agent.overridden)),
    )


def agent_row(agent: Agent, stale: Collection[str] = ()) -> dict[str, object]:
    """Return an agent as its JSON object.

    `stale` names broken agents whose last valid definition the controller uses.
    """
    return json_row(_columns(stale), agent)


def _lines(rows: Sequence[Row], width: int, colour: bool) -> Iterator[str]:
    yield f"{plural(len(rows), 'agent')}:" if rows else "No agents."
    yield from entry_lines([_entry(row) for row in rows], width, colour)


def _entry(row: Row) -> Entry:
    details = [(f"Source: {source_text(row)}", DIM)]
    if row["state"] != "ok":
        details.append((_BROKEN[str(row["state"])], RED))
    return Entry(
        str(row["name"]),
        (str(row["description"]) or "(no description)",),
        f"[{row['execution']}, {row['session_state']}]",
        tuple(details),
    )


def source_text(row: Row) -> str:
    """Return an agent's directory and what it overrides."""
    if row["layer"] == "built-in":
        return "built-in"
    covers = row["covers"]
    if not isinstance(covers, list) or not covers:
        return str(row["source"])
    names = ["the built-in agent" if name == "built-in" else str(name) for name in covers]
    return f"{row['source']} (overrides {', '.join(names)})"
