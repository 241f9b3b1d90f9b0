"""Allow and deny globs: one rule for tools, skills, servers, capabilities and agents."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase


def allowed(names: Iterable[str], allow: object, deny: object) -> bool:
    """Absent means unrestricted, an empty list means none, and deny wins."""
    words = tuple(names)
    if _matches(words, deny):
        return False
    return allow is None or _matches(words, allow)


def may_sling(names: Iterable[str], allow: object, deny: object, *, script: bool) -> bool:
    """May an agent hand work to one of these names? To who runs scripts only if it is named.

    Otherwise any agent that may hand out work could run commands that its own tools deny it.
    """
    words = tuple(names)
    if script and not (isinstance(allow, (list, tuple)) and not set(words).isdisjoint(allow)):
        return False
    return allowed(words, allow, deny)


def _matches(names: Sequence[str], globs: object) -> bool:
    patterns = globs if isinstance(globs, (list, tuple)) else ()
    return any(fnmatchcase(name, str(glob)) for name in names for glob in patterns)
