"""Reports changes in directories by looking at them regularly."""

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

_INTERVAL = 1.0  # seconds
_SHARE = 50  # a look may take one part in this many of the time, so a large city is seen less often

_Stamp = tuple[int, int, int, int]
_Listing = dict[str, _Stamp]


class PollingWatch:
    """`gascity.watch.Watch` without help from the kernel. A thread looks once per second."""

    def __init__(self) -> None:
        self.fd, self._bell = os.pipe()
        for end in (self.fd, self._bell):
            os.set_blocking(end, False)
        self._lock = threading.Lock()
        self._directories: dict[str, _Listing] = {}
        self._changed: set[str] = set()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def add(self, directory: str, mask: int = 0) -> None:  # noqa: ARG002 - all changes are seen
        with self._lock:
            listing = None if directory in self._directories else _list(directory)
            if listing is None:
                return
            self._directories[directory] = listing
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def set_directories(self, directories: Iterable[str]) -> None:
        wanted = set(directories)
        with self._lock:
            for directory in self._directories.keys() - wanted:
                del self._directories[directory]
        for directory in sorted(wanted):
            self.add(directory)

    def look(self) -> None:
        with self._lock:
            for directory, before in list(self._directories.items()):
                now = _list(directory)
                if now == before:
                    continue
                if now is None:
                    del self._directories[directory]
                    self._changed.add(directory)
                else:
                    self._directories[directory] = now
                    names = {*before, *now}
                    different = (name for name in names if before.get(name) != now.get(name))
                    self._changed.update(f"{directory}/{name}" for name in different)
            if self._changed and not self._closed.is_set():
                with suppress(BlockingIOError):
                    os.write(self._bell, b"!")

    def read(self) -> set[str]:
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)
        with self._lock:
            changed, self._changed = self._changed, set()
        return changed

    def close(self) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            os.close(self.fd)
            os.close(self._bell)
            self.fd = -1

    def _run(self) -> None:
        pause = _INTERVAL
        while not self._closed.wait(pause):
            start = time.monotonic()
            self.look()
            pause = max(_INTERVAL, _SHARE * (time.monotonic() - start))


def _list(directory: str) -> _Listing | None:
    """Return the entries of a directory with what changes when they do; None: no directory."""
    listing: _Listing = {}
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    # A directory is watched on its own, if its content matters.
                    times = (0, 0, 0) if entry.is_dir(follow_symlinks=False) else _times(status)
                    listing[entry.name] = (status.st_ino, *times)
    except OSError:
        return None
    return listing


def _times(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size
