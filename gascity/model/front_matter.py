"""The block between two `---` lines at the head of a Markdown file: the YAML people write there.

Mappings, lists, plain, quoted and block texts, and flow collections are read as YAML has it. An
anchor, an alias or a tag is no fault, but its value is not followed.
"""

from collections.abc import Mapping, Sequence

from gascity.model.flow_yaml import YamlFault, closing, read_flow, unquoted
from gascity.model.records import NamedTuple

_NULLS = ("~", "null", "Null", "NULL")
_BOOLEANS = ("true", "True", "TRUE", "false", "False", "FALSE")
_DEEPEST = 200
_NOT_FIRST = "@`%,]}#&*!|>\"'[{"  # none of these begins a plain text


class Opaque(NamedTuple):
    """A value that is valid YAML and is not followed."""

    written: str


class FrontMatter(NamedTuple):
    """Values and lines by key. With a `fault` it is not valid YAML, and was read line by line."""

    values: Mapping[str, object]
    lines: Mapping[str, int]
    fault: str = ""
    fault_line: int = 0


def read_front_matter(text: str) -> FrontMatter | None:
    """None where a text does not begin with a closed block."""
    text = text.removeprefix("\ufeff")
    first = text.partition("\n")[0]
    end = _end(text, len(first)) if first.rstrip() == "---" else -1
    if end < 0:
        return None
    lines = [line.rstrip("\r") for line in text[len(first) + 1 : end].split("\n")]
    reader = _Reader(lines)
    try:
        return reader.document()
    except YamlFault as fault:
        values, places = _by_line(lines)
        return FrontMatter(values, places, str(fault), min(reader.at + 2, len(lines) + 1))


def _end(text: str, at: int) -> int:
    """Where the line break before the closing `---` is; -1 if none closes it."""
    while (at := text.find("\n---", at)) >= 0:
        if not text[at + 4 :].partition("\n")[0].strip():
            return at
        at += 1
    return -1


def _by_line(lines: Sequence[str]) -> tuple[dict[str, object], dict[str, int]]:
    """Keys at the margin, with the indented lines below them: nothing that is written is lost."""
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
    return {name: _bare(" ".join(parts).strip()) for name, parts in values.items()}, places


def _bare(value: str) -> str:
    if len(value) < 2 or value[0] != value[-1] or value[0] not in "\"'":
        return value
    inside = value[1:-1]
    return inside.replace('\\"', '"') if value[0] == '"' else inside.replace("''", "'")


def _scalar(text: str) -> object:
    """What a plain text means: nothing, a truth, a number, or itself."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return text in _BOOLEANS[:3]
    if text[0] in "0123456789.+-" and set(text) <= set("0123456789.eE+-"):
        try:
            return float(text) if set(text) & set(".eE") else int(text)
        except ValueError:
            return text
    return text


def _entry(text: str) -> tuple[str, str] | None:
    """Key and rest of `key: value`, or None."""
    if text[0] in "\"'":
        end = closing(text, 0)
        if end < 0 or text[end : end + 1] != ":" or text[end + 1 : end + 2] not in ("", " "):
            return None
        return text[1 : end - 1], text[end + 1 :]
    at = text.find(": ")
    if at < 0:
        at = len(text) - 1 if text.endswith(":") else -1
    if at <= 0 or text[0] in _NOT_FIRST or text.startswith(("- ", "? ")):
        return None
    return text[:at].rstrip(), text[at + 1 :]


class _Reader:
    """Reads a block of lines; `at` is the line it is at, also when it fails."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        self.at = 0

    def document(self) -> FrontMatter:
        ahead = self._ahead()
        if ahead is None:
            return FrontMatter({}, {})
        places: dict[str, int] = {}
        values = self._mapping(ahead[0], places)
        if self._ahead() is not None:
            raise YamlFault("it is indented less than what it follows")
        return FrontMatter(values, places)

    def _ahead(self) -> tuple[int, str] | None:
        """Indent and text of the next line that says something."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            text = line.strip()
            if text and not text.startswith("#"):
                indent = len(line) - len(line.lstrip(" "))
                if line[indent] == "\t" or indent > _DEEPEST:
                    raise YamlFault("a tab indents it" if indent <= _DEEPEST else "it is too deep")
                return indent, text
            self.at += 1
        return None

    def _mapping(self, indent: int, places: dict[str, int]) -> dict[str, object]:
        found: dict[str, object] = {}
        while (ahead := self._ahead()) is not None and ahead[0] >= indent:
            entry = _entry(ahead[1])
            if entry is None or ahead[0] > indent:
                raise YamlFault("it is no `key: value`, nor the rest of one")
            key, rest = entry
            if key in found:
                raise YamlFault(f"`{key}` stands here twice")
            places[key] = self.at + 2
            found[key] = self._value(rest.strip(), indent)
        return found

    def _sequence(self, indent: int) -> list[object]:
        found: list[object] = []
        while (ahead := self._ahead()) is not None and ahead[0] == indent and _item(ahead[1]):
            rest = ahead[1][1:].strip()
            if rest and (_entry(rest) or _item(rest)):
                inner = indent + len(ahead[1]) - len(rest)
                self.lines[self.at] = " " * inner + rest
                found.append(self._sequence(inner) if _item(rest) else self._mapping(inner, {}))
            else:
                found.append(self._value(rest, indent))
        return found

    def _value(self, rest: str, indent: int) -> object:
        """The value that begins with `rest` on this line and goes on below it."""
        if not rest or rest[0] == "#":
            self.at += 1
            return self._below(indent)
        if rest[0] in "|>":
            return self._block(rest, indent)
        if rest[0] in "&*!\"'[{":
            start = self.at
            try:
                value = self._marked(rest, indent)
            except YamlFault:
                self.at = start
                raise
            self.at += 1
            return value
        return _scalar(self._plain(rest, indent))

    def _marked(self, rest: str, indent: int) -> object:
        """A value whose first sign says what it is."""
        if rest[0] in "\"'":
            return self._quoted(rest, indent)
        if rest[0] in "[{":
            return self._flow(rest, indent)
        self._rest(indent)
        return Opaque(rest)

    def _below(self, indent: int) -> object:
        ahead = self._ahead()
        if ahead is None or ahead[0] < indent:
            return None
        if _item(ahead[1]):
            return self._sequence(ahead[0])
        if ahead[0] == indent:
            return None
        if ahead[1][0] not in "[{" and _entry(ahead[1]):
            return self._mapping(ahead[0], {})
        return self._value(ahead[1], indent)

    def _goes_on(self, indent: int) -> bool:
        """Step to the next line, if that one belongs to the value too."""
        if self.at + 1 >= len(self.lines):
            return False
        line = self.lines[self.at + 1]
        if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
            return False
        self.at += 1
        return True

    def _plain(self, first: str, indent: int) -> str:
        if first[0] in _NOT_FIRST or first.startswith(("- ", "? ", ": ")):
            raise YamlFault(f"a text that begins with `{first[0]}` has to stand in quotes")
        lines = [_uncommented(first)]
        whole = lines[0] == first  # a comment ends a plain text
        while whole and self._goes_on(indent):
            line = self.lines[self.at].strip()
            lines.append(_uncommented(line) if line[:1] != "#" else "")
            whole = lines[-1] == line
        self.at += 1
        return _folded(lines)

    def _quoted(self, text: str, indent: int) -> str:
        whole = _folded([text, *self._rest(indent)])
        end = closing(whole, 0)
        if end < 0:
            raise YamlFault("a quote is not closed")
        _nothing_after(whole[end:])
        return unquoted(whole[:end])

    def _flow(self, text: str, indent: int) -> object:
        lines = (text, *self._rest(indent))
        # A comment ends with its line; in a line with quotes it may be part of a text.
        whole = " ".join(x if set(x) & set("\"'") else x.partition(" #")[0] for x in lines)
        value, end = read_flow(whole, 0, _scalar)
        _nothing_after(whole[end:])
        return value

    def _rest(self, indent: int) -> list[str]:
        """All further lines of the value that begins here."""
        found = []
        while self._goes_on(indent):
            found.append(self.lines[self.at].strip())
        return found

    def _block(self, header: str, indent: int) -> str:
        """A text of its own lines: `|` keeps them, `>` joins them."""
        marks = header.partition(" #")[0].strip()[1:]
        digits = "".join(char for char in marks if char.isdigit())
        if marks.strip("+-0123456789") or len(digits) > 1 or len(marks) > 2 or "0" in digits:
            raise YamlFault(f"`{header}` begins no block of text")
        self.at += 1
        lines = self._block_lines(indent, int(digits or 0))
        kept = len(lines)
        while kept and not lines[kept - 1]:
            kept -= 1
        body = "\n".join(lines[:kept]) if header[0] == "|" else _folded(lines[:kept])
        if "+" in marks:
            return body + "\n" * (len(lines) - kept + bool(kept))
        return body if "-" in marks or not kept else body + "\n"

    def _block_lines(self, indent: int, given: int) -> list[str]:
        found: list[str] = []
        inner = indent + given if given else 0
        while self.at < len(self.lines):
            line = self.lines[self.at]
            deep = len(line) - len(line.lstrip(" "))
            if line.strip():
                if deep <= indent:
                    break
                inner = inner or deep
                if deep < inner:
                    raise YamlFault("it is indented less than the text it belongs to")
            found.append(line[inner:] if line.strip() else "")
            self.at += 1
        return found


def _item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _nothing_after(rest: str) -> None:
    if rest.strip() and (rest[0] not in " \n" or rest.strip()[0] != "#"):
        raise YamlFault("there is text behind the end of a value")


def _uncommented(text: str) -> str:
    """A line of plain text without the comment behind it."""
    text = text.partition(" #")[0].rstrip()
    if ": " in text or text.endswith(":"):
        raise YamlFault("a colon in plain text: put the text in quotes")
    return text


def _folded(lines: Sequence[str]) -> str:
    """Lines as one text: a break is a blank, an empty line a break; what is set in stays apart."""
    text, empty, set_in = "", 0, False
    for number, line in enumerate(lines):
        if not line:
            empty += 1
            continue
        deeper = line[0] in " \t"
        if number == 0 or (not text and not empty):
            text = line
        elif deeper or set_in:
            text += "\n" * (empty + 1) + line
        else:
            text += ("\n" * empty if empty else " ") + line
        empty, set_in = 0, deeper
    return text
