"""Template errors, and the undefined names that a lenient rendering reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_LONGEST = 80  # longer names get no suggestion: comparing them takes quadratic time
_TRAIL = 20  # maximum number of callers in an error; a runaway recursion has thousands


TemplateCall = tuple[str, int, str]  # file, line and name of the template with the call


class TemplateError(Exception):
    """The only exception that a template's text can cause.

    `kind` is `parse` or `exec`. `file`, `line` (from 1) and `col` (bytes, from 0, as Go counts)
    give the position in the source; `name` is the template or fragment it belongs to.
    `trail` lists the `template` calls that led there, innermost first.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        file: str,
        line: int,
        col: int,
        name: str,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.file = file
        self.line = line
        self.col = col
        self.name = name
        self.hint = hint
        self.trail: tuple[TemplateCall, ...] = ()

    def add_callers(self, *calls: TemplateCall) -> None:
        """Add the `template` calls that led here, innermost first."""
        self.trail = (*self.trail, *calls)[:_TRAIL]

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f'{self.file}:{self.line}:{self.col}: in "{self.name}": {self.message}{hint}'


class EvalError(Exception):
    """A function or value was rejected; the caller adds the position and raises TemplateError."""


class UndefinedName(NamedTuple):
    """An undefined name that a lenient rendering replaced with empty text.

    `kind` is `variable` or `fragment`, `subject` the name as written in the template.
    """

    kind: str
    subject: str
    file: str
    line: int
    col: int
    name: str
    hint: str


def did_you_mean(wrong: str, known: Iterable[object], prefix: str = "") -> str:
    """Return a hint with the nearest known name, or an empty string if none is near."""
    from difflib import get_close_matches  # slow to import, and only errors need it

    if len(wrong) > _LONGEST:
        return ""
    names = [name for name in known if isinstance(name, str) and len(name) <= _LONGEST]
    near = get_close_matches(wrong, names, n=1, cutoff=0.6)
    if not near:
        folded = {name.lower(): name for name in names}
        near = [folded[wrong.lower()]] if wrong.lower() in folded else []
    return f"did you mean `{prefix}{near[0]}`?" if near else ""
