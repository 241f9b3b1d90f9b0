"""Names of agents: the resolver that commands, patches and references use, and name filters."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from gascity.model.problems import Place, Problem

if TYPE_CHECKING:
    from gascity.model.settings import Filter

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_REST = _FIRST | frozenset("_-")
_MAX_LENGTH = 100

OWN = 0
IMPORTED = 1
IMPLICIT = 2


class AgentName(NamedTuple):
    """`[rig/][binding.]bare`, the only identity an agent has."""

    bare: str
    binding: str | None = None
    rig: str | None = None

    def __str__(self) -> str:
        name = f"{self.binding}.{self.bare}" if self.binding else self.bare
        return f"{self.rig}/{name}" if self.rig else name

    @property
    def without_rig(self) -> str:
        return f"{self.binding}.{self.bare}" if self.binding else self.bare

    def in_rig(self, rig: str | None) -> "AgentName":
        return AgentName(self.bare, self.binding, rig)


def parse_name(text: str) -> AgentName:
    """Parse a reference. Rig names may contain dots, agent and binding names cannot."""
    rig, _, rest = text.rpartition("/")
    binding, _, bare = rest.rpartition(".")
    return AgentName(bare, binding or None, rig or None)


def is_name(text: str) -> bool:
    """Is this a valid name for an agent, a binding or an MCP server?"""
    return (
        text[:1] in _FIRST and _REST.issuperset(text) and len(text) <= _MAX_LENGTH
        if text
        else False
    )


def is_rig_name(text: str) -> bool:
    """Is this a valid rig name? Rigs are named after repositories, so dots are allowed."""
    return is_name(text.replace(".", "-")) and ".." not in text


def near(word: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """Return the most similar known words, if they are similar enough."""
    most = 1 if len(word) < 4 else 2 if len(word) < 9 else 3
    scored = sorted((_distance(word.lower(), name.lower(), most), name) for name in known)
    return [name for score, name in scored if score <= most and score == scored[0][0]][:limit]


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a hint for a misspelt word, or None if no known word is similar."""
    names = near(word, known)
    return f"did you mean {' or '.join(f'`{name}`' for name in names)}?" if names else None


def _distance(a: str, b: str, limit: int) -> int:
    """Return the edit distance with transpositions; anything above `limit` is `limit + 1`."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, last, row = row, before, [i]
        for j, y in enumerate(b, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, last[j - 2] + 1)
            row.append(best)
        if min(row) > limit:
            return limit + 1
    return row[-1]


T = TypeVar("T")


class Resolved(NamedTuple, Generic[T]):
    """The result of a reference: exactly one thing, several candidates, or similar names."""

    found: T | None = None
    candidates: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


class NameCandidate(NamedTuple, Generic[T]):
    """Something that can be referred to; for a bare name the lower rank wins."""

    name: AgentName
    rank: int
    item: T


def resolve(
    reference: str,
    things: Sequence[NameCandidate[T]],
    *,
    order: Callable[[int], int] = lambda rank: rank,
    exact_first: bool = True,
) -> Resolved[T]:
    """Resolve a reference: an exact name first, then an unambiguous shorter one, by rank.

    A reference may omit the rig, or rig and binding: `r/x` is bare `x` in rig `r`, whatever its
    binding.
    """
    wanted = parse_name(reference)
    exact = [candidate for candidate in things if candidate.name == wanted] if exact_first else []
    if len(exact) == 1:
        return Resolved(exact[0].item)
    loose = exact or [candidate for candidate in things if _matches(candidate.name, wanted)]
    if not loose:
        return Resolved(near=tuple(near(reference, (str(candidate.name) for candidate in things))))
    # An agent of the city comes before its own instances in rigs, so that patching one instance
    # does not make the bare name ambiguous.
    best = min((order(candidate.rank), candidate.name.rig is not None) for candidate in loose)
    top = [
        candidate
        for candidate in loose
        if (order(candidate.rank), candidate.name.rig is not None) == best
    ]
    if len(top) == 1:
        return Resolved(top[0].item)
    return Resolved(candidates=tuple(sorted(str(candidate.name) for candidate in top)))


def _matches(name: AgentName, wanted: AgentName) -> bool:
    return (
        name.bare == wanted.bare
        and wanted.rig in (None, name.rig)
        and wanted.binding in (None, name.binding)
    )


def several(reference: str, candidates: Sequence[str], place: Place | None = None) -> Problem:
    """Return the problem of an ambiguous reference."""
    names = ", ".join(f"`{name}`" for name in candidates)
    message = f"`{reference}` is ambiguous: {names}"
    return Problem("ambiguous-name", message, place, "write one of them in full")


def unknown_rig(rig: str, rigs: Iterable[str]) -> Problem:
    """Return the problem of a rig that the city does not have."""
    return Problem("unknown-rig", f"there is no rig `{rig}`", None, did_you_mean(rig, rigs))


def allowed(names: Iterable[str], filter: "Filter") -> bool:
    """Return whether a filter allows something that has any of these names.

    Without `allow` everything is allowed, with an empty one nothing is, and `deny` wins.
    """
    known_as = tuple(names)
    if _matches_glob(known_as, filter.deny):
        return False
    return filter.allow is None or _matches_glob(known_as, filter.allow)


def may_sling(names: Iterable[str], filter: "Filter", *, script: bool) -> bool:
    """Return whether an agent may sling work to the agent with these names.

    An agent that runs scripts has to be named in `allow`, without globs. Otherwise every agent
    that may sling work could run commands that its own tools deny it.
    """
    known_as = tuple(names)
    if script and set(known_as).isdisjoint(filter.allow or ()):
        return False
    return allowed(known_as, filter)


def _matches_glob(names: tuple[str, ...], globs: tuple[str, ...]) -> bool:
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, glob) for name in names for glob in globs)
