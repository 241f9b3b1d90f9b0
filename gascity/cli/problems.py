"""Problems as people and programs read them: placed, with the line, a caret and a hint."""

import os
from collections.abc import Iterable, Mapping, Sequence

from gascity.cli.output import BOLD, CYAN, RED, YELLOW, clean, paint
from gascity.model.problems import Place, Problem
from gascity.model.secrets import masked_line

_WIDEST = 76
# A line of a person's own file may hold anything, and an address a password in any shape.
_NO_LINE = ("too-large", "unparsable-target", "url-credentials", "url-unsafe", "url-scheme")


class Locator:
    """Finds line and column of places, reading each file once."""

    def __init__(self, root: str, texts: Mapping[str, str] | None = None) -> None:
        self.root = root
        self._texts: dict[str, str | None] = dict(texts or {})

    def line_col(self, place: Place | None) -> tuple[int | None, int | None]:
        if place is None:
            return None, None
        if place.line is not None or not place.path:
            return place.line, place.col
        text = self.text(place.file)
        if text is None:
            return None, None
        from gascity.source.toml import locate, value_position

        return (value_position if place.of_value else locate)(text, place.path)

    def text(self, file: str) -> str | None:
        if file not in self._texts:
            self._texts[file] = self._read(file)
        return self._texts[file]

    def _read(self, file: str) -> str | None:
        from gascity.source.disk import read_plain

        data = read_plain(os.path.join(self.root, file))
        return None if data is None else data.decode("utf-8", "replace")

    def source_line(self, file: str, line: int) -> str | None:
        lines = (self.text(file) or "").split("\n")
        return lines[line - 1].rstrip("\r") if 0 < line <= len(lines) else None


def problem_json(problem: Problem, locator: Locator) -> dict[str, object]:
    """The object `P` of the JSON contract."""
    line, col = locator.line_col(problem.place)
    return {
        "severity": problem.severity,
        "code": problem.code,
        "file": problem.place.file if problem.place else None,
        "line": line,
        "col": col,
        "message": problem.message,
        "hint": problem.hint,
    }


def problems_json(problems: Iterable[Problem], locator: Locator) -> list[dict[str, object]]:
    return [problem_json(problem, locator) for problem in in_order(problems, locator)]


def in_order(problems: Iterable[Problem], locator: Locator) -> list[Problem]:
    """Errors and warnings file by file, from top to bottom, each once."""
    return sorted(dict.fromkeys(problems), key=lambda problem: _sort_key(problem, locator))


def _sort_key(problem: Problem, locator: Locator) -> tuple[str, int, int, str]:
    line, col = locator.line_col(problem.place)
    return (problem.place.file if problem.place else "", line or 0, col or 0, problem.message)


def problem_text(problem: Problem, locator: Locator, colour: bool = False) -> str:
    """A problem in compiler form, so that editors jump to it."""
    line, col = locator.line_col(problem.place)
    spot = "city" if problem.place is None else problem.place.file
    if line is not None:
        spot += f":{line}:{col or 1}"
    shade = RED if problem.is_error else YELLOW
    lines = [
        f"{paint(spot, BOLD, colour)}: {paint(problem.severity, shade, colour)}: "
        f"{clean(problem.message)} [{problem.code}]"
    ]
    if problem.place is not None and line is not None and problem.code not in _NO_LINE:
        source = locator.source_line(problem.place.file, line)
        if problem.code != "bad-toml" or _is_statement(source):
            lines += _excerpt(source, col or 1)
    if problem.hint:
        lines.append(f"  {paint('hint', CYAN, colour)}: {clean(problem.hint)}")
    return "\n".join(lines)


def _is_statement(source: str | None) -> bool:
    """Does a line begin a statement? Inside a long string there is no telling whose value it is."""
    text = (source or "").lstrip()
    return text.startswith("[") or "=" in text


def _excerpt(source: str | None, col: int) -> list[str]:
    if source is None or not source.strip():
        return []
    shown = "".join(
        " " if char == "\t" or not char.isprintable() else char for char in masked_line(source)
    )
    start = max(0, min(col - 1, len(shown)) - _WIDEST + 16) if len(shown) > _WIDEST else 0
    piece = shown[start : start + _WIDEST - 4]
    return [f"    {piece}", " " * (4 + min(col - 1, len(shown)) - start) + "^"]


def status_of(problems: Iterable[Problem]) -> str:
    """How something stands that was checked: `ok`, `warning` or `error`."""
    found = [problem.is_error for problem in problems]
    return "error" if any(found) else "warning" if found else "ok"


def summary(problems: Sequence[Problem]) -> str:
    """`2 errors, 1 warning`, or nothing."""
    errors = sum(problem.is_error for problem in problems)
    warnings = len(problems) - errors
    parts = []
    if errors:
        parts.append(f"{errors} error{'s' if errors > 1 else ''}")
    if warnings:
        parts.append(f"{warnings} warning{'s' if warnings > 1 else ''}")
    return ", ".join(parts)
