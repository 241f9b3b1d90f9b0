"""A few threads for what takes too long for the loop: git, files, long logs."""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

Job = Callable[[], object]
Then = Callable[[object], None]


class Workers:
    """Runs jobs; what is to happen with their results happens in the loop, in `collect`.

    `fd` is readable when there is something to collect.
    """

    def __init__(self, count: int = 4) -> None:
        self.fd, self._bell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._waiting: deque[tuple[Job, Then, int]] = deque()
        self._done: deque[tuple[Then, object, int]] = deque()
        self._era = 0
        self._there = threading.Condition()
        self._closing = False
        self._count = count
        self._threads: list[threading.Thread] = []

    def put(self, job: Job, then: Then) -> None:
        """`then` gets what the job returns, or the exception that it raised."""
        with self._there:
            self._waiting.append((job, then, self._era))
            self._there.notify()
        if len(self._threads) < self._count:
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while True:
            with self._there:
                while not self._waiting and not self._closing:
                    self._there.wait()
                if self._closing:
                    return
                job, then, era = self._waiting.popleft()
            try:
                result = job()
            except Exception as error:
                result = error
            self._done.append((then, result, era))
            os.write(self._bell, b"!")

    def collect(self) -> list[tuple[Then, object]]:
        """Results that have come, with what is to happen with each."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)
        found = []
        while self._done:
            then, result, era = self._done.popleft()
            if era == self._era:
                found.append((then, result))
        return found

    def forget(self) -> None:
        """Nobody waits any more for what was put so far: it may be done, but is not collected."""
        with self._there:
            self._waiting.clear()
            self._era += 1

    def close(self) -> None:
        """End when the jobs at hand are done; those that wait are dropped."""
        with self._there:
            self._closing = True
            self._there.notify_all()
        for thread in self._threads:
            thread.join(timeout=5)
        os.close(self.fd)
        os.close(self._bell)
