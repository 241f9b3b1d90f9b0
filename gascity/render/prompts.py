"""What a model is told: one text, every piece of it with the file and line it comes from."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from gascity.gotemplate import Note, Span, Template, TemplateError, TemplateSet, parse, render
from gascity.gotemplate.nodes import Text
from gascity.model.problems import Place, Problem, warning
from gascity.model.records import NamedTuple
from gascity.render.pieces import (
    APPENDED,
    FRAGMENT,
    GENERATED,
    PROMPT,
    Appended,
    Piece,
    Rendered,
    TemplateFile,
    whole,
)

_PROMPT_NAME = "\x00prompt"  # no fragment can be called this
_BETWEEN = "\n\n"


class Recipe(NamedTuple):
    """Everything a template prompt is made of; fragments lowest first."""

    prompt: TemplateFile
    fragments: Sequence[TemplateFile]
    appended: Sequence[Appended]
    variables: Mapping[str, str]
    functions: Mapping[str, Callable[..., object]]
    reserved: Callable[[str], str]
    reserved_names: Sequence[str]
    parsed: dict[str, Template | None]  # fragment files of this city that were parsed before


def render_prompt(recipe: Recipe) -> Rendered:
    """Expand a template prompt and what is appended to it."""
    problems: list[Problem] = []
    main = _parsed(recipe.prompt, _PROMPT_NAME, recipe.functions, problems)
    if main is None:
        as_it_stands = recipe.prompt.text if recipe.prompt.lenient else ""
        pieces = whole(as_it_stands, recipe.prompt.file, PROMPT)
        return Rendered(as_it_stands, pieces, tuple(problems))
    aside: list[Problem] = []
    library = _library(recipe, aside)
    library.add(main)
    notes: list[Note] = []
    spans = _spans(recipe, library, _PROMPT_NAME, notes, problems)
    out = [(span, PROMPT if span.name == _PROMPT_NAME else FRAGMENT) for span in spans]
    for one in recipe.appended:
        out += _appended(recipe, library, one, notes, problems)
    problems += _noted(notes)
    text, pieces = _joined(out, set(recipe.reserved_names))
    used = frozenset(span.name for span, _ in out if span.name != _PROMPT_NAME)
    if any(problem.is_error for problem in problems):
        problems, aside = [*aside, *problems], []
    return Rendered(text, pieces, tuple(problems), used, tuple(aside))


def parse_file(
    source: TemplateFile, functions: Iterable[str], problems: list[Problem]
) -> Template | None:
    """A fragment file under its own stem, or a problem."""
    return _parsed(source, source.stem, functions, problems)


def _parsed(
    source: TemplateFile, name: str, functions: Iterable[str], problems: list[Problem]
) -> Template | None:
    try:
        return parse(source.text, name=name, file=source.file, functions=frozenset(functions))
    except TemplateError as error:
        problem = template_problem(error)
        if source.lenient:
            problem = Problem(
                problem.code,
                f"{problem.message}; the text is passed on as it stands",
                problem.place,
                problem.hint,
            ).softened()
        problems.append(problem)
        return None


def _library(recipe: Recipe, problems: list[Problem]) -> TemplateSet:
    """Reserved fragments below all others; they are made only if somebody could use them."""
    library = TemplateSet()
    texts = [recipe.prompt.text, *(one.text for one in recipe.fragments)]
    names = {one.name for one in recipe.appended}
    for name in recipe.reserved_names:
        if name in names or any(name in text for text in texts):
            library.add(literal(name, recipe.reserved(name)))
    for source in recipe.fragments:
        if source.file not in recipe.parsed:
            recipe.parsed[source.file] = parse_file(source, recipe.functions, problems)
        template = recipe.parsed[source.file]
        if template is not None:
            library.add(template)
    return library


def literal(name: str, text: str) -> Template:
    """A template that writes just this text, whatever braces are in it."""
    return Template(name, "built-in", text, (Text(1, 0, text),) if text else (), {})


def _spans(
    recipe: Recipe,
    library: TemplateSet,
    name: str,
    notes: list[Note],
    problems: list[Problem],
) -> list[Span]:
    lenient = {one.file for one in (recipe.prompt, *recipe.fragments) if one.lenient}
    try:
        return render(
            library,
            name,
            recipe.variables,
            functions=recipe.functions,
            missing="strict",
            lenient=lenient,
            notes=notes,
        )
    except TemplateError as error:
        problems.append(template_problem(error))
        return []


def _appended(
    recipe: Recipe,
    library: TemplateSet,
    one: Appended,
    notes: list[Note],
    problems: list[Problem],
) -> list[tuple[Span, str]]:
    if one.name not in library:
        problem = Problem(
            "missing-fragment",
            f"there is no fragment `{one.name}` to append",
            one.place,
            _near(one.name, library),
        )
        problems.append(problem.softened() if one.lenient else problem)
        return []
    spans = _spans(recipe, library, one.name, notes, problems)
    if not spans:
        return []
    first = spans[0]
    gap = Span(_BETWEEN, first.file, first.line, first.name)
    return [(span, APPENDED) for span in (gap, *spans)]


def _near(name: str, library: Iterable[str]) -> str | None:
    from gascity.model.names import did_you_mean

    return did_you_mean(name, [known for known in library if known != _PROMPT_NAME])


def template_problem(error: TemplateError) -> Problem:
    """A template's own place, and the includes that led there."""
    code = "bad-template" if error.kind == "parse" else "template-failed"
    inside = "" if error.name == _PROMPT_NAME else f" (in fragment `{error.name}`)"
    place = Place(error.file, line=error.line, col=error.col + 1)
    return Problem(code, f"{error.message}{inside}", place, error.hint or None)


def _noted(notes: Sequence[Note]) -> list[Problem]:
    """What lenient files lacked: one warning for each template."""
    found: dict[str, list[Note]] = {}
    for note in notes:
        found.setdefault(note.file, []).append(note)
    return [_lacking(file, missing) for file, missing in found.items()]


def _lacking(file: str, notes: Sequence[Note]) -> Problem:
    names = ", ".join(dict.fromkeys(f"`{note.subject}`" for note in notes))
    return warning(
        "undefined-in-pack",
        f"{names} is taken for empty text: nothing defines it",
        Place(file, line=notes[0].line, col=notes[0].col + 1),
        notes[0].hint or None,
    )


def _joined(out: Sequence[tuple[Span, str]], reserved: set[str]) -> tuple[str, tuple[Piece, ...]]:
    """One text, and pieces without gaps; neighbours from one file and kind are told by line."""
    pieces = []
    at = 0
    for span, kind in out:
        end = at + len(span.text)
        generated = span.file == "built-in" and span.name in reserved
        pieces.append(Piece(at, end, span.file, span.line, GENERATED if generated else kind))
        at = end
    return "".join(span.text for span, _ in out), tuple(pieces)
