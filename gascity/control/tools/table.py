"""The table of city tools. A tool is one entry here and one function."""

from gascity.control.tools.agents import list_agents
from gascity.control.tools.schemas import list_of, record, text
from gascity.control.tools.types import Tool

_AGENT_ROW = record(
    {
        "agentId": text("Name to pass to agents_message."),
        "displayName": text(),
        "description": text(),
        "status": text(enum=["idle", "busy", "suspended"]),
    },
    "agentId",
    "displayName",
    "description",
    "status",
)

TOOLS: tuple[Tool, ...] = (
    Tool(
        "agents_list",
        "List the agents that you may message, with what each is for and whether it is busy.",
        record({}, closed=True),
        record({"agents": list_of(_AGENT_ROW)}, "agents"),
        ("agents.read",),
        list_agents,
        read_only=True,
    ),
)
