"""Reads YAML front matter: the block between two `---` lines at the top of a Markdown file.

Most front matter is a few plain `key: value` lines. `_read_plain` reads exactly those, because
importing PyYAML costs more than all other work of a command. PyYAML parses everything else, but
only into events: no Python object is ever constructed from a tag, dates stay text, and `yes` stays
`yes`. Invalid YAML is common in published skills and some providers read it line by line; so does
`_read_by_line`, which also reports the error.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import yaml

_NULLS = ("", "~", "null", "Null", "NULL")
_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")
_MAX_DEPTH = 50
_KEY = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_COLONS = (":", ": ")
_NOT_PLAIN = (*"@`%,]}#&*!|>[{", "- ", "? ", ": ")  # no plain text starts with one of these
# By a part of PyYAML's message; libyaml and the pure Python parser word theirs differently.
_EXPLANATIONS = {
    "mapping values are not allowed": "unquoted text contains `: `; put the text in quotes",
    "quoted scalar, found unexpected end": "a quote is not closed",
    "while parsing a flow": "a bracket is not closed, or a comma is missing",
    "unknown escape": "unknown escape in double quotes; write a backslash as `\\\\`",
    "could not find expected ':'": "expected `key: value`",
    "while parsing a block": "unexpected text or indentation after a value",
}


class Opaque(NamedTuple):
    """A value that is valid YAML but not read: tagged, anchored, or an alias."""

    written: str


class FrontMatter(NamedTuple):
    """Values and line numbers by key. With an `error` it is invalid YAML, read line by line."""

    values: Mapping[str, object]
    lines: Mapping[str, int]
    error: str = ""
    error_line: int = 0


class _YamlError(Exception):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def read_front_matter(text: str) -> FrontMatter | None:
    """Return the front matter of a text, or None if it does not start with a closed block."""
    text = text.removeprefix("\ufeff")
    first = text.partition("\n")[0]
    end = _block_end(text, len(first)) if first.rstrip() == "---" else -1
    if end < 0:
        return None
    lines = [line.rstrip("\r") for line in text[len(first) + 1 : end].split("\n")]
    try:
        return _read_plain(lines) or _read_yaml(lines)
    except _YamlError as error:
        values, places = _read_by_line(lines)
        return FrontMatter(values, places, str(error), min(error.line, len(lines) + 1))


def _block_end(text: str, start: int) -> int:
    """Return the offset of the line break before the closing `---`, or -1."""
    while (start := text.find("\n---", start)) >= 0:
        if not text[start + 4 :].partition("\n")[0].strip():
            return start
        start += 1
    return -1


def _read_plain(lines: Sequence[str]) -> FrontMatter | None:
    """Read lines `key: value` with plain or simply quoted values; None if there is more to it."""
    values: dict[str, object] = {}
    places: dict[str, int] = {}
    for number, line in enumerate(lines, 2):
        if not line or line[0] == "#":
            continue
        key, _, rest = line.partition(":")
        is_pair = _KEY.issuperset(key) and key not in ("", "-") and line[len(key) :][:2] in _COLONS
        text = rest.strip(" ")
        if not is_pair or key in values or not line.isprintable() or not _is_simple(text):
            return None
        values[key] = text[1:-1] if text[:1] in ("'", '"') else _scalar(text)
        places[key] = number
    return FrontMatter(values, places)


def _is_simple(text: str) -> bool:
    """Is a value plain text, or quoted text without escapes?"""
    quote, inside = text[:1], text[1:-1]
    if quote in ("'", '"'):
        return len(text) > 1 and text[-1] == quote and quote not in inside and "\\" not in inside
    if text.startswith(_NOT_PLAIN) or text in ("-", "?"):
        return False
    return ": " not in text and " #" not in text and not text.endswith(":")


def _read_yaml(lines: Sequence[str]) -> FrontMatter:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(yaml.parse("\n".join(lines) + "\n", Loader=loader), lines)
    try:
        return builder.document()
    except yaml.reader.ReaderError:
        bad = (number for number, line in enumerate(lines, 2) if not line.isprintable())
        raise _YamlError("it contains a control character", next(bad, 2)) from None
    except yaml.MarkedYAMLError as error:
        raise _explained(error, lines) from None


def _explained(error: "yaml.MarkedYAMLError", lines: Sequence[str]) -> _YamlError:
    message = f"{error.context}, {error.problem}"
    mark = error.problem_mark
    if error.context_mark and any(kind in message for kind in ("quoted", "flow", "simple key")):
        mark = error.context_mark  # where it starts, not where the parser gave up
    row = min(mark.line, len(lines) - 1) if mark else 0
    if "cannot start any token" in message:
        char = lines[row][mark.column : mark.column + 1] if mark else ""
        text = f"unquoted text starts with `{char}`; put the text in quotes"
        text = "a tab is used for indentation; use spaces" if char == "\t" else text
    else:
        explanations = (text for part, text in _EXPLANATIONS.items() if part in message)
        text = next(explanations, str(error.problem))
    return _YamlError(text, row + 2)


class _Builder:
    """Builds values from the parser's events. It never follows an alias, so it cannot explode."""

    def __init__(self, events: "Iterator[yaml.Event]", lines: Sequence[str]) -> None:
        import yaml

        self.yaml = yaml
        self.events = events
        self.lines = lines

    def document(self) -> FrontMatter:
        next(self.events)
        if isinstance(next(self.events), self.yaml.StreamEndEvent):
            return FrontMatter({}, {})
        event = next(self.events)
        if not isinstance(event, self.yaml.MappingStartEvent) or event.anchor or event.tag:
            raise _YamlError("expected `key: value`", _line(event))
        places: dict[str, int] = {}
        values = self._mapping(0, places)
        for _ in self.events:  # errors behind the mapping
            pass
        return FrontMatter(values, places)

    def _value(self, event: "yaml.Event", depth: int) -> object:
        if depth > _MAX_DEPTH:
            raise _YamlError("values are nested too deep", _line(event))
        is_marked = getattr(event, "anchor", None) or getattr(event, "tag", None)
        value: object = None
        match event:
            case self.yaml.MappingStartEvent():
                value = self._mapping(depth, {})
            case self.yaml.SequenceStartEvent():
                value = self._sequence(depth)
            case self.yaml.ScalarEvent():
                value = event.value if event.style else _scalar(event.value)
        if not is_marked:
            return value
        mark = event.start_mark
        row = self.lines[mark.line] if mark and mark.line < len(self.lines) else ""
        return Opaque(row[mark.column :].strip() if mark else "")

    def _sequence(self, depth: int) -> list[object]:
        values: list[object] = []
        while not isinstance(event := next(self.events), self.yaml.SequenceEndEvent):
            values.append(self._value(event, depth + 1))
        return values

    def _mapping(self, depth: int, places: dict[str, int]) -> dict[str, object]:
        values: dict[str, object] = {}
        while not isinstance(event := next(self.events), self.yaml.MappingEndEvent):
            line = _line(event)
            if not isinstance(event, self.yaml.ScalarEvent):
                raise _YamlError("a key must be text", line)
            if event.value in values:
                raise _YamlError(f"`{event.value}` is set twice", line)
            places[event.value] = line
            values[event.value] = self._value(next(self.events), depth + 1)
        return values


def _line(event: "yaml.Event") -> int:
    """Return the line in the file; the block starts on line 2."""
    return event.start_mark.line + 2 if event.start_mark else 2


def _scalar(text: str) -> object:
    """Return the value of plain text: nothing, a boolean, a number, or the text itself."""
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text[0] in "0123456789.+-" and set(text) <= set("0123456789.eE+-"):
        try:
            return float(text) if set(text) & set(".eE") else int(text)
        except ValueError:
            return text
    return text


def _read_by_line(lines: Sequence[str]) -> tuple[dict[str, object], dict[str, int]]:
    """Read unindented keys with the indented lines below them as text, so that nothing is lost."""
    values: dict[str, list[str]] = {}
    places: dict[str, int] = {}
    key = ""
    for number, line in enumerate(lines, 2):
        if line[:1] in (" ", "\t") and key:
            values[key].append(line.strip())
        elif ":" in line and not line.startswith("#"):
            key, _, value = line.partition(":")
            key, value = key.strip(), value.strip()
            values[key] = ["" if value in (">", "|", ">-", "|-") else value]
            places[key] = number
    return {name: _unquoted(" ".join(parts).strip()) for name, parts in values.items()}, places


def _unquoted(value: str) -> str:
    if len(value) < 2 or value[0] != value[-1] or value[0] not in "\"'":
        return value
    inside = value[1:-1]
    return inside.replace('\\"', '"') if value[0] == '"' else inside.replace("''", "'")
