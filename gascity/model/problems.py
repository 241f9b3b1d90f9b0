"""What is wrong, where, and what to do about it: values that stages return and `cli` prints."""

from collections.abc import Iterable, Iterator

from gascity.model.records import NamedTuple

ERROR = "error"
WARNING = "warning"

KeyPath = tuple[str | int, ...]


class Place(NamedTuple):
    """A spot in a person's file.

    `file` is relative to the city where it lies inside it, absolute otherwise. A spot in TOML is
    named by its key path; line and column are looked up only when the problem is shown.
    """

    file: str
    path: KeyPath = ()
    line: int | None = None
    col: int | None = None
    of_value: bool = False


class Problem(NamedTuple):
    """One finding. `code` has a heading in docs/reference/errors.md."""

    code: str
    message: str
    place: Place | None = None
    hint: str | None = None
    severity: str = ERROR

    @property
    def is_error(self) -> bool:
        return self.severity == ERROR

    def softened(self) -> "Problem":
        """The same finding as a warning: for packs that the reader of the message cannot mend."""
        return self._replace(severity=WARNING)


class CityError(Exception):
    """Carries problems to the edge when a command cannot go on; only `cli` catches it."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


def warning(
    code: str, message: str, place: Place | None = None, hint: str | None = None
) -> Problem:
    """A problem that does not stop anything."""
    return Problem(code, message, place, hint, WARNING)


def once_each(problems: Iterable[Problem]) -> Iterator[Problem]:
    """One problem for each message, at its first place, with the count."""
    found: dict[str, list[Problem]] = {}
    for problem in problems:
        found.setdefault(problem.message, []).append(problem)
    for message, same in found.items():
        more = f" (in {len(same)} places)" if len(same) > 1 else ""
        yield same[0]._replace(message=message + more)
