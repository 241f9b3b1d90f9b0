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
    failed, error  whether the run failed, and the message; status: the model server's answer
    fine           no value: an earlier failure was overcome
    over           no value: the run reached its end, successful or not
    tool           a tool call; only shown to the user
    wait, wait_ms  duration of a rate limit; until: its end in epoch seconds
    """

    when: Mapping[str, str]
    take: Mapping[str, str]


_CLAUDE = (
    OutputRule({}, {"conversation": "session_id"}),
    OutputRule(
        {"type": "assistant"},
        {"summary": "message.content.*.text", "tool": "message.content.*.name"},
    ),
    OutputRule(
        {"type": "system", "subtype": "api_retry"},
        {"status": "error_status", "wait_ms": "retry_delay_ms"},
    ),
    OutputRule(
        {"type": "rate_limit_event", "rate_limit_info.status": "rejected"},
        {"status": "rate_limit_info.status", "until": "rate_limit_info.resetsAt"},
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
            "over": "type",
        },
    ),
    OutputRule(  # such as error_max_turns, which may come with `is_error` false
        {"type": "result", "subtype": "error*"},
        {"failed": "type", "error": "subtype"},
    ),
    OutputRule({"type": "result", "subtype": "error*"}, {"error": "errors.*"}),
)
_GEMINI = (
    OutputRule({"type": "init"}, {"conversation": "session_id"}),
    OutputRule({"type": "message", "role": "user"}, {"fresh": "type"}),
    OutputRule({"type": "tool_use"}, {"fresh": "type", "tool": "tool_name"}),
    OutputRule({"type": "message", "role": "assistant"}, {"piece": "content"}),
    OutputRule({"type": "result"}, {"usage": "stats", "over": "type"}),
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
            "more_cost": "part.cost",
            "fine": "type",
            "over": "type",
        },
    ),
    OutputRule(
        {"type": "error"},
        {
            "failed": "type",
            "error": "error.data.message",
            "status": "error.data.statusCode",
            "wait": "error.data.responseHeaders.retry-after",
            "over": "type",
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
    OutputRule({"type": "turn.completed"}, {"usage": "usage", "over": "type"}),
    OutputRule({"type": "error"}, {"error": "message"}),
    OutputRule({"type": "turn.failed"}, {"failed": "type", "error": "error.message"}),
)
_COPILOT = (
    OutputRule({"type": "assistant.message"}, {"summary": "data.content"}),
    OutputRule({"type": "session.error"}, {"error": "data.message", "status": "data.statusCode"}),
    OutputRule(
        {"type": "result"},
        {"conversation": "sessionId", "failed": "exitCode", "over": "type"},
    ),
)
_DROID = (
    OutputRule({}, {"conversation": "session_id"}),
    OutputRule({"type": "message", "role": "assistant"}, {"summary": "text"}),
    OutputRule(
        {"type": "completion"},
        {"summary": "finalText", "usage": "usage", "fine": "type", "over": "type"},
    ),
    OutputRule({"type": "error"}, {"failed": "type", "error": "message"}),
)
_KIMI = (
    OutputRule({"role": "meta"}, {"conversation": "session_id"}),
    OutputRule(
        {"role": "meta", "type": "turn.step.retrying"},
        {"status": "status_code", "wait_ms": "delay_ms"},
    ),
    OutputRule({"role": "assistant"}, {"summary": "content"}),
)
_GROK = (
    OutputRule({"type": "text"}, {"piece": "data"}),
    OutputRule({"type": "tool_call"}, {"fresh": "type"}),
    OutputRule(
        {"type": "end"},
        {"conversation": "sessionId", "usage": "usage", "fine": "type", "over": "type"},
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
    OutputRule({"type": "complete"}, {"usage": "", "over": "type"}),
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
            "over": "type",
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
            "over": "type",
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
        {"summary": "result", "conversation": "session_id", "failed": "is_error"},
    ),
)
_ANTIGRAVITY = (  # from documentation
    OutputRule({}, {"summary": "response", "usage": "usage", "conversation": "conversation_id"}),
    OutputRule({}, {"failed": "error", "error": "error"}),
)

TEXT = "text"
UNFINISHED = "its output is incomplete: it ended without a result"
FORMATS: Mapping[str, tuple[OutputRule, ...]] = {
    TEXT: (),
    "claude-stream-json": _CLAUDE,
    "cursor-stream-json": _CLAUDE,
    "qwen-stream-json": _CLAUDE,
    "gemini-stream-json": _GEMINI,
    "opencode-json": _OPENCODE,
    "codex-json": _CODEX,
    "copilot-json": _COPILOT,
    "droid-stream-json": _DROID,
    "kimi-stream-json": _KIMI,
    "grok-stream-json": _GROK,
    "goose-stream-json": _GOOSE,
    "pi-json": _PI,
    "cline-json": _CLINE,
    "vibe-stream-json": _VIBE,
    "auggie-json": _AUGGIE,
    "antigravity-json": _ANTIGRAVITY,
}
WHOLE = frozenset(("auggie-json", "antigravity-json"))  # one JSON object over several lines

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
