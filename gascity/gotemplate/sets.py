"""Named templates, and the two ways to render them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from gascity.gotemplate.errors import Note, TemplateError, did_you_mean
from gascity.gotemplate.evaluate import Budget
from gascity.gotemplate.nodes import Template
from gascity.gotemplate.parse import parse
from gascity.gotemplate.spans import Span
from gascity.gotemplate.walk import walk

_NO_FUNCTIONS: Mapping[str, Callable[..., object]] = {}
_DEFAULT = Budget()


class TemplateSet(Mapping[str, Template]):
    """Templates by name, gathered file by file.

    A later file's definition replaces an earlier one, but a blank one never replaces one that
    says something. Each template knows its own file.
    """

    def __init__(self, files: Iterable[Template] = ()) -> None:
        self._named: dict[str, Template] = {}
        for template in files:
            self.add(template)

    def add(self, template: Template) -> None:
        """Take in a file: its definitions and, under its own name, the rest of its text."""
        for definition in template.defines.values():
            if definition.name != template.name:
                self._put(definition)
        self._put(template)

    def _put(self, template: Template) -> None:
        if not template.blank or template.name not in self._named:
            self._named[template.name] = template

    def __getitem__(self, name: str) -> Template:
        return self._named[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)


def render(
    templates: Mapping[str, Template],
    name: str,
    data: object,
    *,
    functions: Mapping[str, Callable[..., object]] = _NO_FUNCTIONS,
    missing: str = "strict",
    budget: Budget = _DEFAULT,
    notes: list[Note] | None = None,
    lenient: Collection[str] = (),
) -> list[Span]:
    """Return what the template `name` writes for `data`, piece by piece.

    `missing` says what an undefined variable is: `strict` allows it where it is only asked for
    and nowhere else, `lenient` takes it and a missing fragment for empty text and adds to `notes`
    what it took, `error` and `default` are Go's `missingkey` options. Templates of the files in
    `lenient` are rendered so, whatever `missing` says of the others.
    """
    template = templates.get(name)
    if template is None:
        hint = did_you_mean(name, templates)
        raise TemplateError(
            "exec", f'template "{name}" not defined', file=name, line=1, col=0, name=name, hint=hint
        )
    return walk(templates, template, data, functions, missing, budget, notes, lenient)


def render_text(
    template: str,
    data: object,
    *,
    defines: Mapping[str, str] = {},
    missing: str = "strict",
    functions: Mapping[str, Callable[..., object]] = _NO_FUNCTIONS,
    budget: Budget = _DEFAULT,
) -> str:
    """Return the text that `template` is for `data`.

    `defines` are further files by name; they are parsed first, in the order of their names. The
    text itself is called `main`, in errors too.
    """
    files = [parse(defines[name], name=name, functions=functions) for name in sorted(defines)]
    files.append(parse(template, name="main", functions=functions))
    spans = render(
        TemplateSet(files), "main", data, functions=functions, missing=missing, budget=budget
    )
    return "".join([span.text for span in spans])
