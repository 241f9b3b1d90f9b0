"""Reads and writes below one directory without ever following a symlink.

A working directory may be a user's checkout in which an agent runs at the same time. So every
access goes step by step through directory descriptors (openat, O_NOFOLLOW): a symlink that another
process puts into the path meanwhile cannot redirect a write. Every write checks, before and after
preparing the new content, that the path is still what the plan saw; anything else raises
ConcurrentChangeError and leaves the path unchanged.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from gascity.files import write_new
from gascity.model.plan import FileChange, PathState
from gascity.model.wanted import (
    ABSENT,
    BLOCKED,
    DIRECTORY,
    FILE,
    LINK,
    OTHER,
    Stamp,
)

_MAX_OPEN = 64  # cached directory descriptors; a process may have only so many
_NOT_REACHABLE = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT)
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
_CHUNK = 1 << 20


def make_workdir(path: str, *, exist_ok: bool = True) -> None:
    """Create a working directory or one that holds some; below `.gc` other users cannot enter."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.makedirs(path, mode=0o700 if "/.gc/" in path else 0o777, exist_ok=exist_ok)


class ConcurrentChangeError(OSError):
    """A path is not in the state that the decision was based on."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ESTALE, "changed by another process; try again", path)


def stamp_of(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def temporary_name(name: str) -> str:
    """Return the name a file is written under first; the same on every try."""
    # File systems limit names by bytes, not characters.
    return f".{os.fsdecode(os.fsencode(name)[:200])}.city-new"


class Directory:
    """Reads and writes below `root`; use as a context manager."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.created: list[str] = []  # directories that this object created
        self._descriptors: dict[str, int] = {}
        self._kinds: dict[str, str] = {}

    def __enter__(self) -> "Directory":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def state(self, path: str) -> PathState:
        """Return what exists at a path. Opens nothing and follows no symlink."""
        parent = path.rpartition("/")[0]
        kind = self._kind(parent)
        if kind == ABSENT:
            return PathState(ABSENT)
        if kind != DIRECTORY:
            return PathState(BLOCKED, target=self._blocker(parent))
        try:
            status = os.lstat(f"{self.root}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return PathState(ABSENT)
        return self._path_state(status, f"{self.root}/{path}", None)

    def matches(self, path: str, stamp: Stamp, mode: int) -> bool:
        """Return whether a file has this stamp and mode. Cheap: called for every managed file."""
        if self._kind(path.rpartition("/")[0]) != DIRECTORY:
            return False
        try:
            status = os.lstat(f"{self.root}/{path}")
        except OSError:
            return False
        return stamp_of(status) == stamp and status.st_mode == stat.S_IFREG | mode

    def _kind(self, path: str) -> str:
        """Return DIRECTORY, ABSENT or OTHER for a parent directory; cached."""
        kind = self._kinds.get(path)
        if kind is None:
            kind = self._kinds[path] = self._lookup_kind(path)
        return kind

    def _lookup_kind(self, path: str) -> str:
        if path:
            parent_kind = self._kind(path.rpartition("/")[0])
            if parent_kind != DIRECTORY:
                return parent_kind
        try:
            # The root itself may be a symlink: the user chose it.
            status = os.lstat(f"{self.root}/{path}") if path else os.stat(self.root)
        except FileNotFoundError:
            return ABSENT
        except NotADirectoryError:
            return OTHER
        return DIRECTORY if stat.S_ISDIR(status.st_mode) else OTHER

    def _blocker(self, path: str) -> str:
        """Return the topmost ancestor that is not a directory."""
        while path and self._kind(parent := path.rpartition("/")[0]) != DIRECTORY:
            path = parent
        return path

    @staticmethod
    def _path_state(status: os.stat_result, name: str, dir_fd: int | None) -> PathState:
        mode = status.st_mode
        if stat.S_ISREG(mode):
            return PathState(FILE, mode & 0o7777, stamp_of(status))
        if stat.S_ISLNK(mode):
            return PathState(LINK, target=os.readlink(name, dir_fd=dir_fd))
        return PathState(DIRECTORY if stat.S_ISDIR(mode) else OTHER)

    def read(self, path: str) -> bytes:
        """Return the content of a regular file. Raises ConcurrentChangeError if there is none."""
        parent, _, name = path.rpartition("/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            handle = os.open(name, flags, dir_fd=self._descriptor(parent, create=False))
        except OSError as error:
            if error.errno in _NOT_REACHABLE:
                raise ConcurrentChangeError(path) from error
            raise OSError(error.errno, error.strerror, f"{self.root}/{path}") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise ConcurrentChangeError(path)
        with open(handle, "rb") as file:
            return file.read()

    def apply(self, change: FileChange) -> Stamp | None:
        """Make one change completely or not at all; return the stamp of a written file.

        Raises ConcurrentChangeError if the path is not in the expected state.
        """
        try:
            return self._apply(change)
        except ConcurrentChangeError:
            raise
        except OSError as error:
            # Calls relative to a descriptor report only the last part of the path.
            raise OSError(error.errno, error.strerror, f"{self.root}/{change.path}") from error

    def _apply(self, change: FileChange) -> Stamp | None:
        parent, _, name = change.path.rpartition("/")
        try:
            dir_fd = self._descriptor(parent, create=change.kind != ABSENT)
        except OSError as error:
            if error.errno in _NOT_REACHABLE:
                raise ConcurrentChangeError(change.path) from error
            raise
        self._check_expected(change, name, dir_fd)
        if change.kind == ABSENT:
            os.unlink(name, dir_fd=dir_fd)
            return None
        temporary = temporary_name(name)
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=dir_fd)  # left by a killed process
        try:
            if change.kind == LINK:
                os.symlink(change.target, temporary, dir_fd=dir_fd)
            else:
                data = content(change)
                write_new(temporary, data, change.mode, dir_fd=dir_fd, durable=change.durable)
            self._check_expected(change, name, dir_fd)  # again: writing may take a while
            _move_to_name(temporary, name, dir_fd, change.expected.kind == ABSENT, change.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=dir_fd)
            raise
        if change.kind == LINK:
            return None
        return stamp_of(os.stat(name, dir_fd=dir_fd, follow_symlinks=False))

    def _check_expected(self, change: FileChange, name: str, dir_fd: int) -> None:
        try:
            status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            now = PathState(ABSENT)
        else:
            now = self._path_state(status, name, dir_fd)
        # A mode alone may differ: chmod changes ctime, which is in the stamp.
        if now._replace(mode=0) != change.expected._replace(mode=0):
            raise ConcurrentChangeError(change.path)

    def remove_temporary(self, path: str) -> None:
        """Remove what a killed write may have left beside a path."""
        parent, _, name = path.rpartition("/")
        with suppress(OSError):
            os.unlink(temporary_name(name), dir_fd=self._descriptor(parent, create=False))

    def remove_empty(self, path: str) -> bool:
        """Remove a directory if it is empty; return whether it is gone."""
        parent, _, name = path.rpartition("/")
        try:
            os.rmdir(name, dir_fd=self._descriptor(parent, create=False))
        except OSError as error:
            return error.errno == errno.ENOENT
        self._close()  # a directory created later at this path is a different one
        return True

    def _descriptor(self, path: str, create: bool) -> int:
        """Return an open descriptor of a directory below the root, reached step by step."""
        cached = self._descriptors.get(path)
        if cached is not None:
            return cached
        if not path:
            if create:
                make_workdir(self.root)
            handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            parent, _, name = path.rpartition("/")
            parent_fd = self._descriptor(parent, create)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                handle = os.open(name, flags, dir_fd=parent_fd)
            except FileNotFoundError:
                if not create:
                    raise
                os.mkdir(name, 0o755, dir_fd=parent_fd)
                self.created.append(path)
                self._kinds.clear()
                handle = os.open(name, flags, dir_fd=parent_fd)
        if len(self._descriptors) >= _MAX_OPEN:
            self._close(keep=path)
        self._descriptors[path] = handle
        return handle

    def _close(self, keep: str = "") -> None:
        """Close cached descriptors, except those of `keep` and its ancestors."""
        for path in list(self._descriptors):
            ancestor = path == "" or keep == path or keep.startswith(path + "/")
            if not (keep and ancestor):
                os.close(self._descriptors.pop(path))
        self._kinds.clear()


def content(change: FileChange) -> Iterator[bytes]:
    """Yield what a change writes. Raises ConcurrentChangeError if its source changed since."""
    if change.data is not None:
        yield change.data
        return
    from hashlib import sha256

    hasher = sha256()
    with open(change.copy_of, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
            yield chunk
    if hasher.hexdigest() != change.sha256:
        raise ConcurrentChangeError(change.path)


def _move_to_name(temporary: str, name: str, dir_fd: int, new: bool, path: str) -> None:
    """Give a finished file its name. A new file is hard-linked, so that it replaces nothing."""
    if new:
        try:
            os.link(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
        except FileExistsError:
            raise ConcurrentChangeError(path) from None
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
        else:
            os.unlink(temporary, dir_fd=dir_fd)
            return
    os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
