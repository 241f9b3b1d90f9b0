"""A lock that tells other processes who holds it, for systems whose kernel does not say.

filelock holds the lock, and the kernel releases it when the process ends. A file beside it names
the holder by pid and start time, so a file that a killed process left names nobody. It also names
the inode of the lock file, which someone may delete. Reading it never takes the lock: a process
that only asks must not keep another one from getting it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from gascity.portable.processes import start_time


class HolderLock:
    """A lock on a file, held by this process until `release`."""

    def __init__(self, path: str) -> None:
        """Take the lock. BlockingIOError if another process has it."""
        from filelock import FileLock, Timeout

        self._holder = _holder_file(path)
        self._lock = FileLock(path, mode=0o600)
        try:
            self._lock.acquire(blocking=False)
        except Timeout as error:
            raise BlockingIOError(str(error)) from error
        pid = os.getpid()
        self._text = f"{pid} {time.time():.3f} {start_time(pid)} {os.stat(path).st_ino}\n"
        temporary = f"{self._holder}.city-new"
        with open(temporary, "w", encoding="ascii") as file:
            file.write(self._text)
        os.replace(temporary, self._holder)

    def release(self) -> None:
        with suppress(FileNotFoundError):
            if _read(self._holder) == self._text:  # or the lock file was deleted, and taken again
                os.unlink(self._holder)
        self._lock.release()


def read_holder(path: str) -> tuple[int, float] | None:
    """Return the pid of another process that holds a lock, and since when; None if none does."""
    try:
        pid, since, started, inode = _read(_holder_file(path)).split()
        is_held = os.stat(path).st_ino == int(inode) and start_time(int(pid)) == int(started)
    except (OSError, ValueError):
        return None
    return (int(pid), float(since)) if is_held and int(pid) != os.getpid() else None


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _holder_file(path: str) -> str:
    return f"{path}.holder"
