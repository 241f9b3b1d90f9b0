"""Why a pack of a repository cannot be had."""

from collections.abc import Iterator
from contextlib import contextmanager


class PackFault(Exception):
    """A refusal for a person to read; nothing in it is a secret. `code` is that of a problem."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


@contextmanager
def unwritable() -> Iterator[None]:
    """What the disk refuses is told as a fault of the cache."""
    try:
        yield
    except OSError as error:
        raise cache_fault(f"{error.filename or 'disk'}: {error.strerror}") from error


def cache_fault(why: str) -> PackFault:
    """The fault of a cache that cannot be written."""
    hint = "make room, or let XDG_CACHE_HOME name another directory"
    return PackFault("cache-unwritable", f"the cache cannot be written: {why}", hint)
