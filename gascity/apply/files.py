"""Writes that happen whole or not at all, and never over what a person wrote unseen."""

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

SCRATCH = ".city-new"  # how the names of files end that are not finished


@contextmanager
def locked(directory: str) -> Iterator[None]:
    """Only one of us edits the files of a directory at a time; nothing is left behind."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def refuse_links(root: str, path: str) -> None:
    """Raise if a directory between `root` and `path` is a link: it would lead the write away."""
    here = os.path.dirname(path)
    while len(here) > len(root):
        if os.path.islink(here):
            raise OSError(errno.ELOOP, "a directory above is a link", here)
        here = os.path.dirname(here)


def create(path: str, data: bytes, mode: int = 0o644) -> bool:
    """Write a new file; False, and nothing touched, if something is there already."""
    if os.path.lexists(path):
        return False
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    scratch = _scratch(path, data, mode)
    try:
        os.link(scratch, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(scratch)
    return True


def replace(path: str, data: bytes) -> None:
    """Put new content in place of a file's; its mode stays, and a link stays a link."""
    target, mode = _target(path)
    os.replace(_scratch(target, data, mode), target)


def replace_alone(path: str, data: bytes) -> bool:
    """Like `replace`, for a file that only one of us writes at a time; False if it says so already.

    What a killed one of us left beside it is taken away.
    """
    target, mode = _target(path)
    if (_content(target) or b"") == data:
        sweep(target)
        return False
    write_private(target, data, mode)
    return True


def sweep(path: str) -> None:
    """Take away what a killed `write_private` left beside a file."""
    with suppress(FileNotFoundError):
        os.unlink(path + SCRATCH)


def _target(path: str) -> tuple[str, int]:
    """Where a write really goes, and the mode it has there."""
    target = os.path.realpath(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    return target, os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o644


def replace_all(files: Mapping[str, bytes]) -> None:
    """Replace several files; if one cannot be, those already replaced are put back."""
    before = {path: _content(path) for path in files}
    done: list[str] = []
    try:
        for path, data in files.items():
            replace(path, data)
            done.append(path)
    except BaseException:
        for path in done:
            old = before[path]
            if old is None:
                os.unlink(path)
            else:
                replace(path, old)
        raise


def make_private(directory: str) -> None:
    """A directory of the city's own state that nobody else may look into."""
    os.makedirs(directory, mode=0o700, exist_ok=True)


def write_private(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace a file that only one of us writes at a time, whole and on disk.

    What a killed one of us left is taken away.
    """
    os.replace(_written(path + SCRATCH, data, mode, path), path)


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _scratch(path: str, data: bytes, mode: int) -> str:
    """A finished copy beside the target, on disk before anything is renamed to it."""
    return _written(f"{path}.city-{os.getpid()}", data, mode, path)


def _written(scratch: str, data: bytes, mode: int, path: str) -> str:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        os.unlink(scratch)  # left by one of us that was killed
    try:
        with open(os.open(scratch, flags, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(scratch, mode)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(scratch)
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, error.strerror, path) from error
        raise
    return scratch
