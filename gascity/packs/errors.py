"""Errors of fetching and installing packs."""

from collections.abc import Iterator
from contextlib import contextmanager


class PackError(Exception):
    """A pack cannot be installed. `code` is a problem code; the texts contain no secrets."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def cache_error(reason: str) -> PackError:
    """Return the error of a cache that cannot be written."""
    hint = "free disk space, or set XDG_CACHE_HOME to another directory"
    return PackError("cache-unwritable", f"the cache cannot be written: {reason}", hint)


@contextmanager
def writing_cache() -> Iterator[None]:
    """Turn an OSError into a PackError about the cache."""
    try:
        yield
    except OSError as error:
        raise cache_error(f"{error.filename or 'disk'}: {error.strerror}") from error
