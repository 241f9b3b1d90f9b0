"""The lock that makes a controller the only one of its city, and the check that it still is.

The lock is an `fcntl` lock on `.gc/controller.lock`. The kernel releases it when the process ends,
however it ends, so there is no stale lock to clean up. A user may still delete `.gc` or copy
another city over it while the controller runs; `Ownership` detects both.
"""

import fcntl
import os
import time

from gascity.control.paths import lock_file
from gascity.model.problems import CityError, Problem
from gascity.paths import make_state
from gascity.store.port import Store


def acquire_lock(root: str) -> int:
    """Take the controller lock and return its descriptor; CityError if another process has it.

    This process must not open the file again: closing any descriptor of the file would release
    the lock (POSIX lock semantics).
    """
    make_state(root)
    path = lock_file(root)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise CityError(
            Problem("controller-running", "a controller of this city is already running")
        ) from error
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()} {time.time():.3f}\n".encode())
    return handle


class Ownership:
    """Detects when this controller must exit: the city was deleted, or its lock was replaced.

    Create it only while holding the lock.
    """

    def __init__(self, root: str, store: Store) -> None:
        self._store = store
        self._lock = lock_file(root)
        self._inode = inode(self._lock)

    def lost(self) -> tuple[str, str]:
        """Return why the controller must exit and its exit mode; empty strings if it need not.

        Checks the store, not the city directory: a running session may create that again.
        """
        if self._store.deleted():
            return "the city was deleted", "stop"
        if inode(self._lock) not in (0, self._inode):  # no lock file: no other controller either
            return "another controller holds the lock of this city", "keep"
        return "", ""


def inode(path: str) -> int:
    """Return the file's inode number, which tells it from a later file of that name; 0: no file."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
