"""Problems: what is wrong, where, and how to fix it. Stages return them, `cli` prints them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

ERROR = "error"
WARNING = "warning"

NOT_ACCEPTED = "pack-not-accepted"  # the code by which several stages find the problem

KeyPath = tuple[str | int, ...]


class Place(NamedTuple):
    """A place in a user's file.

    `file` is relative to the city if it is inside it, else absolute. A place in TOML is given by
    its key path; line and column are looked up only when the problem is shown.
    """

    file: str
    path: KeyPath = ()
    line: int | None = None
    col: int | None = None
    of_value: bool = False


class Problem(NamedTuple):
    """One problem. Each `code` has a section in docs/reference/errors.md."""

    code: str
    message: str
    place: Place | None = None
    hint: str | None = None
    severity: str = ERROR

    @property
    def is_error(self) -> bool:
        return self.severity == ERROR

    def softened(self) -> "Problem":
        """Return the problem as a warning, for packs that the user cannot fix."""
        return self._replace(severity=WARNING)


class CityError(Exception):
    """Ends a command with problems; only `cli` catches it."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


def warning(
    code: str, message: str, place: Place | None = None, hint: str | None = None
) -> Problem:
    """Return a problem that blocks nothing."""
    return Problem(code, message, place, hint, WARNING)


def once_each(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield one problem per message, at its first place, with the number of places."""
    by_message: dict[str, list[Problem]] = {}
    for problem in problems:
        by_message.setdefault(problem.message, []).append(problem)
    for message, same in by_message.items():
        more = f" (in {len(same)} places)" if len(same) > 1 else ""
        yield same[0]._replace(message=message + more)
