"""Waiting for descriptors with the selector that the system has: kqueue or poll."""

import selectors

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class SelectorPoll:
    """`gascity.control.poll.Poll` by `selectors`.

    A selector refuses to watch a descriptor for nothing, so a paused one is not registered.
    """

    def __init__(self) -> None:
        # The default one is epoll on Linux, which is what this class does without.
        kqueue = getattr(selectors, "KqueueSelector", None)
        self._selector: selectors.BaseSelector = (kqueue or selectors.PollSelector)()

    def watch(self, fd: int, *, writable: bool = False) -> None:
        event = WRITE if writable else READ
        if fd in self._selector.get_map():
            self._selector.modify(fd, event)
        else:
            self._selector.register(fd, event)

    def pause(self, fd: int) -> None:
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    forget = pause

    def wait(self, timeout: float | None) -> set[int]:
        return {key.fd for key, _ in self._selector.select(timeout)}

    def close(self) -> None:
        self._selector.close()
