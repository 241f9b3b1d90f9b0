"""Check that an MCP server starts and responds: start or call it and complete the handshake.

Over stdio, the program runs in its own process group and is stopped with everything it started.
Over HTTP, redirects are not followed.
"""

import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

from gascity.mcp.http_client import http_events, http_request, time_left
from gascity.mcp.server_call import (
    ErrorOutput,
    ServerCall,
    ServerError,
    exit_error,
    quoted_output,
    start_program,
    stop_program,
)
from gascity.mcp.service import LATEST
from gascity.mcp.types import SSE, STDIO
from gascity.model.secrets import mask_secrets
from gascity.model.values import JsonObject, TableView, as_table

_MAX_BYTES = 4 * 1024 * 1024  # of all answers; a server that sends more is given up
_GRACE = 0.5  # seconds for ending an HTTP session
_MAX_PAGES = 50  # of the list of tools

_Request = Callable[[bytes, int | None], Mapping[str, object]]


class ProbeResult(NamedTuple):
    """The server's name, version and tools (None: it cannot say); or the error."""

    error: str = ""
    name: str = ""
    version: str = ""
    tools: tuple[Mapping[str, object], ...] | None = None


class ProbeTimeoutError(TimeoutError):
    """The time is up; `output` is the server's last error text."""

    def __init__(self, output: str = "") -> None:
        super().__init__()
        self.output = output


def probe(call: ServerCall, environ: Mapping[str, str], cwd: str, limit: float) -> ProbeResult:
    """Complete the handshake within `limit` seconds; leave no process running."""
    deadline = time.monotonic() + limit
    try:
        if call.transport == STDIO:
            result = _probe_stdio(call, environ, cwd, deadline)
        elif call.transport == SSE:
            result = _probe_sse(call, deadline)
        else:
            result = _probe_http(call, deadline)
    except ServerError as error:
        return ProbeResult(error.message + quoted_output(error.output, call))
    except ProbeTimeoutError as error:
        return ProbeResult(f"no answer within {limit:g} s" + quoted_output(error.output, call))
    except TimeoutError:
        return ProbeResult(f"no answer within {limit:g} s")
    name, version = (mask_secrets(text, call.hidden) for text in (result.name, result.version))
    return result._replace(name=name, version=version)


# The handshake


def _message(method: str, number: int | None = None, **params: object) -> bytes:
    message: JsonObject = {"jsonrpc": "2.0", "method": method}
    message |= {} if number is None else {"id": number}
    message |= {"params": params} if params else {}
    return json.dumps(message).encode() + b"\n"


def _handshake(request: _Request) -> ProbeResult:
    """Initialize the server and list its tools.

    `request` sends a message and returns the result with that number.
    """
    client = {"name": "city", "version": "1"}
    hello = _message("initialize", 1, protocolVersion=LATEST, capabilities={}, clientInfo=client)
    answer = request(hello, 1)
    if "protocolVersion" not in answer:
        raise ServerError("it answered, but not as an MCP server")
    request(_message("notifications/initialized"), None)
    info = as_table(answer.get("serverInfo"))
    tools = tuple(_tools(request)) if "tools" in as_table(answer.get("capabilities")) else ()
    return ProbeResult("", str(info.get("name", "")), str(info.get("version", "")), tools)


def _tools(request: _Request) -> Iterator[Mapping[str, object]]:
    """Yield the tools on each page of the list."""
    cursor: JsonObject = {}
    for number in range(2, 2 + _MAX_PAGES):
        page = request(_message("tools/list", number, **cursor), number)
        yield from (tool.values for tool in TableView(page).tables("tools"))
        cursor = {"cursor": page.get("nextCursor")}
        if not cursor["cursor"]:
            return


def _result(text: bytes, number: int) -> Mapping[str, object] | None:
    """Return the result in a message; None if it is not the answer with this number."""
    try:
        message = as_table(json.loads(text))
    except (ValueError, RecursionError):
        return None
    if message.get("id") != number or "method" in message:
        return None
    if "error" in message:
        error = as_table(message["error"])
        raise ServerError("it returned an error", str(error.get("message", "")))
    return as_table(message.get("result"))


# Over stdio


def _probe_stdio(
    call: ServerCall, environ: Mapping[str, str], cwd: str, deadline: float
) -> ProbeResult:
    """Run the program, talk to it, and stop it with all processes it started."""
    process = start_program(call, environ, cwd)
    with _Pipes(process, deadline) as pipes:
        return _handshake(pipes.request)


class _Pipes:
    """The pipes of a program; leaving the context stops its whole process group."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        self.process = process
        self.deadline = deadline
        self.received = b""
        self.count = 0
        self.stderr = ErrorOutput()
        self.selector = selectors.DefaultSelector()

    def __enter__(self) -> "_Pipes":
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self.selector.register(pipe, selectors.EVENT_READ)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self.selector.close()
        stop_program(self.process)

    def request(self, message: bytes, number: int | None) -> Mapping[str, object]:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # reading reports why it exited
            os.write(self.process.stdin.fileno(), message)
        while number is not None:
            for line in self._lines():
                answer = _result(line, number)
                if answer is not None:
                    return answer
            self._receive()
        return {}

    def _lines(self) -> Iterator[bytes]:
        while b"\n" in self.received:
            line, _, self.received = self.received.partition(b"\n")
            yield line

    def _receive(self) -> None:
        """Wait for output until the deadline."""
        try:
            ready = self.selector.select(time_left(self.deadline))
        except TimeoutError:
            raise ProbeTimeoutError(self.stderr.last_line()) from None
        for key, _ in ready:
            pipe = key.fileobj
            data = os.read(key.fd, 65536)
            if pipe is self.process.stderr:
                self.stderr.add(data)
                if not data:
                    self.selector.unregister(pipe)
            elif not data:
                raise exit_error(self.process, self.stderr)
            else:
                self.received += data
                self.count += len(data)
        if self.count > _MAX_BYTES:
            raise ServerError(f"it sent more than {_MAX_BYTES:,} bytes")


# Over HTTP


def _probe_http(call: ServerCall, deadline: float) -> ProbeResult:
    """Probe over streamable HTTP: each message is a request, its answer JSON or an event stream."""
    session: dict[str, str] = {}  # headers of the session

    def request(message: bytes, number: int | None) -> Mapping[str, object]:
        headers = {"Content-Type": "application/json", **session}
        with http_request(call, "POST", message, headers, deadline) as response:
            if response.headers.get("Mcp-Session-Id"):
                session["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            for _, text in (
                http_events(response, deadline, _MAX_BYTES) if number is not None else ()
            ):
                answer = _result(text, number or 0)
                if answer is not None:
                    session.setdefault("MCP-Protocol-Version", str(answer.get("protocolVersion")))
                    return answer
        if number is not None:
            raise ServerError("it answered, but not as an MCP server")
        return {}

    try:
        return _handshake(request)
    finally:
        if "Mcp-Session-Id" in session:
            with suppress(ServerError, TimeoutError):
                http_request(call, "DELETE", None, session, time.monotonic() + _GRACE).close()


def _probe_sse(call: ServerCall, deadline: float) -> ProbeResult:
    """Probe over the older SSE transport: its first event is the endpoint for messages."""
    with http_request(call, "GET", None, {}, deadline) as response:
        for event, _ in http_events(response, deadline, _MAX_BYTES):
            if event == b"endpoint":
                return ProbeResult()
    raise ServerError("it answered, but not as an MCP server over sse")
