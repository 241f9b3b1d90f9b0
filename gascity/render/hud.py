"""Renders one HUD section from values that were collected before."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.hud import (
    COMMAND_SOURCE,
    FILE_SOURCE,
    HudSection,
    collapsed_text,
    is_collapsed,
    truncated,
)
from gascity.model.names import did_you_mean
from gascity.model.problems import Place, Problem
from gascity.model.values import JsonObject
from gascity.render.variables import functions

if TYPE_CHECKING:
    from gascity.gotemplate import Template, TemplateError


class HudVariable(NamedTuple):
    """A variable that only HUD templates have. `source` provides it; "" is always there."""

    name: str
    source: str
    doc: str


HUD_VARIABLES = (
    HudVariable(
        "Context",
        "context",
        "`Percentage`, `Tokens` and `Limit` of the model's context, and `Status.Critical`, "
        "`Status.Red`, `Status.Yellow` or `Status.Green`. Not defined before the first answer.",
    ),
    HudVariable(
        "Tasks",
        "tasks",
        "The agent's queued and running work items: `ID`, `Title`, `Status`, `Priority` of each.",
    ),
    HudVariable(
        "TaskCounts",
        "tasks",
        "Number of the agent's work items: `Queued`, `Running`, `Done`, `Failed`, `Cancelled`.",
    ),
    HudVariable(
        "Git",
        "git",
        "`Branch`, `Changed` (files), `Ahead`, `Behind` and `LastCommit` of the working directory. "
        "Not defined outside a repository.",
    ),
    HudVariable(
        "Pool",
        "pool",
        "The agents it may see: `Agent`, `Live`, `Max` and `Queued` of each; `Max` is not defined "
        "without a limit.",
    ),
    HudVariable("Mail", "mail", "`Unread`: number of unread messages."),
    HudVariable(
        "Files", FILE_SOURCE, "The files of `file:GLOB`: `Path`, `Title` and `Text` of each."
    ),
    HudVariable(
        "Command", COMMAND_SOURCE, "The output of `command:PATH`; its value if it prints JSON."
    ),
    HudVariable(
        "Age", "", "Seconds since a source that fails now last had a value; 0 if none fails."
    ),
)
_DATA = frozenset(variable.name for variable in HUD_VARIABLES)


class RenderedSection(NamedTuple):
    """A section's text, empty if it is not shown. `age` is that of its oldest value in seconds."""

    section: HudSection
    text: str
    collapsed: bool = False
    age: int = 0
    problems: tuple[Problem, ...] = ()

    def as_object(self) -> JsonObject:
        """Return the JSON object of `city hud` and the tool `hud_read`."""
        section = self.section
        return {
            "name": section.name,
            "position": section.position,
            "priority": section.priority,
            "refresh": section.refresh,
            "collapsed": self.collapsed,
            "chars": len(self.text),
            "text": self.text,
            "source": section.file,
            "layer": section.layer,
            "age": self.age,
        }


class ParsedSection:
    """The templates of a section: its text and its condition. None: it has none, or is invalid."""

    def __init__(self, section: HudSection) -> None:
        self.section = section
        self.problems: list[Problem] = []
        known = frozenset(functions())
        self.body: Template | None = None
        self.condition: Template | None = None
        if section.is_template:
            self.body = self._parse(section.body, known, section.line)
        if section.show_when:
            text = f"{{{{ if {section.show_when} }}}}1{{{{ end }}}}"
            self.condition = self._parse(text, known, 0)

    @property
    def variables(self) -> frozenset[str]:
        """The variables that the text or the condition names."""
        from gascity.gotemplate import references

        return frozenset(
            reference.name
            for template in (self.body, self.condition)
            if template is not None
            for reference in references(template)
            if reference.kind == "variable"
        )

    @property
    def sources(self) -> frozenset[str]:
        """The kinds of sources it needs, from its front matter and from what it names."""
        named = self.variables
        sources = {variable.source for variable in HUD_VARIABLES if variable.name in named}
        if self.section.collapse_threshold is not None:
            sources.add("context")
        return frozenset({*sources, *self.section.data_sources} - {""})

    def undefined(self, known: Iterable[str]) -> Iterator[Problem]:
        """Yield variables that do not exist; a pack's templates may use any."""
        from gascity.gotemplate import references

        names = _DATA | frozenset(known)
        for template in (self.body, self.condition) if not self.section.lenient else ():
            used = references(template) if template is not None else ()
            for variable in used:
                is_guarded = variable.tentative or variable.kind != "variable"
                if is_guarded or variable.name in names:
                    continue
                hint = did_you_mean(variable.name, names)
                message = f"`.{variable.name}` is not defined"
                place = self.section.place("show-when")
                if template is self.body:
                    line = variable.line + self.section.line - 1
                    place = Place(self.section.file, line=line, col=variable.col + 1)
                yield Problem("undefined-variable", message, place, hint)

    def _parse(self, text: str, known: frozenset[str], line: int) -> "Template | None":
        """Parse a template whose first line is `line` of the file; 0: that of the condition."""
        from gascity.gotemplate import TemplateError, parse

        section = self.section
        try:
            return parse(text, name=section.name, file=section.file, functions=known)
        except TemplateError as error:
            if line:
                self.problems.append(_failed(section, error, "bad-template"))
            else:
                place = section.place("show-when")
                message = f"`show-when` is not a pipeline: {error.message}"
                self.problems.append(Problem("bad-hud", message, place, error.hint or None))
            return None


def render_section(
    parsed: ParsedSection, values: Mapping[str, object], percentage: int | None, age: int = 0
) -> RenderedSection:
    """Render a section; one that cannot be rendered with these values is left out."""
    from gascity.gotemplate import TemplateError

    section = parsed.section
    empty = RenderedSection(section, "", age=age)
    if section.is_broken or any(problem.is_error for problem in parsed.problems):
        return empty
    try:
        if parsed.condition is not None and not _expand(parsed.condition, section, values):
            return empty
    except TemplateError as error:
        # A condition about something that is not known is false, as `if` would say.
        is_unknown = not parsed.variables <= values.keys()
        return empty if is_unknown else empty._replace(problems=(_left_out(section, error),))
    try:
        text = section.body if parsed.body is None else _expand(parsed.body, section, values)
    except TemplateError as error:
        return empty._replace(problems=(_left_out(section, error),))
    text = text.strip("\r\n").rstrip()
    collapsed = bool(text) and is_collapsed(section, percentage)
    text = truncated(collapsed_text(text) if collapsed else text, section.max_length)
    return RenderedSection(section, text, collapsed, age)


def _expand(template: "Template", section: HudSection, values: Mapping[str, object]) -> str:
    """Return the text of a template. Raises TemplateError."""
    from gascity.gotemplate import TemplateSet, render

    spans = render(
        TemplateSet([template]),
        section.name,
        values,
        functions=functions(),
        missing="lenient" if section.lenient else "strict",
    )
    return "".join(span.text for span in spans)


def _left_out(section: HudSection, error: "TemplateError") -> Problem:
    failed = _failed(section, error, "template-failed")
    message = f"HUD section `{section.name}` is left out: {failed.message}"
    return failed._replace(message=message).softened()


def _failed(section: HudSection, error: "TemplateError", code: str) -> Problem:
    place = Place(section.file, line=error.line + section.line - 1, col=error.col + 1)
    return Problem(code, error.message, place, error.hint or None)
