"""Where each shape of output has its conversation, its last words, tokens, cost and faults."""

from collections.abc import Mapping

from gascity.model.records import NamedTuple


class Rule(NamedTuple):
    """What is taken from an object of which `when` is true.

    Keys of `when` and values of `take` are paths into it; `*` is every item of a list or table. A
    wanted text that ends with `*` is how the text begins. Taken are:

    conversation   the id to resume by
    summary        the last words, in place of those before
    piece          a part of the last words, behind the parts before
    fresh          nothing: what comes next are new words
    usage, cost    of the whole run; more_usage, more_cost: of a part of it, and better known
    failed, error  whether, and in which words; status: the answer of the model's server
    fine           nothing: what failed before was overcome
    over           nothing: it has come to its end, whichever that is
    tool           what it makes use of; only for people to read
    wait, wait_ms  for how long a limit holds; until: to which second of the epoch
    """

    when: Mapping[str, str]
    take: Mapping[str, str]


_CLAUDE = (
    Rule({}, {"conversation": "session_id"}),
    Rule(
        {"type": "assistant"},
        {"summary": "message.content.*.text", "tool": "message.content.*.name"},
    ),
    Rule(
        {"type": "system", "subtype": "api_retry"},
        {"status": "error_status", "wait_ms": "retry_delay_ms"},
    ),
    Rule(
        {"type": "rate_limit_event", "rate_limit_info.status": "rejected"},
        {"status": "rate_limit_info.status", "until": "rate_limit_info.resetsAt"},
    ),
    Rule(
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
    Rule(  # such as error_max_turns, which may come with `is_error` false
        {"type": "result", "subtype": "error*"},
        {"failed": "type", "error": "subtype"},
    ),
    Rule({"type": "result", "subtype": "error*"}, {"error": "errors.*"}),
)
_GEMINI = (
    Rule({"type": "init"}, {"conversation": "session_id"}),
    Rule({"type": "message", "role": "user"}, {"fresh": "type"}),
    Rule({"type": "tool_use"}, {"fresh": "type", "tool": "tool_name"}),
    Rule({"type": "message", "role": "assistant"}, {"piece": "content"}),
    Rule({"type": "result"}, {"usage": "stats", "over": "type"}),
    Rule({"type": "result", "status": "error"}, {"failed": "status", "error": "error.message"}),
)
_OPENCODE = (
    Rule({}, {"conversation": "sessionID"}),
    Rule({"type": "text"}, {"summary": "part.text"}),
    Rule({"type": "tool_use"}, {"tool": "part.tool"}),
    Rule(
        {"type": "step_finish"},
        {
            "more_usage": "part.tokens",
            "more_cost": "part.cost",
            "fine": "type",
            "over": "type",
        },
    ),
    Rule(
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
    Rule({"type": "thread.started"}, {"conversation": "thread_id"}),
    Rule({"type": "item.completed", "item.type": "agent_message"}, {"summary": "item.text"}),
    Rule({"type": "item.started", "item.type": "command_execution"}, {"tool": "item.command"}),
    Rule({"type": "item.started", "item.type": "mcp_tool_call"}, {"tool": "item.tool"}),
    Rule({"type": "turn.completed"}, {"usage": "usage", "over": "type"}),
    Rule({"type": "error"}, {"error": "message"}),
    Rule({"type": "turn.failed"}, {"failed": "type", "error": "error.message"}),
)
_COPILOT = (
    Rule({"type": "assistant.message"}, {"summary": "data.content"}),
    Rule({"type": "session.error"}, {"error": "data.message", "status": "data.statusCode"}),
    Rule(
        {"type": "result"},
        {"conversation": "sessionId", "failed": "exitCode", "over": "type"},
    ),
)
_DROID = (
    Rule({}, {"conversation": "session_id"}),
    Rule({"type": "message", "role": "assistant"}, {"summary": "text"}),
    Rule(
        {"type": "completion"},
        {"summary": "finalText", "usage": "usage", "fine": "type", "over": "type"},
    ),
    Rule({"type": "error"}, {"failed": "type", "error": "message"}),
)
_KIMI = (
    Rule({"role": "meta"}, {"conversation": "session_id"}),
    Rule(
        {"role": "meta", "type": "turn.step.retrying"},
        {"status": "status_code", "wait_ms": "delay_ms"},
    ),
    Rule({"role": "assistant"}, {"summary": "content"}),
)
_GROK = (
    Rule({"type": "text"}, {"piece": "data"}),
    Rule({"type": "tool_call"}, {"fresh": "type"}),
    Rule(
        {"type": "end"},
        {"conversation": "sessionId", "usage": "usage", "fine": "type", "over": "type"},
    ),
    Rule({"type": "error"}, {"failed": "type", "error": "message"}),
)
_GOOSE = (
    Rule({"type": "message", "message.role": "user"}, {"fresh": "type"}),
    Rule({"type": "message", "message.role": "assistant"}, {"piece": "message.content.*.text"}),
    Rule(  # it ends with 0 all the same
        {"type": "message", "message.content.*.text": "Ran into this error:*"},
        {"failed": "type", "error": "message.content.*.text"},
    ),
    Rule({"type": "complete"}, {"usage": "", "over": "type"}),
    Rule({"type": "error"}, {"failed": "type", "error": "error"}),
)
_PI = (
    Rule({"type": "session"}, {"conversation": "id"}),
    Rule(
        {"type": "message_end", "message.role": "assistant"},
        {
            "summary": "message.content.*.text",
            "more_usage": "message.usage",
            "more_cost": "message.usage.cost.total",
            "fine": "type",
            "over": "type",
        },
    ),
    Rule(  # it ends with 0 all the same
        {"type": "message_end", "message.stopReason": "error"},
        {"failed": "type", "error": "message.errorMessage"},
    ),
)
_CLINE = (
    Rule(
        {"type": "run_result"},
        {
            "summary": "text",
            "usage": "aggregateUsage",
            "cost": "aggregateUsage.totalCost",
            "over": "type",
        },
    ),
    Rule({"type": "run_result", "finishReason": "error"}, {"failed": "type"}),
    Rule({"type": "error"}, {"error": "message"}),
)
_VIBE = (  # from documentation
    Rule({"role": "assistant"}, {"summary": "content"}),
)
_AUGGIE = (  # read in the shipped code
    Rule(
        {"type": "result"},
        {"summary": "result", "conversation": "session_id", "failed": "is_error"},
    ),
)
_ANTIGRAVITY = (  # from documentation
    Rule({}, {"summary": "response", "usage": "usage", "conversation": "conversation_id"}),
    Rule({}, {"failed": "error", "error": "error"}),
)

TEXT = "text"
UNFINISHED = "its output broke off: it ended without a result"
FORMATS: Mapping[str, tuple[Rule, ...]] = {
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
WHOLE = frozenset(("auggie-json", "antigravity-json"))  # one object, over any number of lines

# Kinds of tokens, and what programs call them.
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
