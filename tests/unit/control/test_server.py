"""The controller's socket, with callers of all kinds."""

import os
import select
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.control.client import exchange, send_request
from gascity.control.poll import open_poll
from gascity.control.server import ControlServer
from gascity.sockets import SocketAddress


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ControlServer]:
    found = ControlServer(
        str(tmp_path / ("deep" * 30)), open_poll()
    )  # longer than a socket's path may be
    yield found
    found.shutdown()


def caller(server: ControlServer) -> socket.socket:
    """A connection made as a client does."""
    line = socket.socket(socket.AF_UNIX)
    with SocketAddress(*os.path.split(server.path)) as address:
        line.connect(address)
    return line


def heard(server: ControlServer) -> dict[str, object] | None:
    """What the only caller has said, once something came."""
    [line] = server.connections.values()
    assert select.select([line], [], [], 5)[0]
    return server.read(line)


def test_only_its_own_user_can_reach_it(server: ControlServer) -> None:
    assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(server.path)).st_mode) == 0o700


def test_a_request_may_come_in_pieces(server: ControlServer) -> None:
    line = caller(server)
    server.accept()
    line.sendall(b'{"op": ')
    assert heard(server) is None
    line.sendall(b'"ping"}\n')
    assert heard(server) == {"op": "ping"}
    [theirs] = server.connections.values()
    assert server.reply(theirs, {"pid": 7})
    assert line.recv(100) == b'{"pid": 7}\n'
    assert line.recv(100) == b""
    assert server.connections == {}
    line.close()


@pytest.mark.parametrize("line_sent", [b"nonsense\n", b"[1]\n", b"\xff\xfe\n", b""])
def test_a_client_with_an_invalid_request_is_disconnected(
    server: ControlServer, line_sent: bytes
) -> None:
    line = caller(server)
    server.accept()
    line.sendall(line_sent)
    if not line_sent:
        line.close()
    assert heard(server) is None
    assert server.connections == {}
    line.close()


def test_a_reply_that_a_client_does_not_read_blocks_no_other_client(server: ControlServer) -> None:
    line = caller(server)
    [theirs] = server.accept()
    assert not server.reply(theirs, {"long": "x" * 10_000_000})
    line.close()
    assert server.write(theirs)
    assert server.connections == {}


def test_without_a_controller_there_is_no_reply(tmp_path: Path) -> None:
    assert exchange(str(tmp_path), {}) == b""
    (tmp_path / ".gc/run").mkdir(parents=True)
    assert send_request(str(tmp_path), {"op": "ping"}) is None


def test_a_socket_that_a_killed_controller_left_is_replaced(tmp_path: Path) -> None:
    first = ControlServer(str(tmp_path), open_poll())
    first.listener.close()
    second = ControlServer(str(tmp_path), open_poll())
    caller(second).close()
    second.shutdown()
    assert not os.path.exists(second.path)
