"""One directory, looked at and written to without ever following a link below it."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from gascity.model.plan import (
    ABSENT,
    BLOCKED,
    DIRECTORY,
    FILE,
    LINK,
    OTHER,
    Change,
    Found,
    Stamp,
)

_MOST_OPEN = 64  # directories kept open at a time; a process may have only so many
_NOT_THE_WAY = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
_CHUNK = 1 << 20


class ChangedMeanwhile(OSError):
    """Something else stands there than the decision was made on."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ESTALE, "it changed while this ran; try again", path)


def stamp_of(found: os.stat_result) -> Stamp:
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def scratch_name(name: str) -> str:
    """Where a file is written before it gets its name; the same for a second try."""
    # Cut by bytes: that is what a file system counts.
    return f".{os.fsdecode(os.fsencode(name)[:200])}.city-new"


class Directory:
    """Reads and writes below `root`; use as a context manager."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.made: list[str] = []  # directories that were not there before
        self._open: dict[str, int] = {}
        self._kinds: dict[str, str] = {}

    def __enter__(self) -> "Directory":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def found(self, path: str) -> Found:
        """What stands at a path. Nothing is opened, no link followed."""
        head = path.rpartition("/")[0]
        kind = self._kind(head)
        if kind != DIRECTORY:
            return Found(ABSENT) if kind == ABSENT else Found(BLOCKED, target=self._blocker(head))
        try:
            seen = os.lstat(f"{self.root}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return Found(ABSENT)
        return self._described(seen, f"{self.root}/{path}", None)

    def is_still(self, path: str, stamp: Stamp, mode: int) -> bool:
        """Is there a file with just this stamp and mode? The quick question for many files."""
        if self._kind(path.rpartition("/")[0]) != DIRECTORY:
            return False
        try:
            seen = os.lstat(f"{self.root}/{path}")
        except OSError:
            return False
        return (
            seen.st_mtime_ns == stamp[0]
            and seen.st_ctime_ns == stamp[1]
            and seen.st_size == stamp[2]
            and seen.st_ino == stamp[3]
            and seen.st_mode == stat.S_IFREG | mode
        )

    def _kind(self, path: str) -> str:
        """Can things stand below `path`? A link on the way is not a directory."""
        known = self._kinds.get(path)
        if known is None:
            known = self._looked_up(path)
            self._kinds[path] = known
        return known

    def _blocker(self, path: str) -> str:
        """The topmost thing on the way that is no directory."""
        while path and self._kind(above := path.rpartition("/")[0]) != DIRECTORY:
            path = above
        return path

    def _looked_up(self, path: str) -> str:
        if path:
            above = self._kind(path.rpartition("/")[0])
            if above != DIRECTORY:
                return above
        try:
            # The root itself may be a link: it is where a person said it is.
            seen = os.lstat(f"{self.root}/{path}") if path else os.stat(self.root)
        except FileNotFoundError:
            return ABSENT
        except NotADirectoryError:
            return OTHER
        return DIRECTORY if stat.S_ISDIR(seen.st_mode) else OTHER

    @staticmethod
    def _described(seen: os.stat_result, name: str, dir_fd: int | None) -> Found:
        mode = seen.st_mode
        if stat.S_ISREG(mode):
            return Found(FILE, mode & 0o7777, stamp_of(seen))
        if stat.S_ISLNK(mode):
            return Found(LINK, target=os.readlink(name, dir_fd=dir_fd))
        return Found(DIRECTORY if stat.S_ISDIR(mode) else OTHER)

    def read(self, path: str) -> bytes:
        """The bytes of a regular file. Raises ChangedMeanwhile if there is none."""
        head, _, name = path.rpartition("/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            handle = os.open(name, flags, dir_fd=self._opened(head, make=False))
        except OSError as error:
            if error.errno in _NOT_THE_WAY:
                raise ChangedMeanwhile(path) from error
            raise OSError(error.errno, error.strerror, f"{self.root}/{path}") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise ChangedMeanwhile(path)
        with open(handle, "rb") as file:
            return file.read()

    def do(self, change: Change) -> Stamp | None:
        """Make one change whole, or not at all; the stamp of a file that was put there.

        Raises ChangedMeanwhile if something else stands there than was expected.
        """
        try:
            return self._do(change)
        except ChangedMeanwhile:
            raise
        except OSError as error:
            # Calls that start from a descriptor do not know where it leads.
            raise OSError(error.errno, error.strerror, f"{self.root}/{change.path}") from error

    def _do(self, change: Change) -> Stamp | None:
        head, _, name = change.path.rpartition("/")
        try:
            where = self._opened(head, make=change.kind != ABSENT)
        except OSError as error:
            if error.errno in _NOT_THE_WAY:
                raise ChangedMeanwhile(change.path) from error
            raise
        self._expect(change, name, where)
        if change.kind == ABSENT:
            os.unlink(name, dir_fd=where)
            return None
        scratch = scratch_name(name)
        with suppress(FileNotFoundError):
            os.unlink(scratch, dir_fd=where)  # left by one of us that was killed
        try:
            if change.kind == LINK:
                os.symlink(change.target, scratch, dir_fd=where)
                stamp = None
            else:
                stamp = _written(change, scratch, where)
            self._expect(change, name, where)  # once more: writing may have taken its time
            _named(scratch, name, where, change.expected.kind == ABSENT, change.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(scratch, dir_fd=where)
            raise
        return stamp and stamp_of(os.stat(name, dir_fd=where, follow_symlinks=False))

    def _expect(self, change: Change, name: str, where: int) -> None:
        try:
            seen = os.stat(name, dir_fd=where, follow_symlinks=False)
        except FileNotFoundError:
            now = Found(ABSENT)
        else:
            now = self._described(seen, name, where)
        expected = change.expected
        if (
            now.kind != expected.kind
            or now.stamp != expected.stamp
            or now.target != expected.target
        ):
            raise ChangedMeanwhile(change.path)

    def sweep(self, path: str) -> None:
        """Take away what a killed write may have left beside a path."""
        head, _, name = path.rpartition("/")
        with suppress(OSError):
            os.unlink(scratch_name(name), dir_fd=self._opened(head, make=False))

    def remove_empty(self, path: str) -> bool:
        """Remove a directory if nothing is left in it; True if it is not there then."""
        head, _, name = path.rpartition("/")
        try:
            os.rmdir(name, dir_fd=self._opened(head, make=False))
        except OSError as error:
            return error.errno == errno.ENOENT
        self._close()  # a directory that was made again later is another one
        return True

    def _opened(self, path: str, make: bool) -> int:
        """A descriptor of a directory below the root, reached step by step."""
        known = self._open.get(path)
        if known is not None:
            return known
        if not path:
            if make:
                os.makedirs(self.root, exist_ok=True)
            handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            head, _, name = path.rpartition("/")
            above = self._opened(head, make)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                handle = os.open(name, flags, dir_fd=above)
            except FileNotFoundError:
                if not make:
                    raise
                os.mkdir(name, 0o755, dir_fd=above)
                self.made.append(path)
                self._kinds.clear()
                handle = os.open(name, flags, dir_fd=above)
        if len(self._open) >= _MOST_OPEN:
            self._close(keep=path)
        self._open[path] = handle
        return handle

    def _close(self, keep: str = "") -> None:
        """Let go of directories that are not on the way to `keep`."""
        for path in list(self._open):
            on_the_way = path == "" or keep == path or keep.startswith(path + "/")
            if not (keep and on_the_way):
                os.close(self._open.pop(path))
        self._kinds.clear()


def _written(change: Change, scratch: str, where: int) -> Stamp:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(scratch, flags, 0o600, dir_fd=where)
    try:
        for chunk in content(change):
            _write_all(handle, chunk)
        os.fchmod(handle, change.mode)
        if change.lasting:
            os.fsync(handle)
        return stamp_of(os.fstat(handle))
    finally:
        os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    done = os.write(handle, data)
    while done < len(data):
        done += os.write(handle, data[done:])


def content(change: Change) -> Iterator[bytes]:
    """What a change puts there; a source that is no longer what was planned stops it."""
    if change.data is not None:
        yield change.data
        return
    from hashlib import sha256

    summed = sha256()
    with open(change.copy_of, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            summed.update(chunk)
            yield chunk
    if summed.hexdigest() != change.sha256:
        raise ChangedMeanwhile(change.path)


def _named(scratch: str, name: str, where: int, fresh: bool, path: str) -> None:
    """Give a finished file its name; a fresh one never takes the place of another."""
    if fresh:
        try:
            os.link(scratch, name, src_dir_fd=where, dst_dir_fd=where, follow_symlinks=False)
        except FileExistsError:
            raise ChangedMeanwhile(path) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            os.unlink(scratch, dir_fd=where)
            return
    os.rename(scratch, name, src_dir_fd=where, dst_dir_fd=where)
