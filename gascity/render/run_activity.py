"""Tool calls and thinking of a run, read from its output for the sender of its message.

`RunOutput` has what the controller needs of every run. This is read only when a caller asks. As
there, the output is untrusted and each format is a table of rules.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from gascity.model.values import as_list, as_text
from gascity.render.run_output import clean, matches, parse_object, read_lines, value_at

MAX_CALLS = 100  # that are listed; all are counted
_MAX_NAME, _MAX_THINKING = 200, 8000  # characters: the caller's model reads them


class ToolUse(NamedTuple):
    """A tool call of a run, with its duration if the output has times."""

    name: str
    milliseconds: int | None = None


class RunActivity(NamedTuple):
    """Tool calls and thinking of the model before its answer. `total` is None if not reported."""

    calls: tuple[ToolUse, ...] = ()
    total: int | None = None
    thinking: str = ""


class _CallRule(NamedTuple):
    """Position of tool calls in messages that match `when`.

    `items` is the path of a list of calls; without it, the message is a call. `name` and `id` are
    paths in a call, `start` and `end` paths in the message. A rule without `name` is about the end
    of calls that another rule found.
    """

    when: Mapping[str, str]
    id: str = ""
    name: str = ""
    items: str = ""
    start: str = ""
    end: str = ""


class _Format(NamedTuple):
    """Rules for tool calls, and the paths of thinking by the type of a message."""

    calls: tuple[_CallRule, ...]
    thinking: tuple[tuple[Mapping[str, str], str], ...] = ()


_CLAUDE = _Format(
    (
        _CallRule({"type": "assistant"}, "id", "name", "message.content", start="timestamp"),
        _CallRule({"type": "user"}, "tool_use_id", items="message.content", end="timestamp"),
    ),
    (({"type": "assistant"}, "message.content.*.thinking"),),
)
# Formats that are missing here were not observed with tool calls.
_FORMATS: Mapping[str, _Format] = {
    "claude-stream-json": _CLAUDE,
    "qwen-stream-json": _CLAUDE,
    "gemini-stream-json": _Format(
        (
            _CallRule({"type": "tool_use"}, "tool_id", "tool_name", start="timestamp"),
            _CallRule({"type": "tool_result"}, "tool_id", end="timestamp"),
        )
    ),
    "opencode-json": _Format(
        (
            _CallRule(
                {"type": "tool_use"},
                "part.callID",
                "part.tool",
                start="part.state.time.start",
                end="part.state.time.end",
            ),
        ),
        (({"type": "reasoning"}, "part.text"),),
    ),
    "codex-json": _Format(
        (
            _CallRule({"type": "item.completed", "item.type": "mcp_tool_call"}, name="item.tool"),
            _CallRule(
                {"type": "item.completed", "item.type": "command_execution"}, name="item.type"
            ),
        ),
        (({"type": "item.completed", "item.type": "reasoning"}, "item.text"),),
    ),
    "copilot-json": _Format(
        (
            _CallRule(
                {"type": "assistant.message"},
                "toolCallId",
                "name",
                "data.toolRequests",
                start="timestamp",
            ),
            _CallRule({"type": "tool.execution_complete"}, "data.toolCallId", end="timestamp"),
        )
    ),
    "droid-stream-json": _Format((_CallRule({"type": "tool_result"}, name="toolId"),)),
    "grok-stream-json": _Format((_CallRule({"type": "tool_call"}, "toolCallId", "toolName"),)),
}


def read_activity(format: str, chunks: Iterable[bytes]) -> RunActivity:
    """Return what a run's output says about tool calls and thinking; nothing if it has no rules."""
    rules = _FORMATS.get(format)
    if rules is None:
        return RunActivity()
    calls = _Calls()
    thinking: list[str] = []
    is_known = False
    for line in read_lines(chunks):
        message = parse_object(line) if line is not None else None
        if message is None:
            continue
        is_known = True
        for rule in rules.calls:
            if matches(rule.when, message):
                calls.add(rule, message)
        if sum(map(len, thinking)) < _MAX_THINKING:
            thinking += _texts(rules, message)
    if not is_known:  # another program wrote it
        return RunActivity()
    return RunActivity(
        tuple(calls.listed), calls.count, clean("\n\n".join(thinking), _MAX_THINKING)
    )


class _Calls:
    """The tool calls that were found so far."""

    def __init__(self) -> None:
        self.listed: list[ToolUse] = []
        self.count = 0
        self._started: dict[str, tuple[int, float]] = {}  # by id: its number, and when

    def add(self, rule: _CallRule, message: Mapping[str, object]) -> None:
        start, end = (_time(value_at(message, path)) for path in (rule.start, rule.end))
        for item in _items(message, rule.items):
            id = value_at(item, rule.id) if rule.id else None
            name = as_text(value_at(item, rule.name)) if rule.name else ""
            if name:
                self._begin(name, str(id or ""), start)
            if end is not None:
                self._end(str(id or ""), end)

    def _begin(self, name: str, id: str, start: float | None) -> None:
        self.count += 1
        if len(self.listed) < MAX_CALLS:
            if id and start is not None:
                self._started[id] = len(self.listed), start
            self.listed.append(ToolUse(clean(name, _MAX_NAME)))

    def _end(self, id: str, end: float) -> None:
        if id in self._started:
            number, start = self._started.pop(id)
            milliseconds = max(0, round(end - start))
            self.listed[number] = self.listed[number]._replace(milliseconds=milliseconds)


def _items(message: Mapping[str, object], path: str) -> Sequence[object]:
    return as_list(value_at(message, path)) if path else [message]


def _texts(rules: _Format, message: Mapping[str, object]) -> Iterator[str]:
    for when, path in rules.thinking:
        text = as_text(value_at(message, path)) if matches(when, message) else ""
        if text.strip():
            yield text[: _MAX_THINKING * 4]


def _time(value: object) -> float | None:
    """Return a time in milliseconds: formats write that, or a date with a time zone."""
    from datetime import datetime

    match value:
        case str():
            with suppress(ValueError, OverflowError):
                return datetime.fromisoformat(value).timestamp() * 1000
        case int() | float() if abs(value) < 1e15:
            return float(value)
    return None
