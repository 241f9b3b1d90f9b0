"""List the variables and fragments that a template refers to, without rendering it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gascity.gotemplate.nodes import (
    ChainNode,
    ControlNode,
    DotNode,
    FieldNode,
    FunctionNode,
    IncludeNode,
    LiteralNode,
    Node,
    PipeNode,
    Template,
    VariableNode,
    column,
)

_ALLOW_UNDEFINED = frozenset({"and", "or", "not", "eq", "ne"})


class TemplateReference(NamedTuple):
    """A reference to a variable or a fragment.

    `kind` is `variable`, `fragment`, or `pattern`: a fragment whose name is computed, where `name`
    is the format of the `printf` that computes it, or empty. `within` is the template that
    contains it. `tentative`: strict mode allows it to be undefined here. `rooted` (of a
    fragment): it receives the same data as the whole template; always true for a variable.
    """

    kind: str
    name: str
    file: str
    line: int
    col: int
    within: str
    tentative: bool
    rooted: bool


def references(template: Template) -> tuple[TemplateReference, ...]:
    """Return the references to variables and fragments in source order.

    A variable is the first name of `.X.Y` where dot is still the data of the whole template, and
    of `$.X.Y` anywhere. Definitions are templates of their own and not included.
    """
    return tuple(sorted(_Finder(template).of_lists(), key=lambda ref: (ref.line, ref.col)))


class _Finder:
    """Walks the tree of one template."""

    def __init__(self, template: Template) -> None:
        self.template = template

    def reference(
        self, kind: str, name: str, node: Node, tentative: bool, rooted: bool = True
    ) -> TemplateReference:
        file, within = self.template.file, self.template.name
        col = column(self.template.text, node.pos)
        return TemplateReference(kind, name, file, node.line, col, within, tentative, rooted)

    def of_lists(self) -> Iterator[TemplateReference]:
        """Walk the blocks with an explicit stack: a chain of `else if` may have any length."""
        todo: list[tuple[tuple[Node, ...], bool]] = [(self.template.nodes, True)]
        while todo:
            nodes, rooted = todo.pop()
            for node in nodes:
                match node:
                    case PipeNode():
                        yield from self.of_pipe(node, rooted, False)
                    case IncludeNode():
                        yield from self.of_include(node, rooted)
                    case ControlNode():
                        yield from self.of_pipe(node.pipe, rooted, True)
                        same = node.word == "if" or (node.word == "with" and _is_root(node.pipe))
                        todo += (node.body, rooted and same), (node.otherwise, rooted)

    def of_include(self, node: IncludeNode, rooted: bool) -> Iterator[TemplateReference]:
        whole = node.pipe is not None and _is_root(node.pipe, rooted)
        yield self.reference("fragment", node.name, node, False, whole)
        if node.pipe is not None:
            yield from self.of_pipe(node.pipe, rooted, False)

    def of_pipe(self, pipe: PipeNode, rooted: bool, tentative: bool) -> Iterator[TemplateReference]:
        followers = [command[0] for command in pipe.commands[1:]]
        for i, (first, *args) in enumerate(pipe.commands):
            match first:
                case FunctionNode():
                    for arg in args:
                        if first.name == "templateFirst":
                            yield from self.of_name(arg)
                        yield from self.of_operand(arg, rooted, _allows_undefined(first))
                case _:
                    optional = _allows_undefined(followers[i]) if i < len(followers) else tentative
                    yield from self.of_operand(first, rooted, optional)

    def of_name(self, arg: Node) -> Iterator[TemplateReference]:
        """Yield the fragment that an argument of templateFirst names, or its name pattern."""
        match arg:
            case LiteralNode() if arg.value is not None:
                yield self.reference("fragment", str(arg.value), arg, True)
            case PipeNode(
                commands=((FunctionNode(name="printf"), LiteralNode(value=str(form)), *_), *_)
            ):
                yield self.reference("pattern", form, arg, True)
            case DotNode() | VariableNode(path=()):
                pass
            case _:
                yield self.reference("pattern", "", arg, True)

    def of_operand(self, node: Node, rooted: bool, tentative: bool) -> Iterator[TemplateReference]:
        match node:
            case FieldNode(path=path) if rooted:
                yield self.variable(node, path, tentative)
            case VariableNode(name="$", path=(_, *_) as path):
                yield self.variable(node, path, tentative)
            case PipeNode():
                yield from self.of_pipe(node, rooted, tentative)
            case ChainNode():
                yield from self.of_operand(node.base, rooted, False)

    def variable(self, node: Node, path: tuple[str, ...], tentative: bool) -> TemplateReference:
        return self.reference("variable", path[0], node, tentative and len(path) == 1)


def _allows_undefined(node: Node) -> bool:
    return isinstance(node, FunctionNode) and node.name in _ALLOW_UNDEFINED


def _is_root(pipe: PipeNode, rooted: bool = True) -> bool:
    """Return whether the pipeline is `$`, or `.` where that is the data of the template."""
    match pipe.commands:
        case ((DotNode(),),):
            return rooted
        case ((VariableNode(name="$", path=()),),):
            return True
    return False
