"""List the variables and fragments that a template refers to, without rendering it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gascity.gotemplate.nodes import (
    ActionNode,
    ChainNode,
    ControlNode,
    DotNode,
    FieldNode,
    FunctionNode,
    IfNode,
    IncludeNode,
    LiteralNode,
    Node,
    PipeNode,
    Template,
    VariableNode,
    WithNode,
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
        template = self.template
        return TemplateReference(
            kind,
            name,
            template.file,
            node.line,
            template.column(node.pos),
            template.name,
            tentative,
            rooted,
        )

    def of_lists(self) -> Iterator[TemplateReference]:
        """Walk the blocks with an explicit stack: a chain of `else if` may have any length."""
        todo: list[tuple[tuple[Node, ...], bool]] = [(self.template.nodes, True)]
        while todo:
            nodes, rooted = todo.pop()
            for node in nodes:
                if isinstance(node, ActionNode):
                    yield from self.of_pipe(node.pipe, rooted, False)
                elif isinstance(node, IncludeNode):
                    yield from self.of_include(node, rooted)
                elif isinstance(node, ControlNode):
                    yield from self.of_pipe(node.pipe, rooted, True)
                    same = isinstance(node, IfNode) or (
                        isinstance(node, WithNode) and _is_root(node.pipe)
                    )
                    todo.append((node.body, rooted and same))
                    todo.append((node.otherwise, rooted))

    def of_include(self, node: IncludeNode, rooted: bool) -> Iterator[TemplateReference]:
        whole = node.pipe is not None and _is_root(node.pipe, rooted)
        yield self.reference("fragment", node.name, node, False, whole)
        if node.pipe is not None:
            yield from self.of_pipe(node.pipe, rooted, False)

    def of_pipe(self, pipe: PipeNode, rooted: bool, tentative: bool) -> Iterator[TemplateReference]:
        followers = [command.args[0] for command in pipe.commands[1:]]
        for i, command in enumerate(pipe.commands):
            first, *args = command.args
            if isinstance(first, FunctionNode):
                yield from self.of_call(first, args, rooted)
            else:
                optional = _allows_undefined(followers[i]) if i < len(followers) else tentative
                yield from self.of_operand(first, rooted, optional)

    def of_call(
        self, function: FunctionNode, args: list[Node], rooted: bool
    ) -> Iterator[TemplateReference]:
        for arg in args:
            if function.name == "templateFirst":
                yield from self.of_name(arg)
            yield from self.of_operand(arg, rooted, _allows_undefined(function))

    def of_name(self, arg: Node) -> Iterator[TemplateReference]:
        """Yield the fragment that an argument of templateFirst names, or its name pattern."""
        if isinstance(arg, LiteralNode):
            yield self.reference("fragment", str(arg.value), arg, True)
        elif isinstance(arg, PipeNode):
            first, *rest = arg.commands[0].args
            is_printf = isinstance(first, FunctionNode) and first.name == "printf"
            shape = rest[0] if is_printf and rest else None
            name = str(shape.value) if isinstance(shape, LiteralNode) else ""
            yield self.reference("pattern", name, arg, True)
        elif not isinstance(arg, DotNode) and not (isinstance(arg, VariableNode) and not arg.path):
            yield self.reference("pattern", "", arg, True)

    def of_operand(self, node: Node, rooted: bool, tentative: bool) -> Iterator[TemplateReference]:
        if isinstance(node, FieldNode | VariableNode):
            from_root = rooted if isinstance(node, FieldNode) else node.name == "$"
            if from_root and node.path:
                optional = tentative and len(node.path) == 1
                yield self.reference("variable", node.path[0], node, optional)
        elif isinstance(node, PipeNode):
            yield from self.of_pipe(node, rooted, tentative)
        elif isinstance(node, ChainNode):
            yield from self.of_operand(node.base, rooted, False)


def _allows_undefined(node: Node) -> bool:
    return isinstance(node, FunctionNode) and node.name in _ALLOW_UNDEFINED


def _is_root(pipe: PipeNode, rooted: bool = True) -> bool:
    """Return whether the pipeline is `$`, or `.` where that is the data of the template."""
    if len(pipe.commands) != 1 or len(pipe.commands[0].args) != 1:
        return False
    only = pipe.commands[0].args[0]
    return (isinstance(only, DotNode) and rooted) or (
        isinstance(only, VariableNode) and only.name == "$" and not only.path
    )
