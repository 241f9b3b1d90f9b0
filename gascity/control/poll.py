"""Waits until a descriptor is ready: by epoll on Linux, by `selectors` elsewhere."""

import os
import select
from typing import Protocol

from gascity.host import is_portable


class Poll(Protocol):
    """The descriptors that the controller loop waits for."""

    def watch(self, fd: int, *, writable: bool = False) -> None:
        """Wait until the descriptor can be read, or written. It may be watched already."""

    def pause(self, fd: int) -> None:
        """Ignore the descriptor until `watch` is called again."""

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor. Call it before closing the descriptor."""

    def wait(self, timeout: float | None) -> set[int]:
        """Sleep until a descriptor is ready, at most `timeout` seconds; return the ready ones."""

    def close(self) -> None: ...


class EpollPoll:
    """`Poll` by epoll."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: set[int] = set()

    def watch(self, fd: int, *, writable: bool = False) -> None:
        event = select.EPOLLOUT if writable else select.EPOLLIN
        if fd in self._watched:
            self._epoll.modify(fd, event)
        else:
            self._epoll.register(fd, event)
            self._watched.add(fd)

    def pause(self, fd: int) -> None:
        if fd in self._watched:
            self._epoll.modify(fd, 0)

    def forget(self, fd: int) -> None:
        if fd in self._watched:
            self._watched.remove(fd)
            self._epoll.unregister(fd)

    def wait(self, timeout: float | None) -> set[int]:
        return {fd for fd, _ in self._epoll.poll(timeout)}

    def close(self) -> None:
        self._epoll.close()


def wakeup_pipe() -> tuple[int, int]:
    """Return the ends of a pipe that wakes the loop; a write to a full one is not needed."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def open_poll() -> Poll:
    """Return a `Poll` for this system."""
    if is_portable():
        from gascity.portable.poll import SelectorPoll

        return SelectorPoll()
    return EpollPoll()
