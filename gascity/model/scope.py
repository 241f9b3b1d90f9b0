"""Allow and deny globs: one rule for skills, servers and agents."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from gascity.model.settings import Filter


def allowed(names: Iterable[str], filter: Filter) -> bool:
    """Return whether a filter allows something that has any of these names.

    Without `allow` everything is allowed, with an empty one nothing is, and `deny` wins.
    """
    known_as = tuple(names)
    if _matches(known_as, filter.deny):
        return False
    return filter.allow is None or _matches(known_as, filter.allow)


def may_sling(names: Iterable[str], filter: Filter, *, script: bool) -> bool:
    """Return whether an agent may sling work to the agent with these names.

    An agent that runs scripts has to be named in `allow`, without globs. Otherwise every agent
    that may sling work could run commands that its own tools deny it.
    """
    known_as = tuple(names)
    if script and set(known_as).isdisjoint(filter.allow or ()):
        return False
    return allowed(known_as, filter)


def _matches(names: tuple[str, ...], globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for name in names for glob in globs)
