"""Being told by the kernel that files changed, without looking at them again and again."""

import os
from collections.abc import Iterable
from typing import Any

_CLOEXEC_NONBLOCK = 0o2000000 | 0o4000
_MODIFY, _CLOSE_WRITE = 0x2, 0x8
_MOVED, _CREATE, _DELETE = 0xC0, 0x100, 0x200
_SELF_GONE = 0x400 | 0x800
_IGNORED = 0x8000  # nothing more comes of this watch: what was watched is gone
_ONLYDIR = 0x1000000
FILES = _CLOSE_WRITE | _MOVED | _CREATE | _DELETE | _SELF_GONE | 0x4  # attributes too
WRITES = _MODIFY
_HEAD = 16


class Watch:
    """Watches directories, not below them. Elsewhere than on Linux it is never told anything."""

    def __init__(self) -> None:
        self.fd = -1
        self._libc: Any = None
        self._paths: dict[int, str] = {}
        self._marks: dict[str, int] = {}
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "inotify_init1"):
            self._libc = libc
            self.fd = libc.inotify_init1(_CLOEXEC_NONBLOCK)

    def add(self, directory: str, mask: int = FILES) -> None:
        """Watch a directory; one that is not there, or cannot be, is let pass."""
        if self.fd < 0 or directory in self._marks:
            return
        mark = self._libc.inotify_add_watch(self.fd, os.fsencode(directory), mask | _ONLYDIR)
        if mark >= 0:
            self._marks[directory] = mark
            self._paths[mark] = directory

    def only(self, directories: Iterable[str]) -> None:
        """Watch these directories and no others."""
        wanted = set(directories)
        for directory in self._marks.keys() - wanted:
            mark = self._marks.pop(directory)
            self._paths.pop(mark, None)
            self._libc.inotify_rm_watch(self.fd, mark)
        for directory in sorted(wanted):
            self.add(directory)

    def read(self) -> set[str]:
        """The paths that something happened to since this was asked last."""
        found: set[str] = set()
        while self.fd >= 0:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                break
            at = 0
            while at < len(data):
                mark = int.from_bytes(data[at : at + 4], "little", signed=True)
                kind = int.from_bytes(data[at + 4 : at + 8], "little")
                length = int.from_bytes(data[at + 12 : at + 16], "little")
                name = data[at + _HEAD : at + _HEAD + length].rstrip(b"\0")
                at += _HEAD + length
                directory = self._paths.get(mark, "")
                if kind & _IGNORED and directory:
                    del self._paths[mark], self._marks[directory]
                if mark < 0:
                    found.update(self._marks)  # so much happened that the kernel lost count
                elif directory:
                    found.add(f"{directory}/{os.fsdecode(name)}" if name else directory)
        return found

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
