"""A fair lock among the processes that write to one store.

SQLite lets one process write at a time, but a waiting process polls with growing pauses, so under
load some writers starve while others overtake them. Every writer therefore takes this lock first.
It is a POSIX lock (`lockf`) on an empty file: the kernel queues the waiting processes, serves them
first come, first served, and releases the lock of a process that dies.

Two properties of POSIX locks shape the code. A blocking `lockf` has no timeout, so a thread does
the waiting, and a thread whose caller gave up releases the lock as soon as it gets it. And the lock
belongs to the process and is dropped when *any* descriptor of the file is closed, so each store
opens the file once and keeps it open. Two stores in one process do not exclude each other here;
SQLite's own lock does that.
"""

import _thread
import fcntl
import os
import struct

from gascity.ancestry import is_suspended
from gascity.store.port import StoreError

TIMEOUT = 10.0  # seconds
_STOPPED_TIMEOUT = 2.0  # if the holder was stopped by a signal: it will not release the lock


class WriteLock:
    """The right to write, held by at most one process."""

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self.path = path
        self.file = os.open(path, flags, 0o600)

    def acquire(self, timeout: float = TIMEOUT) -> None:
        """Wait for the lock. Raise StoreError after `timeout` seconds."""
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            self._wait(timeout)

    def _wait(self, timeout: float) -> None:
        # `outcome` is taken exactly once: by the thread when it has the lock, or by the caller when
        # it gives up. The second of the two knows that the other has decided.
        acquired, outcome = _thread.allocate_lock(), _thread.allocate_lock()
        acquired.acquire()

        def wait() -> None:
            fcntl.lockf(self.file, fcntl.LOCK_EX)
            if outcome.acquire(False):
                acquired.release()
            else:
                self.release()

        _thread.start_new_thread(wait, ())
        try:
            in_time = acquired.acquire(timeout=min(timeout, _STOPPED_TIMEOUT))
            holder = 0 if in_time else self._stopped_holder()
            if not in_time and not holder and timeout > _STOPPED_TIMEOUT:
                in_time = acquired.acquire(timeout=timeout - _STOPPED_TIMEOUT)
        except BaseException:
            if not outcome.acquire(False):
                self.release()
            raise
        if not in_time and outcome.acquire(False):
            if holder:
                message = f"process {holder}, which is stopped, holds {self.path}"
                raise StoreError("store-busy", message)
            raise StoreError(
                "store-busy", f"another process has held {self.path} for {timeout:g} seconds"
            )

    def _stopped_holder(self) -> int:
        """Return the process that holds the lock if a signal has stopped it; else 0."""
        layout = "hhqqi4x"  # struct flock on Linux; elsewhere the answer makes no sense
        try:
            asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            pid = struct.unpack(layout, fcntl.fcntl(self.file, fcntl.F_GETLK, asked))[4]
        except (OSError, struct.error):
            return 0
        return int(pid) if is_suspended(pid) else 0

    def release(self) -> None:
        """Let the next process write."""
        fcntl.lockf(self.file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self.file)
