"""File access of the loader: bounded reads, links checked, everything it saw recorded.

A city is read thousands of files at a time and often from repositories the user does not control.
So nothing here blocks on a pipe, reads without a limit, or follows a link out of its pack; and
`Disk.seen` records a stamp of every path that an answer depends on, which lets the answer cache
find out whether it is still valid.
"""

import errno
import os
import stat
from collections.abc import Mapping

from gascity.model.problems import Place, Problem, warning

MOST_BYTES = 4 * 1024 * 1024

# Time of change, size and inode of a path; None for a path that does not exist.
Stamp = tuple[int, int, int, int] | None

# Without O_NONBLOCK, opening a named pipe called agent.toml would never return.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class Disk:
    """Reads the files of one city and collects the problems with them.

    `overrides` replaces the content of some paths, to check an edit before it is written.
    """

    def __init__(self, root: str, overrides: Mapping[str, bytes] | None = None) -> None:
        self.root = root
        self.overrides = overrides or {}
        self.seen: dict[str, Stamp] = {}
        self.problems: list[Problem] = []
        # Pack roots by the name the pack gives itself; None if several packs have the name.
        self.packs: dict[str, str | None] = {}
        self.awaited: set[str] = set()  # packs that were referred to before they were read
        self._inside = root.rstrip("/") + "/"

    def note(self, problem: Problem) -> None:
        """Record a problem, unless it is already recorded."""
        if problem not in self.problems:
            self.problems.append(problem)

    def take_problems(self, before: int) -> list[Problem]:
        """Remove and return the problems that were recorded after the first `before`."""
        problems = self.problems[before:]
        del self.problems[before:]
        return problems

    def named_pack(self, name: str) -> str | None:
        """Return the root of a pack by its name, or None if it has not been read yet."""
        if name not in self.packs:
            self.awaited.add(name)
        return self.packs.get(name)

    def shown(self, path: str) -> str:
        """Return a path for display: relative to the city if it is inside it."""
        if path.startswith(self._inside):
            return path[len(self._inside) :]
        return "." if path == self.root else path

    def absolute(self, shown: str) -> str:
        """Return the absolute path of a displayed one."""
        if "." not in shown.partition("/")[0] and ".." not in shown and shown[:1] != "/":
            return self._inside + shown
        return os.path.normpath(os.path.join(self.root, shown))

    def names(self, path: str) -> list[str]:
        """Return the sorted entries of a directory, none if it does not exist."""
        try:
            self.stamp(path, os.stat(path))
            return sorted(os.listdir(path))
        except FileNotFoundError:
            self.seen[path] = None
        except NotADirectoryError:
            self.problems.append(self._not_a_directory(path))
        except OSError as error:
            self.problems.append(self._unreadable(path, error))
        return []

    def is_directory(self, path: str) -> bool:
        try:
            status = os.stat(path)
        except OSError:
            self.seen[path] = None
            return False
        self.stamp(path, status)
        return stat.S_ISDIR(status.st_mode)

    def is_folder_of(self, path: str, within: str) -> bool:
        """Is there a directory that may be read?

        A file in its place, or a link that leads out of `within`, is a problem.
        """
        try:
            status = os.lstat(path)
        except OSError:
            self.seen[path] = None
            return False
        if stat.S_ISLNK(status.st_mode):
            return self._is_linked_directory(path, within)
        self.stamp(path, status)
        if not stat.S_ISDIR(status.st_mode):
            self.problems.append(self._not_a_directory(path))
            return False
        return True

    def _is_linked_directory(self, path: str, within: str) -> bool:
        if self.is_directory(path):
            return self._stays_within(path, within)
        exists = self.seen[path] is not None
        self.problems.append(self._not_a_directory(path) if exists else self._broken_link(path))
        return False

    def size(self, path: str) -> int:
        """Return the size of a file; 0 if it does not exist."""
        try:
            return os.stat(path).st_size
        except OSError:
            return 0

    def exists(self, path: str) -> bool:
        try:
            self.stamp(path, os.stat(path))
        except OSError:
            self.seen[path] = None
            return False
        return True

    def read(self, path: str, *, within: str | None = None) -> bytes | None:
        """Return the bytes of a regular file, or None.

        None without a problem means that the file does not exist. With `within`, a link may lead
        anywhere below that directory and nowhere else.
        """
        if path in self.overrides:
            return self.overrides[path]
        try:
            handle = os.open(path, _READ | os.O_NOFOLLOW if within else _READ)
        except FileNotFoundError:
            self.seen[path] = None
            if os.path.islink(path):
                self.problems.append(self._broken_link(path))
            return None
        except OSError as error:
            if error.errno == errno.ELOOP and within and self._stays_within(path, within):
                return self.read(path)
            self._failed(path, error)
            return None
        try:
            return self._read(handle, path)
        except OSError as error:
            self._failed(path, error)
            return None
        finally:
            os.close(handle)

    def _read(self, handle: int, path: str) -> bytes | None:
        status = os.fstat(handle)
        size = status.st_size
        self.seen[path] = (status.st_mtime_ns, status.st_ctime_ns, size, status.st_ino)
        if not stat.S_ISREG(status.st_mode):
            what = "a directory" if stat.S_ISDIR(status.st_mode) else "not a file"
            message = f"`{os.path.basename(path)}` is {what}; it should be a file"
            self.problems.append(self._problem(path, "not-a-file", message))
            return None
        if size > MOST_BYTES:
            message = f"the file is too large: {size:,} bytes (limit {MOST_BYTES:,})"
            self.problems.append(self._problem(path, "too-large", message))
            return None
        data = os.read(handle, size + 1)
        if len(data) == size:
            return data
        chunks = [data]  # it changed while it was read, or the file system reports no size
        while chunk := os.read(handle, 1 << 20):
            chunks.append(chunk)
        return b"".join(chunks)

    def _failed(self, path: str, error: OSError) -> None:
        self.seen.setdefault(path, None)
        shown = self.shown(path)
        if not any(problem.place and problem.place.file == shown for problem in self.problems):
            self.problems.append(self._unreadable(path, error))

    def follow_directory(self, path: str, within: str) -> bool:
        """May a directory be read? A link must stay below `within`."""
        return not os.path.islink(path) or self._stays_within(path, within)

    def _stays_within(self, path: str, within: str) -> bool:
        """Does a link lead to a path below `within`? If not, this is a problem."""
        try:
            target = os.path.realpath(path, strict=True)
        except FileNotFoundError:
            self.seen[path] = None
            self.problems.append(self._broken_link(path))
            return False
        except OSError as error:
            self.problems.append(self._unreadable(path, error))
            self.seen.setdefault(path, None)
            return False
        if is_below(target, os.path.realpath(within)):
            return True
        self.problems.append(
            Problem(
                "link-leaves-pack",
                f"the link leads out of its pack, to {target}",
                Place(self.shown(path)),  # no line: nothing outside the pack is shown
                "copy the file into the pack, or import the pack it is in",
            )
        )
        self.seen.setdefault(path, None)
        return False

    def stamp(self, path: str, status: os.stat_result) -> None:
        """Record the state of a path that was used."""
        self.seen[path] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)

    def _problem(self, path: str, code: str, message: str) -> Problem:
        return Problem(code, message, Place(self.shown(path), line=1, col=1))

    def _not_a_directory(self, path: str) -> Problem:
        message = f"`{os.path.basename(path)}` should be a directory"
        return Problem("not-a-directory", message, Place(self.shown(path)))

    def _broken_link(self, path: str) -> Problem:
        message = f"broken symlink: {os.readlink(path)} does not exist"
        return warning("dangling-link", message, Place(self.shown(path)))

    def _unreadable(self, path: str, error: OSError) -> Problem:
        if error.errno == errno.ELOOP:
            return self._problem(path, "link-loop", "the link leads back to itself")
        return self._problem(path, "unreadable", f"cannot be read: {error.strerror}")


def is_utf8(data: bytes) -> bool:
    """Is this UTF-8? `bad_utf8` finds out where it is not."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def bad_utf8(data: bytes, file: str) -> Problem | None:
    """Return a problem for the first byte that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        place = Place(file, line=before.count("\n") + 1, col=len(before) - before.rfind("\n"))
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        return Problem("bad-utf8", message, place, "save the file as UTF-8")
    return None


def read_plain(path: str) -> bytes | None:
    """Return the bytes of a regular file, or None; never waits for a pipe."""
    try:
        handle = os.open(path, _READ)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    with open(handle, "rb") as file:
        return file.read(2 * MOST_BYTES)


def is_below(path: str, directory: str) -> bool:
    """Is `path` the directory itself or inside it? Both must be normal absolute paths."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")
