"""`city agent list`; agents as JSON objects, table rows and list entries."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import chain

import click

from gascity.cli.cached_answer import Report, answer_and_cache
from gascity.cli.command import json_command
from gascity.cli.completers import complete_provider, rig_option
from gascity.cli.context import CommandContext
from gascity.cli.output import DIM, RED, plural
from gascity.cli.problems import city_error
from gascity.cli.tables import Column, Entry, json_row
from gascity.control.paths import stale_file
from gascity.model.city import Agent, City
from gascity.model.names import did_you_mean, unknown_rig
from gascity.model.problems import CityError
from gascity.model.values import JsonObject
from gascity.source.disk import Disk

_BROKEN = {
    "broken": "broken; run `city check` to see why",
    "stale": "broken; its last valid definition stays active (run `city check` to see why)",
}
_PATCH = " patch"  # end of the names of layers that patch an agent


@json_command(
    "list",
    examples=("city agent list", "city agent list --rig web --long", "city agent list --json"),
    page="how-to/agents",
)
@rig_option()
@click.option(
    "--provider", metavar="NAME", shell_complete=complete_provider, help="Filter by provider."
)
@click.option("--long", "details", is_flag=True, help="Show descriptions and sources.")
@click.option("--all", "everything", is_flag=True, help="Include hidden agents.")
def list_agents(
    context: CommandContext,
    rig: str | None,
    provider: str | None,
    details: bool,
    everything: bool,
) -> int:
    """List agents.

    Leaves out hidden agents. JSON includes them.
    """
    report = partial(_agent_list, filters=(rig, provider), details=details, everything=everything)
    plain = not (rig or provider or details or everything)
    return answer_and_cache(context, "agent-list", report, cache=plain)


def _agent_list(
    context: CommandContext,
    disk: Disk,
    filters: tuple[str | None, str | None],
    details: bool,
    everything: bool,
) -> Report:
    city = context.city(disk=disk)
    agents = _filtered(city, *filters)
    shown = [agent for agent in agents if everything or not agent.settings.hidden]
    # Read through the disk, so that a cached answer is dropped when this file changes.
    stale = (disk.read(stale_file(disk.root)) or b"").decode().splitlines()
    hidden = len(agents) - len(shown)
    note = [f"{plural(hidden, 'hidden agent')} (--all shows them)"] if hidden else []

    def lines() -> Iterable[str]:
        if details and shown:
            entries = [_entry(agent, stale) for agent in shown]
            return (f"{plural(len(shown), 'agent')}:", *context.entries(entries), *note)
        columns = _table_columns(stale, _pack_names(city))
        return (*context.table(columns, shown, "No agents."), *note)

    return Report(
        lambda: {"agents": [agent_row(agent, stale) for agent in agents]}, lines, _notes(city)
    )


def _filtered(city: City, rig: str | None, provider: str | None) -> list[Agent]:
    """Return the agents of a rig and a provider; CityError if the city has none of that name."""
    if rig is not None and rig not in (rigs := [known.name for known in city.rigs]):
        raise CityError(unknown_rig(rig, rigs))
    used = {agent.provider for agent in city.agents}
    if provider is not None and provider not in used | set(city.providers):
        hint = did_you_mean(provider, used | set(city.providers))
        raise city_error("unknown-provider", f"there is no provider `{provider}`", hint)
    return [
        agent
        for agent in city.agents
        if rig in (None, agent.name.rig) and provider in (None, agent.provider)
    ]


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
    Column("color", lambda agent: agent.settings.color or None),
    Column("min", lambda agent: agent.settings.min_active_sessions),
    Column("max", maximum),
    Column("source", lambda agent: agent.home.directory),
    Column("layer", lambda agent: agent.layer),
    Column("model", lambda agent: agent.settings.model),
    Column("patched", lambda agent: bool(_patches(agent))),
)


def _patches(agent: Agent) -> list[str]:
    """Return which kinds of patches change an agent: `pack`, `city`, `rig`, `local`."""
    kinds = dict.fromkeys(layer.kind for layer in agent.layers)
    return [kind.removesuffix(_PATCH) for kind in kinds if kind.endswith(_PATCH)]


def _pool(agent: Agent) -> str:
    """Return the number of sessions: `0-3`, or `1+` without a limit."""
    least, most = agent.settings.min_active_sessions, maximum(agent)
    return f"{least}+" if most is None else f"{least}-{most}"


def _table_columns(stale: Collection[str], packs: Mapping[str, str]) -> tuple[Column[Agent], ...]:
    """`packs` are the names of imports by directory."""
    state: Callable[[Agent], str] = partial(_state, stale=stale)
    return (
        Column(
            "", lambda a: str(a.name), "NAME", style=lambda a: RED if a.broken else "", shrink=True
        ),
        Column("", state, "STATE", omit_if="ok"),
        Column("", lambda a: a.provider, "PROVIDER"),
        Column("", lambda a: a.settings.model, "MODEL", shrink=True),
        Column("", _pool, "POOL"),
        # A qualified name begins with the rig, so a narrow table does without the column.
        Column("", lambda a: a.name.rig, "RIG", optional=True),
        Column("", lambda a: "yes" if _patches(a) else "", "PATCHED"),
        Column("", partial(_short_source, packs=packs), "SOURCE", keep_end=True),
    )


def _pack_names(city: City) -> dict[str, str]:
    """Return the names of imports by directory; that of the city's own import first."""
    names: dict[str, str] = {}
    todo = [*city.pack.imports, *chain.from_iterable(city.rig_imports.values())]
    for target in todo:  # which grows: outer imports come before inner ones
        if target.directory and target.directory not in names:
            names[target.directory] = target.binding
            todo += target.pack.imports if target.pack else ()
    return names


def _short_source(agent: Agent, packs: Mapping[str, str]) -> str:
    """Return an agent's directory, that in a pack as `crew//agents/pilot`."""
    if agent.layer == "built-in":
        return "built-in"
    pack, folder, name = agent.home.directory.rpartition("/agents/")
    return f"{packs[pack]}//agents/{name}" if folder and pack in packs else agent.home.directory


def agent_row(agent: Agent, stale: Collection[str] = ()) -> JsonObject:
    """Return an agent as its JSON object.

    `stale` names broken agents whose last valid definition the controller uses.
    """
    state = {"state": _state(agent, stale), "covers": list(agent.overridden)}
    return {**json_row(_COLUMNS, agent), **state}


def _entry(agent: Agent, stale: Collection[str]) -> Entry:
    settings, state = agent.settings, _state(agent, stale)
    runs = " ".join(filter(None, (agent.provider, settings.model)))
    details = [(f"Provider: {runs}; sessions: {_pool(agent)}", DIM)]
    details += [(f"Source: {source_text(agent)}", DIM)]
    details += [(f"Patched by: {', '.join(_patches(agent))}", DIM)] if _patches(agent) else []
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
