"""Read TOML, and find again where in the text something was written."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from gascity.model.records import NamedTuple

if TYPE_CHECKING:
    import tomli

MAX_BYTES = 4 * 1024 * 1024
KeyPath = tuple[str | int, ...]

_BOM = "\ufeff"
_BOM_BYTES = b"\xef\xbb\xbf"

_TWICE = "it is already written above; keep one of the two"
_OPEN = "close the string with its quote on the same line, or use three quotes for several lines"
_BACKSLASH = "write a backslash as \\\\, or put the text in single quotes"
_ODD_KEY = "a key of anything but letters, digits, `-` and `_` needs quotes"
_CONTROL = 'remove the control character, or write it in a string as an escape such as "\\u0000"'
_HINTS = {
    "Cannot overwrite a value": _TWICE,
    "Cannot declare": _TWICE,
    "Duplicate inline table key": _TWICE,
    "Cannot redefine namespace": "put this with the rest of its table, written the same way",
    "Cannot mutate immutable namespace": "put this inside the brackets it was written with above",
    "Unterminated string": _OPEN,
    "Illegal character '\\n'": _OPEN,
    "Found invalid character '\\n'": _OPEN,
    "Expected \"'": _OPEN,
    "Unescaped '\\'": _BACKSLASH,
    "Invalid hex value": _BACKSLASH,
    "Expected '=' after a key": "settings are written `key = value`",
    "Unclosed array": "put a comma between two values, and `]` at the end",
    "Unclosed inline table": "put a comma between two keys, and `}` at the end",
    "Invalid statement": _ODD_KEY,
    "Invalid initial character for a key part": _ODD_KEY,
}
_REPEATED = ("Cannot ", "Duplicate ")
_UNENDED = ("Unterminated string", "Expected \"'")

# Paths are not told apart below this depth, so that absurd nesting costs no more than its length.
_DEEPEST = 32
_MOST_UNCLOSED = 1000


class TomlFault(Exception):
    """Why bytes are not TOML we read, and where. `col` counts characters; both start at 1."""

    def __init__(self, code: str, message: str, line: int, col: int, hint: str | None = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line
        self.col = col
        self.hint = hint


def has_bom(data: bytes) -> bool:
    return data.startswith(_BOM_BYTES)


def parse(data: bytes) -> dict[str, Any]:
    """Read TOML 1.1. Raises TomlFault, whatever the bytes, and nothing else."""
    if len(data) > MAX_BYTES:
        words = f"The file is larger than {MAX_BYTES // 1024 // 1024} MiB"
        raise TomlFault("too-large", words, 1, 1)
    data = data.removeprefix(_BOM_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        line, col = _position(before, len(before))
        message = f"Byte 0x{data[error.start]:02x} is not UTF-8"
        raise TomlFault("bad-utf8", message, line, col, "save the file as UTF-8") from None
    return _read(text)


def _read(text: str) -> dict[str, Any]:
    import tomli

    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        line, col = _position(error.doc, _fault_offset(error))
        raise TomlFault("bad-toml", error.msg, line, col, _hint(error)) from None
    except RecursionError:
        raise TomlFault("bad-toml", "Arrays, tables or keys are nested too deeply", 1, 1) from None
    except ValueError:
        line, col = _position(text, _long_number(text))
        raise TomlFault("bad-toml", "A number has too many digits", line, col) from None


def _fault_offset(error: "tomli.TOMLDecodeError") -> int:
    """Where a reader looks: tomli notices repeated and open things only where they end."""
    if error.msg.startswith(_UNENDED):
        return _walk(error.doc).at
    if error.msg.startswith(_REPEATED):
        around = [mark for mark in marks(error.doc) if mark.start < error.pos <= mark.end]
        return around[-1].start if around else error.pos
    return error.pos


def _long_number(text: str) -> int:
    """Python refuses to read such a number before tomli can say where it is."""
    import re

    found = re.search(r"[0-9][0-9_]{639,}", text)
    return found.start() if found else 0


def _hint(error: "tomli.TOMLDecodeError") -> str | None:
    char = error.doc[error.pos : error.pos + 1]
    if char != "\n" and (char < " " or char == "\x7f") and char:
        return _CONTROL
    for start, hint in _HINTS.items():
        if error.msg.startswith(start):
            return hint
    begin = error.doc.rfind("\n", 0, error.pos) + 1
    line = error.doc[begin:].partition("\n")[0]
    before, rest = line[: error.pos - begin], line[error.pos - begin :]
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
        return f"write `{value.lower()}` in small letters"
    if value[0] in "\"'[{":
        return None
    return "text needs quotes"


def locate(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    """Line and column where `path` is written, else where its longest written prefix is.

    A table is where its header begins, an array's element where it is written. A byte order mark
    takes no column, as in the faults of `parse`.
    """
    mark = _find(text, path)
    return _position(text, mark.key if mark else 0)


def value_position(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    """Line and column of the value at `path`; what has no value of its own is where its key is."""
    mark = _find(text, path)
    if mark is None or mark.path != tuple(path):
        return locate(text, path)
    return _position(text, mark.value)


def _find(text: str, path: Sequence[str | int]) -> "Mark | None":
    wanted, best = tuple(path), None
    for mark in _marks_of(text):
        if wanted[: len(mark.path)] == mark.path and (best is None or _closer(mark, best)):
            best = mark
    return best


@lru_cache(maxsize=64)
def _marks_of(text: str) -> "tuple[Mark, ...]":
    """Many places of few files are asked for in a row."""
    return tuple(marks(text))


def _closer(one: "Mark", best: "Mark") -> bool:
    """A longer path, or the same one where it is written itself and not just implied."""
    if len(one.path) != len(best.path):
        return len(one.path) > len(best.path)
    return best.kind == "part" and one.kind != "part"


def _position(text: str, offset: int) -> tuple[int, int]:
    until = text[:offset].removeprefix(_BOM)
    return until.count("\n") + 1, len(until) - until.rfind("\n")


class Mark(NamedTuple):
    """Something in TOML text that has a path. The numbers are offsets into the text.

    `start` is where its statement or item begins and `key` where the last part of its path is
    spelled; they differ in `a.b = 1`. A "part" is a table that is only implied, by a dotted key or
    by the header of another table inside it.
    """

    path: KeyPath
    kind: Literal["table", "entry", "key", "inner", "item", "part"]
    start: int
    key: int
    value: int
    end: int


Section = tuple[Mark, list[Mark]]


def marks(text: str) -> list[Mark]:
    """All that has a path, in the order written. Stops quietly where the text is not TOML."""
    return _walk(text).marks


def _walk(text: str) -> "_Scan":
    scan = _Scan(text)
    with suppress(_Lost, TomlFault):
        scan.document()
    return scan


def outermost(found: Iterable[Mark]) -> list[Mark]:
    """Leave out what is inside another, and what is only implied."""
    picked: list[Mark] = []
    for mark in found:
        if mark.kind != "part" and not (picked and mark.start < picked[-1].end):
            picked.append(mark)
    return picked


def written(found: Iterable[Mark], path: KeyPath) -> Mark | None:
    """The mark of a path that has a value of its own."""
    kinds = ("key", "inner", "item")
    return next((mark for mark in found if mark.path == path and mark.kind in kinds), None)


def sections(text: str) -> list[Section]:
    """Each header with the keys under it; the keys before all headers come under an empty mark."""
    begin = 1 if text.startswith(_BOM) else 0
    found: list[Section] = [(Mark((), "table", *(begin,) * 4), [])]
    for mark in outermost(marks(text)):
        if mark.kind == "key":
            found[-1][1].append(mark)
        else:
            found.append((mark, []))
    return found


def skip_blank(text: str, at: int) -> int:
    """The first offset from `at` that is neither white space nor inside a comment."""
    scan = _Scan(text)
    scan.at = at
    return scan.skip_blank()


class _Lost(Exception):
    """The text is not TOML from here on."""


class _Scan:
    """One walk through the text. What it does not need to understand it only steps over."""

    def __init__(self, text: str) -> None:
        import re

        self.text = text
        self.at = 1 if text.startswith(_BOM) else 0
        self.marks: list[Mark] = []
        self._newest: dict[KeyPath, int] = {}
        self._blank = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
        self._space = re.compile(r"[ \t]*")
        self._name = re.compile(r"""[A-Za-z0-9_-]+|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\n]*'""")
        self._scalar = re.compile(
            r'''"""[^"\\]*(?:(?:\\.|""?(?!"))[^"\\]*)*"{3,5}'''
            r"""|'''.*?'{3,5}"""
            r'''|"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"'''
            r"""|'(?!'')[^'\n]*'"""
            r"""|[^\s,\[\]{}#"'=]+(?:\ \d\d:[\d:.+Zz-]+)?""",
            re.DOTALL,
        )

    def document(self) -> None:
        section: KeyPath = ()
        while self.skip_blank() < len(self.text):
            if self._sees("["):
                section = self._header()
            else:
                self._value(self._pair(section, "key"))

    def skip_blank(self) -> int:
        return self._skip(self._blank)

    def _header(self) -> KeyPath:
        start = self.at
        entry = self.text.startswith("[[", start)
        self.at += 2 if entry else 1
        *parents, (name, _) = self._dotted()
        self._take("]]" if entry else "]")
        path: KeyPath = ()
        for parent, _ in parents:
            path = _under(path, parent)
            if path in self._newest:
                path = _under(path, self._newest[path])
            self.marks.append(Mark(path, "part", start, start, start, self.at))
        path = _under(path, name)
        if entry:
            self.marks.append(Mark(path, "part", start, start, start, self.at))
            self._newest[path] = self._newest.get(path, -1) + 1
            path = _under(path, self._newest[path])
        self.marks.append(Mark(path, "entry" if entry else "table", start, start, start, self.at))
        return path

    def _pair(self, path: KeyPath, kind: Literal["key", "inner"]) -> Mark:
        """Step over `key =`, marking the tables a dotted key implies."""
        start = self.at
        *parents, (name, key) = self._dotted()
        self._take("=")
        self._skip(self._space)
        for parent, at in parents:
            path = _under(path, parent)
            self.marks.append(Mark(path, "part", start, at, at, at))
        return Mark(_under(path, name), kind, start, key, self.at, self.at)

    def _value(self, mark: Mark) -> None:
        """Step over the value `mark` stands for, marking all that is inside it.

        A loop and no recursion: a valid file may nest deeper than Python likes to call.
        """
        unclosed: list[int] = []
        counts: list[int] = []
        while True:
            self.marks.append(mark)
            if self._sees("[", "{"):
                self.at += 1
                unclosed.append(len(self.marks) - 1)
                counts.append(0)
                if len(unclosed) > _MOST_UNCLOSED:
                    raise _Lost
            else:
                self._step(self._scalar)
                self.marks[-1] = mark._replace(end=self.at)
            self._close(unclosed, counts)
            if not unclosed:
                return
            around = self.marks[unclosed[-1]]
            if self.text[around.value] == "{":
                mark = self._pair(around.path, "inner")
            else:
                mark = Mark(_under(around.path, counts[-1]), "item", *(self.at,) * 4)
                counts[-1] += 1

    def _close(self, unclosed: list[int], counts: list[int]) -> None:
        """Leave every array and inline table that ends here, up to one that goes on."""
        while unclosed:
            self.skip_blank()
            if self._sees(","):
                self.at += 1
                self.skip_blank()
            if not self._sees("]", "}"):
                return
            self.at += 1
            index = unclosed.pop()
            counts.pop()
            self.marks[index] = self.marks[index]._replace(end=self.at)

    def _dotted(self) -> list[tuple[str, int]]:
        """Step over a key: its parts, and where each is spelled."""
        parts = []
        while True:
            start = self._skip(self._space)
            parts.append((_name(self._step(self._name)), start))
            self._skip(self._space)
            if not self._sees("."):
                return parts
            self.at += 1

    def _sees(self, *chars: str) -> bool:
        return self.text.startswith(chars, self.at)

    def _take(self, expected: str) -> None:
        if not self._sees(expected):
            raise _Lost
        self.at += len(expected)

    def _step(self, pattern: Any) -> str:
        found = pattern.match(self.text, self.at)
        if not found:
            raise _Lost
        self.at = found.end()
        return str(found[0])

    def _skip(self, pattern: Any) -> int:
        self._step(pattern)
        return self.at


def _under(path: KeyPath, name: str | int) -> KeyPath:
    return (*path, name) if len(path) <= _DEEPEST else path


def _name(spelled: str) -> str:
    if spelled[0] == '"' and "\\" in spelled:
        return str(_read(f"key = {spelled}")["key"])
    return spelled[1:-1] if spelled[0] in "\"'" else spelled
