"""Parse the output of a run: summary, usage, cost, conversation id, errors and rate limits.

The output is untrusted: nothing in it makes the parser fail or use unbounded memory. Each format is
a table of rules (`run_output_formats`) that say which values to take from which JSON objects.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from gascity.model.values import TableView, as_list, as_text
from gascity.render.run_output_formats import (
    FORMATS,
    TOKENS,
    UNFINISHED,
    OutputFormat,
    OutputRule,
)

_MAX_LINE = 1_000_000  # bytes; longer lines are skipped
MAX_ANSWER = 32_000  # characters of the model's last text
_MAX_SUMMARY, _MAX_TAIL = 2000, 500  # characters of an error, and of plain output
_LAST_LINES = 20
_MAX_NAME, _MAX_NAMES = 100, 20  # of denied tools and missing servers
_CONNECTED = ("connected", "disabled")  # states of MCP servers that are as they should be
_SHOWN = ("summary", "piece", "error", "tool")
_PROGRESS = ("summary", "piece", "tool")  # the model has answered
_RATE_LIMITED = ("429", "529", "rejected", "rate_limit")
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


class RunOutput(NamedTuple):
    """The result of a run, as far as its output has it.

    `usage` are tokens by kind: input, output, cache_read, cache_write, reasoning. `limited` is
    the duration of a rate limit in seconds, 0.0 if it is not known, None if there is no limit.
    `denied` are tools that were refused for lack of a permission, `missing` MCP servers that were
    not connected, by name with their state. `retrying` describes the request that the program was
    sending again when the run ended: the model server's answer, and its message. `context` are the
    tokens of the conversation at the last answer.
    """

    summary: str = ""
    usage: Mapping[str, int] | None = None
    cost: float | None = None
    conversation: str = ""
    error: str = ""
    limited: float | None = None
    denied: tuple[str, ...] = ()
    missing: Mapping[str, str] = {}
    retrying: str = ""
    context: int | None = None


def parse(
    format: str,
    chunks: Iterable[bytes],
    exit_code: int | None,
    *,
    pattern: str = "",
    now: float = 0.0,
) -> RunOutput:
    """Parse a run's output, in chunks of any size, mixed with anything else in the log.

    `pattern` finds a rate limit in the last lines of a failed run if the format does not report
    it: its group `seconds` is the duration, `until` the end, in epoch seconds like `now`.
    """
    parser = _Parser(format)
    for line in read_lines(chunks):
        parser.add_line(line)
    parser.finish()
    if exit_code == 0 and not parser.failed and (reason := parser.bad_ending()):
        parser.put("failed", True)
        parser.put("error", parser.error or reason)
    failed = parser.failed or bool(exit_code)
    tail = _last_lines(parser.plain)
    summary = parser.summary or "".join(parser.pieces)
    error = parser.error or (summary if parser.failed else "")
    return RunOutput(
        clean(summary, MAX_ANSWER) or tail,
        parser.usage,
        parser.cost if parser.partial_cost is None else parser.partial_cost,
        clean(parser.conversation, 200),
        clean(error) if failed else "",
        _rate_limit(parser, f"{clean(error)}\n{tail}", pattern, now) if failed else None,
        tuple(dict.fromkeys(clean(tool, _MAX_NAME) for tool in parser.denied))[:_MAX_NAMES],
        parser.missing,
        clean(parser.retrying, _MAX_TAIL),
        parser.context,
    )


def readable(format: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a run's output for users: the model's texts and the tools it uses.

    Lines that are not JSON objects of the format are passed through unchanged.
    """
    output_format = FORMATS.get(format, OutputFormat())
    rules = () if output_format.whole else output_format.rules
    last, open_line = "", False  # the last text, and whether it may continue
    for line in lines:
        value = parse_object(line) if rules else None
        texts = [("", "")] if value is None else list(_texts(rules, value))
        if open_line and any(key != "piece" for key, _ in texts):
            open_line = False
            yield b"\n"
        if value is None:
            yield line
        for key, text in texts:
            if key == "piece":
                open_line, last = True, last + text
                yield text.encode("utf-8", "replace")
            elif key == "tool":
                yield f"[{text}]\n".encode("utf-8", "replace")
            elif text and text != last:  # a result repeats the last text
                last = text
                yield f"{text}\n".encode("utf-8", "replace")
    if open_line:
        yield b"\n"


def _texts(rules: Iterable[OutputRule], message: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for rule in rules:
        for key, path in rule.take.items() if matches(rule.when, message) else ():
            text = as_text(value_at(message, path)) if key in _SHOWN else ""
            if key == "fresh" or text:
                yield key, text


def clean(text: str, most: int = _MAX_SUMMARY) -> str:
    """Remove terminal control and bidi characters, and shorten to `most` characters."""
    text = _CONTROL.sub("", text[: most * 4].replace("\r\n", "\n").replace("\r", "\n")).strip()
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


class _Parser:
    """The values taken from the output so far; see `OutputRule` for their meaning."""

    def __init__(self, format: str) -> None:
        self.format = FORMATS.get(format, OutputFormat())
        self.rules = self.format.rules
        self.whole: bytearray | None = bytearray() if self.format.whole else None
        self.plain: deque[str] = deque(maxlen=_LAST_LINES)
        self.pieces: list[str] = []
        self.ended = False
        self.summary = self.conversation = self.error = self.status = self.ending = ""
        self.retry = self.retry_error = ""
        self.failed = False
        self.started = self.skipped = False
        self.usage: dict[str, int] | None = None
        self.cost: float | None = None
        self.partial_cost: float | None = None
        self.context: int | None = None
        self.wait = 0.0
        self.until = 0.0
        self.denied: list[str] = []
        self.missing: dict[str, str] = {}

    @property
    def retrying(self) -> str:
        return f"{self.retry} {self.retry_error}".strip()

    def bad_ending(self) -> str:
        """Return why a run that exited with 0 did not succeed; empty if it did.

        Output without a single object of the format comes from another program, and a line that
        was skipped may have been the result: then only the exit code counts.
        """
        if not self.format.endings or not self.started or self.ending in self.format.endings:
            return ""
        if not self.ending:
            return "" if self.skipped else UNFINISHED
        reason = self.format.explained.get(self.ending) or f"it ended with `{self.ending}`"
        return f"{reason} ({', '.join(dict.fromkeys(self.denied))})" if self.denied else reason

    def add_line(self, line: bytes | None) -> None:
        """Parse a line; None is one that was skipped and may have been the result."""
        if line is None:
            self.skipped = True
            return
        message = parse_object(line) if self.rules else None
        if message is not None:
            self.add_message(message)
            return
        if line.strip():
            text = line[: _MAX_TAIL * 4].decode("utf-8", "replace")
            self.plain.append(text)
            found = re.search(self.format.error, text) if self.format.error else None
            self.error = found[0] if found else self.error
            found = re.search(self.format.retry, text) if self.format.retry else None
            self.retry_error = found[0] if found else self.retry_error
            refused = re.search(self.format.refused, text) if self.format.refused else None
            if refused:
                self.failed, self.error = True, refused[0].partition(": ")[2]
        if self.whole is not None and len(self.whole) + len(line) < _MAX_LINE:
            self.whole += line + b"\n"

    def finish(self) -> None:
        message = parse_object(bytes(self.whole)) if self.whole else None
        if message is not None:
            self.plain.clear()
            self.add_message(message)

    def add_message(self, message: Mapping[str, object]) -> None:
        for rule in self.rules:
            if matches(rule.when, message):
                for key, path in rule.take.items():
                    value = value_at(message, path)
                    if value is not None:
                        self.started = True
                        self.put(key, value)

    def put(self, key: str, value: object) -> None:
        if key in _PROGRESS:
            self.retry = self.retry_error = ""
        match key:
            case "summary" | "conversation" | "error" | "status" | "ending" | "retry":
                if isinstance(value, (str, int)) and value != "":
                    setattr(self, key, str(value))
            case "retry_error":
                self.retry_error = as_text(value)
            case "piece" | "fresh":
                self.add_piece(key, value)
            case "failed" | "fine":
                self.failed = key == "failed" and bool(value)
            case "denied":
                self.denied += str(value).splitlines()[:_MAX_NAMES]
            case "servers":
                self.missing = _missing_servers(value)
            case _:
                self.add_number(key, value)

    def add_piece(self, key: str, value: object) -> None:
        if self.ended or sum(map(len, self.pieces)) > MAX_ANSWER * 4:
            self.pieces = self.pieces[:1] if not self.ended else []
        self.ended = key == "fresh"
        if isinstance(value, str) and not self.ended:
            self.pieces.append(value)

    def add_number(self, key: str, value: object) -> None:
        number = _number(value)
        match key:
            case "usage":
                self.usage = _tokens(value) or self.usage
            case "context":
                kinds = _tokens(value)
                kinds.pop("reasoning", None)  # part of the output
                self.context = sum(kinds.values()) or self.context
            case "more_usage":
                self.usage = _sum(self.usage, _tokens(value))
            case "cost":
                self.cost = number
            case "more_cost":
                self.partial_cost = (self.partial_cost or 0.0) + number
            case "wait" | "wait_ms":
                self.wait = number / 1000 if key == "wait_ms" else number
            case "until":
                self.until = number


def _missing_servers(value: object) -> dict[str, str]:
    """Return the servers of a list that are not connected, by name with their state."""
    servers = [TableView(item) for item in as_list(value)]
    states = {server.text("name"): server.text("status") for server in servers}
    missing = {name: state for name, state in states.items() if name and state not in _CONNECTED}
    return {clean(name, _MAX_NAME): clean(missing[name], _MAX_NAME) for name in missing}


def _rate_limit(parser: _Parser, text: str, pattern: str, now: float) -> float | None:
    """Return how long a failed run has to wait; None if it failed for another reason."""
    if (parser.status or parser.retry) in _RATE_LIMITED:
        return max(parser.wait, parser.until - now if now else 0.0, 0.0)
    match = re.search(pattern, text) if pattern else None
    if match is None:
        return None
    groups = match.groupdict()
    seconds = _number(groups.get("seconds"))
    until = _number(groups.get("until"))
    return max(seconds, until - now if now and until else 0.0, parser.wait, 0.0)


def _number(value: object) -> float:
    """Return a number, also one that is written as text; 0 for any other value."""
    match value:
        case str() | int() | float():
            with suppress(ValueError, OverflowError):
                number = float(value)
                return number if abs(number) < 1e15 else 0.0  # rejects infinity and NaN too
    return 0.0


def read_lines(chunks: Iterable[bytes]) -> Iterator[bytes | None]:
    """Yield lines up to the size limit, and None for longer ones.

    A part that was cut out of a log reads as zero bytes, and ends a line.
    """
    rest = b""
    skipping = False
    for chunk in chunks:
        if b"\0" in chunk:
            chunk = re.sub(rb"\0+", b"\n", chunk)
        *lines, last = chunk.split(b"\n")
        for line in lines:
            fits = not skipping and len(rest) + len(line) <= _MAX_LINE
            yield rest + line if fits else None
            rest, skipping = b"", False
        rest = b"" if skipping else rest + last
        if len(rest) > _MAX_LINE:
            rest, skipping = b"", True
    if skipping:
        yield None
    elif rest:
        yield rest


def parse_object(line: bytes) -> Mapping[str, object] | None:
    """Return the JSON object in a line, also after text that another stream wrote before it."""
    start = line.find(b"{")
    if start < 0 or not line.rstrip().endswith(b"}"):
        return None
    try:
        value = json.loads(line[start:])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def matches(when: Mapping[str, str], message: object) -> bool:
    """Return whether a message has all values; an expected text that ends with `*` is a prefix."""
    for path, expected in when.items():
        value, prefix = value_at(message, path), expected.removesuffix("*")
        is_prefix = isinstance(value, str) and prefix != expected and value.startswith(prefix)
        if value != expected and not is_prefix:
            return False
    return True


def value_at(value: object, path: str) -> object:
    """Return the value at a path; of several values, join texts with newlines and add numbers."""
    if not path:
        return value
    key, _, rest = path.partition(".")
    if key == "*":
        match value:
            case Mapping():
                return _combine([value_at(item, rest) for item in value.values()])
            case list():
                return _combine([value_at(item, rest) for item in value])
    return value_at(value[key], rest) if isinstance(value, Mapping) and key in value else None


def _combine(values: list[object]) -> object:
    numbers = [value for value in values if isinstance(value, (int, float))]
    if numbers:
        return sum(numbers)
    return "\n".join(value for value in values if isinstance(value, str)) or None


def _tokens(value: object) -> dict[str, int]:
    tokens = {}
    for kind, names in TOKENS.items():
        for name in names:
            match value_at(value, name):
                case bool():
                    continue
                case int() | float() as number:
                    tokens[kind] = int(_number(number))
                    break
    return tokens


def _sum(known: Mapping[str, int] | None, more: Mapping[str, int]) -> dict[str, int]:
    old = known or {}
    return {kind: old.get(kind, 0) + more.get(kind, 0) for kind in {**old, **more}}


def _last_lines(lines: Iterable[str]) -> str:
    """Return the last lines that are not blank, up to the limit."""
    kept: list[str] = []
    room = _MAX_TAIL
    for line in reversed(list(lines)):
        text = clean(line, _MAX_TAIL)
        if not text:
            continue
        if len(text) > room:
            break
        kept.insert(0, text)
        room -= len(text) + 1
    return "\n".join(kept)
