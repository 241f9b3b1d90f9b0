"""Writes that happen whole or not at all, and never over what a person wrote unseen."""

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress


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
    target = os.path.realpath(path)
    mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o644
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.replace(_scratch(target, data, mode), target)


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


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _scratch(path: str, data: bytes, mode: int) -> str:
    """A finished copy beside the target, on disk before anything is renamed to it."""
    scratch = f"{path}.city-{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        os.unlink(scratch)  # left by a process of our number that was killed
    handle = os.open(scratch, flags, mode)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(scratch, mode)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise
    return scratch
