"""Render templates: an agent's prompt, and the values of TOML files.

A prompt is one text, with the file and line that every piece of it comes from. A TOML file is
expanded value by value, or as a whole text before it is parsed.

Import this module, and the template engine, only where a template is rendered: most prompts are
plain text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.render.prompt_text import (
    APPENDED,
    BUILTIN_FILE,
    FRAGMENT,
    GENERATED,
    HUD,
    PROMPT,
    PromptPiece,
    RenderedPrompt,
    plain_prompt,
)

if TYPE_CHECKING:
    from gascity.gotemplate import Span, Template, TemplateError, TemplateSet, UndefinedName

_PROMPT_NAME = "\x00prompt"  # cannot collide with a fragment's name
_SEPARATOR = "\n\n"


class BuiltinPart(NamedTuple):
    """A piece of a built-in fragment: its text and, if it comes from a file, where and its kind."""

    text: str
    file: str = BUILTIN_FILE
    line: int = 1
    kind: str = GENERATED


class HudText(NamedTuple):
    """A HUD section as part of a prompt: the fragment `hud-NAME`, and part of `hud` if `included`.

    `volatile`: it is refreshed while a session runs.
    """

    name: str
    file: str
    line: int
    text: str
    included: bool = True
    volatile: bool = False


class HudTexts(NamedTuple):
    """The HUD sections that a prompt may include, in order, and their problems."""

    texts: tuple[HudText, ...] = ()
    problems: tuple[Problem, ...] = ()


class TemplateFile(NamedTuple):
    """A template file. `lenient` files belong to packs that the user cannot edit."""

    file: str
    text: str
    lenient: bool = False

    @property
    def stem(self) -> str:
        name = self.file.rpartition("/")[2]
        for suffix in (".template.md", ".md.tmpl"):
            name = name.removesuffix(suffix)
        return name


class AppendedFragment(NamedTuple):
    """A fragment that is appended to the prompt, and the setting that names it."""

    name: str
    place: Place | None
    lenient: bool = False


class PromptSource(NamedTuple):
    """Everything that a template prompt is rendered from; fragments lowest precedence first.

    `builtin` returns the pieces of a built-in fragment. `parsed` caches the fragment files of a
    city over several prompts. `hud` returns the HUD sections that a prompt mentions.
    """

    prompt: TemplateFile
    fragments: Sequence[TemplateFile]
    appended: Sequence[AppendedFragment]
    variables: Mapping[str, str]
    functions: Mapping[str, Callable[..., object]]
    builtin: Callable[[str], Sequence[BuiltinPart]]
    builtin_names: Sequence[str]
    parsed: "dict[str, Template | None]"
    hud: Callable[[Callable[[str], bool]], HudTexts] = lambda _: HudTexts()

    @property
    def texts(self) -> list[str]:
        """The texts in which the prompt may name fragments."""
        return [self.prompt.text, *(fragment.text for fragment in self.fragments)]

    @property
    def appended_names(self) -> list[str]:
        return [fragment.name for fragment in self.appended]


def mentions_hud(texts: Iterable[str], appended: Iterable[str]) -> bool:
    """Return whether a fragment of the HUD is appended or named in one of the texts."""
    if any(name.startswith(HUD) for name in appended):
        return True
    return any(f'"{HUD}' in text or f"`{HUD}" in text for text in texts)


def render_prompt(source: PromptSource) -> RenderedPrompt:
    """Render a template prompt and the fragments appended to it."""
    prompt = source.prompt
    problems: list[Problem] = []
    main = _parse(prompt, _PROMPT_NAME, source.functions, problems)
    if main is None:
        unchanged = plain_prompt(prompt.file, prompt.text if prompt.lenient else "")
        return unchanged._replace(problems=tuple(problems))
    unrelated: list[Problem] = []
    builtin: dict[str, Sequence[BuiltinPart]] = {}
    library = _library(source, builtin, unrelated)
    hud = HudTexts()
    if mentions_hud(source.texts, source.appended_names):
        hud = source.hud(lambda name: _mentions(source, name))
        problems += hud.problems
        _add_hud(library, hud.texts)
    library.add(main)
    undefined: list[UndefinedName] = []
    spans = _render(source, library, _PROMPT_NAME, undefined, problems)
    output = [(span, PROMPT if span.name == _PROMPT_NAME else FRAGMENT) for span in spans]
    for fragment in source.appended:
        output += _append(source, library, fragment, undefined, problems)
    problems += _undefined_problems(undefined)
    text, pieces = _joined(output, builtin, hud.texts)
    used = frozenset(span.name for span, _ in output if span.name != _PROMPT_NAME) | builtin.keys()
    if any(problem.is_error for problem in problems):
        # An invalid fragment file may be the cause of the error, so show its problem first.
        problems, unrelated = [*unrelated, *problems], []
    # A section without text now has its place in the prompt, too.
    sections = tuple(each for each in hud.texts if not each.text or f"{HUD}-{each.name}" in used)
    return RenderedPrompt(text, pieces, tuple(problems), used, tuple(unrelated), sections)


def parse_fragment(
    source: TemplateFile, functions: Iterable[str], problems: list[Problem]
) -> "Template | None":
    """Parse a fragment file under its stem; None if it is invalid, which adds a problem."""
    return _parse(source, source.stem, functions, problems)


def _parse(
    source: TemplateFile, name: str, functions: Iterable[str], problems: list[Problem]
) -> "Template | None":
    from gascity.gotemplate import TemplateError, parse

    try:
        return parse(source.text, name=name, file=source.file, functions=frozenset(functions))
    except TemplateError as error:
        problem = _template_problem(error)
        problems.append(_passed_unchanged(problem) if source.lenient else problem)
        return None


def _template_problem(error: "TemplateError") -> Problem:
    """Return the problem for a template error, at its position in the template."""
    code = "bad-template" if error.kind == "parse" else "template-failed"
    inside = "" if error.name == _PROMPT_NAME else f" (in fragment `{error.name}`)"
    place = Place(error.file, line=error.line, col=error.col + 1)
    return Problem(code, f"{error.message}{inside}", place, error.hint or None)


def _passed_unchanged(problem: Problem) -> Problem:
    """Return a pack's parse error as a warning: its text is used without expanding it."""
    return problem._replace(message=f"{problem.message}; the text is used unchanged").softened()


def _library(
    source: PromptSource, builtin: dict[str, Sequence[BuiltinPart]], problems: list[Problem]
) -> "TemplateSet":
    """Return all fragments. Built-in ones come first, so that files can replace them.

    Computing a built-in fragment can mean reading the whole city, so only those that the prompt
    or a fragment names, in quotes, are added. Their pieces are put into `builtin`.
    """
    from gascity.gotemplate import Template, TemplateSet
    from gascity.gotemplate.nodes import TextNode

    library = TemplateSet()
    for name in source.builtin_names:
        if _mentions(source, name):
            # Built without the parser: braces in this text have no meaning.
            builtin[name] = source.builtin(name)
            text = "".join(part.text for part in builtin[name])
            nodes = (TextNode(1, 0, text),) if text else ()
            library.add(Template(name, BUILTIN_FILE, text, nodes, {}))
    for fragment in source.fragments:
        if fragment.file not in source.parsed:
            source.parsed[fragment.file] = parse_fragment(fragment, source.functions, problems)
        template = source.parsed[fragment.file]
        if template is not None:
            library.add(template)
    return library


def _mentions(source: PromptSource, name: str) -> bool:
    """Return whether a fragment is appended, or a text has its name in quotes."""
    quoted = (f'"{name}"', f"`{name}`")
    named = any(word in text for text in source.texts for word in quoted)
    return named or name in source.appended_names


def _add_hud(library: "TemplateSet", sections: Sequence[HudText]) -> None:
    """Add the fragments `hud` and `hud-NAME`, unless a fragment file has the name."""
    from gascity.gotemplate import Template
    from gascity.gotemplate.nodes import IncludeNode, Node, TextNode

    whole: list[Node] = []
    for section in sections:
        name = f"{HUD}-{section.name}"
        nodes = (TextNode(section.line, 0, section.text),) if section.text else ()
        if name not in library:
            library.add(Template(name, section.file, section.text, nodes, {}))
        if section.included and section.text:
            whole += [TextNode(1, 0, _SEPARATOR)] if whole else []
            whole.append(IncludeNode(1, 0, name, None))
    if HUD not in library:
        library.add(Template(HUD, BUILTIN_FILE, "", tuple(whole), {}))


def _render(
    source: PromptSource,
    library: "TemplateSet",
    name: str,
    undefined: "list[UndefinedName]",
    problems: list[Problem],
) -> "list[Span]":
    from gascity.gotemplate import TemplateError, render

    try:
        return render(
            library,
            name,
            source.variables,
            functions=source.functions,
            missing="strict",
            lenient={each.file for each in (source.prompt, *source.fragments) if each.lenient},
            undefined_names=undefined,
        )
    except TemplateError as error:
        problems.append(_template_problem(error))
        return []


def _append(
    source: PromptSource,
    library: "TemplateSet",
    fragment: AppendedFragment,
    undefined: "list[UndefinedName]",
    problems: list[Problem],
) -> "list[tuple[Span, str]]":
    if fragment.name not in library:
        from gascity.model.names import did_you_mean

        hint = did_you_mean(fragment.name, [name for name in library if name != _PROMPT_NAME])
        message = f"there is no fragment `{fragment.name}` to append"
        problem = Problem("missing-fragment", message, fragment.place, hint)
        problems.append(problem.softened() if fragment.lenient else problem)
        return []
    spans = _render(source, library, fragment.name, undefined, problems)
    if not spans:
        return []
    return [(span, APPENDED) for span in (spans[0]._replace(text=_SEPARATOR), *spans)]


def _undefined_problems(undefined: "Sequence[UndefinedName]") -> Iterator[Problem]:
    """Yield one warning for each lenient template with undefined names."""
    for file in dict.fromkeys(name.file for name in undefined):
        yield _undefined_problem([name for name in undefined if name.file == file])


def _undefined_problem(undefined: "Sequence[UndefinedName]") -> Problem:
    """Return the warning about the undefined names of one file."""
    first = undefined[0]
    names = ", ".join(dict.fromkeys(f"`{name.subject}`" for name in undefined))
    return warning(
        "undefined-in-pack",
        f"{names} is not defined; empty text is used instead",
        Place(first.file, line=first.line, col=first.col + 1),
        first.hint or None,
    )


def _joined(
    output: "Sequence[tuple[Span, str]]",
    builtin: Mapping[str, Sequence[BuiltinPart]],
    hud: Sequence[HudText],
) -> tuple[str, tuple[PromptPiece, ...]]:
    """Return the whole text, and its pieces without gaps."""
    sections = {(f"{HUD}-{section.name}", section.file) for section in hud}
    pieces: list[PromptPiece] = []
    start = 0
    for span, kind in output:
        parts: Sequence[BuiltinPart] = [BuiltinPart(span.text, span.file, span.line, kind)]
        if (span.name, span.file) in sections:
            parts = [BuiltinPart(span.text, span.file, span.line, HUD)]
        elif span.file == BUILTIN_FILE:
            parts = [BuiltinPart(span.text)] if span.text == _SEPARATOR else builtin[span.name]
        separates = span.file == BUILTIN_FILE and span.name == HUD
        for part in parts:
            end = start + len(part.text)
            piece = PromptPiece(start, end, part.file, part.line, part.kind)
            last = pieces[-1] if pieces else None
            # A HUD section is one piece, with the blank line before or after it.
            if last is not None and last.kind == HUD and (separates or piece[2:] == last[2:]):
                pieces[-1] = last._replace(end=end)
            else:
                pieces.append(piece)
            start = end
    return "".join(span.text for span, _ in output), tuple(pieces)


# TOML files


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
    problems = (_undefined_problem(undefined),) if undefined else ()
    return ExpandedText(whole, tuple(spans), names, problems)


@lru_cache(maxsize=512)
def _parsed(text: str, file: str, functions: frozenset[str]) -> "tuple[Template, frozenset[str]]":
    """Return a template and its variables; cached because agents expand the same few texts."""
    from gascity.gotemplate import parse, references

    template = parse(text, name=file, file=file, functions=functions)
    return template, frozenset(ref.name for ref in references(template) if ref.kind == "variable")


def _failed(error: "TemplateError", text: str, lenient: bool) -> ExpandedText:
    """Return a pack's text unchanged if it is not a template; anything else is an error."""
    problem = _template_problem(error)
    message = problem.message.removesuffix(f" (in fragment `{error.name}`)")
    problem = problem._replace(message=message)
    if lenient and error.kind == "parse":
        return ExpandedText(text, problems=(_passed_unchanged(problem),))
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
        match value:
            case Mapping():
                return {key: walk(item, (*path, key)) for key, item in value.items()}
            case list():
                return [walk(item, (*path, index)) for index, item in enumerate(value)]
            case str(text) if "{{" in text:
                return expand_value(text, path)
        return value

    def expand_value(text: str, path: KeyPath) -> str:
        result = expand(text, file, context)
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
