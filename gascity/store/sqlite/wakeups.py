"""Wake-ups after writes by other processes: by inotify on Linux, by a message elsewhere."""

import os
from contextlib import suppress

from gascity.sockets import make_private, socket_directory

_RECHECK = 5.0  # seconds


class WriteWatch:
    """`Wakeups` by inotify: in WAL mode, every commit writes to a file beside the database.

    The kernel reports a write before SQLite has committed it, and also writes that are rolled back.
    """

    recheck: float | None = None

    def __init__(self, directory: str) -> None:
        from gascity.watch import WRITES, open_watch  # here, because most commands never wait

        self._watch = open_watch()
        self._watch.add(directory, WRITES)
        self.fd = self._watch.fd

    def drain(self) -> None:
        self._watch.read()

    def close(self) -> None:
        self._watch.close()
        self.fd = -1


class MessageSocket:
    """`Wakeups` by a socket, to which every writer sends a message after its commit.

    A writer that is killed in between sends none, so the subscriber checks the store from time to
    time, too.
    """

    recheck: float | None = _RECHECK

    def __init__(self, root: str, name: str) -> None:
        import socket

        directory = _directory(root)
        make_private(directory)
        self._path = f"{directory}/{name}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        self._socket.bind(self._path)
        self.fd = self._socket.fileno()

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(1)

    def close(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        self._socket.close()
        self.fd = -1


def send_messages(root: str, but: str = "") -> None:
    """Wake all subscribers of a store except one, and remove the sockets of dead ones."""
    from _socket import AF_UNIX, SOCK_DGRAM, socket  # `socket` takes ten times as long to import

    directory = _directory(root)
    try:
        names = os.listdir(directory)
    except OSError:
        return  # there was never a subscriber
    line = socket(AF_UNIX, SOCK_DGRAM)
    line.setblocking(False)
    for name in names:
        path = f"{directory}/{name}"
        try:
            if name != but:
                line.sendto(b"!", path)
        except ConnectionRefusedError:
            with suppress(OSError):
                os.unlink(path)
        except OSError:
            pass  # its queue is full, so it is awake already
    line.close()


def _directory(root: str) -> str:
    return socket_directory(f"{root}/.gc/run/wakeups")
