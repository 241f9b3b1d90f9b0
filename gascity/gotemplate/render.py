"""Walk the nodes of a template and emit its text.

The walk keeps its own stack, so that templates that include each other may go as deep as the
budget says, whatever Python's limit on recursion is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from gascity.gotemplate.errors import Mistake, Note, TemplateError, did_you_mean
from gascity.gotemplate.evaluate import Budget, Evaluator, Slot
from gascity.gotemplate.nodes import (
    Action,
    Break,
    Continue,
    Dot,
    If,
    Include,
    Node,
    Range,
    Template,
    Text,
    Variable,
    With,
)
from gascity.gotemplate.spans import Included, Span, mended
from gascity.gotemplate.values import MISSING, Int, Missing, plain, sorted_items, truth
from gascity.gotemplate.verbs import display

_TRAIL = 20  # callers an error names at most; a runaway recursion has thousands
_NESTED = 30  # fragments included by templateFirst within each other, which do use Python's stack
_CHOICES = (If, With)
_JUMPS = (Break, Continue)


class _Frame:
    """A list of nodes under way.

    `floor` is the number of variables there were before it. A frame of a range has its items and
    keeps `kept` variables, its own, from one round to the next. `breaks` marks what a `break` ends:
    a range, or the `else` of one, which Go counts as part of it. `call` is the place that included
    a template; only the first frame of a template has one.
    """

    __slots__ = (
        "boxed",
        "breaks",
        "call",
        "dot",
        "floor",
        "items",
        "kept",
        "loop",
        "nodes",
        "template",
        "variables",
    )

    def __init__(
        self, nodes: tuple[Node, ...], dot: object, template: Template, variables: list[Slot]
    ) -> None:
        self.nodes: Iterator[Node] = iter(nodes)
        self.dot = dot
        self.boxed = False
        self.breaks = False
        self.template = template
        self.variables = variables
        self.floor = 0
        self.kept = 0
        self.loop: Range | None = None
        self.items: Iterator[tuple[object, object]] = iter(())
        self.call: tuple[str, int, str] | None = None


class Walker(Evaluator):
    """One rendering: a set of templates, a stack of frames, the spans so far."""

    def __init__(
        self,
        templates: Mapping[str, Template],
        template: Template,
        functions: Mapping[str, Callable[..., object]],
        missing: str,
        budget: Budget,
        notes: list[Note] | None,
        lenient: Collection[str] = (),
    ) -> None:
        super().__init__(template, functions, missing, budget, notes, lenient)
        self.templates = templates
        self.spans: list[Span] = []
        self.left = budget.output
        self.depth = 0
        self.nested = 0

    def emit(self, text: str, line: int) -> None:
        """Add a piece of output that the template at hand wrote at `line`."""
        if not text:
            return
        self.left -= len(text)
        if self.left < 0:
            raise self.error(f"the output is longer than {self.budget.output} characters")
        self.spans.append(Span(text, self.template.file, line, self.template.name))

    def run(self, template: Template, data: object) -> None:
        self.refuse_deeper()
        frames = [self.enter(template, data)]
        try:
            while frames:
                self.resume(frames)
        except TemplateError as error:
            calls = [frame.call for frame in reversed(frames) if frame.call]
            error.trail = (*error.trail, *calls)[:_TRAIL]
            raise

    def enter(self, template: Template, data: object) -> _Frame:
        self.depth += 1
        return _Frame(template.nodes, data, template, [Slot("$", data)])

    def refuse_deeper(self) -> None:
        if self.depth > self.budget.depth:
            raise self.error(f"templates are nested more than {self.budget.depth} deep")

    def resume(self, frames: list[_Frame]) -> None:
        """Go on with the innermost list until it ends or something opens another."""
        frame = frames[-1]
        self.template, self.variables, self.boxed = frame.template, frame.variables, frame.boxed
        for node in frame.nodes:
            self.at = node
            self.steps -= 1
            if self.steps < 0:
                self.spend(0)
            if type(node) is Text:
                self.emit(node.text, node.line)
            elif type(node) is Action:
                self.action(node, frame.dot)
            elif self.moved(node, frame, frames):
                return
        if frame.loop is not None and self.next_round(frame, frame.loop):
            return
        self.leave(frames)

    def leave(self, frames: list[_Frame]) -> None:
        frame = frames.pop()
        if frame.floor:
            del frame.variables[frame.floor :]
        else:
            self.depth -= 1  # every list but a template's own starts with "$" at least

    def moved(self, node: Node, frame: _Frame, frames: list[_Frame]) -> bool:
        """Do what opens or closes lists; say whether another frame is on top now."""
        before = len(frames)
        if isinstance(node, _CHOICES):
            self.choose(node, frame, frames)
        elif isinstance(node, Range):
            self.start_range(node, frame, frames)
        elif isinstance(node, Include):
            self.include(node, frame.dot, frames)
        elif isinstance(node, _JUMPS):
            self.jump(isinstance(node, Break), frames)
            return True
        return len(frames) > before

    def jump(self, out: bool, frames: list[_Frame]) -> None:
        """Leave lists up to the range that a `break` ends, or that a `continue` goes on with."""
        while not (frames[-1].breaks if out else frames[-1].loop):
            self.leave(frames)
        if out:
            self.leave(frames)
        else:
            frames[-1].nodes = iter(())

    def action(self, node: Action, dot: object) -> None:
        value = self.pipeline(node.pipe, dot)
        if node.pipe.targets:
            return
        self.at = node
        value = self.settle(value)
        if type(value) is str:
            self.emit(value, node.line)
        elif isinstance(value, Included):
            self.left -= len(value)
            if self.left < 0:
                raise self.error(f"the output is longer than {self.budget.output} characters")
            self.spans.extend(value.spans)
        elif isinstance(value, Missing):
            self.emit("<no value>", node.line)
        else:
            self.emit(self.shown(value), node.line)

    def shown(self, value: object) -> str:
        try:
            return display(value, self.budget.output)
        except Mistake as mistake:
            raise self.error(str(mistake)) from None

    def open(self, nodes: tuple[Node, ...], dot: object, floor: int, boxed: bool) -> _Frame:
        frame = _Frame(nodes, dot, self.template, self.variables)
        frame.floor, frame.boxed = floor, boxed
        return frame

    def choose(self, node: If | With, frame: _Frame, frames: list[_Frame]) -> None:
        floor = len(self.variables)
        value = self.pipeline(node.pipe, frame.dot, undefined_ok=True)
        if not truth(value):
            frames.append(self.open(node.otherwise, frame.dot, floor, frame.boxed))
        elif isinstance(node, With):
            frames.append(self.open(node.body, value, floor, False))
        else:
            frames.append(self.open(node.body, frame.dot, floor, frame.boxed))

    def start_range(self, node: Range, frame: _Frame, frames: list[_Frame]) -> None:
        floor = len(self.variables)
        value = self.pipeline(node.pipe, frame.dot, undefined_ok=True)
        items = self.items_of(node, value)
        if items is None:
            frames.append(self.open(node.otherwise, frame.dot, floor, frame.boxed))
            frames[-1].breaks = True
            return
        # In its rounds an int is itself; an entry of a list or map is still in its box.
        opened = self.open((), frame.dot, floor, not isinstance(value, int))
        opened.loop, opened.items, opened.kept = node, items, len(self.variables)
        opened.breaks = True
        frames.append(opened)

    def items_of(self, node: Range, value: object) -> Iterator[tuple[object, object]] | None:
        """Return what a range goes through, as (index, item); None if that is nothing."""
        if isinstance(value, list | tuple):
            return ((Int(i), item) for i, item in enumerate(value)) if value else None
        if isinstance(value, dict):
            self.spend(len(value) >> 4)
            try:
                return iter(sorted_items(value)) if value else None
            except Mistake as mistake:
                raise self.error(str(mistake)) from None
        if isinstance(value, int) and not isinstance(value, bool):
            if len(node.pipe.targets) > 1:
                raise self.error("a range over a number has one variable only")
            kind = type(value)
            return ((MISSING, kind(i)) for i in range(value)) if value > 0 else None
        if isinstance(value, Missing):
            return None
        raise self.error(f"range cannot go over {self.shown(value)}")

    def next_round(self, frame: _Frame, loop: Range) -> bool:
        """Start the next round of a range; say whether there is one."""
        self.at = loop
        self.spend(1)
        del frame.variables[frame.kept :]
        for index, item in frame.items:
            frame.dot = self.accept(item)
            self.set_loop_variables(loop, index, frame.dot, frame.boxed)
            frame.nodes = iter(loop.body)
            return True
        return False

    def set_loop_variables(self, loop: Range, index: object, item: object, boxed: bool) -> None:
        targets = loop.pipe.targets
        if not targets:
            return
        if loop.pipe.assigns:
            if len(targets) > 1:
                self.assign(targets[0], index)
            self.assign(targets[-1], item, boxed)
            return
        top = self.variables[-1]
        top.value, top.boxed = item, boxed
        if len(targets) > 1:
            self.variables[-2].value = index

    def include(self, node: Include, dot: object, frames: list[_Frame]) -> None:
        found = self.templates.get(node.name)
        if found is None:
            self.missing_fragment(node)
            return
        self.refuse_deeper()
        data: object = self.undefined(".") if self.tracks_undefined else MISSING
        if node.pipe is not None:
            data = self.settle(self.pipeline(node.pipe, dot))
        frame = self.enter(found, data)
        frame.call = (self.template.file, node.line, self.template.name)
        frames.append(frame)

    def missing_fragment(self, node: Include) -> None:
        if self.mode != "lenient":
            hint = did_you_mean(node.name, self.templates)
            raise self.error(f'template "{node.name}" not defined', hint)
        self.note("fragment", node.name, (self.template, node), self.templates)

    def template_first(self, args: Sequence[Node], values: list[object], dot: object) -> object:
        """Render the first fragment that exists, with dot, or with the data given before names.

        What comes first is data if it is no text, or if it is `.` or `$` with names after it. No
        fragment at all is empty: asking for the first is asking for what there is.
        """
        data, names = dot, values
        if values and (
            not isinstance(values[0], str) or (args and len(values) > 1 and _is_data(args[0]))
        ):
            data, names = values[0], values[1:]
        for name in names:
            if not isinstance(name, str):
                raise self.error("templateFirst takes names of fragments")
            found = self.templates.get(name) if name else None
            if found is not None:
                return self.rendered(found, data)
        return ""

    def rendered(self, template: Template, data: object) -> Included:
        """Return the text of a template as a value. This does nest in Python."""
        kept = self.template, self.variables, self.boxed, self.at, self.spans
        self.nested += 1
        if self.nested > _NESTED:
            raise self.error(f"templateFirst is nested more than {_NESTED} deep")
        call = (self.template.file, self.at.line, self.template.name)
        self.spans = []
        try:
            self.run(template, data)
        except TemplateError as error:
            error.trail = (*error.trail, call)[:_TRAIL]
            raise
        text = Included(self.spans)
        self.nested -= 1
        self.template, self.variables, self.boxed, self.at, self.spans = kept
        return text


def _is_data(node: Node) -> bool:
    return isinstance(node, Dot) or (isinstance(node, Variable) and node.name == "$")


def walk(
    templates: Mapping[str, Template],
    template: Template,
    data: object,
    functions: Mapping[str, Callable[..., object]],
    missing: str,
    budget: Budget,
    notes: list[Note] | None,
    lenient: Collection[str] = (),
) -> list[Span]:
    """Return what `template` writes for `data`, in the company of `templates`."""
    walker = Walker(templates, template, functions, missing, budget, notes, lenient)
    try:
        walker.run(template, MISSING if data is None else plain(data))
    except Mistake as mistake:
        raise walker.error(str(mistake)) from None
    except RecursionError:
        raise walker.error("the template is nested too deeply") from None
    return mended(walker.spans)
