"""Parses KDL, versions 1 and 2, with the line of every node.

ckdl parses but reports no positions. So the line of a node is looked up in the text, with comments
and the contents of strings blanked, and the line of a syntax error is the first one at which the
text, with its open braces closed, cannot be parsed any more.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

_HIDDEN = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | (\#+)"(?:""|)(?:.*?)"\1 | r(\#*)"(?:.*?)"\2 | \"""(?:.*?)\"""
      | "(?:\\.|[^"\\])*" """,
    re.DOTALL | re.VERBOSE,
)


class KdlError(Exception):
    """The text is not KDL."""

    def __init__(self, message: str, line: int, col: int) -> None:
        super().__init__(message)
        self.line = line
        self.col = col


class KdlMissingError(Exception):
    """The parser is not installed."""


class KdlNode(NamedTuple):
    """A node: its name, its arguments and its children."""

    name: str
    arguments: tuple[object, ...]
    properties: tuple[str, ...]
    children: tuple["KdlNode", ...]
    line: int


def parse_kdl(text: str) -> tuple[KdlNode, ...]:
    """Return the nodes of a document. Raises KdlError or KdlMissingError."""
    try:
        import ckdl
    except ImportError:
        raise KdlMissingError from None
    try:
        document = ckdl.parse(text)
    except ckdl.ParseError:
        raise _error(text) from None
    return tuple(_nodes(document.nodes, _Lines(text)))


class _Lines:
    """Finds the lines of nodes, which are asked for in the order of the text."""

    def __init__(self, text: str) -> None:
        self.text = _HIDDEN.sub(_blank, text)
        self.at = 0

    def next(self, name: str) -> int:
        word = re.compile(rf"(?<![\w/-])(?<!/-){re.escape(name)}(?![\w-])")
        found = word.search(self.text, self.at)
        if found:
            self.at = found.end()
        return self.text.count("\n", 0, found.start() if found else self.at) + 1


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


class _ParsedNode(Protocol):
    """A node of ckdl, which has no type hints."""

    name: str
    args: Sequence[object]
    properties: Mapping[str, object]
    children: "Sequence[_ParsedNode]"


def _nodes(nodes: Sequence[_ParsedNode], lines: _Lines) -> Iterator[KdlNode]:
    for node in nodes:
        line = lines.next(node.name)
        arguments = tuple(getattr(value, "value", value) for value in node.args)
        children = tuple(_nodes(node.children, lines))
        yield KdlNode(node.name, arguments, tuple(node.properties), children, line)


def _error(text: str) -> KdlError:
    shown = _HIDDEN.sub(_blank, text)
    if shown.count("{") > shown.count("}") and _parses(text):
        last = _unclosed(shown)
        line = shown.count("\n", 0, last) + 1
        return KdlError("`{` is not closed", line, last - shown.rfind("\n", 0, last))
    lines = text.split("\n")
    counts = range(len(lines) - 1, 0, -1)
    line = next((n + 1 for n in counts if _parses("\n".join(lines[:n]))), 1)
    words = lines[line - 1]
    return KdlError("this is not valid KDL", line, len(words) - len(words.lstrip()) + 1)


def _unclosed(text: str) -> int:
    """Return the offset of the last brace that is not closed."""
    braces: list[int] = []
    for match in re.finditer("[{}]", text):
        if match.group() == "{":
            braces.append(match.start())
        elif braces:
            braces.pop()
    return braces[-1] if braces else 0


def _parses(text: str) -> bool:
    """Return whether a text parses after its open braces are closed."""
    import ckdl

    depth = _HIDDEN.sub(_blank, text).count("{") - _HIDDEN.sub(_blank, text).count("}")
    try:
        ckdl.parse(text + "\n" + "}\n" * max(0, depth))
    except ckdl.ParseError:
        return False
    return True
