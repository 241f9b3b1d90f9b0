"""The gateway between a real client and real servers: programs and HTTP."""

import json
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gascity.mcp import gateway as gateway_module
from gascity.mcp import upstream as upstream_module
from gascity.mcp.gateway import Gateway
from gascity.mcp.relay import CallRecord, Relay
from gascity.mcp.server_call import ServerCall
from gascity.mcp.upstream import HttpUpstream, StdioUpstream, Upstream
from gascity.model.tool_rules import ToolRules, ToolWord
from tests.support import mcp_server

RULES = ToolRules(deny=(ToolWord("docs/drop", "drop"),))
SERVER = """\
    import json, os, sys
    def say(**message):
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        id, method, params = asked.get("id"), asked.get("method"), asked.get("params") or {}
"""


class Client:
    """A client of a gateway that runs in a thread."""

    def __init__(self, upstream: Upstream, limit: float | None = None) -> None:
        theirs, self.output = os.pipe()
        self.input, ours = os.pipe()
        self.records: list[CallRecord] = []
        self.tools: list[Sequence[object]] = []
        relay = Relay("docs", RULES, lambda *_: "no", limit=limit)
        made = Gateway(relay, upstream, theirs, ours, self.records.extend, self.tools.append)
        self._ends = [theirs, ours]
        self.thread = threading.Thread(target=made.serve, daemon=True)
        self.thread.start()
        self.file = os.fdopen(self.input, "rb")
        self.last = 0

    def send(self, **message: object) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def write(self, line: bytes) -> None:
        data = memoryview(line + b"\n")
        while data:
            data = data[os.write(self.output, data) :]

    def receive(self) -> dict[str, Any]:
        line = self.file.readline()
        assert line, "the gateway closed the connection"
        message: dict[str, Any] = json.loads(line)
        return message

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        self.last += 1
        self.send(id=self.last, method=method, params=params)
        return self.receive()

    def call(self, tool: str, **arguments: object) -> str:
        """Return the text of a call's result."""
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        return str(answer["result"]["content"][0]["text"])

    def close(self) -> None:
        if self._ends:
            os.close(self.output)
        self.thread.join(30)
        assert not self.thread.is_alive()
        self.file.close()
        while self._ends:
            os.close(self._ends.pop())


Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start(text)`: a client of a server with this program."""
    clients = []

    def begin(text: str, limit: float | None = None) -> Client:
        file = tmp_path / "server.py"
        file.write_text(textwrap.dedent(text))
        call = ServerCall("stdio", (sys.executable, str(file)), (), "", (), frozenset({"hush"}))
        clients.append(Client(StdioUpstream(call, os.environ, str(tmp_path)), limit))
        return clients[-1]

    yield begin
    for client in clients:
        client.close()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def until(fact: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_program_is_called_and_a_denied_tool_is_not(start: Start) -> None:
    client = start(Path(mcp_server.__file__).read_text())
    assert "protocolVersion" in client.ask("initialize")["result"]
    assert [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]] == ["echo"]
    assert json.loads(client.call("echo", text="hi"))["text"] == "hi"
    assert client.call("drop") == "tool-not-allowed: no"
    until(lambda: len(client.records) == 2 and client.tools)
    assert [(record.tool, record.ok) for record in client.records] == [
        ("echo", True),
        ("drop", False),
    ]
    assert client.tools == [[mcp_server.TOOL]]


def test_what_a_program_prints_beside_messages_is_dropped(start: Start) -> None:
    client = start(
        SERVER
        + """\
        sys.stdout.buffer.write(b"\\xff\\x00 noise\\n[[[[\\nnull\\n" + b"x" * 100000 + b"\\n")
        say(id=id, result={"content": [{"type": "text", "text": "here"}]})
"""
    )
    assert client.call("find") == "here"


def test_a_program_that_dies_in_a_call_is_named_with_its_last_words(start: Start) -> None:
    client = start(SERVER + "        sys.exit('the disk is full of hush')\n")
    text = client.call("find")
    assert text == ("server-failed: server `docs`: it exited with code 1: the disk is full of …")
    assert "it exited with code 1" in client.call("find")
    assert "it exited with code 1" in client.ask("ping")["error"]["message"]


def test_a_program_that_never_answers_is_given_up(start: Start) -> None:
    client = start(SERVER + "        pass\n", limit=0.2)
    assert client.call("find").endswith("did not answer within 0.2 s")


def test_progress_and_requests_of_the_server_pass(start: Start) -> None:
    client = start(
        SERVER
        + """\
        if method == "tools/call":
            token = params["_meta"]["progressToken"]
            say(method="notifications/progress", params={"progressToken": token, "progress": 1})
            say(id="mine", method="elicitation/create", params={"message": "Sure?"})
            call = id
        elif id == "mine":
            text = asked["result"]["action"]
            say(id=call, result={"content": [{"type": "text", "text": text}]})
"""
    )
    client.send(id=1, method="tools/call", params={"name": "f", "_meta": {"progressToken": 9}})
    assert client.receive()["params"] == {"progressToken": 9, "progress": 1}
    asked = client.receive()
    assert (asked["method"], asked["params"]) == ("elicitation/create", {"message": "Sure?"})
    client.send(id=asked["id"], result={"action": "accept"})
    assert client.receive()["result"]["content"][0]["text"] == "accept"


def test_a_cancellation_reaches_the_program(start: Start) -> None:
    client = start(
        SERVER
        + """\
        if method == "tools/call":
            call = id
        elif method == "notifications/cancelled":
            say(method="notifications/message", params={"same": params["requestId"] == call})
"""
    )
    client.send(id="x", method="tools/call", params={"name": "f"})
    client.send(method="notifications/cancelled", params={"requestId": "x"})
    assert client.receive()["params"] == {"same": True}


def test_many_calls_at_once_are_each_answered(start: Start) -> None:
    client = start(Path(mcp_server.__file__).read_text())
    for id in range(100):
        arguments = {"text": str(id)}
        client.send(id=id, method="tools/call", params={"name": "echo", "arguments": arguments})
    answers = {}
    for _ in range(100):
        answer = client.receive()
        answers[answer["id"]] = json.loads(answer["result"]["content"][0]["text"])["text"]
    assert answers == {id: str(id) for id in range(100)}


def test_messages_above_the_limit_are_answered_and_skipped(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (gateway_module, upstream_module):
        monkeypatch.setattr(module, "MAX_BYTES", 1000)
    client = start(
        SERVER
        + """\
        size = 2000 if params.get("name") == "large" else 1
        say(id=id, result={"content": [{"type": "text", "text": "x" * size}]})
"""
    )
    assert client.call("small") == "x"
    client.write(b'{"id": 1, "junk": "' + b"x" * 2000 + b'"}')
    assert client.receive()["error"]["message"] == "the message is larger than 1,000 bytes"
    assert client.call("large").endswith("it sent a message larger than 1,000 bytes")
    assert client.call("small") == "x"


def test_a_message_of_megabytes_passes_in_both_directions(start: Start) -> None:
    client = start(Path(mcp_server.__file__).read_text())
    text = "ä" * 1_000_000
    assert json.loads(client.call("echo", text=text))["text"] == text


@pytest.mark.parametrize(
    "line", [b"{", b"\xff\xfe", b'{"id": NaN}', b"[" * 100_000, b"3", b'{"method": 3}']
)
def test_a_malformed_message_is_an_error_and_the_next_one_passes(start: Start, line: bytes) -> None:
    client = start(Path(mcp_server.__file__).read_text())
    client.write(line)
    assert client.receive()["id"] is None
    assert client.ask("ping")["result"] == {}


def test_nothing_is_left_running_when_the_client_goes(start: Start) -> None:
    client = start(
        """\
        import json, os, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "1000"])
        for line in sys.stdin:
            asked = json.loads(line)
            pids = [os.getpid(), child.pid]
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": pids}), flush=True)
        time.sleep(1000)
"""
    )
    pids = client.ask("ping")["result"]
    assert all(map(is_running, pids))
    client.close()
    until(lambda: not any(map(is_running, pids)))


class _Web(BaseHTTPRequestHandler):
    """Streamable HTTP with a session: calls answer with a stream, GET is a stream of its own."""

    server: "WebServer"
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        asked = json.loads(self.rfile.read(length))
        self.server.seen.append((asked.get("method"), dict(self.headers.items())))
        if "id" not in asked:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        name = (asked.get("params") or {}).get("name")
        if name == "gone":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Mcp-Session-Id", "s-1")
        self.send_header("Connection", "close")
        self.end_headers()
        if name == "broken":
            return
        self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
        result = {"protocolVersion": "2025-06-18", "content": [{"type": "text", "text": "web"}]}
        self.event({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        self.server.over.wait(30)

    def do_DELETE(self) -> None:
        self.server.seen.append(("DELETE", dict(self.headers.items())))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def event(self, message: dict[str, object]) -> None:
        self.wfile.write(f"event: message\ndata: {json.dumps(message)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


class WebServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Web)
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.over = threading.Event()


@contextmanager
def web_client() -> Iterator[tuple[Client, WebServer]]:
    with WebServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
        client = Client(
            HttpUpstream(ServerCall("http", (), (), url, (("X-Key", "hush"),), frozenset()))
        )
        try:
            yield client, server
        finally:
            client.close()
            server.over.set()
            server.shutdown()
            thread.join()


def test_a_server_over_http_is_called_with_its_headers_and_session() -> None:
    with web_client() as (client, server):
        client.send(id=1, method="initialize", params={})
        assert client.receive()["method"] == "notifications/progress"
        assert client.receive()["id"] == 1
        client.send(id=2, method="tools/call", params={"name": "find"})
        assert client.receive()["method"] == "notifications/progress"
        assert client.receive()["result"]["content"][0]["text"] == "web"
        assert client.call("drop") == "tool-not-allowed: no"
        client.send(method="notifications/initialized")
        assert client.receive()["method"] == "notifications/tools/list_changed"
        client.close()
        methods = [method for method, _ in server.seen]
        assert methods == ["initialize", "tools/call", "notifications/initialized", "DELETE"]
        assert {headers.get("X-Key") for _, headers in server.seen} == {"hush"}
        later = [headers for method, headers in server.seen if method != "initialize"]
        assert {headers.get("Mcp-Session-Id") for headers in later} == {"s-1"}
        assert {headers.get("Mcp-Protocol-Version") for headers in later} == {"2025-06-18"}


@pytest.mark.parametrize(
    ("name", "why"), [("gone", "it answered 404"), ("broken", "before it answered")]
)
def test_a_server_over_http_that_fails_in_a_call_is_an_error_of_that_call(
    name: str, why: str
) -> None:
    with web_client() as (client, _):
        assert why in client.call(name)
        client.send(id=7, method="ping", params={})
        client.receive()
        assert client.receive()["id"] == 7
