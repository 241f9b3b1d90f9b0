"""Parsing the output of runs: recorded ones, broken ones, and any bytes."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.model.provider import Provider
from gascity.pipeline import open_city
from gascity.render.run_output import RunOutput, clean, parse, readable
from gascity.render.run_output_formats import FORMATS, UNFINISHED
from tests.support.city import CityBuilder

RECORDED = Path(__file__).parent / "outputs"
ANSWER = "The harbour is open."
TOKENS = {"input": 1200, "output": 34}
NO_TOKENS = ("copilot", "kimi")
NO_ID = ("cline", "goose")
ENDS_WELL = ("goose", "pi")  # with exit code 0, whatever happened
COSTS = {"claude": 0.00548, "cline": 0.0, "kilo": 0.0, "opencode": 0.0, "pi": 0.0}
RUNS = sorted(path.stem for path in RECORDED.glob("*.txt") if "-" not in path.stem)
LIMITED = sorted(path.stem for path in RECORDED.glob("*-limited.txt"))
FACTS = st.sampled_from(sorted(FORMATS))


@pytest.fixture
def providers(city: CityBuilder) -> Mapping[str, Provider]:
    city.write({"city.toml": ""})
    return open_city(str(city.root), os.environ, all_providers=True).providers


def read(provider: Provider, run: str, exit_code: int = 0) -> RunOutput:
    text = (RECORDED / f"{run}.txt").read_bytes()
    pattern = provider.facts.limits.rate_limit_pattern or ""
    shape = provider.facts.headless.output
    return parse(shape, text.splitlines(True), exit_code, pattern=pattern)


def test_every_shape_that_a_provider_names_is_known(providers: Mapping[str, Provider]) -> None:
    for one in providers.values():
        assert one.facts.headless.output in FORMATS, one.name


@pytest.mark.parametrize("run", RUNS)
def test_a_recorded_run_tells_what_came_of_it(run: str, providers: Mapping[str, Provider]) -> None:
    found = read(providers[run], run)
    assert (found.summary, found.error, found.limited) == (ANSWER, "", None)
    assert bool(found.conversation) == (run not in NO_ID)
    assert found.cost == COSTS.get(run)
    if run in NO_TOKENS:
        assert found.usage is None
    else:
        asked = {**TOKENS, "input": 2400, "output": 68} if run == "qwen" else TOKENS
        assert found.usage is not None
        assert {kind: found.usage[kind] for kind in TOKENS} == asked


@pytest.mark.parametrize("run", LIMITED)
def test_a_recorded_run_that_was_turned_away_is_limited(
    run: str, providers: Mapping[str, Provider]
) -> None:
    provider = providers[run.removesuffix("-limited")]
    found = read(provider, run, 0 if provider.name in ENDS_WELL else 1)
    assert found.limited is not None
    assert found.limited in (0.0, 1.0)  # where it is told, it is what the server said
    assert found.error or found.summary


@pytest.mark.parametrize("run", RUNS)
def test_a_limit_is_only_looked_for_where_the_run_failed(
    run: str, providers: Mapping[str, Provider]
) -> None:
    text = (RECORDED / f"{run}.txt").read_bytes() + b"\n429: rate limit\n"
    shape = providers[run].facts.headless.output
    pattern = providers[run].facts.limits.rate_limit_pattern or ""
    assert parse(shape, [text], 0, pattern=pattern).limited is None
    assert parse(shape, [text], 1, pattern=pattern).limited == 0.0
    assert parse(shape, [text], 1).limited is None


@pytest.mark.parametrize("run", RUNS)
def test_what_else_is_in_the_log_changes_nothing(
    run: str, providers: Mapping[str, Provider]
) -> None:
    whole = read(providers[run], run)
    lines = (RECORDED / f"{run}.txt").read_bytes().splitlines(True)
    noise = [b'{"type":"result"\n', b"\xff\xfe\n", b"[1,2]\n", b"x" * 2_000_000 + b"\n", b"null\n"]
    mixed = [part for line in lines for part in (*noise, line)]
    shape = providers[run].facts.headless.output
    assert parse(shape, mixed, 0) == whole
    blocks = b"".join(lines)
    cut = [blocks[at : at + 7] for at in range(0, len(blocks), 7)]
    assert parse(shape, cut, 0) == whole


def test_the_end_is_read_though_the_middle_was_cut_out(providers: Mapping[str, Provider]) -> None:
    for run in ("claude", "droid", "qwen"):
        first, *_, last = (RECORDED / f"{run}.txt").read_bytes().splitlines(True)
        hole = first[:40] + b"\0" * 3_000_000
        for rest in (last, b'half of a line"}\n' + last):
            found = parse(providers[run].facts.headless.output, [hole, rest], 0)
            assert found.summary == ANSWER


def test_a_line_without_end_is_left_out() -> None:
    def result(text: str) -> bytes:
        return json.dumps({"type": "result", "result": text}).encode() + b"\n"

    endless = result("x" * 2_000_000)
    for chunks in ([result("Done."), endless], [result("Done.") + endless]):
        assert parse("claude-stream-json", chunks, 0).summary == "Done."


def test_numbers_that_are_none_count_nothing() -> None:
    line = b'{"type":"result","usage":{"input_tokens":Infinity,"output_tokens":NaN}}\n'
    assert parse("claude-stream-json", [line], 0).usage == {"input": 0, "output": 0}
    late = b'{"type":"system","subtype":"api_retry","error_status":429,"retry_delay_ms":1e999}\n'
    assert parse("claude-stream-json", [late], 1).limited == 0.0


def test_a_step_after_an_error_means_that_it_went_on() -> None:
    error = b'{"type":"error","error":{"data":{"message":"Busy.","statusCode":429}}}\n'
    step = b'{"type":"step_finish","part":{"reason":"stop","tokens":{"input":1}}}\n'
    assert parse("opencode-json", [error], 0).error == "Busy."
    assert parse("opencode-json", [error, step], 0).error == ""


def test_words_of_another_stream_before_an_object_do_not_hide_it() -> None:
    line = b'Warning: {"type":"result","result":"Done.","session_id":"s"}\n'
    assert parse("claude-stream-json", [line], 0)[:1] == ("Done.",)
    broken = b'Warning: {x {"type":"result","result":"Done."}\n'
    assert parse("claude-stream-json", [broken], 0).summary.startswith("Warning")


def test_pieces_are_put_together_until_something_else_happens() -> None:
    def message_of(role: str, text: str) -> dict[str, str]:
        return {"type": "message", "role": role, "content": text}

    lines = [
        message_of("user", "Go."),
        message_of("assistant", "I will "),
        message_of("assistant", "look."),
        {"type": "tool_use"},
        message_of("assistant", "All "),
        message_of("assistant", "done."),
        {"type": "result", "status": "success", "stats": {"input_tokens": 3}},
    ]
    found = parse("gemini-stream-json", [json.dumps(one).encode() + b"\n" for one in lines], 0)
    assert (found.summary, found.usage) == ("All done.", {"input": 3})


def test_steps_of_a_run_are_added_up() -> None:
    step = {
        "type": "step_finish",
        "part": {"reason": "stop", "tokens": {"input": 5, "cache": {"read": 2}}, "cost": 1},
    }
    found = parse("opencode-json", [json.dumps(step).encode() + b"\n"] * 3, 0)
    assert (found.usage, found.cost) == ({"input": 15, "cache_read": 6}, 3.0)


def test_one_object_may_be_spread_over_lines() -> None:
    text = json.dumps({"type": "result", "result": "Done.", "session_id": "s"}, indent=2)
    found = parse("auggie-json", [b"Indexing ...\n", text.encode()], 0)
    assert found == RunOutput("Done.", conversation="s")


def test_plain_text_ends_with_its_summary() -> None:
    text = "".join(f"line {n}\n" for n in range(1000)) + "\n\x1b[31mlast\x1b[0m line\n\n"
    found = parse("text", [text.encode()], 0)
    assert found.summary.endswith("line 999\nlast line")
    assert len(found.summary) <= 500
    assert found._replace(summary="") == RunOutput()


def test_a_failed_run_without_a_result_says_its_last_words() -> None:
    found = parse("claude-stream-json", [b"error: unknown option '--wat'\n"], 1)
    assert found == RunOutput("error: unknown option '--wat'")


def test_an_error_in_the_output_counts_without_an_exit_code() -> None:
    line = b'{"type":"result","is_error":true,"result":"No credit."}\n'
    found = parse("claude-stream-json", [line], 0)
    assert (found.error, found.limited) == ("No credit.", None)


def test_an_error_that_was_overcome_is_forgotten() -> None:
    lines = [
        {"type": "error", "message": "Reconnecting... 429"},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}},
        {"type": "turn.completed"},
    ]
    found = parse(
        "codex-json", [json.dumps(one).encode() + b"\n" for one in lines], 0, pattern="429"
    )
    assert found == RunOutput("Done.")


@pytest.mark.parametrize("run", ["claude", "codex", "droid", "gemini", "opencode", "pi", "qwen"])
def test_a_run_that_broke_off_before_it_said_anything_has_failed(
    run: str, providers: Mapping[str, Provider]
) -> None:
    shape = providers[run].facts.headless.output
    lines = (RECORDED / f"{run}.txt").read_bytes().splitlines(True)
    begun = next(at for at in range(len(lines)) if _understood(shape, lines[at]))
    assert parse(shape, lines[: begun + 1], 0).error == UNFINISHED
    assert parse(shape, [*lines[: begun + 1], b"x" * 2_000_000], 0).error == "", "it may have been"
    assert parse(shape, lines[: begun + 1], 1).error == "", "its exit code says it"
    assert parse(shape, [b"no object at all\n"], 0).error == "", "a program of another kind"


def _understood(shape: str, line: bytes) -> bool:
    return parse(shape, [line], 0) not in (RunOutput(), RunOutput(line.decode().strip()))


CUT_SHORT = "it stopped at a tool call that needed a permission"
ENDINGS = {  # exit code, error, denied tools, missing servers
    "claude-denied": (0, "", ("mcp__probe__echo",), {}),
    "qwen-denied": (0, "", ("mcp__probe__echo",), {}),
    "codex-denied": (0, "", ("echo",), {}),
    "copilot-denied": (0, "", ("Permission denied because no interactive user response was",), {}),
    "grok-denied": (0, "", (), {}),
    "grok-cancelled": (0, CUT_SHORT, (), {}),
    "opencode-cut": (0, f"{CUT_SHORT} (bash)", ("bash",), {}),
    "droid-cut": (1, "Exec ended early: insufficient permission", ("probe___echo",), {}),
    "claude-no-server": (0, "", (), {"probe": "failed"}),
    "qwen-no-server": (0, "", (), {"probe": "disconnected"}),
    "codex-no-server": (1, "required MCP servers failed to initialize: probe", (), {}),
    "cline-error": (1, "400", (), {}),
    "gemini-error": (144, "[API Error", (), {}),
}


@pytest.mark.parametrize("run", ENDINGS)
def test_a_recorded_ending_is_a_success_only_if_its_format_lists_it(
    run: str, providers: Mapping[str, Provider]
) -> None:
    exit_code, error, denied, missing = ENDINGS[run]
    found = read(providers[run.partition("-")[0]], run, exit_code)
    assert found.error.startswith(error) if error != "400" else "harbour is closed" in found.error
    assert bool(found.error) == bool(error)
    assert len(found.denied) == len(denied)
    assert all(tool.startswith(start) for tool, start in zip(found.denied, denied, strict=True))
    assert found.missing == missing


def test_every_format_of_events_lists_its_successful_endings() -> None:
    without = {name for name, shape in FORMATS.items() if shape.rules and not shape.endings}
    assert without == {"vibe-stream-json"}  # nothing in its output says how a run ended


@pytest.mark.parametrize(
    ("shape", "event"),
    [
        ("claude-stream-json", {"type": "result", "subtype": "cancelled", "is_error": False}),
        ("gemini-stream-json", {"type": "result", "status": "cancelled"}),
        ("opencode-json", {"type": "step_finish", "part": {"reason": "length"}}),
        ("grok-stream-json", {"type": "end", "stopReason": "max_tokens"}),
        ("pi-json", {"type": "message_end", "message": {"role": "assistant", "stopReason": "x"}}),
        ("cline-json", {"type": "run_result", "finishReason": "aborted"}),
        ("antigravity-json", {"status": "ERROR", "response": "No."}),
    ],
)
def test_an_unknown_ending_is_a_failure_that_names_it(
    shape: str, event: Mapping[str, object]
) -> None:
    words = json.dumps(event)
    found = parse(shape, [words.encode() + b"\n"], 0)
    ending = found.error.split("`")[1]
    assert found.error == f"it ended with `{ending}`"
    assert f'"{ending}"' in words


def test_a_notice_that_a_permission_was_refused_is_a_failure() -> None:
    notice = (
        b'jetski: no output produced \xe2\x80\x94 a tool required the "command" permission that '
    )
    notice += b"headless mode cannot prompt for, so it was auto-denied.\n"
    answer = b'{\n  "status": "SUCCESS",\n  "response": "jetski: auto-denied is a word"\n}\n'
    assert parse("antigravity-json", [answer], 0).error == ""
    for chunks in ([notice], [notice, answer]):
        assert "permission" in parse("antigravity-json", chunks, 0).error


@pytest.mark.parametrize("ends", [0, 1])
def test_a_result_of_an_error_counts_whatever_it_says_of_itself(ends: int) -> None:
    message_of = {
        "type": "assistant",
        "message": {"content": [{"type": "text", "text": "Half of it."}]},
    }
    over = {"type": "result", "subtype": "error_max_turns", "is_error": False}
    lines = [json.dumps(one).encode() + b"\n" for one in (message_of, over)]
    found = parse("claude-stream-json", lines, ends)
    assert (found.summary, found.error) == ("Half of it.", "error_max_turns")
    printed_line = json.dumps({**over, "errors": ["Reached 3 turns."]}).encode()
    assert parse("claude-stream-json", [printed_line], ends).error == "Reached 3 turns."


def test_the_message_of_an_error_result_is_kept_rather_than_its_kind() -> None:
    over = {"type": "result", "subtype": "error_during_execution", "is_error": True}
    printed_line = json.dumps(
        {**over, "error": {"message": "[API Error: model not found]"}}
    ).encode()
    assert parse("qwen-stream-json", [printed_line], 1).error == "[API Error: model not found]"


def _retry(status: int, error: str) -> bytes:
    event = {"type": "system", "subtype": "api_retry", "error_status": status, "error": error}
    return json.dumps({**event, "retry_delay_ms": 4000}).encode() + b"\n"


def test_a_request_that_is_being_retried_is_known_until_the_model_answers() -> None:
    message_of = {
        "type": "assistant",
        "message": {"content": [{"type": "text", "text": "Here."}]},
    }
    answered = json.dumps(message_of).encode() + b"\n"
    broken = parse("claude-stream-json", [_retry(401, "authentication_failed")], 143)
    assert (broken.retrying, broken.limited) == ("401 authentication_failed", None)
    limited = parse("claude-stream-json", [_retry(429, "rate_limit")], 143)
    assert (limited.retrying, limited.limited) == ("429 rate_limit", 4.0)
    later = parse("claude-stream-json", [_retry(429, "rate_limit"), answered], 143)
    assert (later.retrying, later.limited) == ("", None)


@pytest.mark.parametrize("run", ["kimi-limited", "copilot-limited", "codex-limited"])
def test_other_programs_tell_what_they_retry(run: str, providers: Mapping[str, Provider]) -> None:
    lines = (RECORDED / f"{run}.txt").read_bytes().splitlines(True)
    shape = providers[run.removesuffix("-limited")].facts.headless.output
    retries = [n for n, line in enumerate(lines) if parse(shape, lines[: n + 1], 1).retrying]
    assert "429" in parse(shape, lines[: retries[0] + 1], 1).retrying


def test_a_retry_that_is_printed_as_text_is_known() -> None:
    printed_line = b"Attempt 2 failed with status 500. Retrying with backoff... ApiError: got 500\n"
    assert (
        parse("gemini-stream-json", [printed_line], 1).retrying
        == "Attempt 2 failed with status 500"
    )


@pytest.mark.parametrize("run", RUNS)
def test_people_read_what_was_said_once(run: str, providers: Mapping[str, Provider]) -> None:
    lines = (RECORDED / f"{run}.txt").read_bytes().splitlines(True)
    printed_line = b"".join(readable(providers[run].facts.headless.output, lines)).decode()
    assert printed_line.splitlines()[-1] == ANSWER
    assert printed_line.count(ANSWER) == 1
    assert '{"' not in printed_line


TOOLS = {
    "claude-stream-json": {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "name": "Bash", "input": {}}]},
    },
    "gemini-stream-json": {"type": "tool_use", "tool_name": "Bash", "parameters": {}},
    "opencode-json": {"type": "tool_use", "part": {"type": "tool", "tool": "Bash"}},
    "codex-json": {
        "type": "item.started",
        "item": {"type": "command_execution", "command": "Bash"},
    },
}


@pytest.mark.parametrize("shape", TOOLS)
def test_people_read_with_what_it_was_worked(shape: str) -> None:
    lines = [json.dumps(TOOLS[shape]).encode() + b"\n", b"to its stderr\n", b"\xff\n"]
    assert b"".join(readable(shape, lines)) == b"[Bash]\nto its stderr\n\xff\n"
    assert b"".join(readable("text", lines)) == b"".join(lines)


def test_pieces_are_read_in_one_line_until_something_else_happens() -> None:
    message_of = [
        {"type": "message", "role": "assistant", "content": text} for text in ("Rea", "ding.")
    ]
    more = {"type": "message", "role": "assistant", "content": "Done."}
    lines = [json.dumps(one).encode() for one in (*message_of, TOOLS["gemini-stream-json"], more)]
    assert b"".join(readable("gemini-stream-json", lines)) == b"Reading.\n[Bash]\nDone.\n"


@given(FACTS, st.lists(st.binary(max_size=60)))
def test_whatever_was_printed_can_be_read(shape: str, lines: list[bytes]) -> None:
    assert isinstance(b"".join(readable(shape, lines)), bytes)


def test_the_end_of_a_limit_is_counted_from_now() -> None:
    pattern = r"limit reached\|(?P<until>\d+)|again in (?P<seconds>[\d.]+)s"
    text = b"Usage limit reached|1000090\n"
    assert parse("text", [text], 1, pattern=pattern, now=1_000_000.0).limited == 90.0
    assert parse("text", [text], 1, pattern=pattern, now=2_000_000.0).limited == 0.0
    assert parse("text", [text], 1, pattern=pattern).limited == 0.0
    assert parse("text", [b"try again in 1.5s"], 1, pattern=pattern).limited == 1.5
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 99}}
    line = json.dumps(event).encode() + b"\n"
    assert parse("claude-stream-json", [line], 1, now=9.0).limited == 90.0


def test_a_summary_has_a_bound_and_no_signs_that_move_a_cursor() -> None:
    assert clean("a\x1b[2J\x1b]0;title\x07b\x00\u202ec\r\nd\re\tf") == "abc\nd\ne\tf"
    long = clean("ü" * 5000)
    assert (len(long), long[-1]) == (2000, "…")


@given(shape=FACTS, chunks=st.lists(st.binary(max_size=80)), code=st.sampled_from([None, 0, 1]))
def test_nothing_that_is_printed_can_make_reading_fail(
    shape: str, chunks: list[bytes], code: int | None
) -> None:
    found = parse(shape, chunks, code, pattern="429")
    assert found == parse(shape, [b"".join(chunks)], code, pattern="429")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(shape=FACTS, values=st.data())
def test_no_value_in_an_object_can_make_reading_fail(shape: str, values: st.DataObject) -> None:
    for rule in FORMATS[shape].rules:
        whole: dict[str, object] = {}
        paths = {**rule.when, **{path: values.draw(VALUES) for path in rule.take.values()}}
        for path, value in paths.items():
            inner = whole
            *above, last = path.split(".")
            for key in above:
                step = inner.setdefault(key, {})
                inner = step if isinstance(step, dict) else {}
            inner[last] = value
        found = parse(shape, [json.dumps(whole).encode()], 1, now=1.0)
        assert len(found.summary) <= 32_000
        assert found.limited is None or found.limited >= 0
