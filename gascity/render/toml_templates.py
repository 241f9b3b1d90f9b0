"""Expand templates in TOML files: each string value on its own, or the whole text first."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.problems import KeyPath, Place, Problem
from gascity.render.prompts import passed_unchanged, template_problem, undefined_problem

if TYPE_CHECKING:
    from gascity.gotemplate import Span, Template, TemplateError, UndefinedName


class TemplateContext(NamedTuple):
    """The variables and functions of one agent's templates, and the mode for undefined ones."""

    variables: Mapping[str, str]
    functions: Mapping[str, Callable[..., object]]
    lenient: bool = False


class ExpandedText(NamedTuple):
    """An expanded text (None: it failed) and the names of the variables in it."""

    text: str | None
    spans: "tuple[Span, ...]" = ()
    names: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


def expand(text: str, file: str, context: TemplateContext) -> ExpandedText:
    """Expand one template text."""
    from gascity.gotemplate import TemplateError, TemplateSet, render

    undefined: list[UndefinedName] = []
    try:
        template, names = _parsed(text, file, frozenset(context.functions))
        spans = render(
            TemplateSet([template]),
            file,
            context.variables,
            functions=context.functions,
            missing="lenient" if context.lenient else "strict",
            undefined_names=undefined,
        )
    except TemplateError as error:
        return _failed(error, text, context.lenient)
    whole = "".join(span.text for span in spans)
    problems = (undefined_problem(undefined),) if undefined else ()
    return ExpandedText(whole, tuple(spans), names, problems)


@lru_cache(maxsize=512)
def _parsed(text: str, file: str, functions: frozenset[str]) -> "tuple[Template, frozenset[str]]":
    """Return a template and its variables; cached because agents expand the same few texts."""
    from gascity.gotemplate import parse, references

    template = parse(text, name=file, file=file, functions=functions)
    return template, frozenset(ref.name for ref in references(template) if ref.kind == "variable")


def _failed(error: "TemplateError", text: str, lenient: bool) -> ExpandedText:
    """Return a pack's text unchanged if it is not a template; anything else is an error."""
    problem = template_problem(error)
    message = problem.message.removesuffix(f" (in fragment `{error.name}`)")
    problem = problem._replace(message=message)
    if lenient and error.kind == "parse":
        return ExpandedText(text, problems=(passed_unchanged(problem),))
    return ExpandedText(None, problems=(problem,))


class ExpandedTable(NamedTuple):
    """A table with its templates expanded.

    `expanded` are the values that came from a template, each with the variables in it.
    """

    values: Mapping[str, object]
    expanded: tuple[tuple[str, frozenset[str]], ...]
    problems: tuple[Problem, ...]


def expand_table(
    table: Mapping[str, object],
    file: str,
    context: TemplateContext,
    place: Callable[[KeyPath, int], Place],
) -> ExpandedTable:
    """Expand every string value of a table; `place` returns the place of a line in a value."""
    expanded: list[tuple[str, frozenset[str]]] = []
    problems: list[Problem] = []

    def walk(value: object, path: KeyPath) -> object:
        if isinstance(value, Mapping):
            return {key: walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, (*path, index)) for index, item in enumerate(value)]
        if not isinstance(value, str) or "{{" not in value:
            return value
        result = expand(value, file, context)
        for problem in result.problems:
            line = problem.place.line if problem.place else None
            problems.append(problem._replace(place=place(path, line or 1)))
        if result.text is None:
            return ""
        expanded.append((result.text, result.names))
        return result.text

    values = {key: walk(value, (key,)) for key, value in table.items()}
    return ExpandedTable(values, tuple(expanded), tuple(problems))


def template_line(spans: "tuple[Span, ...]", text: str, line: int) -> int:
    """Return the line of the template `text` that a line of the expanded text comes from."""
    at = 1
    for span in spans:
        below = span.text.count("\n")
        if at + below >= line:
            # All lines that an action wrote belong to the line of the action.
            return span.line + (line - at if span.text in text else 0)
        at += below
    return spans[-1].line if spans else 1
