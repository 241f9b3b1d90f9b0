"""Reports changes in directories: by inotify on Linux, by polling elsewhere."""

import os
from collections.abc import Iterable
from typing import Any, Protocol

from gascity.host import is_portable

_CLOEXEC_NONBLOCK = 0o2000000 | 0o4000
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED, _CREATE, _DELETE = 0xC0, 0x100, 0x200
_SELF_GONE = 0x400 | 0x800
_IGNORED = 0x8000  # the kernel has removed the watch, because the directory is gone
_ONLYDIR = 0x1000000
FILES = _CLOSE_WRITE | _MOVED | _CREATE | _DELETE | _SELF_GONE | _ATTRIB
WRITES = _MODIFY
_HEADER = 16  # bytes of struct inotify_event before the name


class Watch(Protocol):
    """Watches directories, not recursively."""

    fd: int  # readable when there is something for `read` to return

    def add(self, directory: str, mask: int = FILES) -> None:
        """Watch a directory. Does nothing if it is missing or cannot be watched."""

    def set_directories(self, directories: Iterable[str]) -> None:
        """Watch exactly these directories."""

    def look(self) -> None:
        """Make `read` return every change up to now, also if it would be noticed only later."""

    def read(self) -> set[str]:
        """Return the paths that changed since the last call."""

    def close(self) -> None: ...


def open_watch() -> Watch:
    """Return a watch for this system, of no directory yet."""
    if not is_portable():
        watch = InotifyWatch()
        if watch.fd >= 0:
            return watch
    # Not Linux, or this user has too many inotify instances.
    from gascity.portable.watch import PollingWatch

    return PollingWatch()


class InotifyWatch:
    """`Watch` by inotify; `fd` is -1 if there cannot be another one."""

    def __init__(self) -> None:
        import ctypes

        self._directories: dict[int, str] = {}  # by watch descriptor
        self._descriptors: dict[str, int] = {}  # by directory
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.inotify_init1(_CLOEXEC_NONBLOCK)

    def add(self, directory: str, mask: int = FILES) -> None:
        if directory in self._descriptors:
            return
        descriptor = self._libc.inotify_add_watch(self.fd, os.fsencode(directory), mask | _ONLYDIR)
        if descriptor >= 0:
            self._descriptors[directory] = descriptor
            self._directories[descriptor] = directory

    def set_directories(self, directories: Iterable[str]) -> None:
        wanted = set(directories)
        for directory in self._descriptors.keys() - wanted:
            descriptor = self._descriptors.pop(directory)
            self._directories.pop(descriptor, None)
            self._libc.inotify_rm_watch(self.fd, descriptor)
        for directory in sorted(wanted):
            self.add(directory)

    def look(self) -> None:
        """Nothing to do: the kernel has noticed every change already."""

    def read(self) -> set[str]:
        paths: set[str] = set()
        while self.fd >= 0:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                break
            at = 0
            while at < len(data):
                descriptor = int.from_bytes(data[at : at + 4], "little", signed=True)
                mask = int.from_bytes(data[at + 4 : at + 8], "little")
                length = int.from_bytes(data[at + 12 : at + 16], "little")
                name = data[at + _HEADER : at + _HEADER + length].rstrip(b"\0")
                at += _HEADER + length
                paths |= self._changed(descriptor, mask, name)
        return paths

    def _changed(self, descriptor: int, mask: int, name: bytes) -> set[str]:
        if descriptor < 0:  # the kernel's queue overflowed, so anything may have changed
            return set(self._descriptors)
        directory = self._directories.get(descriptor, "")
        if not directory:
            return set()
        if mask & _IGNORED:
            del self._directories[descriptor], self._descriptors[directory]
        return {f"{directory}/{os.fsdecode(name)}" if name else directory}

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
