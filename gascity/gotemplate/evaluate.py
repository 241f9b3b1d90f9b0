"""Evaluate pipelines: fields, variables, calls, and what an undefined variable means.

`at` is the node that is being looked at, moved as Go moves it: an error is reported there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gascity.gotemplate.errors import Mistake, Note, TemplateError, did_you_mean
from gascity.gotemplate.functions import BUILTINS
from gascity.gotemplate.nodes import (
    Chain,
    Command,
    Dot,
    Field,
    Function,
    Literal,
    Nil,
    Node,
    Pipe,
    Place,
    Template,
    TooLarge,
    Variable,
)
from gascity.gotemplate.records import Frozen, put
from gascity.gotemplate.values import MISSING, Missing, Undefined, plain, truth, type_name

MODES = ("strict", "lenient", "error", "default")
_NO_FINAL = object()  # no value is piped into the command
_PATHS = (Field, Chain, Variable)
_SIZED = (str, list, tuple)
_UNDEFINED_ALLOWED = frozenset({"not", "eq", "ne"})


class Budget(Frozen):
    """How much a rendering may do: steps of work, templates within templates, characters.

    The limit on output also holds for every text that is put together on the way.
    """

    __slots__ = ("depth", "output", "steps")
    steps: int
    depth: int
    output: int

    def __init__(
        self, *, steps: int = 500_000, depth: int = 1_000, output: int = 4_000_000
    ) -> None:
        put(self, "steps", steps)
        put(self, "depth", depth)
        put(self, "output", output)


class Slot:
    """A variable. `boxed` says that it came out of a list or map as it was: see `refuse_boxed`."""

    __slots__ = ("boxed", "name", "value")

    def __init__(self, name: str, value: object, boxed: bool = False) -> None:
        self.name = name
        self.value = value
        self.boxed = boxed


class Evaluator:
    """The state of one rendering, as far as pipelines see it."""

    def __init__(
        self,
        template: Template,
        functions: Mapping[str, Callable[..., object]],
        missing: str,
        budget: Budget,
        notes: list[Note] | None,
        lenient: Collection[str] = (),
    ) -> None:
        if missing not in MODES:
            raise ValueError(f"missing must be one of {', '.join(MODES)}, not {missing!r}")
        self.template = template
        self.at: Node = Node(1, 0)
        self.variables: list[Slot] = []
        self.boxed = False  # whether dot is boxed
        self.functions = functions
        self.general = missing
        self.lenient = lenient
        self.tracks_undefined = missing in ("strict", "lenient")
        self.budget = budget
        self.steps = budget.steps
        self.notes = notes
        self.noted: set[tuple[int, int]] = set()

    @property
    def mode(self) -> str:
        """What an undefined name is in the template at hand; files may be lenient one by one."""
        return "lenient" if self.template.file in self.lenient else self.general

    # Errors and limits

    def error(self, message: str, hint: str = "") -> TemplateError:
        return self.error_at((self.template, self.at), message, hint)

    def error_at(self, place: Place, message: str, hint: str = "") -> TemplateError:
        template, node = place
        return TemplateError(
            "exec",
            message,
            file=template.file,
            line=node.line,
            col=template.column(node.pos),
            name=template.name,
            hint=hint,
        )

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise self.error(f"the template takes more than {self.budget.steps} steps")

    def note(
        self, kind: str, subject: str, place: Place, known: Iterable[object], prefix: str = ""
    ) -> None:
        """Keep a note for the caller, once for a place however often it is reached."""
        template, node = place
        if self.notes is None or (id(template), node.pos) in self.noted:
            return
        self.noted.add((id(template), node.pos))
        self.notes.append(
            Note(
                kind,
                subject,
                file=template.file,
                line=node.line,
                col=template.column(node.pos),
                name=template.name,
                hint=did_you_mean(subject.removeprefix(prefix), known, prefix),
            )
        )

    def settle(self, value: object) -> object:
        """Return a value that is defined: an undefined one is an error, or empty if lenient."""
        if not isinstance(value, Undefined):
            return value
        above, _, last = value.path.rpartition(".")
        if self.mode == "strict":
            hint = did_you_mean(last, value.known, f"{above}.")
            raise self.error_at(value.place, f"{value.path} is not defined", hint)
        self.note("variable", value.path, value.place, value.known, f"{above}.")
        return ""

    # Pipelines

    def pipeline(self, pipe: Pipe, dot: object, *, undefined_ok: bool = False) -> object:
        """Return the value of a pipeline, given to its variables if it has any."""
        self.at = pipe
        value: object = _NO_FINAL
        for command in pipe.commands:
            value = self.command(command, dot, value)
            if value is None:
                value = MISSING
        if pipe.targets:
            if not undefined_ok:
                value = self.settle(value)
            self.bind(pipe, value)
        return value

    def bind(self, pipe: Pipe, value: object) -> None:
        for name in pipe.targets:
            if pipe.assigns:
                self.assign(name, value)
            else:
                self.variables.append(Slot(name, value))

    def assign(self, name: str, value: object, boxed: bool = False) -> None:
        slot = self.slot(name)
        slot.value, slot.boxed = value, boxed

    def slot(self, name: str) -> Slot:
        for slot in reversed(self.variables):
            if slot.name == name:
                return slot
        raise self.error(f"undefined variable: {name}")

    def command(self, command: Command, dot: object, final: object) -> object:
        self.steps -= 1
        if self.steps < 0:
            self.spend(0)
        first = command.args[0]
        if type(first) is Field and type(dot) is dict:
            # A short cut to what nearly every action is: a text that dot has under this name.
            entry = dot.get(first.path[0])
            if (
                type(entry) is str
                and len(command.args) + len(first.path) == 2
                and final is _NO_FINAL
            ):
                self.at = first
                return entry
        if type(first) is Function:
            return self.call(first, command, command.args[1:], dot, final)
        given = len(command.args) > 1 or final is not _NO_FINAL
        if isinstance(first, _PATHS):
            return self.operand(first, dot, given)
        if not isinstance(first, Pipe):
            self.at = first
        if given:
            raise self.error("cannot give an argument to what is not a function")
        if type(first) is Nil:
            raise self.error("nil is not a command")
        return self.operand(first, dot, False)

    def operand(self, node: Node, dot: object, given: bool) -> object:
        """Return the value of an operand; `given` says that arguments follow it, or are piped."""
        self.at = node
        if isinstance(node, Field):
            return self.path(dot, node.path, ".", given)
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, Pipe):
            return self.pipeline(node, dot)
        if isinstance(node, Dot):
            return dot
        if isinstance(node, Variable):
            return self.variable(node, given)
        if isinstance(node, Function):
            return self.call(node, node, (), dot, _NO_FINAL)
        if isinstance(node, Chain):
            base = self.operand(node.base, dot, False)
            return self.path(MISSING if base is None else base, node.path, "(…).", given)
        if isinstance(node, TooLarge):
            raise self.error(node.message)
        return None  # nil

    def variable(self, node: Variable, given: bool) -> object:
        value = self.slot(node.name).value
        if node.path:
            return self.path(value, node.path, f"{node.name}.", given)
        if given:
            raise self.error(f"cannot give an argument to {node.name}, which is not a function")
        return value

    # Fields

    def path(self, value: object, names: tuple[str, ...], prefix: str, given: bool) -> object:
        last = len(names) - 1
        for i, name in enumerate(names):
            if isinstance(value, dict):
                if given and i == last:
                    raise self.error(f"{name} is not a method but has arguments")
                entry = dict.get(value, name, MISSING)
                if entry is MISSING:
                    value = self.absent(prefix + ".".join(names[: i + 1]), name, value)
                else:
                    value = entry if type(entry) is str else self.accept(entry)
            else:
                value = self.field_of_no_map(value, name)
        return value

    def accept(self, value: object) -> object:
        try:
            return plain(value)
        except Mistake as mistake:
            raise self.error(str(mistake)) from None

    def absent(self, path: str, name: str, whole: dict[object, object]) -> object:
        if self.mode == "error":
            raise self.error(f'map has no entry for key "{name}"')
        if self.mode == "default":
            return MISSING
        return self.undefined(path, whole)

    def undefined(self, path: str, known: Iterable[object] = ()) -> Undefined:
        return Undefined(path, known, (self.template, self.at), self.mode == "lenient")

    def field_of_no_map(self, value: object, name: str) -> object:
        if isinstance(value, Undefined) and value.path != ".":
            self.settle(value)  # under the lenient rule, all of .X.Y is as empty as .X
            return value
        if isinstance(value, Missing):
            if self.mode == "error":
                raise self.error(f'nil data; no entry for key "{name}"')
            return self.undefined(f".{name}") if self.tracks_undefined else value
        if value is None:
            raise self.error(f"cannot take the field {name} of a null")
        raise self.error(f"cannot take the field {name} of a value of type {type_name(value)}")

    # Calls

    def call(
        self, function: Function, command: Node, args: Sequence[Node], dot: object, final: object
    ) -> object:
        """Call a function; its own refusal is reported at the command, a bad argument there."""
        self.at = function
        name = function.name
        extra = self.functions.get(name)
        if extra is not None:
            values = self.arguments(name, args, dot, final)
            return self.call_extra(name, extra, values, command)
        if name not in BUILTINS:
            raise self.error(f'function "{name}" not defined')
        builtin, fewest, most = BUILTINS[name]
        count = len(args) + (final is not _NO_FINAL)
        if count < fewest or (most is not None and count > most):
            raise self.error(f"wrong number of args for {name}: {count}")
        if name in ("and", "or"):
            return self.either(name, args, dot, final)
        values = self.arguments(name, args, dot, final)
        if name == "templateFirst":
            return self.template_first(args, values, dot)
        try:
            if name == "slice":
                self.refuse_boxed(args[1:], values[1:])
            result = builtin(values, self.budget.output)
        except Mistake as mistake:
            self.at = command
            raise self.error(f"error calling {name}: {mistake}") from None
        self.spend(_cost(result))
        if self.tracks_undefined and result is MISSING:
            self.at = command
            return self.undefined(f'index … "{values[-1]}"')
        return result

    def either(self, name: str, args: Sequence[Node], dot: object, final: object) -> object:
        """Return the first argument that decides, or the last; the others are not evaluated."""
        value: object = None
        for arg in args:
            value = self.operand(arg, dot, False)
            if truth(value) == (name == "or"):
                return value
        return value if final is _NO_FINAL else final

    def arguments(
        self, name: str, args: Sequence[Node], dot: object, final: object
    ) -> list[object]:
        values: list[object] = []
        for i, arg in enumerate(args):
            value = self.operand(arg, dot, False)
            values.append(self.admit(name, value, i))
        if final is not _NO_FINAL:
            values.append(self.admit(name, final, len(values)))
        return values

    def admit(self, name: str, value: object, position: int) -> object:
        if name not in _UNDEFINED_ALLOWED or name in self.functions:
            value = self.settle(value)
        if name == "printf" and position == 0 and not isinstance(value, str):
            raise self.error(f"printf wants a string first, not {type_name(value)}")
        self.spend(_cost(value))
        return value

    def refuse_boxed(self, args: Sequence[Node], values: list[object]) -> None:
        """Refuse what Go's `slice` refuses as an index: a number straight out of a list or map.

        Go sees such a value as an interface, and `slice`, unlike `index`, does not look into it.
        Piped, in parentheses or through a variable it is just a number.
        """
        for arg, value in zip(args, values, strict=False):
            boxed = isinstance(arg, Field | Chain) or (isinstance(arg, Dot) and self.boxed)
            if isinstance(arg, Variable):
                boxed = bool(arg.path) or self.slot(arg.name).boxed
            if boxed and isinstance(value, int):
                raise Mistake("an index out of a list or map must be in parentheses")

    def call_extra(
        self, name: str, extra: Callable[..., object], values: list[object], command: Node
    ) -> object:
        try:
            result = plain(extra(*[_python(value) for value in values]))
        except Exception as problem:  # whatever it is, it has a place in the template
            self.at = command
            raise self.error(f"error calling {name}: {problem}") from problem
        self.spend(1 + _cost(result))
        return result

    def template_first(self, args: Sequence[Node], values: list[object], dot: object) -> object:
        """The walker's: only it knows the other templates."""
        raise NotImplementedError


def _cost(value: object) -> int:
    """Return the steps that handling a value is worth, so that growing texts use up the budget."""
    return len(value) >> 6 if isinstance(value, _SIZED) else 0


def _python(value: object) -> object:
    """Return a value as a function of the caller gets it."""
    if isinstance(value, Missing):
        return None
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__add__(value, 0)
    return value
