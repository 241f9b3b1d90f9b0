"""Problems as text (location, source line, caret, hint) and as JSON."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gascity.cli.output import BOLD, CYAN, RED, YELLOW, escape, plural, styled
from gascity.model.problems import CityError, Place, Problem
from gascity.model.secrets import masked_line
from gascity.model.values import JsonObject

if TYPE_CHECKING:  # every command reports problems; few load agents
    from gascity.model.city import Agent
    from gascity.store.port import StoreError

_WIDEST = 76
# For these codes the source line is not shown: it may hold a password in any form.
_VALUE_TABLES = frozenset(("env", "headers"))
_HIDE_LINE = ("too-large", "unparsable-target", "url-credentials", "url-unsafe", "url-scheme")


def city_error(code: str, message: str, hint: str | None = None) -> CityError:
    """Return the exception for one problem without a location."""
    return CityError(Problem(code, message, None, hint))


def missing_extra(command: str, extra: str, packages: Iterable[str]) -> CityError:
    """Return the error of a command whose packages, which are an extra, are not installed."""
    return city_error(
        "missing-extra",
        f"`city {command}` needs packages that are not installed: {', '.join(packages)}",
        f"run `python -m pip install '{extra}'`, or `uv tool install '{extra}'`",
    )


def require_accepted(agent: "Agent") -> None:
    """Raise CityError if the user has not accepted the agent's pack: nothing of it may run."""
    if not agent.accepted:
        binding = agent.name.binding
        message = f"you have not accepted the pack of `{agent.name}`, so nothing of it is run"
        hint = f"review it: `city pack show {binding}`; then run `city pack accept {binding}`"
        raise city_error("pack-not-accepted", message, hint)


class Locator:
    """Finds the line and column of places; reads each file once."""

    def __init__(self, root: str, texts: Mapping[str, str] | None = None) -> None:
        self.root = root
        self._texts: dict[str, str | None] = dict(texts or {})
        # Sorting and printing both ask, and each answer scans a whole TOML file.
        self._positions: dict[Place, tuple[int | None, int | None]] = {}

    def line_col(self, place: Place | None) -> tuple[int | None, int | None]:
        if place is None:
            return None, None
        if place.line is not None or not place.path:
            return place.line, place.col
        if place not in self._positions:
            self._positions[place] = self._find(place)
        return self._positions[place]

    def located(self, problem: Problem) -> Problem:
        """Return the problem with line and column instead of a key path."""
        place = problem.place
        if place is None or place.line is not None or not place.path:
            return problem
        line, col = self.line_col(place)
        return problem._replace(place=Place(place.file, (), line, col))

    def _find(self, place: Place) -> tuple[int | None, int | None]:
        text = self.text(place.file)
        if text is None:
            return None, None
        if place.file.endswith(("/profile.md", "/profile.template.md")):
            from gascity.source.profiles import locate_in_profile

            return locate_in_profile(text, place.path)
        from gascity.toml.positions import locate, value_position

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


def problem_json(problem: Problem, locator: Locator) -> JsonObject:
    """Return a problem as its JSON object."""
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


def problems_json(problems: Iterable[Problem], locator: Locator) -> list[JsonObject]:
    return [problem_json(problem, locator) for problem in in_order(problems, locator)]


def in_order(problems: Iterable[Problem], locator: Locator) -> list[Problem]:
    """Sort problems by file and line, without duplicates; packs that cannot be read come first.

    Other problems may follow from them.
    """
    return sorted(dict.fromkeys(problems), key=lambda problem: _sort_key(problem, locator))


def _sort_key(problem: Problem, locator: Locator) -> tuple[bool, str, int, int, str]:
    line, col = locator.line_col(problem.place)
    file = problem.place.file if problem.place else ""
    is_cause = problem.is_error and problem.code.startswith("import-")
    return (not is_cause, file, line or 0, col or 0, problem.message)


def problem_lines(problem: Problem, locator: Locator, colour: bool = False) -> list[str]:
    """Format a problem like a compiler, so that editors can jump to it."""
    line, col = locator.line_col(problem.place)
    location = "city" if problem.place is None else problem.place.file
    if line is not None:
        location += f":{line}:{col or 1}"
    severity_style = RED if problem.is_error else YELLOW
    lines = [
        f"{styled(location, BOLD, colour)}: {styled(problem.severity, severity_style, colour)}: "
        f"{escape(problem.message)} [{problem.code}]"
    ]
    if problem.place is not None and line is not None and problem.code not in _HIDE_LINE:
        source = locator.source_line(problem.place.file, line)
        if source is not None and not _VALUE_TABLES.isdisjoint(problem.place.path[:-1]):
            source = _without_value(source)
        if problem.code != "bad-toml" or _is_statement(source):
            lines += _excerpt(source, col or 1)
    if problem.hint:
        lines.append(f"  {styled('hint', CYAN, colour)}: {escape(problem.hint)}")
    return lines


def _without_value(source: str) -> str:
    """Return a line up to its first value: any value of an environment may be a secret."""
    key, equals, _ = source.partition("=")
    return f"{key}{equals} …" if equals else source


def _is_statement(source: str | None) -> bool:
    """Return whether a statement starts here. A line inside a string may hold a secret."""
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
    """Return the result of a check: `ok`, `warning` or `error`."""
    errors = [problem.is_error for problem in problems]
    return "error" if any(errors) else "warning" if errors else "ok"


_STORE_HINTS = {
    "store-busy": "nothing was changed; try again, or run `city restart` if it is the controller",
    "store-full": "nothing was changed; free some disk space and try again (run `city doctor`)",
    "store-denied": "nothing was changed; check the owner of .gc: run `city doctor`",
    "store-newer": "nothing was changed; upgrade city",
    "store-broken": "run `city doctor`; `city doctor --fix` restores the newest backup",
    "store-missing": "run `city doctor`; `city doctor --fix` restores the newest backup",
}


def store_problem(error: "StoreError") -> Problem:
    """Return the problem of a store that cannot be used, with what the user can do."""
    return Problem(error.code, error.message, None, _STORE_HINTS.get(error.code))


def summary(problems: Sequence[Problem]) -> str:
    """Return `2 errors, 1 warning`, or an empty string."""
    errors = sum(problem.is_error for problem in problems)
    warnings = len(problems) - errors
    counts = ((errors, "error"), (warnings, "warning"))
    return ", ".join(plural(count, noun) for count, noun in counts if count)
