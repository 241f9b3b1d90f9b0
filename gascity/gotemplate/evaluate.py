"""Evaluate pipelines: fields, variables, function calls, undefined names.

`Evaluator.at` is the current node, moved exactly as Go moves it: errors are reported there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gascity.gotemplate.errors import EvalError, TemplateError, UndefinedName, did_you_mean
from gascity.gotemplate.functions import BUILTINS
from gascity.gotemplate.nodes import (
    ChainNode,
    Command,
    DotNode,
    FieldNode,
    FunctionNode,
    LiteralNode,
    Node,
    OverflowNode,
    PipeNode,
    Position,
    Template,
    VariableNode,
    column,
)
from gascity.gotemplate.values import (
    MISSING,
    Missing,
    Span,
    UndefinedValue,
    Value,
    plain,
    type_name,
)

MODES = ("strict", "lenient", "error", "default")
_NOTHING_PIPED = Missing()  # the first command of a pipeline has no piped value
_PATHS = frozenset({FieldNode, ChainNode, VariableNode})
_SIZED = (str, list, tuple)
_UNDEFINED_ALLOWED = frozenset({"not", "eq", "ne"})


class Budget(NamedTuple):
    """Limits of a rendering: steps of work, templates within templates, characters.

    The limit on output also applies to every text that is built on the way.
    """

    steps: int = 500_000
    depth: int = 1_000
    output: int = 4_000_000


class Binding:
    """A variable and its value; `boxed`: it came straight out of a list or map, see `slice`."""

    __slots__ = ("boxed", "name", "value")

    def __init__(self, name: str, value: Value, boxed: bool = False) -> None:
        self.name, self.value, self.boxed = name, value, boxed


class Evaluator:
    """The state of one rendering, and the part of it that evaluates pipelines."""

    def __init__(
        self,
        templates: Mapping[str, Template],
        template: Template,
        functions: Mapping[str, Callable[..., object]],
        missing: str,
        budget: Budget,
        undefined_names: list[UndefinedName] | None,
        lenient: Collection[str],
    ) -> None:
        if missing not in MODES:
            raise ValueError(f"missing must be one of {', '.join(MODES)}, not {missing!r}")
        self.templates = templates
        self.template = template
        self.at: Node = Node(1, 0)
        self.variables: list[Binding] = []
        self.boxed = False  # whether dot is boxed
        self.functions = functions
        self.default_mode = missing
        self.lenient = lenient
        self.tracks_undefined = missing in ("strict", "lenient")
        self.undefined_names = undefined_names
        self.reported: set[tuple[int, int]] = set()
        self.spans: list[Span] = []
        self.budget = budget
        self.steps = budget.steps  # left
        self.output = budget.output  # left, in characters
        self.depth = 0  # of templates within each other
        self.nested = 0  # of those, the ones inside `templateFirst`

    @property
    def mode(self) -> str:
        """The mode for undefined names in the current template; files can be lenient one by one."""
        return "lenient" if self.template.file in self.lenient else self.default_mode

    # Errors and limits

    def error(
        self, message: str, hint: str = "", position: Position | None = None
    ) -> TemplateError:
        template, node = position or (self.template, self.at)
        col = column(template.text, node.pos)
        return TemplateError("exec", message, template.file, node.line, col, template.name, hint)

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise self.error(f"the template takes more than {self.budget.steps} steps")

    def report(
        self, kind: str, subject: str, position: Position, known: Iterable[object], prefix: str = ""
    ) -> None:
        """Report an undefined name to the caller, once per position."""
        template, node = position
        if self.undefined_names is None or (id(template), node.pos) in self.reported:
            return
        self.reported.add((id(template), node.pos))
        hint = did_you_mean(subject.removeprefix(prefix), known, prefix)
        col = column(template.text, node.pos)
        self.undefined_names.append(
            UndefinedName(kind, subject, template.file, node.line, col, template.name, hint)
        )

    def require_defined(self, value: Value) -> Value:
        """Return a defined value: an undefined one is an error, or in lenient mode empty text."""
        if not isinstance(value, UndefinedValue):
            return value
        above, _, last = value.path.rpartition(".")
        if self.mode == "strict":
            hint = did_you_mean(last, value.known, f"{above}.")
            raise self.error(f"{value.path} is not defined", hint, value.position)
        self.report("variable", value.path, value.position, value.known, f"{above}.")
        return ""

    # Pipelines

    def pipeline(self, pipe: PipeNode, dot: Value, *, undefined_ok: bool = False) -> Value:
        """Return the value of a pipeline after assigning it to the pipeline's variables."""
        self.at = pipe
        value: Value = _NOTHING_PIPED
        for command in pipe.commands:
            value = self.command(command, dot, value)
            if value is None:
                value = MISSING
        if pipe.targets:
            if not undefined_ok:
                value = self.require_defined(value)
            self.bind(pipe, value)
        return value

    def bind(self, pipe: PipeNode, value: Value) -> None:
        for name in pipe.targets:
            if pipe.assigns:
                self.assign(name, value)
            else:
                self.variables.append(Binding(name, value))

    def assign(self, name: str, value: Value, boxed: bool = False) -> None:
        binding = self.binding(name)
        binding.value, binding.boxed = value, boxed

    def binding(self, name: str) -> Binding:
        for binding in reversed(self.variables):
            if binding.name == name:
                return binding
        raise self.error(f"undefined variable: {name}")

    def command(self, command: Command, dot: Value, piped: Value) -> Value:
        self.steps -= 1
        if self.steps < 0:
            self.spend(0)
        first = command[0]
        if type(first) is FunctionNode:
            return self.call(first, command[1:], dot, piped)
        has_args = len(command) > 1 or piped is not _NOTHING_PIPED
        if type(first) is FieldNode:
            if type(dot) is dict and len(first.path) == 1 and not has_args:
                # Fast path for nearly every action: a text that dot has under this name.
                entry = dot.get(first.path[0])
                if type(entry) is str:
                    self.at = first
                    return entry
        elif has_args and type(first) not in _PATHS:
            if type(first) is not PipeNode:
                self.at = first
            raise self.error("only a function takes arguments")
        elif type(first) is LiteralNode and first.value is None:
            self.at = first
            raise self.error("nil is not a command")
        return self.operand(first, dot, has_args)

    def operand(self, node: Node, dot: Value, has_args: bool = False) -> Value:
        """Return the value of an operand; with `has_args`, arguments follow it or are piped."""
        self.at = node
        match node:
            case FieldNode():
                return self.path(dot, node.path, ".", has_args)
            case LiteralNode():
                return node.value
            case VariableNode():
                return self.variable(node, has_args)
            case PipeNode():
                return self.pipeline(node, dot)
            case DotNode():
                return dot
            case FunctionNode():
                return self.call(node, (), dot, _NOTHING_PIPED)
            case ChainNode():
                base = self.operand(node.base, dot)
                return self.path(MISSING if base is None else base, node.path, "(…).", has_args)
            case OverflowNode():
                raise self.error(node.message)
        raise TypeError(node)  # no other node is an operand

    def variable(self, node: VariableNode, has_args: bool) -> Value:
        value = self.binding(node.name).value
        if node.path:
            return self.path(value, node.path, f"{node.name}.", has_args)
        if has_args:
            raise self.error(f"{node.name} is not a function and takes no arguments")
        return value

    # Fields

    def path(self, value: Value, names: tuple[str, ...], prefix: str, has_args: bool) -> Value:
        last = len(names) - 1
        for i, name in enumerate(names):
            if not isinstance(value, dict):
                value = self.field_of_non_map(value, name)
                continue
            if has_args and i == last:
                raise self.error(f"{name} is not a method but has arguments")
            entry = dict.get(value, name, MISSING)
            if entry is MISSING:
                value = self.absent(prefix + ".".join(names[: i + 1]), name, value)
            else:
                value = entry if type(entry) is str else plain(entry)
        return value

    def absent(self, path: str, name: str, whole: dict[object, object]) -> Value:
        if self.mode == "error":
            raise self.error(f'map has no entry for key "{name}"')
        if self.mode == "default":
            return MISSING
        return self.undefined(path, whole)

    def undefined(self, path: str, known: Iterable[object] = ()) -> UndefinedValue:
        return UndefinedValue(path, known, (self.template, self.at), self.mode == "lenient")

    def field_of_non_map(self, value: Value, name: str) -> Value:
        match value:
            case UndefinedValue() if value.path != ".":
                self.require_defined(value)  # in lenient mode .X.Y is as empty as .X
                return value
            case Missing():
                if self.mode == "error":
                    raise self.error(f'nil data; no entry for key "{name}"')
                return self.undefined(f".{name}") if self.tracks_undefined else value
            case None:
                raise self.error(f"cannot take the field {name} of a null")
        raise self.error(f"cannot take the field {name} of a value of type {type_name(value)}")

    # Calls

    def call(self, function: FunctionNode, args: Sequence[Node], dot: Value, piped: Value) -> Value:
        """Call a function; its errors are reported at its name, a bad argument at itself."""
        self.at = function
        name = function.name
        custom = self.functions.get(name)
        if custom is not None:
            values = self.arguments(name, args, dot, piped)
            return self.call_custom(function, custom, values)
        if name not in BUILTINS:
            raise self.error(f'function "{name}" not defined')
        builtin, fewest, most = BUILTINS[name]
        count = len(args) + (piped is not _NOTHING_PIPED)
        if count < fewest or (most is not None and count > most):
            raise self.error(f"wrong number of args for {name}: {count}")
        if name in ("and", "or"):
            return self.and_or(name, args, dot, piped)
        values = self.arguments(name, args, dot, piped)
        if builtin is None:
            return self.template_first(args, values, dot)
        try:
            if name == "slice":
                self.refuse_boxed(args[1:], values[1:])
            result = builtin(values, self.budget.output)
        except EvalError as error:
            self.at = function
            raise self.error(f"error calling {name}: {error}") from None
        self.spend(_cost(result))
        if self.tracks_undefined and result is MISSING:
            self.at = function
            return self.undefined(f'index … "{values[-1]}"')
        return result

    def and_or(self, name: str, args: Sequence[Node], dot: Value, piped: Value) -> Value:
        """Return the first argument that decides the result, or the last; evaluate no others."""
        value: Value = None
        for arg in args:
            value = self.operand(arg, dot)
            if bool(value) == (name == "or"):
                return value
        return value if piped is _NOTHING_PIPED else piped

    def arguments(self, name: str, args: Sequence[Node], dot: Value, piped: Value) -> list[Value]:
        values = [self.admit(name, self.operand(arg, dot), i) for i, arg in enumerate(args)]
        if piped is not _NOTHING_PIPED:
            values.append(self.admit(name, piped, len(values)))
        return values

    def admit(self, name: str, value: Value, position: int) -> Value:
        if name not in _UNDEFINED_ALLOWED or name in self.functions:
            value = self.require_defined(value)
        if name == "printf" and position == 0 and not isinstance(value, str):
            raise self.error(
                f"the first argument of printf must be a string, not {type_name(value)}"
            )
        self.spend(_cost(value))
        return value

    def refuse_boxed(self, args: Sequence[Node], values: list[Value]) -> None:
        """Reject an index that Go's `slice` rejects: a number straight out of a list or map.

        Go sees such a value as an interface, and `slice`, unlike `index`, does not unwrap it.
        Piped, in parentheses or through a variable it is a plain number.
        """
        for arg, value in zip(args, values, strict=False):
            match arg:
                case FieldNode() | ChainNode():
                    boxed = True
                case DotNode():
                    boxed = self.boxed
                case VariableNode():
                    boxed = bool(arg.path) or self.binding(arg.name).boxed
                case _:
                    boxed = False
            if boxed and isinstance(value, int):
                raise EvalError("put an index that comes from a list or map in parentheses")

    def call_custom(
        self, function: FunctionNode, custom: Callable[..., object], values: list[Value]
    ) -> Value:
        try:
            result = plain(custom(*[_python(value) for value in values]))
        except Exception as error:  # any error of a caller's function gets a position
            self.at = function
            raise self.error(f"error calling {function.name}: {error}") from error
        self.spend(1 + _cost(result))
        return result

    def template_first(self, args: Sequence[Node], values: list[Value], dot: Value) -> Value:
        """Implemented by the renderer, which knows how to render a fragment."""
        raise NotImplementedError


def _cost(value: Value) -> int:
    """Return the cost of a value in steps, so that growing texts use up the budget."""
    return len(value) >> 6 if isinstance(value, _SIZED) else 0


def _python(value: Value) -> Value:
    """Return a value as the caller's own functions receive it."""
    match value:
        case Missing():
            return None
        case bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            return int.__add__(value, 0)
    return value
