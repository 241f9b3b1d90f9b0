"""What a run printed, made into what came of it. Nothing that it prints can make this fail."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from gascity.model.records import NamedTuple
from gascity.render.output_formats import FORMATS, TOKENS, UNFINISHED, WHOLE, Rule

_LINE = 1_000_000  # bytes; longer lines are left out
_SUMMARY, _TAIL = 2000, 500  # characters
_LAST_LINES = 20
_WORDS = ("summary", "piece", "error", "tool")
_TOO_MANY = ("429", "529", "rejected", "rate_limit")
_SIGNS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


class Outcome(NamedTuple):
    """What came of a run, as far as it says so.

    `usage` are tokens by kind: input, output, cache_read, cache_write, reasoning. `limited` is
    how many seconds a rate limit holds, 0.0 where that is not told, None if there is none.
    """

    summary: str = ""
    usage: Mapping[str, int] | None = None
    cost: float | None = None
    conversation: str = ""
    error: str = ""
    limited: float | None = None


def parse(
    format: str,
    chunks: Iterable[bytes],
    exit_code: int | None,
    *,
    pattern: str = "",
    now: float = 0.0,
) -> Outcome:
    """Read a run's output, in lines or in blocks of any size, with whatever else is in the log.

    `pattern` finds a rate limit in the last lines of a failed run where the output has no word
    for it: its group `seconds` is how long it holds, `until` its end, as `now` in epoch seconds.
    """
    seen = _Seen(format)
    for line in _lines(chunks):
        seen.take(line)
    seen.finish()
    if exit_code == 0 and seen.broke_off:
        seen.put("failed", True)
        seen.put("error", UNFINISHED)
    failed = seen.failed or bool(exit_code)
    tail = _ending(seen.plain)
    summary = seen.summary or "".join(seen.pieces)
    error = seen.error or (summary if seen.failed else "")
    return Outcome(
        clean(summary) or tail,
        seen.usage,
        seen.cost if seen.parts is None else seen.parts,
        clean(seen.conversation, 200),
        clean(error) if failed else "",
        _limited(seen, f"{clean(error)}\n{tail}", pattern, now) if failed else None,
    )


def readable(format: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of a run's output for people: what was said, and with what it was worked.

    Lines that are no objects of the format stay as they are, and so does a format that has none.
    """
    rules = FORMATS.get(format, ()) if format not in WHOLE else ()
    last, within = "", False  # the last words; and whether they go on
    for line in lines:
        found = _object(line) if rules else None
        told = [("", "")] if found is None else list(_told(rules, found))
        if within and any(what != "piece" for what, _ in told):
            within = False
            yield b"\n"
        if found is None:
            yield line
        for what, text in told:
            if what == "piece":
                within, last = True, last + text
                yield text.encode("utf-8", "replace")
            elif what == "tool":
                yield f"[{text}]\n".encode("utf-8", "replace")
            elif text and text != last:  # a result says the last words once more
                last = text
                yield f"{text}\n".encode("utf-8", "replace")
    if within:
        yield b"\n"


def _told(rules: Iterable[Rule], found: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for rule in rules:
        for what, path in rule.take.items() if _fits(rule, found) else ():
            value = _at(found, path) if what in _WORDS else None
            if what == "fresh" or (isinstance(value, str) and value):
                yield what, str(value or "")


def clean(text: str, most: int = _SUMMARY) -> str:
    """A text without what moves cursors or turns writing round, and not longer than `most`."""
    text = _SIGNS.sub("", text[: most * 4].replace("\r\n", "\n").replace("\r", "\n")).strip()
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


class _Seen:
    """What was taken so far."""

    def __init__(self, format: str) -> None:
        self.rules = FORMATS.get(format, ())
        self.whole: bytearray | None = bytearray() if format in WHOLE else None
        self.plain: deque[str] = deque(maxlen=_LAST_LINES)
        self.pieces: list[str] = []
        self.ended = False
        self.summary = self.conversation = self.error = self.status = ""
        self.failed = False
        self.ends = any("over" in rule.take for rule in self.rules)  # in a way that can be told
        self.begun = self.over = False
        self.usage: dict[str, int] | None = None
        self.cost: float | None = None
        self.parts: float | None = None  # of the cost
        self.wait = 0.0
        self.until = 0.0

    @property
    def broke_off(self) -> bool:
        """Did it begin as it should, and neither say anything nor come to its end?"""
        said = self.over or self.failed or self.summary or self.pieces
        return self.ends and self.begun and not said

    def take(self, line: bytes | None) -> None:
        """A line; None: one that was left out, and may have been any."""
        if line is None:
            self.over = True
            return
        found = _object(line) if self.rules else None
        if found is not None:
            self.heed(found)
            return
        if line.strip():
            self.plain.append(line[: _TAIL * 4].decode("utf-8", "replace"))
        if self.whole is not None and len(self.whole) + len(line) < _LINE:
            self.whole += line + b"\n"

    def finish(self) -> None:
        found = _object(bytes(self.whole)) if self.whole else None
        if found is not None:
            self.plain.clear()
            self.heed(found)

    def heed(self, found: Mapping[str, object]) -> None:
        for rule in self.rules:
            if _fits(rule, found):
                for what, path in rule.take.items():
                    value = _at(found, path)
                    if value is not None:
                        self.begun = True
                        self.put(what, value)

    def put(self, what: str, value: object) -> None:
        match what:
            case "summary" | "conversation" | "error" | "status":
                if isinstance(value, (str, int)) and value != "":
                    setattr(self, what, str(value))
            case "piece" | "fresh":
                self.say(what, value)
            case "failed" | "fine":
                self.failed = what == "failed" and bool(value)
            case "over":
                self.over = True
            case _:
                self.count(what, value)

    def say(self, what: str, value: object) -> None:
        if self.ended or sum(map(len, self.pieces)) > _SUMMARY * 4:
            self.pieces = self.pieces[:1] if not self.ended else []
        self.ended = what == "fresh"
        if isinstance(value, str) and not self.ended:
            self.pieces.append(value)

    def count(self, what: str, value: object) -> None:
        number = _number(value)
        match what:
            case "usage":
                self.usage = _tokens(value) or self.usage
            case "more_usage":
                self.usage = _sum(self.usage, _tokens(value))
            case "cost":
                self.cost = number
            case "more_cost":
                self.parts = (self.parts or 0.0) + number
            case "wait" | "wait_ms":
                self.wait = number / 1000 if what == "wait_ms" else number
            case "until":
                self.until = number


def _limited(seen: _Seen, words: str, pattern: str, now: float) -> float | None:
    """How long a failed run has to wait, if a limit is why it failed."""
    if seen.status in _TOO_MANY:
        return max(seen.wait, seen.until - now if now else 0.0, 0.0)
    found = re.search(pattern, words) if pattern else None
    if found is None:
        return None
    told = found.groupdict()
    seconds = _number(told.get("seconds"))
    until = _number(told.get("until"))
    return max(seconds, until - now if now and until else 0.0, seen.wait, 0.0)


def _number(value: object) -> float:
    try:
        found = float(value) if isinstance(value, (str, int, float)) else 0.0
    except (ValueError, OverflowError):
        return 0.0
    return found if abs(found) < 1e15 else 0.0  # neither endless nor no number at all


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes | None]:
    """Lines of at most a fixed size, None for longer ones.

    What was cut out of a log reads as zeros, and ends a line.
    """
    rest = b""
    skipping = False
    for chunk in chunks:
        if b"\0" in chunk:
            chunk = re.sub(rb"\0+", b"\n", chunk)
        *lines, last = chunk.split(b"\n")
        for line in lines:
            fits = not skipping and len(rest) + len(line) <= _LINE
            yield rest + line if fits else None
            rest, skipping = b"", False
        rest = b"" if skipping else rest + last
        if len(rest) > _LINE:
            rest, skipping = b"", True
    if skipping:
        yield None
    elif rest:
        yield rest


def _object(line: bytes) -> Mapping[str, object] | None:
    """The object of a line, also behind words that another stream left at its head."""
    start = line.find(b"{")
    if start < 0 or not line.rstrip().endswith(b"}"):
        return None
    try:
        found = json.loads(line[start:])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _fits(rule: Rule, found: Mapping[str, object]) -> bool:
    return all(_is(_at(found, path), wanted) for path, wanted in rule.when.items())


def _is(value: object, wanted: str) -> bool:
    if wanted.endswith("*"):
        return isinstance(value, str) and value.startswith(wanted[:-1])
    return value == wanted


def _at(value: object, path: str) -> object:
    """What is at the end of a path; of several, texts are put below each other, numbers added."""
    if not path:
        return value
    key, _, rest = path.partition(".")
    if key == "*":
        inner = value.values() if isinstance(value, Mapping) else value
        return _together([_at(one, rest) for one in inner] if isinstance(inner, Iterable) else [])
    if not isinstance(value, Mapping) or key not in value:
        return None
    return _at(value[key], rest)


def _together(values: list[object]) -> object:
    numbers = [one for one in values if isinstance(one, (int, float))]
    if numbers:
        return sum(numbers)
    return "\n".join(one for one in values if isinstance(one, str)) or None


def _tokens(value: object) -> dict[str, int]:
    found = {}
    for kind, names in TOKENS.items():
        for name in names:
            number = _at(value, name)
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                found[kind] = int(_number(number))
                break
    return found


def _sum(held: Mapping[str, int] | None, more: Mapping[str, int]) -> dict[str, int]:
    old = held or {}
    return {kind: old.get(kind, 0) + more.get(kind, 0) for kind in {**old, **more}}


def _ending(lines: Iterable[str]) -> str:
    """The last lines that say something, as far as they are short enough."""
    kept: list[str] = []
    room = _TAIL
    for line in reversed(list(lines)):
        text = clean(line, _TAIL)
        if not text:
            continue
        if len(text) > room:
            break
        kept.insert(0, text)
        room -= len(text) + 1
    return "\n".join(kept)
