"""Templates in TOML: string values expanded one by one, or a whole text first."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.records import NamedTuple

if TYPE_CHECKING:
    from gascity.gotemplate import Note, Span, Template, TemplateError


class Terms(NamedTuple):
    """What the templates of one agent may name, and how strictly."""

    variables: Mapping[str, str]
    functions: Mapping[str, Callable[..., object]]
    lenient: bool = False


class Expanded(NamedTuple):
    """A text after its template ran; no text at all if it could not."""

    text: str | None
    spans: "tuple[Span, ...]" = ()
    names: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


def expand(text: str, file: str, terms: Terms) -> Expanded:
    """A text as its template writes it. `names` are the variables it mentions."""
    from gascity.gotemplate import TemplateError, TemplateSet, render

    notes: list[Note] = []
    try:
        template, names = _parsed(text, file, frozenset(terms.functions))
        spans = render(
            TemplateSet([template]),
            file,
            terms.variables,
            functions=terms.functions,
            missing="lenient" if terms.lenient else "strict",
            notes=notes,
        )
    except TemplateError as error:
        return _failed(error, text, terms.lenient)
    whole = "".join(span.text for span in spans)
    return Expanded(whole, tuple(spans), names, tuple(_lacking(notes)))


@lru_cache(maxsize=512)
def _parsed(text: str, file: str, functions: frozenset[str]) -> "tuple[Template, frozenset[str]]":
    """A template and the variables it mentions: many agents expand the same few texts."""
    from gascity.gotemplate import parse, references

    template = parse(text, name=file, file=file, functions=functions)
    return template, frozenset(r.name for r in references(template) if r.kind == "variable")


def _failed(error: "TemplateError", text: str, lenient: bool) -> Expanded:
    """A pack's text that is no template is passed on as it stands; anything else is an error."""
    from gascity.render.prompts import template_problem

    problem = template_problem(error)
    problem = problem._replace(
        message=problem.message.removesuffix(f" (in fragment `{error.name}`)")
    )
    if lenient and error.kind == "parse":
        words = f"{problem.message}; the text is passed on as it stands"
        return Expanded(text, problems=(problem._replace(message=words).softened(),))
    return Expanded(None, problems=(problem,))


def _lacking(notes: "list[Note]") -> list[Problem]:
    if not notes:
        return []
    names = ", ".join(dict.fromkeys(f"`{note.subject}`" for note in notes))
    place = Place(notes[0].file, line=notes[0].line, col=notes[0].col + 1)
    words = f"{names} is taken for empty text: nothing defines it"
    return [warning("undefined-in-pack", words, place, notes[0].hint or None)]


class Table(NamedTuple):
    """A table with its templates expanded.

    `made` are the values that a template wrote, each with the variables it mentions.
    """

    values: Mapping[str, object]
    made: tuple[tuple[str, frozenset[str]], ...]
    problems: tuple[Problem, ...]


def expand_table(
    table: Mapping[str, object], file: str, terms: Terms, place: Callable[[KeyPath, int], Place]
) -> Table:
    """Expand every string of a table but its keys. `place` finds a line of the value at a path."""
    made: list[tuple[str, frozenset[str]]] = []
    problems: list[Problem] = []

    def walk(value: object, path: KeyPath) -> object:
        if isinstance(value, Mapping):
            return {key: walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, (*path, at)) for at, item in enumerate(value)]
        if not isinstance(value, str) or "{{" not in value:
            return value
        done = expand(value, file, terms)
        for problem in done.problems:
            line = problem.place.line if problem.place else None
            problems.append(problem._replace(place=place(path, line or 1)))
        if done.text is not None:
            made.append((done.text, done.names))
        return done.text if done.text is not None else ""

    values = {key: walk(value, (key,)) for key, value in table.items()}
    return Table(values, tuple(made), tuple(problems))


def template_line(spans: "tuple[Span, ...]", text: str, line: int) -> int:
    """The line of the template `text` that wrote a line of what was expanded from it."""
    at = 1
    for span in spans:
        below = span.text.count("\n")
        if at + below >= line:
            # What an action wrote may have lines of its own; all of them are the action's.
            return span.line + (line - at if span.text in text else 0)
        at += below
    return spans[-1].line if spans else 1
