"""Waits for work items on behalf of many calls, with one thread and one connection to the store.

The thread runs only while a call waits. A store must not be used from a second thread, and a
hundred calls that wait would otherwise poll a hundred connections.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gascity.model.work import Work
    from gascity.store.port import Store

_POLL = 0.02  # seconds between two checks whether the store changed
_RECHECK = 1.0  # seconds after which items are read again even if the store looks unchanged


class WatchedWork:
    """A work item as it was read last; `changed` is set when it differs from the time before."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.work: Work | None = None
        self.error: Exception | None = None  # the store cannot be read
        self.changed = threading.Event()

    def update(self, work: "Work | None") -> None:
        if work != self.work:
            self.work = work
            self.changed.set()

    def fail(self, error: Exception) -> None:
        self.error = error
        self.changed.set()


class WorkWatch:
    """The work items that calls of this process wait for."""

    def __init__(self, open_store: "Callable[[], Store]") -> None:
        self._open_store = open_store
        self._lock = threading.Lock()
        self._watched: list[WatchedWork] = []
        self._running = False
        self._new = threading.Event()

    def watch(self, id: str) -> WatchedWork:
        """Start to watch an item; its first state arrives in a moment."""
        watched = WatchedWork(id)
        with self._lock:
            self._watched.append(watched)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, daemon=True).start()
        self._new.set()
        return watched

    def forget(self, watched: WatchedWork) -> None:
        with self._lock:
            self._watched.remove(watched)

    def _run(self) -> None:
        try:
            store = self._open_store()
            try:
                while watched := self._current():
                    for each in watched:
                        each.update(store.work(each.id))
                    self._wait_for_change(store)
            finally:
                store.close()
        except Exception as error:  # each waiting call reports it
            with self._lock:
                watched, self._running = list(self._watched), False
            for each in watched:
                each.fail(error)

    def _current(self) -> list[WatchedWork]:
        """Return what is watched; if nothing is, the thread ends."""
        with self._lock:
            self._running = bool(self._watched)
            return list(self._watched)

    def _wait_for_change(self, store: "Store") -> None:
        end = time.monotonic() + _RECHECK
        while not store.changed() and time.monotonic() < end:
            if self._new.wait(_POLL):
                break
        self._new.clear()
