"""Scanner for TOML text: finds where each key, table and array item is written.

The scanner does not check values; it only steps over them, so it is small and also works on text
that is invalid further down. It is used to show line numbers and by the editors in `edit.py`,
which change the text between two offsets and keep every other byte.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Literal, NamedTuple

from gascity.model.document_text import BOM, position
from gascity.model.problems import KeyPath

# Deeper paths are cut off here, so that absurd nesting costs no more than its length.
_MAX_DEPTH = 32
_MAX_OPEN_BRACKETS = 1000

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
NAME = re.compile(r"""[A-Za-z0-9_-]+|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\n]*'""")
_SCALAR = re.compile(
    r'''"""[^"\\]*(?:(?:\\.|""?(?!"))[^"\\]*)*"{3,5}'''
    r"""|'''.*?'{3,5}"""
    r'''|"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"'''
    r"""|'(?!'')[^'\n]*'"""
    r"""|[^\s,\[\]{}#"'=]+(?:\ \d\d:[\d:.+Zz-]+)?""",
    re.DOTALL,
)


class Mark(NamedTuple):
    """Something in TOML text that has a key path. The numbers are offsets into the text.

    `start` is where its statement or item starts and `key` where the last part of its path is
    written; they differ in `a.b = 1`. An `inner` is a key of an inline table. A `part` is a table
    that is only implied, by a dotted key or by the header of a table inside it.
    """

    path: KeyPath
    kind: Literal["table", "entry", "key", "inner", "item", "part"]
    start: int
    key: int
    value: int
    end: int

    @property
    def is_header(self) -> bool:
        return self.kind in ("table", "entry")


class Section(NamedTuple):
    """A header and the keys below it. Keys above all headers belong to an empty header."""

    header: Mark
    keys: list[Mark]

    @property
    def last(self) -> Mark:
        return self.keys[-1] if self.keys else self.header


def locate(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    """Return line and column of a key, or of its longest prefix that is written.

    A table is where its header starts, an array item where it is written.
    """
    mark = _closest(text, path)
    return position(text, mark.key if mark else 0)


def value_position(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    """Return line and column of a value, or of its key where it has no value of its own."""
    mark = _closest(text, path)
    if mark is None or mark.path != tuple(path):
        return locate(text, path)
    return position(text, mark.value)


def _closest(text: str, path: Sequence[str | int]) -> Mark | None:
    """Return the mark of the longest prefix of a path that has one."""
    by_path, wanted = _marks_by_path(text), tuple(path)
    while wanted and wanted not in by_path:
        wanted = wanted[:-1]
    return by_path.get(wanted)


@lru_cache(maxsize=64)
def _marks_by_path(text: str) -> dict[KeyPath, Mark]:
    """Return the first mark of each path; one that is written itself before an implied one."""
    by_path: dict[KeyPath, Mark] = {}
    for mark in marks(text):
        if mark.path not in by_path or (by_path[mark.path].kind == "part" and mark.kind != "part"):
            by_path[mark.path] = mark
    return by_path


@lru_cache(maxsize=64)  # callers ask for many places of few files in a row
def marks(text: str) -> tuple[Mark, ...]:
    """Return all marks in the order written, up to where the text is not TOML."""
    return tuple(_scan(text).marks)


def end_of_valid(text: str) -> int:
    """Return the offset at which the scanner stops."""
    return _scan(text).at


def outermost(candidates: Iterable[Mark]) -> list[Mark]:
    """Leave out marks inside other marks, and implied tables."""
    picked: list[Mark] = []
    for mark in candidates:
        if mark.kind != "part" and not (picked and mark.start < picked[-1].end):
            picked.append(mark)
    return picked


def value_mark(text: str, path: KeyPath) -> Mark | None:
    """Return the mark of a path that has a value of its own."""
    kinds = ("key", "inner", "item")
    return next((mark for mark in marks(text) if mark.path == path and mark.kind in kinds), None)


def sections(text: str) -> list[Section]:
    """Return each header with the keys below it, first the keys above all headers."""
    start = 1 if text.startswith(BOM) else 0
    rows = [Section(Mark((), "table", *(start,) * 4), [])]
    for mark in outermost(marks(text)):
        if mark.kind == "key":
            rows[-1].keys.append(mark)
        else:
            rows.append(Section(mark, []))
    return rows


def skip_blank(text: str, offset: int) -> int:
    """Return the first offset that is neither white space nor inside a comment."""
    match = _BLANK.match(text, offset)
    return match.end() if match else offset


def header_names(text: str, header: Mark) -> list[tuple[int, int]]:
    """Return start and end of each name in a header."""
    start = header.start + (2 if text.startswith("[[", header.start) else 1)
    return [match.span() for match in NAME.finditer(text, start, header.end)]


class _NotTomlError(Exception):
    """The text is not TOML from here on."""


def _scan(text: str) -> "_Scanner":
    scanner = _Scanner(text)
    with suppress(_NotTomlError):
        scanner.document()
    return scanner


class _Scanner:
    """One pass over the text. `at` is the current offset."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 1 if text.startswith(BOM) else 0
        self.marks: list[Mark] = []
        self._newest: dict[KeyPath, int] = {}  # index of the last entry of each array of tables

    def document(self) -> None:
        section: KeyPath = ()
        while self._skip(_BLANK) < len(self.text):
            if self._sees("["):
                section = self._header()
            else:
                self._value(self._pair(section, "key"))

    def _header(self) -> KeyPath:
        start = self.at
        is_entry = self.text.startswith("[[", start)
        self.at += 2 if is_entry else 1
        *parents, (name, _) = self._dotted_key()
        self._take("]]" if is_entry else "]")
        path: KeyPath = ()
        for parent, _ in parents:
            path = _child(path, parent)
            if path in self._newest:
                path = _child(path, self._newest[path])
            self.marks.append(Mark(path, "part", start, start, start, self.at))
        path = _child(path, name)
        if is_entry:
            self.marks.append(Mark(path, "part", start, start, start, self.at))
            self._newest[path] = self._newest.get(path, -1) + 1
            path = _child(path, self._newest[path])
        kind: Literal["entry", "table"] = "entry" if is_entry else "table"
        self.marks.append(Mark(path, kind, start, start, start, self.at))
        return path

    def _pair(self, path: KeyPath, kind: Literal["key", "inner"]) -> Mark:
        """Step over `key =` and mark the tables that a dotted key implies."""
        start = self.at
        *parents, (name, key) = self._dotted_key()
        self._take("=")
        self._skip(_SPACE)
        for parent, offset in parents:
            path = _child(path, parent)
            self.marks.append(Mark(path, "part", start, offset, offset, offset))
        return Mark(_child(path, name), kind, start, key, self.at, self.at)

    def _value(self, mark: Mark) -> None:
        """Step over the value of `mark` and mark everything inside it.

        A loop, because a valid file may be nested deeper than Python can recurse.
        """
        open_marks: list[int] = []  # indexes of the arrays and inline tables around here
        counts: list[int] = []  # items seen so far in each of them
        while True:
            self.marks.append(mark)
            if self._sees("[", "{"):
                self.at += 1
                open_marks.append(len(self.marks) - 1)
                counts.append(0)
                if len(open_marks) > _MAX_OPEN_BRACKETS:
                    raise _NotTomlError
            else:
                self._match(_SCALAR)
                self.marks[-1] = mark._replace(end=self.at)
            self._close(open_marks, counts)
            if not open_marks:
                return
            around = self.marks[open_marks[-1]]
            if self.text[around.value] == "{":
                mark = self._pair(around.path, "inner")
            else:
                mark = Mark(_child(around.path, counts[-1]), "item", *(self.at,) * 4)
                counts[-1] += 1

    def _close(self, open_marks: list[int], counts: list[int]) -> None:
        """Leave every array and inline table that ends here."""
        while open_marks:
            self._skip(_BLANK)
            if self._sees(","):
                self.at += 1
                self._skip(_BLANK)
            if not self._sees("]", "}"):
                return
            self.at += 1
            index = open_marks.pop()
            counts.pop()
            self.marks[index] = self.marks[index]._replace(end=self.at)

    def _dotted_key(self) -> list[tuple[str, int]]:
        """Step over a key and return its parts, each with its offset."""
        parts = []
        while True:
            start = self._skip(_SPACE)
            parts.append((_name(self._match(NAME)), start))
            self._skip(_SPACE)
            if not self._sees("."):
                return parts
            self.at += 1

    def _sees(self, *prefixes: str) -> bool:
        return self.text.startswith(prefixes, self.at)

    def _take(self, expected: str) -> None:
        if not self._sees(expected):
            raise _NotTomlError
        self.at += len(expected)

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if not match:
            raise _NotTomlError
        self.at = match.end()
        return match[0]

    def _skip(self, pattern: re.Pattern[str]) -> int:
        self._match(pattern)
        return self.at


def _child(path: KeyPath, name: str | int) -> KeyPath:
    return (*path, name) if len(path) <= _MAX_DEPTH else path


def _name(written: str) -> str:
    if written[0] == '"' and "\\" in written:
        import tomli

        try:
            return str(tomli.loads(f"key = {written}")["key"])
        except tomli.TOMLDecodeError:
            raise _NotTomlError from None
    return written[1:-1] if written[0] in "\"'" else written
