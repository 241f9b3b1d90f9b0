"""Render templates to spans of text.

The renderer walks the nodes with its own stack of frames instead of Python's, so that templates
can include each other as deep as the budget allows, whatever Python's recursion limit is. Only
`templateFirst`, which is an expression, nests in Python, and has a limit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from gascity.gotemplate.errors import (
    EvalError,
    TemplateCall,
    TemplateError,
    UndefinedName,
    did_you_mean,
)
from gascity.gotemplate.evaluate import Binding, Budget, Evaluator
from gascity.gotemplate.nodes import (
    ControlNode,
    DotNode,
    IncludeNode,
    JumpNode,
    Node,
    PipeNode,
    Template,
    TextNode,
    VariableNode,
)
from gascity.gotemplate.parse import parse
from gascity.gotemplate.printf import display
from gascity.gotemplate.values import (
    MISSING,
    FragmentText,
    Int,
    Missing,
    Span,
    Value,
    plain,
    readable,
    sorted_items,
    to_bytes,
)

_NO_FUNCTIONS: Mapping[str, Callable[..., object]] = {}
_DEFAULT = Budget()
_NESTED = 30  # maximum depth of templateFirst, which uses Python's stack


class TemplateSet(dict[str, Template]):
    """Templates by name, collected file by file.

    A later definition replaces an earlier one, but a blank one never replaces one with content.
    """

    def __init__(self, files: Iterable[Template] = ()) -> None:
        super().__init__()
        for template in files:
            self.add(template)

    def add(self, template: Template) -> None:
        """Add a file: its definitions and, under its own name, the rest of its text."""
        for definition in template.defines.values():
            if definition.name != template.name:
                self._put(definition)
        self._put(template)

    def _put(self, template: Template) -> None:
        if not template.blank or template.name not in self:
            self[template.name] = template


def render(
    templates: Mapping[str, Template],
    name: str,
    data: object,
    *,
    functions: Mapping[str, Callable[..., object]] = _NO_FUNCTIONS,
    missing: str = "strict",
    budget: Budget = _DEFAULT,
    undefined_names: list[UndefinedName] | None = None,
    lenient: Collection[str] = (),
) -> list[Span]:
    """Return the output of template `name` for `data`, piece by piece.

    `missing` is the mode for undefined variables: `strict` allows them only in conditions;
    `lenient` replaces them and missing fragments with empty text and adds them to
    `undefined_names`; `error` and `default` are Go's `missingkey` options. Templates of the files
    in `lenient` are always rendered in lenient mode.
    """
    template = templates.get(name)
    if template is None:
        hint = did_you_mean(name, templates)
        raise TemplateError("exec", f'template "{name}" not defined', name, 1, 0, name, hint)
    renderer = _Renderer(templates, template, functions, missing, budget, undefined_names, lenient)
    try:
        renderer.run(template, MISSING if data is None else plain(data))
    except EvalError as error:  # the data is not plain
        raise renderer.error(str(error)) from None
    except RecursionError:
        raise renderer.error("the template is nested too deeply") from None
    return _valid_utf8(renderer.spans)


def render_text(
    template: str,
    data: object,
    *,
    defines: Mapping[str, str] = {},
    missing: str = "strict",
    functions: Mapping[str, Callable[..., object]] = _NO_FUNCTIONS,
    budget: Budget = _DEFAULT,
) -> str:
    """Render one template to text.

    `defines` are further files by name, parsed first in the order of their names. The template
    itself is named `main`, also in errors.
    """
    files = [parse(defines[name], name=name, functions=functions) for name in sorted(defines)]
    files.append(parse(template, name="main", functions=functions))
    spans = render(
        TemplateSet(files), "main", data, functions=functions, missing=missing, budget=budget
    )
    return "".join([span.text for span in spans])


class _Frame:
    """A list of nodes that is being rendered.

    `floor` is the number of variables before it. The frame of a range has its `items` and keeps
    the first `kept` variables from one iteration to the next. `breaks` marks what a `break` ends:
    a range, or its `else`, which Go counts as part of it. `call` is the position that included
    the template; only the first frame of a template has one.
    """

    def __init__(
        self, nodes: tuple[Node, ...], dot: Value, template: Template, variables: list[Binding]
    ) -> None:
        self.nodes: Iterator[Node] = iter(nodes)
        self.dot = dot
        self.boxed = False
        self.breaks = False
        self.template = template
        self.variables = variables
        self.floor = 0
        self.kept = 0
        self.loop: ControlNode | None = None
        self.items: Iterator[tuple[Value, object]] = iter(())
        self.call: TemplateCall | None = None


class _Renderer(Evaluator):
    """Walks the nodes of templates; `frames` are the lists of nodes that are being rendered."""

    frames: list[_Frame]

    def emit(self, text: str, line: int) -> None:
        """Add output that the current template wrote at `line`."""
        if text:
            self.spend_output(text)
            self.spans.append(Span(text, self.template.file, line, self.template.name))

    def spend_output(self, text: str) -> None:
        self.output -= len(text)
        if self.output < 0:
            raise self.error(f"the output is longer than {self.budget.output} characters")

    def run(self, template: Template, data: Value) -> None:
        self.refuse_deeper()
        self.frames = []
        self.enter(template, data)
        try:
            while self.frames:
                self.resume()
        except EvalError as error:
            failure = self.error(str(error))
            failure.add_callers(*self.callers())
            raise failure from None
        except TemplateError as error:
            error.add_callers(*self.callers())
            raise

    def callers(self) -> Iterator[TemplateCall]:
        return (frame.call for frame in reversed(self.frames) if frame.call)

    def enter(self, template: Template, data: Value, call: TemplateCall | None = None) -> None:
        self.depth += 1
        frame = _Frame(template.nodes, data, template, [Binding("$", data)])
        frame.call = call
        self.frames.append(frame)

    def refuse_deeper(self) -> None:
        if self.depth > self.budget.depth:
            raise self.error(f"templates are nested more than {self.budget.depth} deep")

    def resume(self) -> None:
        """Render the innermost frame until it ends or another one becomes the innermost."""
        frame = self.frames[-1]
        self.template, self.variables, self.boxed = frame.template, frame.variables, frame.boxed
        for node in frame.nodes:
            self.at = node
            self.steps -= 1
            if self.steps < 0:
                self.spend(0)
            if type(node) is TextNode:
                self.emit(node.text, node.line)
            elif type(node) is PipeNode:
                self.action(node, frame.dot)
            else:
                self.change_frame(node, frame)
                if self.frames[-1] is not frame or type(node) is JumpNode:
                    return
        if frame.loop is None or not self.next_iteration(frame, frame.loop):
            self.leave()

    def leave(self) -> None:
        frame = self.frames.pop()
        if frame.floor:
            del frame.variables[frame.floor :]
        else:
            self.depth -= 1  # only a template's own frame has no "$" before it

    def change_frame(self, node: Node, frame: _Frame) -> None:
        """Execute a node that can open or close frames."""
        match node:
            case ControlNode(word="range"):
                self.start_range(node, frame)
            case ControlNode():
                self.choose(node, frame)
            case IncludeNode():
                self.include(node, frame.dot)
            case JumpNode():
                self.jump(node.word == "break")

    def jump(self, out: bool) -> None:
        """Leave frames up to the range that a `break` ends or a `continue` resumes."""
        while not (self.frames[-1].breaks if out else self.frames[-1].loop):
            self.leave()
        if out:
            self.leave()
        else:
            self.frames[-1].nodes = iter(())

    def action(self, pipe: PipeNode, dot: Value) -> None:
        value = self.pipeline(pipe, dot)
        if pipe.targets:
            return
        self.at = pipe
        value = self.require_defined(value)
        if type(value) is str:
            self.emit(value, pipe.line)
        elif type(value) is FragmentText:
            self.spend_output(value)
            self.spans.extend(value.spans)
        else:
            shown = "<no value>" if value is MISSING else display(value, self.budget.output)
            self.emit(shown, pipe.line)

    def open(self, nodes: tuple[Node, ...], dot: Value, floor: int, boxed: bool) -> _Frame:
        frame = _Frame(nodes, dot, self.template, self.variables)
        frame.floor, frame.boxed = floor, boxed
        self.frames.append(frame)
        return frame

    def choose(self, node: ControlNode, frame: _Frame) -> None:
        floor = len(self.variables)
        value = self.pipeline(node.pipe, frame.dot, undefined_ok=True)
        if not value:
            self.open(node.otherwise, frame.dot, floor, frame.boxed)
        elif node.word == "with":
            self.open(node.body, value, floor, False)
        else:
            self.open(node.body, frame.dot, floor, frame.boxed)

    def start_range(self, node: ControlNode, frame: _Frame) -> None:
        floor = len(self.variables)
        value = self.pipeline(node.pipe, frame.dot, undefined_ok=True)
        items = self.items_of(node, value)
        if items is None:
            opened = self.open(node.otherwise, frame.dot, floor, frame.boxed)
        else:
            # Iterating over an int gives plain numbers; entries of a list or map stay boxed.
            opened = self.open((), frame.dot, floor, not isinstance(value, int))
            opened.loop, opened.items, opened.kept = node, items, len(self.variables)
        opened.breaks = True

    def items_of(self, node: ControlNode, value: Value) -> Iterator[tuple[Value, object]] | None:
        """Return the (index, item) pairs of a range; None if there are none."""
        match value:
            case list() | tuple():
                return ((Int(i), item) for i, item in enumerate(value)) if value else None
            case dict():
                self.spend(len(value) >> 4)
                return iter(sorted_items(value)) if value else None
            case int() if type(value) is not bool:
                if len(node.pipe.targets) > 1:
                    raise self.error("a range over a number takes one variable")
                kind = type(value)
                return ((MISSING, kind(i)) for i in range(value)) if value > 0 else None
            case Missing():
                return None
        raise self.error(f"range cannot iterate over {display(value, self.budget.output)}")

    def next_iteration(self, frame: _Frame, loop: ControlNode) -> bool:
        """Start the next iteration of a range; return whether there is one."""
        self.at = loop
        self.spend(1)
        del frame.variables[frame.kept :]
        for index, item in frame.items:
            frame.dot = plain(item)
            self.set_loop_variables(loop, index, frame.dot, frame.boxed)
            frame.nodes = iter(loop.body)
            return True
        return False

    def set_loop_variables(self, loop: ControlNode, index: Value, item: Value, boxed: bool) -> None:
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

    def include(self, node: IncludeNode, dot: Value) -> None:
        template = self.templates.get(node.name)
        if template is not None:
            self.refuse_deeper()
            data: Value = self.undefined(".") if self.tracks_undefined else MISSING
            if node.pipe is not None:
                data = self.require_defined(self.pipeline(node.pipe, dot))
            self.enter(template, data, (self.template.file, node.line, self.template.name))
        elif self.mode == "lenient":
            self.report("fragment", node.name, (self.template, node), self.templates)
        else:
            hint = did_you_mean(node.name, self.templates)
            raise self.error(f'template "{node.name}" not defined', hint)

    def template_first(self, args: Sequence[Node], values: list[Value], dot: Value) -> Value:
        """Render the first fragment that exists, with dot or with the data before the names.

        The first argument is data if it is not a text, or if it is `.` or `$` followed by names.
        If no fragment exists, the result is empty.
        """
        data, names = dot, values
        if values and (
            not isinstance(values[0], str) or (args and len(values) > 1 and _is_data(args[0]))
        ):
            data, names = values[0], values[1:]
        for name in names:
            if not isinstance(name, str):
                raise self.error("templateFirst takes fragment names")
            template = self.templates.get(name) if name else None
            if template is not None:
                return self.rendered(template, data)
        return ""

    def rendered(self, template: Template, data: Value) -> FragmentText:
        """Render a template to a value. This nests in Python."""
        kept = self.template, self.variables, self.boxed, self.at, self.spans, self.frames
        self.nested += 1
        if self.nested > _NESTED:
            raise self.error(f"templateFirst is nested more than {_NESTED} deep")
        call = (self.template.file, self.at.line, self.template.name)
        self.spans = []
        try:
            self.run(template, data)
        except TemplateError as error:
            error.add_callers(call)
            self.frames = kept[-1]
            raise
        text = FragmentText(self.spans)
        self.nested -= 1
        self.template, self.variables, self.boxed, self.at, self.spans, self.frames = kept
        return text


def _is_data(node: Node) -> bool:
    match node:
        case DotNode() | VariableNode(name="$"):
            return True
    return False


def _valid_utf8(spans: list[Span]) -> list[Span]:
    """Return the spans with every byte that is not UTF-8 replaced by U+FFFD.

    A character whose bytes come from two spans belongs to the first of them.
    """
    whole = "".join([span.text for span in spans])
    if whole.isascii():
        return spans
    try:
        whole.encode()
    except UnicodeEncodeError:
        return _recut(spans)
    return spans


def _recut(spans: list[Span]) -> list[Span]:
    pieces = [to_bytes(span.text) for span in spans]
    whole = b"".join(pieces)
    cuts, end = [0], 0
    for piece in pieces:
        end += len(piece)
        cut = max(end, cuts[-1])
        while cut < len(whole) and 0x80 <= whole[cut] < 0xC0:
            cut += 1
        cuts.append(cut)
    texts = [readable(whole[a:b].decode("utf-8", "surrogateescape")) for a, b in pairwise(cuts)]
    return [Span(t, s.file, s.line, s.name) for t, s in zip(texts, spans, strict=True) if t]
