"""The writers' queue: a lock that the kernel gives in turn, and takes from whoever dies."""

import _thread
import fcntl
import os

from gascity.store.port import StoreFault

PATIENCE = 10.0  # seconds


class Turn:
    """A writer's turn among processes, by `lockf` on a file that holds nothing.

    Waiting happens in the kernel, which serves whoever came first; asking again and again would
    starve some, as SQLite's own waiting does. Such a wait cannot be given up, so that a thread does
    it, and one that was given up hands its turn on as soon as it has it. POSIX locks belong to the
    process and go when any descriptor of the file is closed, so a store opens it once. Two stores
    of one process do not keep each other out: that SQLite's own lock does, always.
    """

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self.path = path
        self.file = os.open(path, flags, 0o600)

    def take(self, patience: float = PATIENCE) -> None:
        """Return when it is our turn; StoreFault if that takes too long."""
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            self._wait(patience)

    def _wait(self, patience: float) -> None:
        came, settled = _thread.allocate_lock(), _thread.allocate_lock()
        came.acquire()

        def wait() -> None:
            fcntl.lockf(self.file, fcntl.LOCK_EX)
            if settled.acquire(False):
                came.release()
            else:
                self.give()

        _thread.start_new_thread(wait, ())
        try:
            waited = came.acquire(timeout=patience)
        except BaseException:
            if not settled.acquire(False):
                self.give()
            raise
        if not waited and settled.acquire(False):
            words = f"another process has held {self.path} for {patience:g} seconds"
            raise StoreFault("store-busy", words)

    def give(self) -> None:
        """Let the next one have it."""
        fcntl.lockf(self.file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self.file)
