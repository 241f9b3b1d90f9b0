"""Worker threads for what would block the loop: git, files, long logs."""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from gascity.control.poll import wakeup_pipe

Callback = Callable[[], None]
_Result = TypeVar("_Result")


def portion(count: int) -> int:
    """Return how many of so many results or ended runs one round of the loop handles: a quarter."""
    return -(-count // 4)


class Workers:
    """Runs jobs in threads; their callbacks run in the loop, which calls `collect`.

    `fd` is readable when there are results to collect. The threads are daemons: a job that hangs,
    for example on a network file system, must not keep the controller from exiting.
    """

    def __init__(self, count: int = 4) -> None:
        self.fd, self._bell = wakeup_pipe()
        self._jobs: SimpleQueue[tuple[int, Callable[[], Callback]] | None] = SimpleQueue()
        self._done: deque[tuple[int, Callback]] = deque()
        self._era = 0  # jobs of an earlier era are forgotten
        self._count = count
        self._threads: list[threading.Thread] = []

    def put(
        self,
        job: Callable[[], _Result],
        then: Callable[[_Result], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Queue a job. `then` gets its result, or `failed` the exception that it raised."""

        def run() -> Callback:
            try:
                return partial(then, job())
            except Exception as error:
                return partial(failed, error)

        self._jobs.put((self._era, run))
        if len(self._threads) < self._count:
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            era, run = entry
            if era == self._era:
                self._done.append((era, run()))
                os.write(self._bell, b"!")

    def collect(self) -> list[Callback]:
        """Return callbacks of finished jobs: a quarter of those that wait, at least one.

        What they start is committed together, so with fewer at a time the first run starts sooner.
        The others keep `fd` readable.
        """
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)
        finished = [self._done.popleft() for _ in range(portion(len(self._done)))]
        if self._done:
            os.write(self._bell, b"!")
        return [callback for era, callback in finished if era == self._era]

    def forget(self) -> None:
        """Drop all queued jobs and ignore the results of running ones."""
        self._era += 1

    def close(self) -> None:
        """Stop after the jobs in progress; drop queued ones."""
        self.forget()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout=5)
        os.close(self.fd)
        os.close(self._bell)
