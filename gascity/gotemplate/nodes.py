"""What a template consists of once it is parsed. Every node knows its line and its offset."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gascity.gotemplate.records import Frozen, put


class Node(Frozen):
    """A part of a template; `pos` is the character offset where Go says it stands."""

    __slots__ = ("line", "pos")
    line: int
    pos: int

    def __init__(self, line: int, pos: int) -> None:
        put(self, "line", line)
        put(self, "pos", pos)


class Dot(Node):
    """`.`"""

    __slots__ = ()


class Nil(Node):
    """`nil`"""

    __slots__ = ()


class Literal(Node):
    """A string, number, character or boolean."""

    __slots__ = ("value",)
    value: object

    def __init__(self, line: int, pos: int, value: object) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "value", value)


class TooLarge(Node):
    """An integer literal that Go refuses only when it is evaluated."""

    __slots__ = ("message",)
    message: str

    def __init__(self, line: int, pos: int, message: str) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "message", message)


class Function(Node):
    """The name of a function."""

    __slots__ = ("name",)
    name: str

    def __init__(self, line: int, pos: int, name: str) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "name", name)


class Field(Node):
    """`.A.B`: a path from dot."""

    __slots__ = ("path",)
    path: tuple[str, ...]

    def __init__(self, line: int, pos: int, path: tuple[str, ...]) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "path", path)


class Variable(Node):
    """`$x` or `$x.A.B`; `name` has the dollar sign."""

    __slots__ = ("name", "path")
    name: str
    path: tuple[str, ...]

    def __init__(self, line: int, pos: int, name: str, path: tuple[str, ...]) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "name", name)
        put(self, "path", path)


class Chain(Node):
    """`(pipeline).A.B` or `function.A`."""

    __slots__ = ("base", "path")
    base: Node
    path: tuple[str, ...]

    def __init__(self, line: int, pos: int, base: Node, path: tuple[str, ...]) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "base", base)
        put(self, "path", path)


class Command(Node):
    """One stage of a pipeline: an operand, or a function and its arguments."""

    __slots__ = ("args",)
    args: tuple[Node, ...]

    def __init__(self, line: int, pos: int, args: tuple[Node, ...]) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "args", args)


class Pipe(Node):
    """Commands joined by `|`; their value is given to the variables of `targets`."""

    __slots__ = ("assigns", "commands", "targets")
    commands: tuple[Command, ...]
    targets: tuple[str, ...]
    assigns: bool

    def __init__(
        self,
        line: int,
        pos: int,
        commands: tuple[Command, ...],
        targets: tuple[str, ...],
        assigns: bool,
    ) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "commands", commands)
        put(self, "targets", targets)
        put(self, "assigns", assigns)


class Text(Node):
    """Text as it stands, trimmed."""

    __slots__ = ("text",)
    text: str

    def __init__(self, line: int, pos: int, text: str) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "text", text)


class Action(Node):
    """`{{pipeline}}`"""

    __slots__ = ("pipe",)
    pipe: Pipe

    def __init__(self, line: int, pos: int, pipe: Pipe) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "pipe", pipe)


class Control(Node):
    """What `if`, `with` and `range` have in common."""

    __slots__ = ("body", "otherwise", "pipe")
    pipe: Pipe
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]

    def __init__(
        self,
        line: int,
        pos: int,
        pipe: Pipe,
        body: tuple[Node, ...],
        otherwise: tuple[Node, ...],
    ) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "pipe", pipe)
        put(self, "body", body)
        put(self, "otherwise", otherwise)


class If(Control):
    """`{{if}}`"""

    __slots__ = ()


class With(Control):
    """`{{with}}`"""

    __slots__ = ()


class Range(Control):
    """`{{range}}`"""

    __slots__ = ()


class Break(Node):
    """`{{break}}`"""

    __slots__ = ()


class Continue(Node):
    """`{{continue}}`"""

    __slots__ = ()


class Include(Node):
    """`{{template "name" pipeline}}`, also what is left of a `block` in its place."""

    __slots__ = ("name", "pipe")
    name: str
    pipe: Pipe | None

    def __init__(self, line: int, pos: int, name: str, pipe: Pipe | None) -> None:
        put(self, "line", line)
        put(self, "pos", pos)
        put(self, "name", name)
        put(self, "pipe", pipe)


class Template(Frozen):
    """A parsed text, or one `define` or `block` of it.

    `file` and `text` are those of the whole file, also in a definition. `defines` holds the
    definitions that the file makes; a definition itself makes none.
    """

    __slots__ = ("blank", "defines", "file", "name", "nodes", "text")
    name: str
    file: str
    text: str
    nodes: tuple[Node, ...]
    defines: Mapping[str, Template]
    blank: bool

    def __init__(
        self,
        name: str,
        file: str,
        text: str,
        nodes: tuple[Node, ...],
        defines: Mapping[str, Template],
    ) -> None:
        put(self, "name", name)
        put(self, "file", file)
        put(self, "text", text)
        put(self, "nodes", nodes)
        put(self, "defines", MappingProxyType(dict(defines)))
        put(self, "blank", is_blank(nodes))

    def __hash__(self) -> int:
        return hash((self.name, self.file, self.text))

    def column(self, pos: int) -> int:
        """Return the column of an offset, in bytes from 0."""
        start = self.text.rfind("\n", 0, pos) + 1
        return len(self.text[start:pos].encode("utf-8", "replace"))


Place = tuple[Template, Node]


def is_blank(nodes: tuple[Node, ...] | list[Node]) -> bool:
    """Whether these nodes write nothing but white space."""
    return all(isinstance(n, Text) and not n.text.strip() for n in nodes)
