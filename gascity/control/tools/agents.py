"""`agents_list`: the agents that the caller may message, and whether they are free."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gascity.control.callers import Caller
from gascity.control.tools.types import ToolCall
from gascity.model.values import JsonObject
from gascity.model.work import CLAIMED

if TYPE_CHECKING:
    from gascity.control.run_config import RunConfig
    from gascity.model.city import Agent
    from gascity.store.port import Store


def list_agents(call: ToolCall) -> JsonObject:
    """Return the agents that the caller may message."""
    reply = call.server.send({"op": "agents"})
    if reply is not None:
        return reply
    store = call.server.open_store()
    try:
        return agents_object(call.server.load(), store, call.server.identify(store))
    finally:
        store.close()


def agents_object(run_config: "RunConfig", store: "Store", caller: Caller | None) -> JsonObject:
    """Return the rows of the fragment `available-agents`, each with the agent's status."""
    busy = {work.agent for work in store.list_work(status=(CLAIMED,))}
    rows = [_row(run_config, agent, busy) for agent in _visible(run_config, caller)]
    return {"agents": sorted(rows, key=lambda row: row["agentId"])}


def _visible(run_config: "RunConfig", caller: Caller | None) -> "Iterator[Agent]":
    """Yield the agents that the caller sees; a user sees all that it may assign work to."""
    from gascity.render.variables import is_available

    city = run_config.city
    mine = run_config.agent_of_caller(caller.agent) if caller is not None else None
    for agent in city.agents:
        if mine is not None:
            visible = is_available(city, mine.agent, agent)
        else:
            settings = agent.settings
            hidden = settings.hidden or settings.suspended or settings.mode == "subagent"
            visible = not agent.broken and not hidden
        if visible:
            yield agent


def _row(run_config: "RunConfig", agent: "Agent", busy: set[str]) -> dict[str, str]:
    name, settings = str(agent.name), agent.settings
    return {
        "agentId": name,
        "displayName": settings.display_name or agent.name.bare,
        "description": settings.description or "",
        "status": _status(run_config, agent, name in busy),
    }


def _status(run_config: "RunConfig", agent: "Agent", busy: bool) -> str:
    rig = run_config.city.rig_of(agent)
    if run_config.city.workspace.suspended_on_start or (
        rig is not None and rig.settings.suspended_on_start
    ):
        return "suspended"
    return "busy" if busy else "idle"
