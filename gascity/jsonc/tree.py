"""Read JSON that may have comments, with the place of everything in it.

Comments, trailing commas and a byte order mark are taken as they come; a text of nothing but
blanks and comments has no root. Of a key that is written twice the last one counts.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from gascity.model.records import NamedTuple
from gascity.render.faults import DocumentFault, position

Path = tuple[str | int, ...]  # keys of objects and, as numbers, items of lists

DEEPEST = 100
_BOM = "\ufeff"

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z]+(?![\w.])")
_WORDS = {"true": True, "false": False, "null": None}


class JsoncFault(DocumentFault):
    """The text is not JSON, or has something else where a path expects an object."""


class Node(NamedTuple):
    """A value as written. `parts` are the members of an object or the items of a list."""

    start: int
    end: int
    value: Any
    parts: tuple["Part", ...] = ()


class Part(NamedTuple):
    """`start` is where the key begins, or the item; `comma` is -1 where none follows."""

    name: str | int
    start: int
    key_end: int
    node: Node
    comma: int


def tree(text: str) -> Node | None:
    """The root; None where there is no value at all."""
    reader = _Reader(text)
    reader.skip()
    if reader.at == len(text):
        return None
    root = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        raise reader.fault("Nothing may follow the end of the value")
    return root


# One text is asked for many times in a row. What is kept must not get out to be changed.
known_tree = lru_cache(maxsize=2)(tree)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 1 if text.startswith(_BOM) else 0

    def fault(self, message: str, at: int | None = None) -> JsoncFault:
        return JsoncFault(message, *position(self.text, self.at if at is None else at))

    def skip(self) -> None:
        """Go over blanks and comments."""
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at
        if self.text.startswith("/*", self.at):
            raise self.fault("a comment is not closed")

    def value(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise self.fault(f"Objects and lists are nested more than {DEEPEST} deep")
        start = self.at
        match self.text[start : start + 1]:
            case "{":
                parts = self._parts("}", depth)
                return Node(start, self.at, {part.name: part.node.value for part in parts}, parts)
            case "[":
                parts = self._parts("]", depth)
                return Node(start, self.at, [part.node.value for part in parts], parts)
            case '"':
                value: object = self._string()
            case _:
                value = self._scalar()
        return Node(start, self.at, value)

    def _parts(self, closing: str, depth: int) -> tuple[Part, ...]:
        start = self.at
        self.at += 1
        parts: list[Part] = []
        while True:
            self.skip()
            if self._takes(closing):
                return tuple(parts)
            if self.at == len(self.text):
                raise self.fault(f"`{self.text[start]}` is not closed", start)
            if parts and parts[-1].comma < 0:
                raise self.fault(f"a comma or `{closing}` is missing")
            parts.append(self._part(len(parts) if closing == "]" else None, depth))

    def _part(self, name: str | int | None, depth: int) -> Part:
        start = key_end = self.at
        if name is None:
            if not self.text.startswith('"', start):
                raise self.fault("a key in double quotes is missing")
            name, key_end = self._string(), self.at
            self.skip()
            if not self._takes(":"):
                raise self.fault("a colon is missing after the key")
            self.skip()
        node = self.value(depth + 1)
        self.skip()
        comma = self.at - 1 if self._takes(",") else -1
        return Part(name, start, key_end, node, comma)

    def _takes(self, char: str) -> bool:
        found = self.text.startswith(char, self.at)
        self.at += found
        return found

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if not found:
            raise self.fault("a string is not closed, or has a control character in it")
        try:
            value: str = json.loads(found[0])
        except ValueError:
            raise self.fault("a string has an escape that JSON does not know") from None
        self.at = found.end()
        return value

    def _scalar(self) -> object:
        found = _NUMBER.match(self.text, self.at) or _WORD.match(self.text, self.at)
        if not found or (found.re is _WORD and found[0] not in _WORDS):
            raise self.fault("a value is missing here, or is not JSON")
        value = _WORDS[found[0]] if found.re is _WORD else self._number(found)
        self.at = found.end()
        return value

    def _number(self, found: re.Match[str]) -> float:
        try:
            value = float(found[0]) if found[1] or found[2] else int(found[0])
        except ValueError:
            value = float("inf")
        if value in (float("inf"), float("-inf")):
            raise self.fault("a number is too large")
        return value


def leaves_of(node: Node, path: Path) -> Iterator[tuple[Path, int, int]]:
    if not isinstance(node.value, dict | list):
        yield path, node.start, node.end
    for part in node.parts:
        yield from leaves_of(part.node, (*path, part.name))


def find(text: str, path: Path) -> tuple[Node, Part] | None:
    """What is at `path`, behind what it is a part of."""
    node = known_tree(text)
    found = None
    for depth, name in enumerate(path):
        part = last_part(text, node, name, path[:depth]) if node else None
        if node is None or part is None:
            return None
        found = node, part
        node = part.node
    return found


def last_part(text: str, node: Node, name: str | int, path: Path) -> Part | None:
    """The part of this name. `path` is that of the node, for the message."""
    kind = dict if isinstance(name, str) else list
    if not isinstance(node.value, kind):
        where = f"`{'.'.join(map(str, path))}`" if path else "The whole"
        noun = "an object" if kind is dict else "a list"
        raise JsoncFault(f"{where} is not {noun}", *position(text, node.start))
    return next((part for part in reversed(node.parts) if part.name == name), None)
