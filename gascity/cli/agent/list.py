"""`city agent list`; agents as JSON objects and list entries."""

from collections.abc import Collection
from functools import partial

import click

from gascity.cli.cached_answer import Report, answer_and_cache
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import DIM, RED, Column, Entry, json_row, plural
from gascity.control.paths import stale_file
from gascity.model.city import Agent, City
from gascity.source.disk import Disk

_BROKEN = {
    "broken": "broken; run `city check` to see why",
    "stale": "broken; its last valid definition stays active (run `city check` to see why)",
}


@json_command(
    "list",
    examples=("city agent list", "city agent list --all", "city agent list --json"),
    page="how-to/agents",
)
@click.option("--all", "everything", is_flag=True, help="Include hidden agents.")
def list_agents(context: CommandContext, everything: bool) -> int:
    """List agents.

    Leaves out hidden agents. JSON includes them.
    """
    report = partial(_agent_list, everything=everything)
    return answer_and_cache(context, "agent-list", report, cache=not everything)


def _agent_list(context: CommandContext, disk: Disk, everything: bool) -> Report:
    agents = (city := context.city(disk=disk)).agents
    shown = [agent for agent in agents if everything or not agent.settings.hidden]
    # Read through the disk, so that a cached answer is dropped when this file changes.
    stale = (disk.read(stale_file(disk.root)) or b"").decode().splitlines()
    head = f"{plural(len(shown), 'agent')}:" if shown else "No agents."
    hidden = len(agents) - len(shown)
    note = [f"{plural(hidden, 'hidden agent')} (--all shows them)"] if hidden else []
    return Report(
        lambda: {"agents": [agent_row(agent, stale) for agent in agents]},
        lambda: (head, *context.entries([_entry(agent, stale) for agent in shown]), *note),
        _notes(city),
    )


def _notes(city: City) -> tuple[str, ...]:
    broken = [str(agent.name) for agent in city.agents if agent.broken]
    if broken:
        return (f"city: broken agents: {', '.join(broken)}; run `city check` to see why",)
    errors = sum(problem.is_error for problem in city.all_problems)
    return (f"city: {plural(errors, 'error')}; run `city check` for details",) if errors else ()


def maximum(agent: Agent) -> int | None:
    """Return the maximum number of sessions; None for no limit."""
    most = agent.settings.max_active_sessions
    return None if most == -1 else most


def _state(agent: Agent, stale: Collection[str]) -> str:
    return ("stale" if str(agent.name) in stale else "broken") if agent.broken else "ok"


_COLUMNS: tuple[Column[Agent], ...] = (
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
    Column("max", maximum),
    Column("source", lambda agent: agent.home.directory),
    Column("layer", lambda agent: agent.layer),
)


def agent_row(agent: Agent, stale: Collection[str] = ()) -> dict[str, object]:
    """Return an agent as its JSON object.

    `stale` names broken agents whose last valid definition the controller uses.
    """
    state = {"state": _state(agent, stale), "covers": list(agent.overridden)}
    return {**json_row(_COLUMNS, agent), **state}


def _entry(agent: Agent, stale: Collection[str]) -> Entry:
    settings, state = agent.settings, _state(agent, stale)
    details = [(f"Source: {source_text(agent)}", DIM)]
    details += [(_BROKEN[state], RED)] if state != "ok" else []
    return Entry(
        str(agent.name),
        (settings.description or "(no description)",),
        f"[{settings.execution}, {settings.session_state}]",
        tuple(details),
    )


def source_text(agent: Agent) -> str:
    """Return an agent's directory and what it overrides."""
    if agent.layer == "built-in":
        return "built-in"
    overridden = ", ".join(
        "the built-in agent" if name == "built-in" else name for name in agent.overridden
    )
    source = agent.home.directory
    return f"{source} (overrides {overridden})" if overridden else source
