"""The controller's Unix socket: one line of JSON in, one line of JSON out.

Only the city's own user (and root) may connect. The server never blocks: the controller loop polls
the descriptors and says which connection can be read or written.
"""

import json
import os
import socket
import struct

from gascity.control.lock import inode
from gascity.control.paths import run_directory, socket_name

_MAX_REQUEST = 32 << 20
_BACKLOG = 128


class ClientConnection:
    """One client: the bytes received so far, and the part of the reply not yet sent."""

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self.received = bytearray()
        self.outgoing = b""

    def fileno(self) -> int:
        return self.socket.fileno()


class ControlServer:
    """The listening socket and its connections by descriptor."""

    def __init__(self, root: str) -> None:
        directory = run_directory(root)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        os.chmod(directory, 0o700)
        directory_fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.path = f"{directory}/{socket_name()}"
        try:
            if os.path.lexists(self.path):
                os.unlink(self.path)  # left by a killed controller; we hold the lock now
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            umask = os.umask(0o177)
            try:
                # Bind through the descriptor: a socket path is limited to 108 bytes.
                self.listener.bind(f"/proc/self/fd/{directory_fd}/{socket_name()}")
            finally:
                os.umask(umask)
        finally:
            os.close(directory_fd)
        self._inode = inode(self.path)
        self.listener.listen(_BACKLOG)
        self.listener.setblocking(False)
        self.connections: dict[int, ClientConnection] = {}

    def accept(self) -> list[ClientConnection]:
        """Accept all pending clients and refuse those of other users."""
        accepted: list[ClientConnection] = []
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:  # no more clients, or no descriptors left
                return accepted
            if _peer_uid(client) not in (os.geteuid(), 0):
                client.close()
                continue
            client.setblocking(False)
            connection = ClientConnection(client)
            self.connections[connection.fileno()] = connection
            accepted.append(connection)

    def read(self, connection: ClientConnection) -> dict[str, object] | None:
        """Return the request once it has arrived completely; close the connection if invalid."""
        try:
            part = connection.socket.recv(1 << 16)
        except BlockingIOError:
            return None
        except OSError:
            part = b""
        connection.received += part
        if b"\n" not in connection.received:
            if not part or len(connection.received) > _MAX_REQUEST:
                self.close(connection)
            return None
        try:
            request = json.loads(connection.received.split(b"\n", 1)[0])
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            self.close(connection)
            return None
        return request

    def reply(self, connection: ClientConnection, reply: dict[str, object]) -> bool:
        """Send a reply; return False if part of it has to wait until the socket is writable."""
        connection.outgoing = json.dumps(reply).encode() + b"\n"
        return self.write(connection)

    def write(self, connection: ClientConnection) -> bool:
        """Send as much of the reply as fits; return True when done (and closed)."""
        try:
            while connection.outgoing:
                sent = connection.socket.send(connection.outgoing)
                connection.outgoing = connection.outgoing[sent:]
        except BlockingIOError:
            return False
        except OSError:
            connection.outgoing = b""
        self.close(connection)
        return True

    def close(self, connection: ClientConnection) -> None:
        if self.connections.pop(connection.fileno(), None) is not None:
            connection.socket.close()

    def shutdown(self) -> None:
        """Close everything and remove the socket file, unless a newer controller replaced it."""
        for connection in list(self.connections.values()):
            self.close(connection)
        self.listener.close()
        if inode(self.path) == self._inode:
            os.unlink(self.path)


def _peer_uid(client: socket.socket) -> int:
    """Return the user id of the process at the other end."""
    size = struct.calcsize("3i")
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[1])
