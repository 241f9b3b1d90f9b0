"""Atomic file writes: a reader sees the old content or the new one, never half of it.

Every file that city writes is written by `write_new` under a temporary name beside its place, and
then renamed (or, if it must not replace anything, hard-linked) to its final name. The temporary
file is synced to disk first, so that a power cut cannot leave an empty file under the final name.

| function       | existing file                  | symlink at the path | mode             |
|----------------|--------------------------------|---------------------|------------------|
| `create_file`  | kept; returns False            | kept                | given            |
| `replace_file` | replaced                       | target is replaced  | that of the file |
| `update_file`  | replaced if content differs    | target is replaced  | that of the file |
| `write_file`   | replaced                       | replaced            | given            |

`update_file` and `write_file` use one fixed temporary name per path: callers hold a lock, and the
next call removes what a killed process left. The other two put the process id into the name.
A new directory with all its files: `create_directory`. Several files that must change together:
`gascity.workdir.write.transaction`.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

TEMPORARY_SUFFIX = ".city-new"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE = stat.S_IFREG | 0o600


@contextmanager
def locked(directory: str) -> Iterator[None]:
    """Hold an exclusive lock on a directory. It leaves no file and ends with the process."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_locked(directory: str) -> bool:
    """Return whether another process holds the lock of a directory."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


@contextmanager
def locked_file(path: str, *, wait: bool = True) -> Iterator[int]:
    """Hold an exclusive lock on a file, which is created if missing; yield its descriptor.

    A process that inherits the descriptor holds the lock until it ends, too. Without `wait`, a lock
    that another process holds is a BlockingIOError.
    """
    make_private_directory(os.path.dirname(path))
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield handle
    finally:
        os.close(handle)


def refuse_links(root: str, path: str) -> None:
    """Raise if a directory between `root` and `path` is a symlink: the write would leave `root`."""
    directory = os.path.dirname(path)
    while len(directory) > len(root):
        if os.path.islink(directory):
            raise OSError(errno.ELOOP, "a parent directory is a symlink", directory)
        directory = os.path.dirname(directory)


def create_file(path: str, data: bytes, mode: int = 0o644) -> bool:
    """Write a new file; return False and change nothing if the path exists."""
    if os.path.lexists(path):
        return False
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = _write_temporary(f"{path}.city-{os.getpid()}", data, mode, path)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def create_directory(path: str, files: Mapping[str, bytes]) -> None:
    """Create a directory with these files, by name: all of them or nothing.

    Only one process may create it at a time. Removes what a killed one left beside it.
    """
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}{TEMPORARY_SUFFIX}")
    remove_tree(temporary)
    try:
        for name, data in files.items():
            create_file(os.path.join(temporary, name), data)
        os.rename(temporary, path)
    except BaseException as error:
        remove_tree(temporary)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, path) from error
        raise


def replace_file(path: str, data: bytes) -> None:
    """Replace a file's content and keep its mode. Follows a symlink, which stays one."""
    target, mode = _target(path)
    temporary = _write_temporary(f"{target}.city-{os.getpid()}", data, mode, target)
    os.replace(temporary, target)


def update_file(path: str, data: bytes) -> bool:
    """Like `replace_file`, but return False and write nothing if the content is the same.

    Only one process may write the file at a time. Removes what a killed one left beside it.
    """
    target, mode = _target(path)
    if (read_or_none(target) or b"") == data:
        remove_temporary(target)
        return False
    write_file(target, data, mode)
    return True


def write_file(path: str, data: bytes, mode: int = 0o600, *, durable: bool = True) -> None:
    """Replace a file that only one process writes at a time. A symlink is replaced, not followed.

    Without `durable`, the file may be lost in a power cut: for files that one run needs.
    """
    os.replace(_write_temporary(path + TEMPORARY_SUFFIX, data, mode, path, durable), path)


def replace_files(files: Mapping[str, bytes]) -> None:
    """Replace several files; if one fails, put back those already replaced.

    A killed process may leave some of them replaced. Inside a city, use a transaction.
    """
    before = {path: read_or_none(path) for path in files}
    replaced: list[str] = []
    try:
        for path, data in files.items():
            replace_file(path, data)
            replaced.append(path)
    except BaseException:
        for path in replaced:
            old = before[path]
            if old is None:
                os.unlink(path)
            else:
                replace_file(path, old)
        raise


def remove_temporary(path: str) -> None:
    """Remove what a killed `write_file` left beside a file."""
    with suppress(FileNotFoundError):
        os.unlink(path + TEMPORARY_SUFFIX)


def read_or_none(path: str) -> bytes | None:
    """Return a file's content; None if it does not exist."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write_new(
    path: str,
    chunks: Iterable[bytes],
    mode: int,
    *,
    dir_fd: int | None = None,
    durable: bool = True,
) -> os.stat_result:
    """Create a file with this content and exactly this mode. Raises FileExistsError if it exists.

    On any other error the caller removes what was written.
    """
    handle = os.open(path, _NEW, mode, dir_fd=dir_fd)
    try:
        for chunk in chunks:
            written = os.write(handle, chunk)
            while written < len(chunk):
                written += os.write(handle, chunk[written:])
        # With the usual umask the mode is right already: one call less for each of many files.
        if os.fstat(handle).st_mode & 0o7777 != mode:
            os.fchmod(handle, mode)
        if durable:
            os.fsync(handle)
        return os.fstat(handle)
    finally:
        os.close(handle)


def reuse_file(old: str, path: str, data: bytes) -> int | None:
    """Rename a file that nothing needs any more and give it new content; return its descriptor.

    A rename takes a fraction of the time that a file system such as ext4 needs for a new file. For
    private files that one process writes and that need not be durable. None if `old` is gone, has
    another owner, mode or name (a hard link), or cannot be written; then create the file.
    """
    try:
        file = os.open(old, _OLD)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if (status.st_mode, status.st_nlink, status.st_uid) == (_PRIVATE, 1, os.geteuid()):
            written = 0
            while written < len(data):
                written += os.pwrite(file, data[written:], written)
            if status.st_size > len(data):
                os.ftruncate(file, len(data))
            os.rename(old, path)
            return file
    except OSError:
        pass  # no space, for example; the caller's own attempt says so
    os.close(file)
    return None


def sync_file(path: str) -> None:
    """Flush a file's content to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(handle)


def sync_directory(directory: str) -> None:
    """Flush a directory's entries to disk, where the file system supports it."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise OSError(error.errno, error.strerror, directory) from error
    finally:
        os.close(handle)


def make_private_directory(directory: str) -> None:
    """Create a directory that only the owner may read."""
    os.makedirs(directory, mode=0o700, exist_ok=True)


def move_and_remove_tree(path: str) -> None:
    """Rename a directory out of sight, then delete it: no reader sees it half deleted.

    Also deletes what a killed call left.
    """
    remove_tree(removal_path(path))
    os.rename(path, removal_path(path))
    remove_tree(removal_path(path))


def removal_path(path: str) -> str:
    """Return where a directory is moved before it is deleted; the same on every try."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.city-removed")


def remove_tree(path: str) -> None:
    """Delete a directory, including read-only entries. Follows no symlink; a no-op if absent."""
    import shutil

    if os.path.islink(path) or not os.path.isdir(path):
        return
    os.chmod(path, 0o700)
    for parent, names, _ in os.walk(path):
        for name in names:
            if not os.path.islink(f"{parent}/{name}"):
                os.chmod(f"{parent}/{name}", 0o700)
    shutil.rmtree(path)


def _target(path: str) -> tuple[str, int]:
    """Return the real path of a write, and the mode the file has there."""
    target = os.path.realpath(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    return target, os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o644


def _write_temporary(
    temporary: str, data: bytes, mode: int, path: str, durable: bool = True
) -> str:
    with suppress(FileNotFoundError):
        os.unlink(temporary)  # left by a killed process
    try:
        write_new(temporary, (data,), mode, durable=durable)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, error.strerror, path) from error
        raise
    return temporary
