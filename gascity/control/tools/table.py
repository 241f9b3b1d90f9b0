"""The table of city tools. A tool is one entry here and one function."""

from gascity.control.tools.agents import list_agents
from gascity.control.tools.commands import LIMIT, run_command
from gascity.control.tools.hud import read_hud
from gascity.control.tools.messages import (
    MAX_TIMEOUT,
    TIMEOUT,
    cancel_message,
    message_status,
    send_message,
)
from gascity.control.tools.notes import add_memory, search_memory
from gascity.control.tools.schemas import flag, integer, list_of, number, record, text
from gascity.control.tools.types import Tool
from gascity.model.work import STATUS_OF_WORD

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

_MESSAGE_INPUT = record(
    {
        "agentId": text("Agent, as agents_list names it."),
        "content": text("The task, with everything the agent needs to know.", maxLength=1_000_000),
        "session": text(
            "Session of the agent: latest, create, latest-or-create, or a session's id or name.",
            default="latest-or-create",
            maxLength=200,
        ),
        "mode": text(
            "sync waits for the answer; async returns at once, and the answer arrives as mail.",
            enum=["sync", "async"],
            default="sync",
        ),
        "timeout": number(
            "Seconds to wait in mode sync. The agent keeps working after that.",
            minimum=1,
            maximum=MAX_TIMEOUT,
            default=TIMEOUT,
        ),
        "context": {
            "type": "object",
            "description": "Facts for the agent; keys of lower-case letters and hyphens.",
            "additionalProperties": text(),
        },
    },
    "agentId",
    "content",
    closed=True,
)
_TOOL_CALL = record({"name": text(), "durationMs": number()}, "name")
_MESSAGE = record(
    {
        "mode": text(enum=["sync", "async"]),
        "status": text(enum=["complete", "timeout", "started"]),
        "agentId": text(),
        "sessionId": text(),
        "sessionName": text(),
        "created": flag("Whether the session was created for this message."),
        "responseId": text("Pass it to agents_status and agents_cancel."),
        "response": text("The agent's answer."),
        "truncated": flag(),
        "durationMs": number(),
        "toolCallCount": number("Tool calls of the run, if its output reports them."),
        "toolCalls": list_of(_TOOL_CALL),
        "thinkingText": text("The start of the model's thinking, if the output has it."),
        "timeoutSeconds": number(),
        "queued": flag("Whether it has not started yet."),
        "message": text(),
    },
    *("mode", "status", "agentId", "sessionId", "sessionName", "created", "responseId"),
)
_RESPONSE_ID = text("The responseId that agents_message returned.")
_MESSAGE_STATUS = record(
    {
        "responseId": text(),
        "status": text(enum=["queued", "running", "complete", "failed", "cancelled"]),
        "agentId": text(),
        "sessionId": text(),
        "response": text(),
        "error": text(),
        "durationMs": number(),
    },
    *("responseId", "status", "agentId", "sessionId"),
)
_LIMIT = integer("Number of rows, newest first; 0 for all.", minimum=0, default=LIMIT)
_WORD = 30_000  # characters; the kernel takes 128 KiB in one word of a command line
_NAME = 200
_WORK_ID = text("Work item, such as w-3.", maxLength=_NAME)
_OWN_WORK = text("Work item (default: the one this session works on).", maxLength=_NAME)
_WORK = record({"work": list_of(record({"id": text(), "status": text()}))}, "work")
_MAIL = record({"mail": list_of(record({"id": integer(), "subject": text()}))}, "mail")
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
        "agents_message",
        "Give another agent a task and get its answer. Use mode async for long work.",
        _MESSAGE_INPUT,
        _MESSAGE,
        ("agents.message",),
        send_message,
    ),
    Tool(
        "agents_status",
        "Show whether a message that you sent is queued, running or finished, and its answer.",
        record({"responseId": _RESPONSE_ID}, "responseId", closed=True),
        _MESSAGE_STATUS,
        ("agents.read",),
        message_status,
        read_only=True,
    ),
    Tool(
        "agents_cancel",
        "Cancel a message that you sent and stop the agent's work on it.",
        record({"responseId": _RESPONSE_ID, "reason": text()}, "responseId", closed=True),
        _MESSAGE_STATUS,
        ("agents.message",),
        cancel_message,
    ),
    Tool(
        "work_list",
        "List work items of the agents that you may see, newest first.",
        record(
            {
                "agent": text("Filter by agent.", maxLength=_NAME),
                "rig": text("Filter by rig.", maxLength=_NAME),
                "status": list_of(text(enum=list(STATUS_OF_WORD))),
                "limit": _LIMIT,
            },
            closed=True,
        ),
        _WORK,
        ("work.read",),
        run_command("work list", limit=LIMIT, agent="--agent", rig="--rig", status="--status"),
        read_only=True,
    ),
    Tool(
        "work_show",
        "Show a work item with its text and result.",
        record({"work": _WORK_ID}, "work", closed=True),
        _WORK,
        ("work.read",),
        run_command("work show", "work"),
        read_only=True,
    ),
    Tool(
        "work_done",
        "Mark your work item as done.",
        record(
            {"work": _OWN_WORK, "summary": text("Summary of the result.", maxLength=_WORD)},
            closed=True,
        ),
        _WORK,
        ("work.write",),
        run_command("work done", "work", summary="--summary"),
    ),
    Tool(
        "work_fail",
        "Mark your work item as failed.",
        record(
            {"work": _OWN_WORK, "reason": text("Reason to record.", maxLength=_WORD)}, closed=True
        ),
        _WORK,
        ("work.write",),
        run_command("work fail", "work", reason="--reason"),
    ),
    Tool(
        "mail_send",
        "Send mail to the user (`human`), an agent or a session.",
        record(
            {
                "to": text("human, an agent, or a session's id or name.", maxLength=_NAME),
                "text": text(maxLength=1_000_000, minLength=1),
                "subject": text("Subject (default: the start of the first line).", maxLength=1000),
                "notify": flag("Also nudge the recipient's live sessions."),
            },
            "to",
            "text",
            closed=True,
        ),
        _MAIL,
        ("mail.write",),
        run_command("mail send", stdin="text", to="--to", subject="--subject", notify="--notify"),
    ),
    Tool(
        "mail_inbox",
        "List your unread mail, newest first.",
        record({"all": flag("Include read messages."), "limit": _LIMIT}, closed=True),
        _MAIL,
        ("mail.read",),
        run_command("mail inbox", limit=LIMIT, all="--all"),
        read_only=True,
    ),
    Tool(
        "mail_read",
        "Show a message and mark it as read.",
        record(
            {"id": integer("Number of the message.", minimum=1, maximum=2**63 - 1)},
            "id",
            closed=True,
        ),
        _MAIL,
        ("mail.read",),
        run_command("mail read", "id"),
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
