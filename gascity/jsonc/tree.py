"""Parse JSON with comments (JSONC) to a tree with the offset of every value.

Comments, trailing commas and a byte order mark are accepted; a text of only blanks and comments
has no root. Of a duplicate key the last one counts.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from gascity.model.document_text import BOM, DocumentError, position

JsonPath = tuple[str | int, ...]  # keys of objects and, as numbers, items of lists

DEEPEST = 100

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
# Compiled where they are used: most documents have only strings.
_NUMBER = r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![\w.])"
_WORD = r"[A-Za-z]+(?![\w.])"
_WORDS = {"true": True, "false": False, "null": None}


class JsoncError(DocumentError):
    """The text is not valid JSON, or has another type where a path expects an object."""


class JsonNode(NamedTuple):
    """A value and its span. `parts` are the members of an object or the items of a list."""

    start: int
    end: int
    value: Any
    parts: tuple["JsonPart", ...] = ()


class JsonPart(NamedTuple):
    """A member or item. `start` is that of the key or item; `comma` is -1 if none follows."""

    name: str | int
    start: int
    key_end: int
    node: JsonNode
    comma: int


def tree(text: str) -> JsonNode | None:
    """Return the root; None if there is no value."""
    reader = _Reader(text)
    reader.skip()
    if reader.at == len(text):
        return None
    root = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        raise reader.error("Nothing may follow the end of the value")
    return root


# The same text is looked up many times in a row. Callers must not modify the cached tree.
cached_tree = lru_cache(maxsize=2)(tree)


class _Reader:
    """A position in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 1 if text.startswith(BOM) else 0

    def error(self, message: str, at: int | None = None) -> JsoncError:
        return JsoncError(message, *position(self.text, self.at if at is None else at))

    def skip(self) -> None:
        """Skip blanks and comments."""
        match = _BLANK.match(self.text, self.at)
        self.at = match.end() if match else self.at
        if self.text.startswith("/*", self.at):
            raise self.error("a comment is not closed")

    def value(self, depth: int) -> JsonNode:
        if depth > DEEPEST:
            raise self.error(f"Objects and lists are nested more than {DEEPEST} deep")
        start = self.at
        match self.text[start : start + 1]:
            case "{":
                parts = self._parts("}", depth)
                return JsonNode(
                    start, self.at, {part.name: part.node.value for part in parts}, parts
                )
            case "[":
                parts = self._parts("]", depth)
                return JsonNode(start, self.at, [part.node.value for part in parts], parts)
            case '"':
                value: object = self._string()
            case _:
                value = self._scalar()
        return JsonNode(start, self.at, value)

    def _parts(self, closing: str, depth: int) -> tuple[JsonPart, ...]:
        start = self.at
        self.at += 1
        parts: list[JsonPart] = []
        while True:
            self.skip()
            if self._accept(closing):
                return tuple(parts)
            if self.at == len(self.text):
                raise self.error(f"`{self.text[start]}` is not closed", start)
            if parts and parts[-1].comma < 0:
                raise self.error(f"a comma or `{closing}` is missing")
            parts.append(self._part(len(parts) if closing == "]" else None, depth))

    def _part(self, name: str | int | None, depth: int) -> JsonPart:
        start = key_end = self.at
        if name is None:
            if not self.text.startswith('"', start):
                raise self.error("a key in double quotes is missing")
            name, key_end = self._string(), self.at
            self.skip()
            if not self._accept(":"):
                raise self.error("a colon is missing after the key")
            self.skip()
        node = self.value(depth + 1)
        self.skip()
        comma = self.at - 1 if self._accept(",") else -1
        return JsonPart(name, start, key_end, node, comma)

    def _accept(self, char: str) -> bool:
        matches = self.text.startswith(char, self.at)
        self.at += matches
        return matches

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if not match:
            raise self.error("a string is not closed, or has a control character in it")
        try:
            value: str = json.loads(match[0])
        except ValueError:
            raise self.error("a string has an escape that JSON does not know") from None
        self.at = match.end()
        return value

    def _scalar(self) -> object:
        number = re.compile(_NUMBER).match(self.text, self.at)
        match = number or re.compile(_WORD).match(self.text, self.at)
        if not match or (not number and match[0] not in _WORDS):
            raise self.error("a value is missing here, or is not JSON")
        value = self._number(number) if number else _WORDS[match[0]]
        self.at = match.end()
        return value

    def _number(self, match: re.Match[str]) -> float:
        try:
            value = float(match[0]) if match[1] or match[2] else int(match[0])
        except ValueError:
            value = float("inf")
        if value in (float("inf"), float("-inf")):
            raise self.error("a number is too large")
        return value


def leaves_of(node: JsonNode, path: JsonPath) -> Iterator[tuple[JsonPath, int, int]]:
    """Yield path, start and end of every value below a node that has no parts."""
    if not isinstance(node.value, dict | list):
        yield path, node.start, node.end
    for part in node.parts:
        yield from leaves_of(part.node, (*path, part.name))


def find(text: str, path: JsonPath) -> tuple[JsonNode, JsonPart] | None:
    """Return the parent node and the part at `path`; None if it does not exist."""
    node = cached_tree(text)
    found = None
    for depth, name in enumerate(path):
        part = last_part(text, node, name, path[:depth]) if node else None
        if node is None or part is None:
            return None
        found = node, part
        node = part.node
    return found


def last_part(text: str, node: JsonNode, name: str | int, path: JsonPath) -> JsonPart | None:
    """Return the last part of this name. `path` is that of the node, for the message."""
    kind = dict if isinstance(name, str) else list
    if not isinstance(node.value, kind):
        where = f"`{'.'.join(map(str, path))}`" if path else "The document"
        noun = "an object" if kind is dict else "a list"
        raise JsoncError(f"{where} is not {noun}", *position(text, node.start))
    return next((part for part in reversed(node.parts) if part.name == name), None)
