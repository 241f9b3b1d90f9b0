"""The controller's socket: one line of JSON in, one out, for its own user alone."""

import json
import os
import socket
import struct

from gascity.control.ground import file_number
from gascity.control.places import run_directory, socket_name

_LARGEST = 32 << 20
_BACKLOG = 128


class Line:
    """One caller: what it said so far, and what it is still to be told."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.heard = bytearray()
        self.told = b""

    def fileno(self) -> int:
        return self.connection.fileno()


class Server:
    """Callers by descriptor. It never blocks: the loop says when one can be read or written."""

    def __init__(self, root: str) -> None:
        directory = run_directory(root)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        os.chmod(directory, 0o700)
        at = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.path = f"{directory}/{socket_name()}"
        try:
            if os.path.lexists(self.path):
                os.unlink(self.path)  # of a controller that was killed: we hold its lock
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            before = os.umask(0o177)
            try:
                self.listener.bind(f"/proc/self/fd/{at}/{socket_name()}")
            finally:
                os.umask(before)
        finally:
            os.close(at)
        self._number = file_number(self.path)
        self.listener.listen(_BACKLOG)
        self.listener.setblocking(False)
        self.lines: dict[int, Line] = {}

    def accept(self) -> list[Line]:
        """Callers that have come; those of other users are turned away."""
        found: list[Line] = []
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:  # nobody is there, or there are too many
                return found
            if _caller(connection) not in (os.geteuid(), 0):
                connection.close()
                continue
            connection.setblocking(False)
            line = Line(connection)
            self.lines[line.fileno()] = line
            found.append(line)

    def read(self, line: Line) -> dict[str, object] | None:
        """A caller's whole request, once it is there; the caller is let go if it makes no sense."""
        try:
            part = line.connection.recv(1 << 16)
        except BlockingIOError:
            return None
        except OSError:
            part = b""
        line.heard += part
        if b"\n" not in line.heard:
            if not part or len(line.heard) > _LARGEST:
                self.close(line)
            return None
        try:
            request = json.loads(line.heard.split(b"\n", 1)[0])
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            self.close(line)
            return None
        return request

    def tell(self, line: Line, reply: dict[str, object]) -> bool:
        """Answer; False if not all of it could be sent yet."""
        line.told = json.dumps(reply).encode() + b"\n"
        return self.write(line)

    def write(self, line: Line) -> bool:
        try:
            while line.told:
                line.told = line.told[line.connection.send(line.told) :]
        except BlockingIOError:
            return False
        except OSError:
            line.told = b""
        self.close(line)
        return True

    def close(self, line: Line) -> None:
        if self.lines.pop(line.fileno(), None) is not None:
            line.connection.close()

    def shut(self) -> None:
        for line in list(self.lines.values()):
            self.close(line)
        self.listener.close()
        if file_number(self.path) == self._number:  # else it is that of another after us
            os.unlink(self.path)


def _caller(connection: socket.socket) -> int:
    """The user at the other end."""
    size = struct.calcsize("3i")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", found)[1])
