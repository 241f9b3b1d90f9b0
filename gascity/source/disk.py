"""The only way the loader touches files: bounded, suspicious, and remembering what it saw."""

import errno
import os
import stat
from collections.abc import Mapping

from gascity.model.problems import Place, Problem, warning

MOST_BYTES = 4 * 1024 * 1024

# What decides whether a path is still as it was read; None for a path that was not there.
Stamp = tuple[int, int, int, int] | None


class Disk:
    """Reads for one city. `seen` holds a stamp of everything an answer may depend on.

    `instead` gives content for some paths, so that an edit can be tried before it is written.
    """

    def __init__(self, root: str, instead: Mapping[str, bytes] | None = None) -> None:
        self.root = root
        self.instead = instead or {}
        self.seen: dict[str, Stamp] = {}
        self.problems: list[Problem] = []
        # Roots by the name a pack gives itself; None: several.
        self.packs: dict[str, str | None] = {}
        self.awaited: set[str] = set()  # packs that were named before they were read
        self._inside = root.rstrip("/") + "/"

    def named_pack(self, name: str) -> str | None:
        """The root of the pack of that name; one that was not read yet is asked for."""
        if name not in self.packs:
            self.awaited.add(name)
        return self.packs.get(name)

    def shown(self, path: str) -> str:
        """A path as people see it: relative to the city where it lies inside it."""
        if path.startswith(self._inside):
            return path[len(self._inside) :]
        return "." if path == self.root else path

    def absolute(self, shown: str) -> str:
        """Where a path as shown really is."""
        if "." not in shown.partition("/")[0] and ".." not in shown and shown[:1] != "/":
            return self._inside + shown
        return os.path.normpath(os.path.join(self.root, shown))

    def names(self, path: str) -> list[str]:
        """The entries of a directory, sorted; none for one that is not there."""
        try:
            self.stamp(path, os.stat(path))
            return sorted(os.listdir(path))
        except FileNotFoundError:
            self.seen[path] = None
            return []
        except NotADirectoryError:
            self.problems.append(self._misplaced(path))
            return []
        except OSError as error:
            self.problems.append(self._unreadable(path, error))
            return []

    def is_directory(self, path: str) -> bool:
        try:
            found = os.stat(path)
        except OSError:
            self.seen[path] = None
            return False
        self.stamp(path, found)
        return stat.S_ISDIR(found.st_mode)

    def is_folder_of(self, path: str, within: str) -> bool:
        """Is there a directory that may be read? A file in its place, or a link that leads out
        of `within`, is a problem."""
        try:
            found = os.lstat(path)
        except OSError:
            self.seen[path] = None
            return False
        if stat.S_ISLNK(found.st_mode):
            return self._is_linked_folder(path, within)
        self.stamp(path, found)
        if not stat.S_ISDIR(found.st_mode):
            self.problems.append(self._misplaced(path))
            return False
        return True

    def _is_linked_folder(self, path: str, within: str) -> bool:
        if not self.is_directory(path):
            there = self.seen[path] is not None
            self.problems.append(self._misplaced(path) if there else self._dangling(path))
            return False
        return self._stays(path, within)

    def exists(self, path: str) -> bool:
        try:
            self.stamp(path, os.stat(path))
        except OSError:
            self.seen[path] = None
            return False
        return True

    def read(self, path: str, *, within: str | None = None) -> bytes | None:
        """The bytes of a regular file, or None with a problem noted (none for an absent file).

        With `within`, a link may lead anywhere below that directory and nowhere else.
        """
        if path in self.instead:
            return self.instead[path]
        try:
            return self._read(path, os.O_NOFOLLOW if within else 0)
        except FileNotFoundError:
            self.seen[path] = None
            if os.path.islink(path):
                self.problems.append(self._dangling(path))
            return None
        except OSError as error:
            if error.errno == errno.ELOOP and within and self._stays(path, within):
                return self.read(path)
            self.seen.setdefault(path, None)
            if not self._noted(path):
                self.problems.append(self._unreadable(path, error))
            return None

    def _read(self, path: str, flags: int) -> bytes | None:
        # Without O_NONBLOCK a named pipe called agent.toml would stop us for good.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
        try:
            found = os.fstat(handle)
            self.stamp(path, found)
            if not stat.S_ISREG(found.st_mode):
                what = "a directory" if stat.S_ISDIR(found.st_mode) else "not a file"
                self._note(
                    path, "not-a-file", f"`{os.path.basename(path)}` is {what}; it should be a file"
                )
                return None
            if found.st_size > MOST_BYTES:
                self._note(
                    path,
                    "too-large",
                    f"{found.st_size:,} bytes are more than the {MOST_BYTES:,} we read",
                )
                return None
            data = os.read(handle, found.st_size + 1)
            if len(data) == found.st_size:
                return data
            chunks = [data]  # it grew or shrank under us, or lies on an odd file system
            while chunk := os.read(handle, 1 << 20):
                chunks.append(chunk)
            return b"".join(chunks)
        finally:
            os.close(handle)

    def _stays(self, path: str, within: str) -> bool:
        """Does a link stay below `within`? Says so if it does not."""
        try:
            target = os.path.realpath(path, strict=True)
        except FileNotFoundError:
            self.seen[path] = None
            self.problems.append(self._dangling(path))
            return self._refused(path)
        except OSError as error:
            self.problems.append(self._unreadable(path, error))
            return self._refused(path)
        if is_below(target, os.path.realpath(within)):
            return True
        self.problems.append(
            Problem(
                "link-leaves-pack",
                f"the link leads out of its pack, to {target}",
                Place(self.shown(path)),  # no line: what lies out there is not shown
                "copy the file in, or import the pack it lies in",
            )
        )
        return self._refused(path)

    def _refused(self, path: str) -> bool:
        self.seen.setdefault(path, None)
        return False

    def follow_directory(self, path: str, within: str) -> bool:
        """May a linked directory be read as if it stood here?"""
        return not os.path.islink(path) or self._stays(path, within)

    def stamp(self, path: str, found: os.stat_result) -> None:
        """Remember what a path looked like when it was used."""
        self.seen[path] = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)

    def _note(self, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(code, message, Place(self.shown(path), line=1, col=1), hint))

    def _noted(self, path: str) -> bool:
        shown = self.shown(path)
        return any(problem.place and problem.place.file == shown for problem in self.problems)

    def _misplaced(self, path: str) -> Problem:
        words = f"`{os.path.basename(path)}` should be a directory"
        return Problem("not-a-directory", words, Place(self.shown(path)))

    def _dangling(self, path: str) -> Problem:
        target = os.readlink(path)
        return warning(
            "dangling-link",
            f"the link leads to {target}, which is not there",
            Place(self.shown(path)),
        )

    def _unreadable(self, path: str, error: OSError) -> Problem:
        place = Place(self.shown(path), line=1, col=1)
        if error.errno == errno.ELOOP:
            return Problem("link-loop", "the link leads back to itself", place)
        return Problem("unreadable", f"cannot be read: {error.strerror}", place)


def is_utf8(data: bytes) -> bool:
    """The quick question; `bad_utf8` says where."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def bad_utf8(data: bytes, file: str) -> Problem | None:
    """The first byte that is not UTF-8, if there is one."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        head = data[: error.start].decode()
        line = head.count("\n") + 1
        place = Place(file, line=line, col=len(head) - head.rfind("\n"))
        words = f"byte 0x{data[error.start]:02x} is not UTF-8"
        return Problem("bad-utf8", words, place, "save the file as UTF-8")
    return None


def read_plain(path: str) -> bytes | None:
    """The bytes of a regular file, or None; never waits for a pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
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
