"""Worker threads for what would block the loop: git, files, long logs."""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

Job = Callable[[], object]
Then = Callable[[object], None]


class Workers:
    """Runs jobs in threads; their callbacks run in the loop, which calls `collect`.

    `fd` is readable when there are results to collect.
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
        """Queue a job. `then` is called with its result, or with the exception it raised."""
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
        """Return finished results with their callbacks."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)
        results = []
        while self._done:
            then, result, era = self._done.popleft()
            if era == self._era:
                results.append((then, result))
        return results

    def forget(self) -> None:
        """Drop all queued jobs and ignore the results of running ones."""
        with self._there:
            self._waiting.clear()
            self._era += 1

    def close(self) -> None:
        """Stop after the jobs in progress; drop queued ones."""
        with self._there:
            self._closing = True
            self._there.notify_all()
        for thread in self._threads:
            thread.join(timeout=5)
        os.close(self.fd)
        os.close(self._bell)
