"""Rules for each output format: where it has conversation id, texts, tokens, cost and errors."""

from collections.abc import Mapping
from typing import NamedTuple


class OutputRule(NamedTuple):
    """The values to take from JSON objects that match `when`.

    Keys of `when` and values of `take` are paths; `*` is every item of a list or table. An
    expected text that ends with `*` is a prefix. The keys of `take` are:

    conversation   id to resume by
    summary        last text of the model; replaces earlier ones
    piece          part of the last text; appended to earlier parts
    fresh          no value: the next piece starts a new text
    usage, cost    of the whole run; more_usage, more_cost: of a part of it, takes precedence
    context        token counts of one answer: the size of the conversation
    failed, error  whether the run failed, and the message; status: the model server's answer
    fine           no value: an earlier failure was overcome
    retry          the model server's answer to a request that the program sends again, and
    retry_error    its message; both are over with the next text or tool call of the model
    ending         how the run ended; a success only if the format lists it
    denied         a tool that was refused for lack of a permission
    servers        list of MCP servers with `name` and `status`; any but "connected" is missing
    tool           a tool call; only shown to the user
    wait, wait_ms  duration of a rate limit; until: its end in epoch seconds
    """

    when: Mapping[str, str]
    take: Mapping[str, str]


class OutputFormat(NamedTuple):
    """An output format: its rules, and the endings that mean success.

    A run of a format with `endings` that ends in any other way failed, whatever its exit code.
    `explained` has texts for other endings. `error` and `retry` find the error of a run, and a
    request that is being retried, in lines that are not JSON. A line that matches `refused` means
    that a permission was missing and that the run failed. `whole`: the output is one JSON object
    over several lines.
    """

    rules: tuple[OutputRule, ...] = ()
    endings: tuple[str, ...] = ()
    explained: Mapping[str, str] = {}
    error: str = ""
    retry: str = ""
    refused: str = ""
    whole: bool = False


_CLAUDE = (
    OutputRule({}, {"conversation": "session_id"}),
    OutputRule(
        {"type": "assistant"},
        {
            "summary": "message.content.*.text",
            "tool": "message.content.*.name",
            "context": "message.usage",
        },
    ),
    OutputRule(
        {"type": "system", "subtype": "api_retry"},
        {"retry": "error_status", "retry_error": "error", "wait_ms": "retry_delay_ms"},
    ),
    OutputRule(
        {"type": "rate_limit_event", "rate_limit_info.status": "rejected"},
        {"status": "rate_limit_info.status", "until": "rate_limit_info.resetsAt"},
    ),
    OutputRule(  # such as error_max_turns, which may come with `is_error` false
        {"type": "result", "subtype": "error*"},
        {"failed": "type", "error": "subtype"},
    ),
    OutputRule(
        {"type": "result"},
        {
            "summary": "result",
            "usage": "usage",
            "cost": "total_cost_usd",  # of the conversation
            "more_cost": "model_usage_since_last_result.*.costUSD",
            "failed": "is_error",
            "error": "error.message",
            "status": "api_error_status",
            "ending": "subtype",
            "denied": "permission_denials.*.tool_name",
        },
    ),
    OutputRule({"type": "system", "subtype": "init"}, {"servers": "mcp_servers"}),
    OutputRule({"type": "result", "subtype": "error*"}, {"failed": "type", "error": "errors.*"}),
)
_GEMINI = (
    OutputRule({"type": "init"}, {"conversation": "session_id"}),
    OutputRule({"type": "message", "role": "user"}, {"fresh": "type"}),
    OutputRule({"type": "tool_use"}, {"fresh": "type", "tool": "tool_name"}),
    OutputRule({"type": "message", "role": "assistant"}, {"piece": "content"}),
    OutputRule({"type": "result"}, {"usage": "stats", "ending": "status"}),
    OutputRule(
        {"type": "result", "status": "error"}, {"failed": "status", "error": "error.message"}
    ),
)
_OPENCODE = (
    OutputRule({}, {"conversation": "sessionID"}),
    OutputRule({"type": "text"}, {"summary": "part.text"}),
    OutputRule({"type": "tool_use"}, {"tool": "part.tool"}),
    OutputRule(
        {"type": "step_finish"},
        {
            "more_usage": "part.tokens",
            "context": "part.tokens",
            "more_cost": "part.cost",
            "fine": "type",
            "ending": "part.reason",
        },
    ),
    OutputRule(
        {
            "type": "tool_use",
            "part.state.status": "error",
            "part.state.error": "The user rejected permission*",
        },
        {"denied": "part.tool"},
    ),
    OutputRule(
        {"type": "error"},
        {
            "failed": "type",
            "error": "error.data.message",
            "status": "error.data.statusCode",
            "wait": "error.data.responseHeaders.retry-after",
        },
    ),
)
_CODEX = (
    OutputRule({"type": "thread.started"}, {"conversation": "thread_id"}),
    OutputRule({"type": "item.completed", "item.type": "agent_message"}, {"summary": "item.text"}),
    OutputRule(
        {"type": "item.started", "item.type": "command_execution"}, {"tool": "item.command"}
    ),
    OutputRule({"type": "item.started", "item.type": "mcp_tool_call"}, {"tool": "item.tool"}),
    OutputRule(
        {
            "type": "item.completed",
            "item.type": "mcp_tool_call",
            "item.error.message": "MCP tool call requires approval*",
        },
        {"denied": "item.tool"},
    ),
    OutputRule({"type": "turn.completed"}, {"usage": "usage", "ending": "type"}),
    OutputRule({"type": "error"}, {"error": "message"}),
    OutputRule({"type": "error", "message": "Reconnecting*"}, {"retry_error": "message"}),
    OutputRule({"type": "turn.failed"}, {"failed": "type", "error": "error.message"}),
)
_COPILOT = (
    OutputRule({"type": "assistant.message"}, {"summary": "data.content"}),
    OutputRule(
        {"type": "tool.execution_complete", "data.error.code": "denied"},
        {"denied": "data.error.message"},  # does not name the tool
    ),
    OutputRule({"type": "model.call_failure"}, {"retry": "data.statusCode"}),
    OutputRule({"type": "session.error"}, {"error": "data.message", "status": "data.statusCode"}),
    OutputRule(
        {"type": "result"},
        {"conversation": "sessionId", "failed": "exitCode", "ending": "exitCode"},
    ),
)
_DROID = (
    OutputRule({}, {"conversation": "session_id"}),
    OutputRule({"type": "message", "role": "assistant"}, {"summary": "text"}),
    OutputRule(
        {"type": "completion"},
        {"summary": "finalText", "usage": "usage", "fine": "type", "ending": "type"},
    ),
    OutputRule(
        {"type": "tool_result", "error.message": "Error: Exec ended early*"}, {"denied": "toolId"}
    ),
    OutputRule({"type": "error"}, {"failed": "type", "error": "message"}),
)
_KIMI = (
    OutputRule({"role": "meta"}, {"conversation": "session_id"}),
    OutputRule(
        {"role": "meta", "type": "turn.step.retrying"},
        {"retry": "status_code", "retry_error": "error_message", "wait_ms": "delay_ms"},
    ),
    OutputRule({"role": "assistant"}, {"summary": "content"}),
    OutputRule({"role": "meta", "type": "session.resume_hint"}, {"ending": "type"}),
)
_GROK = (
    OutputRule({"type": "text"}, {"piece": "data"}),
    OutputRule({"type": "tool_call"}, {"fresh": "type"}),
    OutputRule(
        {"type": "end"},
        {"conversation": "sessionId", "usage": "usage", "fine": "type", "ending": "stopReason"},
    ),
    OutputRule({"type": "error"}, {"failed": "type", "error": "message"}),
)
_GOOSE = (
    OutputRule({"type": "message", "message.role": "user"}, {"fresh": "type"}),
    OutputRule(
        {"type": "message", "message.role": "assistant"}, {"piece": "message.content.*.text"}
    ),
    OutputRule(  # the exit code is 0 all the same
        {"type": "message", "message.content.*.text": "Ran into this error:*"},
        {"failed": "type", "error": "message.content.*.text"},
    ),
    OutputRule({"type": "complete"}, {"usage": "", "ending": "type"}),
    OutputRule({"type": "error"}, {"failed": "type", "error": "error"}),
)
_PI = (
    OutputRule({"type": "session"}, {"conversation": "id"}),
    OutputRule(
        {"type": "message_end", "message.role": "assistant"},
        {
            "summary": "message.content.*.text",
            "more_usage": "message.usage",
            "more_cost": "message.usage.cost.total",
            "fine": "type",
            "ending": "message.stopReason",
        },
    ),
    OutputRule(  # the exit code is 0 all the same
        {"type": "message_end", "message.stopReason": "error"},
        {"failed": "type", "error": "message.errorMessage"},
    ),
)
_CLINE = (
    OutputRule(
        {"type": "run_result"},
        {
            "summary": "text",
            "usage": "aggregateUsage",
            "cost": "aggregateUsage.totalCost",
            "ending": "finishReason",
        },
    ),
    OutputRule({"type": "run_result", "finishReason": "error"}, {"failed": "type"}),
    OutputRule({"type": "error"}, {"error": "message"}),
)
_VIBE = (  # from documentation
    OutputRule({"role": "assistant"}, {"summary": "content"}),
)
_AUGGIE = (  # read in the shipped code
    OutputRule(
        {"type": "result"},
        {
            "summary": "result",
            "conversation": "session_id",
            "failed": "is_error",
            "ending": "type",
        },
    ),
)
_ANTIGRAVITY = (  # from documentation
    OutputRule(
        {},
        {
            "summary": "response",
            "usage": "usage",
            "conversation": "conversation_id",
            "ending": "status",
        },
    ),
    OutputRule({}, {"failed": "error", "error": "error"}),
)

TEXT = "text"
UNFINISHED = "its output is incomplete: it ended without a result"
_STOPPED = "it stopped at a tool call that needed a permission"
_STREAM_JSON = OutputFormat(_CLAUDE, ("success",))
FORMATS: Mapping[str, OutputFormat] = {
    TEXT: OutputFormat(),
    "claude-stream-json": _STREAM_JSON,
    "cursor-stream-json": _STREAM_JSON,
    "qwen-stream-json": _STREAM_JSON,
    "gemini-stream-json": OutputFormat(
        _GEMINI, ("success",), retry=r"Attempt \d+ failed.*?(?=\. Retrying|$)"
    ),
    # A step ends with "tool-calls"; as the last one it means that no model saw their results.
    "opencode-json": OutputFormat(_OPENCODE, ("stop",), {"tool-calls": _STOPPED}),
    "codex-json": OutputFormat(
        _CODEX, ("turn.completed",), error="required MCP servers failed to initialize: .*"
    ),
    "copilot-json": OutputFormat(_COPILOT, ("0",)),
    "droid-stream-json": OutputFormat(_DROID, ("completion",)),
    "kimi-stream-json": OutputFormat(_KIMI, ("session.resume_hint",)),
    "grok-stream-json": OutputFormat(_GROK, ("end_turn",), {"cancelled": _STOPPED}),
    "goose-stream-json": OutputFormat(_GOOSE, ("complete",)),
    "pi-json": OutputFormat(_PI, ("stop",)),
    "cline-json": OutputFormat(_CLINE, ("completed",)),
    "vibe-stream-json": OutputFormat(_VIBE),  # nothing but the exit code says how a run ended
    "auggie-json": OutputFormat(_AUGGIE, ("result",), whole=True),
    "antigravity-json": OutputFormat(
        _ANTIGRAVITY, ("SUCCESS",), refused=r"^jetski: .*auto-denied", whole=True
    ),
}

# Kinds of tokens, and their names in the formats.
TOKENS: Mapping[str, tuple[str, ...]] = {
    "input": ("input_tokens", "input", "inputTokens"),
    "output": ("output_tokens", "output", "outputTokens"),
    "cache_read": (
        "cache_read_input_tokens",
        "cached_input_tokens",
        "cached",
        "cache.read",
        "cacheRead",
        "cacheReadTokens",
    ),
    "cache_write": (
        "cache_creation_input_tokens",
        "cache_write_input_tokens",
        "cache.write",
        "cacheWrite",
        "cacheWriteTokens",
    ),
    "reasoning": ("reasoning_output_tokens", "reasoning_tokens", "reasoning", "reasoningTokens"),
}
