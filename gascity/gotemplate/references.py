"""Say what a template refers to, without rendering it."""

from __future__ import annotations

from collections.abc import Iterator

from gascity.gotemplate.nodes import (
    Action,
    Chain,
    Control,
    Dot,
    Field,
    Function,
    If,
    Include,
    Literal,
    Node,
    Pipe,
    Template,
    Variable,
    With,
)
from gascity.gotemplate.records import Frozen, put

_ASKING = frozenset({"and", "or", "not", "eq", "ne"})


class Reference(Frozen):
    """A mention of a variable or a fragment.

    `kind` is `variable`, `fragment`, or `pattern`: a fragment whose name is computed, where `name`
    is the format of the `printf` that does it, or empty. `within` is the template that mentions it.
    `tentative` says that the strict rule allows it to be undefined there. `rooted` says, of a
    fragment, that it gets the same data as the whole; of a variable it is always true.
    """

    __slots__ = ("col", "file", "kind", "line", "name", "rooted", "tentative", "within")
    kind: str
    name: str
    file: str
    line: int
    col: int
    within: str
    tentative: bool
    rooted: bool

    def __init__(
        self, kind: str, name: str, template: Template, node: Node, tentative: bool, rooted: bool
    ) -> None:
        put(self, "kind", kind)
        put(self, "name", name)
        put(self, "file", template.file)
        put(self, "line", node.line)
        put(self, "col", template.column(node.pos))
        put(self, "within", template.name)
        put(self, "tentative", tentative)
        put(self, "rooted", rooted)


def references(template: Template) -> tuple[Reference, ...]:
    """Return the variables and fragments that `template` mentions, in the order of its text.

    A variable is the first name of `.X.Y` where dot is still the data given, and of `$.X.Y`
    anywhere. The definitions of a file are templates of their own: ask each of them.
    """
    found = list(_Finder(template).of_lists())
    return tuple(sorted(found, key=lambda r: (r.line, r.col)))


class _Finder:
    def __init__(self, template: Template) -> None:
        self.template = template

    def reference(
        self, kind: str, name: str, node: Node, tentative: bool, rooted: bool = True
    ) -> Reference:
        return Reference(kind, name, self.template, node, tentative, rooted)

    def of_lists(self) -> Iterator[Reference]:
        """Go through the blocks with a stack: a chain of `else if` may be of any length."""
        todo: list[tuple[tuple[Node, ...], bool]] = [(self.template.nodes, True)]
        while todo:
            nodes, rooted = todo.pop()
            for node in nodes:
                if isinstance(node, Action):
                    yield from self.of_pipe(node.pipe, rooted, False)
                elif isinstance(node, Include):
                    yield from self.of_include(node, rooted)
                elif isinstance(node, Control):
                    yield from self.of_pipe(node.pipe, rooted, True)
                    same = isinstance(node, If) or (isinstance(node, With) and _is_root(node.pipe))
                    todo.append((node.body, rooted and same))
                    todo.append((node.otherwise, rooted))

    def of_include(self, node: Include, rooted: bool) -> Iterator[Reference]:
        whole = node.pipe is not None and _is_root(node.pipe, rooted)
        yield self.reference("fragment", node.name, node, False, whole)
        if node.pipe is not None:
            yield from self.of_pipe(node.pipe, rooted, False)

    def of_pipe(self, pipe: Pipe, rooted: bool, tentative: bool) -> Iterator[Reference]:
        followers = [command.args[0] for command in pipe.commands[1:]]
        for i, command in enumerate(pipe.commands):
            first, *args = command.args
            if isinstance(first, Function):
                yield from self.of_call(first, args, rooted)
            else:
                asked = _asks(followers[i]) if i < len(followers) else tentative
                yield from self.of_operand(first, rooted, asked)

    def of_call(self, function: Function, args: list[Node], rooted: bool) -> Iterator[Reference]:
        for arg in args:
            if function.name == "templateFirst":
                yield from self.of_name(arg)
            yield from self.of_operand(arg, rooted, _asks(function))

    def of_name(self, arg: Node) -> Iterator[Reference]:
        """Yield the fragment that an argument of templateFirst names, as far as it is written."""
        if isinstance(arg, Literal):
            yield self.reference("fragment", str(arg.value), arg, True)
        elif isinstance(arg, Pipe):
            first, *rest = arg.commands[0].args
            is_printf = isinstance(first, Function) and first.name == "printf"
            known = is_printf and bool(rest) and isinstance(rest[0], Literal)
            name = str(rest[0].value) if known and isinstance(rest[0], Literal) else ""
            yield self.reference("pattern", name, arg, True)
        elif not isinstance(arg, Dot) and not (isinstance(arg, Variable) and not arg.path):
            yield self.reference("pattern", "", arg, True)

    def of_operand(self, node: Node, rooted: bool, tentative: bool) -> Iterator[Reference]:
        if isinstance(node, Field | Variable):
            from_root = rooted if isinstance(node, Field) else node.name == "$"
            if from_root and node.path:
                asked = tentative and len(node.path) == 1
                yield self.reference("variable", node.path[0], node, asked)
        elif isinstance(node, Pipe):
            yield from self.of_pipe(node, rooted, tentative)
        elif isinstance(node, Chain):
            yield from self.of_operand(node.base, rooted, False)


def _asks(node: Node) -> bool:
    return isinstance(node, Function) and node.name in _ASKING


def _is_root(pipe: Pipe, rooted: bool = True) -> bool:
    """Whether the pipeline is just `.` where that is the data given, or `$`."""
    if len(pipe.commands) != 1 or len(pipe.commands[0].args) != 1:
        return False
    only = pipe.commands[0].args[0]
    return (isinstance(only, Dot) and rooted) or (
        isinstance(only, Variable) and only.name == "$" and not only.path
    )
