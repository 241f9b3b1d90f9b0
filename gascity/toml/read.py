"""Reads TOML and explains what is wrong with it in terms of the line the user should look at."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gascity.model.document_text import DocumentError, position
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.values import TableView

if TYPE_CHECKING:
    from typing import Self

    import tomli

MAX_BYTES = 4 * 1024 * 1024
LARGEST = 2**63 - 1  # integer that every TOML reader supports

_BOM = b"\xef\xbb\xbf"

_DUPLICATE = "it is already set above; keep one of the two"
_OPEN_STRING = (
    "close the string with a quote on the same line, or use three quotes for several lines"
)
_BACKSLASH = "write a backslash as \\\\, or put the text in single quotes"
_KEY_QUOTES = "a key with anything but letters, digits, `-` and `_` needs quotes"
_CONTROL = 'remove the control character, or write it in a string as an escape such as "\\u0000"'
# By how tomli's message starts.
_HINTS = {
    "Cannot overwrite a value": _DUPLICATE,
    "Cannot declare": _DUPLICATE,
    "Duplicate inline table key": _DUPLICATE,
    "Cannot redefine namespace": "put this with the rest of its table, written the same way",
    "Cannot mutate immutable namespace": "put this inside the brackets used above",
    "Unterminated string": _OPEN_STRING,
    "Illegal character '\\n'": _OPEN_STRING,
    "Found invalid character '\\n'": _OPEN_STRING,
    "Expected \"'": _OPEN_STRING,
    "Unescaped '\\'": _BACKSLASH,
    "Invalid hex value": _BACKSLASH,
    "Expected '=' after a key": "settings are written `key = value`",
    "Unclosed array": "put a comma between two values, and `]` at the end",
    "Unclosed inline table": "put a comma between two keys, and `}` at the end",
    "Invalid statement": _KEY_QUOTES,
    "Invalid initial character for a key part": _KEY_QUOTES,
}
_REPEATED = ("Cannot ", "Duplicate ")
_UNTERMINATED = ("Unterminated string", "Expected \"'")


class TomlError(DocumentError):
    """Bytes are not TOML that city reads. `code` is a problem code."""

    def __init__(self, code: str, message: str, line: int, col: int, hint: str | None = None):
        super().__init__(message, line, col)
        self.code = code
        self.hint = hint


def has_bom(data: bytes) -> bool:
    return data.startswith(_BOM)


def parse(data: bytes) -> dict[str, Any]:
    """Parse TOML 1.1. Raises TomlError, whatever the bytes, and nothing else."""
    if len(data) > MAX_BYTES:
        message = f"The file is larger than {MAX_BYTES // 1024 // 1024} MiB"
        raise TomlError("too-large", message, 1, 1)
    data = data.removeprefix(_BOM)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        message = f"Byte 0x{data[error.start]:02x} is not UTF-8"
        place = position(before, len(before))
        raise TomlError("bad-utf8", message, *place, "save the file as UTF-8") from None
    return parse_text(text)


def parse_text(text: str) -> dict[str, Any]:
    """Parse text without a byte order mark. Raises TomlError."""
    import tomli

    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        place = position(error.doc, _error_offset(error))
        raise TomlError("bad-toml", error.msg, *place, _hint(error)) from None
    except RecursionError:
        raise TomlError("bad-toml", "Arrays, tables or keys are nested too deeply", 1, 1) from None
    except ValueError:
        place = position(text, _long_number(text))
        raise TomlError("bad-toml", "A number has too many digits", *place) from None


def _error_offset(error: "tomli.TOMLDecodeError") -> int:
    """Return the offset the user should look at.

    tomli notices repeated keys and unterminated strings only where they end.
    """
    from gascity.toml.positions import end_of_valid, marks

    if error.msg.startswith(_UNTERMINATED):
        return end_of_valid(error.doc)
    if error.msg.startswith(_REPEATED):
        around = [mark for mark in marks(error.doc) if mark.start < error.pos <= mark.end]
        return around[-1].start if around else error.pos
    return error.pos


def _long_number(text: str) -> int:
    """Find the number that Python refuses to convert before tomli can report its position."""
    import re

    match = re.search(r"[0-9][0-9_]{639,}", text)
    return match.start() if match else 0


def _hint(error: "tomli.TOMLDecodeError") -> str | None:
    char = error.doc[error.pos : error.pos + 1]
    if char != "\n" and (char < " " or char == "\x7f") and char:
        return _CONTROL
    for start, hint in _HINTS.items():
        if error.msg.startswith(start):
            return hint
    start_of_line = error.doc.rfind("\n", 0, error.pos) + 1
    line = error.doc[start_of_line:].partition("\n")[0]
    before, rest = line[: error.pos - start_of_line], line[error.pos - start_of_line :]
    if error.msg == "Invalid value":
        return _value_hint(rest) if before.strip() or "=" not in rest else "close the array above"
    if error.msg.startswith("Expected newline") and not before.lstrip().startswith("["):
        return _value_hint(line.partition("=")[2])
    return None


def _value_hint(written: str) -> str | None:
    value = written.partition("#")[0].strip()
    if not value:
        return "a value is missing here"
    if value.lower() in ("true", "false"):
        return f"write `{value.lower()}` in lower case"
    if value[0] in "\"'[{":
        return None
    return "text needs quotes"


class TomlTable(TableView):
    """A parsed table whose values of wrong types are problems.

    `at` is the key path of the table in `file`, as displayed.
    """

    def __init__(
        self, values: Mapping[str, object], file: str, at: KeyPath, problems: list[Problem]
    ) -> None:
        super().__init__(values)
        self.file = file
        self.at = at
        self.problems = problems

    def view(self, values: Mapping[str, object], path: KeyPath) -> "Self":
        return type(self)(values, self.file, (*self.at, *path), self.problems)

    def wrong_type(self, path: KeyPath, expected: str, value: object, but: str = "not") -> None:
        """Record that a value has another type than expected."""
        at = (*self.at, *path)
        name = ".".join(part for part in at if isinstance(part, str))
        hint = f"write [[{name}]]" if expected == "an array of tables" else None
        message = f"`{name}` should be {expected}, {but} {describe(value)}"
        self.problems.append(Problem("bad-type", message, Place(self.file, at), hint))


def describe(value: object) -> str:
    """Describe a TOML value, for messages."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) > LARGEST:
            return "a huge number"
        case int() | float():
            return f"the number {value}"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
    return "a date or time"
