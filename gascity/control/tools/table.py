"""The table of city tools. A tool is one entry here and one function."""

from gascity.control.tools.agents import list_agents
from gascity.control.tools.hud import read_hud
from gascity.control.tools.notes import add_memory, search_memory
from gascity.control.tools.schemas import flag, list_of, record, text
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

_NOTE = record(
    {"name": text(), "path": text(), "tags": list_of(text()), "text": text()}, "name", "text"
)

_HUD_SECTION = record(
    {"name": text(), "text": text("The current text."), "refresh": text(), "source": text()},
    "name",
    "text",
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
    Tool(
        "memory_add",
        "Write a note for your later sessions: what you learned, not what you did.",
        record(
            {
                "text": text("The note, in Markdown.", maxLength=65_536),
                "title": text("One line; names the note.", maxLength=200),
                "tags": list_of(text("A word.", maxLength=50)),
            },
            "text",
            closed=True,
        ),
        record({"name": text(), "path": text()}, "name", "path"),
        ("memory.write",),
        add_memory,
    ),
    Tool(
        "memory_search",
        "Find notes that contain all words of a query, newest first.",
        record(
            {"query": text("Words; an empty query lists all.", maxLength=1000)},
            "query",
            closed=True,
        ),
        record({"memory": list_of(_NOTE), "more": flag("Whether there are more.")}, "memory"),
        ("memory.read",),
        search_memory,
        read_only=True,
    ),
    Tool(
        "hud_read",
        "Read your HUD: the current values of all sections, or of one.",
        record({"section": text("Name of one section.")}, closed=True),
        record({"sections": list_of(_HUD_SECTION)}, "sections"),
        ("hud.read",),
        read_hud,
        read_only=True,
    ),
)
