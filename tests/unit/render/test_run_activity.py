"""Tool calls and thinking in recorded output of the real programs (`activity/`, `outputs/`)."""

import json
from pathlib import Path

import pytest

from gascity.render.run_activity import MAX_CALLS, RunActivity, ToolUse, read_activity
from gascity.render.run_output_formats import FORMATS

HERE = Path(__file__).parent


def read(format: str, file: str) -> RunActivity:
    return read_activity(format, [(HERE / file).read_bytes()])


@pytest.mark.parametrize(
    ("provider", "format", "name", "milliseconds"),
    [
        ("claude", "claude-stream-json", "mcp__city__agents_message", 284),
        ("codex", "codex-json", "agents_message", None),
        ("copilot", "copilot-json", "city-agents_message", 60),
        ("gemini", "gemini-stream-json", "mcp_city_agents_message", 453),
        ("opencode", "opencode-json", "city_agents_message", 197),
    ],
)
def test_a_tool_call_has_a_name_and_where_the_output_has_times_a_duration(
    provider: str, format: str, name: str, milliseconds: int | None
) -> None:
    assert read(format, f"activity/{provider}.txt") == RunActivity(
        (ToolUse(name, milliseconds),), 1
    )


@pytest.mark.parametrize(
    ("file", "format", "name"),
    [
        ("codex-denied.txt", "codex-json", "echo"),
        ("copilot-denied.txt", "copilot-json", "probe-echo"),
        ("droid-cut.txt", "droid-stream-json", "probe___echo"),
        ("grok-denied.txt", "grok-stream-json", "use_tool"),
    ],
)
def test_a_refused_tool_call_counts(file: str, format: str, name: str) -> None:
    found = read(format, f"outputs/{file}")
    assert (found.total, [call.name for call in found.calls]) == (1, [name])


def test_a_run_without_tool_calls_has_none_and_a_format_without_rules_says_nothing() -> None:
    assert read("claude-stream-json", "outputs/claude.txt") == RunActivity((), 0)
    assert read("kimi-stream-json", "outputs/kimi.txt") == RunActivity((), None)
    assert read_activity("claude-stream-json", [b"sh: claude: not found\n"]) == RunActivity()


def block(**content: str) -> bytes:
    return json.dumps({"type": "assistant", "message": {"content": [content]}}).encode() + b"\n"


def test_thinking_is_collected_up_to_a_limit() -> None:
    thoughts = [
        block(type="thinking", thinking=text) for text in ("The tide.", " ", "The \x1b[1mmoon.")
    ]
    assert read_activity("claude-stream-json", thoughts).thinking == "The tide.\n\nThe moon."
    long = read_activity("claude-stream-json", [block(type="thinking", thinking="x" * 50_000)] * 3)
    assert len(long.thinking) == 8000


def test_many_calls_are_counted_but_not_listed() -> None:
    found = read_activity("claude-stream-json", [block(type="tool_use", id="1", name="Read")] * 300)
    assert (found.total, len(found.calls)) == (300, MAX_CALLS)


@pytest.mark.parametrize("format", FORMATS)
def test_any_output_is_read_without_an_error(format: str) -> None:
    odd = [
        b'{"type":"assistant","message":{"content":[{"name":7,"id":[]},"x",null]}}\n',
        b'{"type":"user","timestamp":"yesterday","message":{"content":"text"}}\n',
        b'{"type":"tool_use","timestamp":1e300,"tool_name":"","part":[]}\n',
        b'{"type":"tool_result","timestamp":"0001-01-01T00:00:00Z","tool_id":{}}\n',
        b"\0\0{\xff}\n",
    ]
    assert not read_activity(format, odd).calls
