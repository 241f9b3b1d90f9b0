"""Reads the store and the controller for the page, and notices changes of both.

A connection to the store belongs to one thread, and a read may wait for a writer, so one worker
thread owns the connection and the event loop never blocks. With nothing to show, nothing is read:
the kernel reports writes to the store. Every two seconds the version of the store and the lock of
the controller are looked at, which takes microseconds and does not involve the controller.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from gascity.cli.context import CommandContext
from gascity.cli.problems import store_problem
from gascity.control.client import ControllerState, controller_state, send_request
from gascity.model.problems import Problem
from gascity.store.port import Store, StoreError, Wakeups

T = TypeVar("T")
_TICK = 2.0  # seconds between two looks at the controller's lock
_PING = 5.0  # seconds for which an answer of the controller is good
# A write is reported before it is committed: look again after these seconds.
_AGAIN = (0.0, 0.01, 0.01, 0.02, 0.02, 0.03, 0.03, 0.04, 0.1, 0.3)


class LiveReader:
    """Reads the store of one city in its own thread, and wakes the pages that wait for changes."""

    def __init__(self, context: CommandContext) -> None:
        self.root = context.root
        self.controller = ControllerState(False)
        self.version = 0  # counts changes
        self.last_change = time.time()
        self._context = context
        self._thread = ThreadPoolExecutor(1, "store")
        self._changed = asyncio.Event()
        self._wakeups: Wakeups | None = None
        self._pinged = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking = self._woken = False

    # Reading

    async def read(self, function: Callable[[CommandContext, Store], T], default: T) -> T:
        """Call a function with the store in its thread; `default` if the city has no store yet.

        Raises StoreError.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._read, function, default)

    def _read(self, function: Callable[[CommandContext, Store], T], default: T) -> T:
        try:
            store = self._context.store_if_any()
            return default if store is None else function(self._context, store)
        except StoreError:
            self._open_again()
            raise

    def _open_again(self) -> None:
        """Open the store again at the next read."""
        old = self._context
        self._context = CommandContext(old.environ, old.cwd, self.root)

    def _forget_deleted(self) -> bool:
        """Open another store if this one was deleted or restored from a backup."""
        deleted = self._read(lambda _, store: store.deleted(), False)
        if deleted:
            self._open_again()
        return deleted

    async def store_problem(self) -> Problem | None:
        """Return why the store cannot be read; None if it can."""
        try:
            await self.read(lambda _, store: store.last_event(), 0)
        except StoreError as error:
            return store_problem(error)
        return None

    async def close(self) -> None:
        """Close the store; nothing can be read afterwards."""
        for task in self._tasks:
            task.cancel()

        def close_store() -> None:
            with suppress(StoreError):
                self._read(lambda _, store: store.close(), None)

        await asyncio.get_running_loop().run_in_executor(self._thread, close_store)
        self._thread.shutdown()

    # Changes

    async def wait(self, version: int, seconds: float) -> int:
        """Wait until something changed after this version, or for some time; return the version."""
        if version == self.version:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
        return self.version

    def publish(self) -> None:
        """Tell all open pages that something changed."""
        self.version += 1
        self.last_change = time.time()
        self._changed.set()
        self._changed = asyncio.Event()

    async def watch(self) -> None:
        """Notice changes until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._look_at_controller()
                if self._wakeups is None:
                    await self._subscribe()
                else:
                    await self._look()  # in case that a commit took long after it was reported
                await self._look_for_store()
                await asyncio.sleep(_TICK)
        finally:
            if self._wakeups is not None:
                loop.remove_reader(self._wakeups.fd)
                self._wakeups.close()

    async def _look_for_store(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(StoreError):
            if await loop.run_in_executor(self._thread, self._forget_deleted):
                self.publish()

    async def _subscribe(self) -> None:
        """Subscribe to writes as soon as there is a store."""
        try:
            wakeups = await self.read(lambda _, store: _subscribed(store), None)
        except StoreError:
            return
        if wakeups is not None:
            self._wakeups = wakeups
            asyncio.get_running_loop().add_reader(wakeups.fd, self._wake)
            self.publish()

    def _wake(self) -> None:
        assert self._wakeups is not None  # the reader is removed before it is closed
        self._wakeups.drain()
        self._woken = True
        if not self._looking:
            self._looking = True
            self._spawn(self._look_again())

    async def _look_again(self) -> None:
        try:
            while self._woken:  # also by a write that was reported while looking
                self._woken = False
                for pause in _AGAIN:
                    await asyncio.sleep(pause)
                    if await self._look():
                        break
        finally:
            self._looking = False

    async def _look(self) -> bool:
        """Publish a change if another process wrote to the store."""
        try:
            changed = await self.read(lambda _, store: store.changed(), False)
        except StoreError:
            changed = True
        if changed:
            self.publish()
        return changed

    def _look_at_controller(self) -> None:
        before, state = self.controller, controller_state(self.root)
        if state.pid == before.pid:
            state.responding = before.responding and state.running
        self.controller = state
        if state.pid != before.pid:
            self._pinged = 0.0
            self.publish()

    def ask_controller(self) -> None:
        """Find out in the background whether the controller responds; at most every 5 seconds."""
        now = time.monotonic()
        if self.controller.running and now - self._pinged > _PING:
            self._pinged = now
            self._spawn(self._ping())

    async def _ping(self) -> None:
        state = self.controller
        answer = await asyncio.to_thread(send_request, self.root, {"op": "ping"}, again=True)
        responding = answer is not None
        if state is self.controller and responding != state.responding:
            state.responding = responding
            self.publish()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _subscribed(store: Store) -> Wakeups:
    wakeups = store.subscribe()
    store.changed()  # what was written before is no change
    return wakeups
