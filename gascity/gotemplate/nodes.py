"""The syntax tree of a template. Every node has its line and its character offset.

Nodes are never modified after parsing, because a parsed template is shared between renderings.
They are plain classes with slots: the same classes as NamedTuples take 2.5 ms more to import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gascity.gotemplate.values import Value


class Node:
    """A part of a template; `pos` is the offset that Go reports for it."""

    __slots__ = ("line", "pos")

    def __init__(self, line: int, pos: int) -> None:
        self.line, self.pos = line, pos


# Operands of a command.


class DotNode(Node):
    """`.`"""

    __slots__ = ()


class LiteralNode(Node):
    """A string, number, character or boolean, or `nil`."""

    __slots__ = ("value",)

    def __init__(self, line: int, pos: int, value: Value) -> None:
        self.line, self.pos, self.value = line, pos, value


class OverflowNode(Node):
    """An integer literal that Go rejects only when it is evaluated."""

    __slots__ = ("message",)

    def __init__(self, line: int, pos: int, message: str) -> None:
        self.line, self.pos, self.message = line, pos, message


class FunctionNode(Node):
    """The name of a function."""

    __slots__ = ("name",)

    def __init__(self, line: int, pos: int, name: str) -> None:
        self.line, self.pos, self.name = line, pos, name


class FieldNode(Node):
    """`.A.B`: a path from dot."""

    __slots__ = ("path",)

    def __init__(self, line: int, pos: int, path: tuple[str, ...]) -> None:
        self.line, self.pos, self.path = line, pos, path


class VariableNode(Node):
    """`$x` or `$x.A.B`; `name` includes the dollar sign."""

    __slots__ = ("name", "path")

    def __init__(self, line: int, pos: int, name: str, path: tuple[str, ...]) -> None:
        self.line, self.pos, self.name, self.path = line, pos, name, path


class ChainNode(Node):
    """`(pipeline).A.B` or `function.A`."""

    __slots__ = ("base", "path")

    def __init__(self, line: int, pos: int, base: Node, path: tuple[str, ...]) -> None:
        self.line, self.pos, self.base, self.path = line, pos, base, path


Command = tuple[Node, ...]  # one stage of a pipeline: an operand, or a function and its arguments


class PipeNode(Node):
    """Commands joined by `|`; their value is assigned to the variables in `targets`.

    It is an operand if it is in parentheses, and an action, `{{pipeline}}`, in a list of nodes.
    """

    __slots__ = ("assigns", "commands", "targets")

    def __init__(
        self,
        line: int,
        pos: int,
        commands: tuple[Command, ...],
        targets: tuple[str, ...] = (),
        assigns: bool = False,
    ) -> None:
        self.line, self.pos = line, pos
        self.commands, self.targets, self.assigns = commands, targets, assigns


# Nodes of the template itself, besides actions.


class TextNode(Node):
    """Literal text, trimmed."""

    __slots__ = ("text",)

    def __init__(self, line: int, pos: int, text: str) -> None:
        self.line, self.pos, self.text = line, pos, text


class ControlNode(Node):
    """`{{if}}`, `{{with}}` or `{{range}}`; `word` says which."""

    __slots__ = ("body", "otherwise", "pipe", "word")

    def __init__(
        self,
        line: int,
        pos: int,
        word: str,
        pipe: PipeNode,
        body: tuple[Node, ...],
        otherwise: tuple[Node, ...],
    ) -> None:
        self.line, self.pos, self.word = line, pos, word
        self.pipe, self.body, self.otherwise = pipe, body, otherwise


class JumpNode(Node):
    """`{{break}}` or `{{continue}}`; `word` says which."""

    __slots__ = ("word",)

    def __init__(self, line: int, pos: int, word: str) -> None:
        self.line, self.pos, self.word = line, pos, word


class IncludeNode(Node):
    """`{{template "name" pipeline}}`; a `block` leaves one of these in its place."""

    __slots__ = ("name", "pipe")

    def __init__(self, line: int, pos: int, name: str, pipe: PipeNode | None) -> None:
        self.line, self.pos, self.name, self.pipe = line, pos, name, pipe


class Template:
    """A parsed file, or one `define` or `block` of it.

    `file` and `text` are those of the whole file, also in a definition. `defines` holds the
    definitions in the file; a definition itself has none.
    """

    __slots__ = ("blank", "defines", "file", "name", "nodes", "text")

    def __init__(
        self,
        name: str,
        file: str,
        text: str,
        nodes: tuple[Node, ...],
        defines: Mapping[str, Template],
    ) -> None:
        self.name, self.file, self.text = name, file, text
        self.nodes, self.defines = nodes, defines
        self.blank = is_blank(nodes)


Position = tuple[Template, Node]


def column(text: str, pos: int) -> int:
    """Return the column of an offset in bytes from 0, as Go counts it."""
    start = text.rfind("\n", 0, pos) + 1
    return len(text[start:pos].encode("utf-8", "replace"))


def is_blank(nodes: Sequence[Node]) -> bool:
    """Return whether these nodes write nothing but white space."""
    return all(isinstance(node, TextNode) and not node.text.strip() for node in nodes)
