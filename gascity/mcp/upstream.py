"""The server's side of the gateway: a program with pipes, or requests over HTTP.

Both give lines to the gateway's loop and never block it. Over HTTP, each request waits in a thread
of its own, because its answer may be a stream that stays open for the whole call; threads hand what
they receive to the loop through a queue and a pipe that wakes it.
"""

import json
import os
import select
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from gascity.mcp.jsonrpc import MAX_BYTES, Lines
from gascity.mcp.server_call import (
    ErrorOutput,
    ServerCall,
    ServerError,
    exit_error,
    quoted_output,
    start_program,
    stop_program,
)
from gascity.model.values import as_integer

_CHUNK = 1 << 16
_FULL = 2 * MAX_BYTES  # bytes that wait for a slow reader before its writer has to wait, too
_STREAM = 24 * 3600.0  # seconds after which a stream of the server is opened again
_SILENCE = 3.0  # seconds before that, if it ended
_GRACE = 0.5  # seconds for ending the session of an HTTP server


class FailedRequest:
    """A request that the server will not answer, and why."""

    def __init__(self, id: int, text: str) -> None:
        self.id = id
        self.text = text


Received = bytes | FailedRequest | None  # a line; None: one that was too large


class Upstream(Protocol):
    """A server. `failure` says why it cannot be used any more."""

    failure: str

    def watched(self) -> list[tuple[int, int]]:
        """Return the descriptors to wait for, with the poll events."""
        ...

    def ready(self, number: int, events: int) -> list[Received]:
        """Return what arrived; called when one of the descriptors is ready."""
        ...

    def send(self, message: Mapping[str, object], data: bytes) -> None: ...

    def close(self) -> None: ...

    @property
    def full(self) -> bool:
        """Whether the server does not take what was sent so far."""
        ...


class Outgoing:
    """Bytes that wait until a descriptor takes them.

    Writes at most PIPE_BUF bytes at a time: a pipe that is ready has room for those. So a
    descriptor that another process shares need not be set to non-blocking.
    """

    def __init__(self) -> None:
        self._parts: deque[memoryview] = deque()
        self.size = 0

    def add(self, data: bytes) -> None:
        if data:
            self._parts.append(memoryview(data))
            self.size += len(data)

    def write(self, number: int) -> None:
        """Write once; OSError if no process reads any more."""
        part = self._parts[0]
        count = os.write(number, part[: select.PIPE_BUF])
        self.size -= count
        if count == len(part):
            self._parts.popleft()
        else:
            self._parts[0] = part[count:]


class StdioUpstream:
    """A program that is a server; `close` stops it with everything it started."""

    def __init__(self, call: ServerCall, environ: Mapping[str, str], cwd: str) -> None:
        """Start it; ServerError if that is not possible."""
        self.call = call
        self.failure = ""
        self.process = start_program(call, environ, cwd)
        pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self._input, self._output, self._errors = (pipe.fileno() for pipe in pipes if pipe)
        os.set_blocking(self._errors, False)
        self._open_errors = True
        self._stderr = ErrorOutput()
        self._lines = Lines(MAX_BYTES)
        self._outgoing = Outgoing()

    @property
    def full(self) -> bool:
        return self._outgoing.size > _FULL

    def watched(self) -> list[tuple[int, int]]:
        if self.failure:
            return []
        watched = [(self._output, select.POLLIN)]
        watched += [(self._errors, select.POLLIN)] if self._open_errors else []
        watched += [(self._input, select.POLLOUT)] if self._outgoing.size else []
        return watched

    def ready(self, number: int, events: int) -> list[Received]:  # noqa: ARG002
        if number == self._input:
            with suppress(OSError):  # it does not read any more; its output tells why
                self._outgoing.write(number)
                return []
            self._outgoing = Outgoing()
            return []
        if number == self._errors:
            data = os.read(number, _CHUNK)
            self._stderr.add(data)
            self._open_errors = bool(data)
            return []
        data = os.read(number, _CHUNK)
        if data:
            return list(self._lines.split(data))
        error = exit_error(self.process, self._stderr)
        self.failure = error.message + quoted_output(error.output, self.call)
        return list(self._lines.rest())

    def send(self, message: Mapping[str, object], data: bytes) -> None:  # noqa: ARG002
        self._outgoing.add(data)

    def close(self) -> None:
        stop_program(self.process)


class HttpUpstream:
    """A server over streamable HTTP: each message is a POST, its answer JSON or an event stream."""

    def __init__(self, call: ServerCall) -> None:
        import threading
        from queue import SimpleQueue

        self.call = call
        self.failure = ""
        self.full = False  # threads wait, not the loop
        self._received: deque[Received] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._headers: dict[str, str] = {}  # of the session
        self._closed = threading.Event()
        self._to_send: SimpleQueue[tuple[Mapping[str, object], bytes] | None] = SimpleQueue()
        self._run(self._send_all)

    def _run(self, target: Callable[..., object], *args: object) -> None:
        import threading

        threading.Thread(target=target, args=args, daemon=True).start()

    def watched(self) -> list[tuple[int, int]]:
        return [(self._wake_read, select.POLLIN)]

    def ready(self, number: int, events: int) -> list[Received]:  # noqa: ARG002
        os.read(number, _CHUNK)
        received: list[Received] = []
        while self._received:
            received.append(self._received.popleft())
        return received

    def _deliver(self, received: Received) -> None:
        self._received.append(received)
        with suppress(OSError):  # full: the loop will wake up anyway
            os.write(self._wake_write, b"x")

    def send(self, message: Mapping[str, object], data: bytes) -> None:
        self._to_send.put((message, data))

    def _send_all(self) -> None:
        """Send messages in order: one that expects no answer before the next one is sent."""
        while (item := self._to_send.get()) is not None:
            message, data = item
            is_request = "method" in message and "id" in message
            if is_request and message["method"] != "initialize":
                self._run(self._post, message, data)
            else:
                self._post(message, data)
            if message.get("method") == "notifications/initialized":
                self._run(self._listen)

    def _post(self, message: Mapping[str, object], data: bytes) -> None:
        from gascity.mcp.http_client import http_events, http_request

        own = as_integer(message.get("id")) if "method" in message else None
        headers = {"Content-Type": "application/json", **self._headers}
        deadline = time.monotonic() + _STREAM
        failure = "it closed the connection before it answered"
        try:
            with http_request(self.call, "POST", data, headers, deadline) as response:
                if session := response.headers.get("Mcp-Session-Id"):
                    self._headers["Mcp-Session-Id"] = session
                for _, text in http_events(response, deadline, MAX_BYTES):
                    self._take_version(message, text)
                    self._deliver(text)
        except ServerError as error:
            failure = error.message + quoted_output(error.output, self.call)
        except (OSError, ValueError) as error:
            failure = f"the connection failed: {type(error).__name__}"
        if own is not None:  # has no effect if it was answered
            self._deliver(FailedRequest(own, failure))

    def _take_version(self, message: Mapping[str, object], text: bytes) -> None:
        """Remember the protocol version of the answer to `initialize`: later requests name it."""
        if message.get("method") != "initialize" or "MCP-Protocol-Version" in self._headers:
            return
        with suppress(ValueError, RecursionError, AttributeError, TypeError):
            answer = json.loads(text)
            if answer.get("id") == message["id"]:
                self._headers["MCP-Protocol-Version"] = str(answer["result"]["protocolVersion"])

    def _listen(self) -> None:
        """Receive what the server sends without being asked, if it offers a stream for that."""
        from gascity.mcp.http_client import http_events, http_request

        while not self._closed.is_set():
            deadline = time.monotonic() + _STREAM
            try:
                with http_request(self.call, "GET", None, self._headers, deadline) as response:
                    if response.headers.get_content_type() != "text/event-stream":
                        return
                    for _, text in http_events(response, deadline, MAX_BYTES):
                        self._deliver(text)
            except ServerError:
                return
            except (OSError, ValueError):
                pass
            self._closed.wait(_SILENCE)

    def close(self) -> None:
        from gascity.mcp.http_client import http_request

        self._closed.set()
        self._to_send.put(None)
        if "Mcp-Session-Id" in self._headers:
            with suppress(ServerError, OSError):
                deadline = time.monotonic() + _GRACE
                http_request(self.call, "DELETE", None, self._headers, deadline).close()
