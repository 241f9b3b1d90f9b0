"""Check that an MCP server starts and responds: start or call it and complete the handshake.

Over stdio, the program runs in its own process group and is stopped with everything it started.
Over HTTP, redirects are not followed.
"""

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple

from gascity.mcp.types import SSE, STDIO, McpServer
from gascity.model.secrets import filled, mask_secrets

if TYPE_CHECKING:
    from http.client import HTTPResponse

_PROTOCOL = "2025-06-18"
_MAX_BYTES = 4 * 1024 * 1024  # of all answers; a server that sends more is given up
_GRACE = 0.5  # seconds for cleaning up after the answer
_MAX_PAGES = 50  # of the list of tools
_MAX_STDERR = 4096  # bytes kept of stderr
_MAX_OUTPUT = 200  # characters of the server's own error text

_Request = Callable[[bytes, int | None], Mapping[str, object]]


class ServerCall(NamedTuple):
    """A server as it is started or called, with all variables resolved.

    `hidden` are secrets that must not appear in any output.
    """

    transport: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    url: str
    headers: tuple[tuple[str, str], ...]
    hidden: frozenset[str]


class ProbeResult(NamedTuple):
    """The server's name, version and number of tools; or the error."""

    error: str = ""
    name: str = ""
    version: str = ""
    tools: int | None = None


class ProbeError(Exception):
    """The server does not respond as it should; `output` is its own error text."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.output = output


class ProbeTimeoutError(TimeoutError):
    """The time is up; `output` is the server's last error text."""

    def __init__(self, output: str = "") -> None:
        super().__init__()
        self.output = output


def server_call(
    server: McpServer, resolve: Callable[[str], str | None]
) -> tuple[ServerCall, list[str]]:
    """Return the server with its variables resolved, and the names of unset variables."""
    unset: list[str] = []
    secrets: set[str] = set(server.secrets)

    def look_up(name: str) -> str | None:
        value = resolve(name)
        secrets.add(value or "")
        return value

    def text(value: str) -> str:
        resolved, missing = filled(value, look_up)
        unset.extend(missing)
        return resolved

    env = tuple((key, text(value)) for key, value in server.env.items())
    headers = tuple((key, text(value)) for key, value in server.headers.items())
    call = ServerCall(
        server.transport,
        tuple(text(word) for word in (server.command, *server.args) if server.command),
        env,
        text(server.url),
        headers,
        frozenset((*secrets, *(value for _, value in (*env, *headers)))),
    )
    return call, list(dict.fromkeys(unset))


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
    except ProbeError as error:
        return ProbeResult(error.message + _quoted(error.output, call))
    except ProbeTimeoutError as error:
        return ProbeResult(f"no answer within {limit:g} s" + _quoted(error.output, call))
    except TimeoutError:
        return ProbeResult(f"no answer within {limit:g} s")
    name, version = (mask_secrets(text, call.hidden) for text in (result.name, result.version))
    return result._replace(name=name, version=version)


def _quoted(output: str, call: ServerCall) -> str:
    """Return the server's own error text without secrets."""
    return f": {mask_secrets(output, call.hidden)[:_MAX_OUTPUT]}" if output else ""


# The handshake


def _time_left(deadline: float) -> float:
    """Return the seconds until the deadline; raises ProbeTimeoutError if it is over."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise ProbeTimeoutError
    return left


def _message(method: str, number: int | None = None, **params: object) -> bytes:
    message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    message |= {} if number is None else {"id": number}
    message |= {"params": params} if params else {}
    return json.dumps(message).encode() + b"\n"


def _handshake(request: _Request) -> ProbeResult:
    """Initialize the server and count its tools.

    `request` sends a message and returns the result with that number.
    """
    client = {"name": "city", "version": "1"}
    hello = _message("initialize", 1, protocolVersion=_PROTOCOL, capabilities={}, clientInfo=client)
    answer = request(hello, 1)
    if "protocolVersion" not in answer:
        raise ProbeError("it answered, but not as an MCP server")
    request(_message("notifications/initialized"), None)
    info = _table(answer, "serverInfo")
    tools = sum(_tool_counts(request)) if "tools" in _table(answer, "capabilities") else 0
    return ProbeResult("", str(info.get("name", "")), str(info.get("version", "")), tools)


def _table(value: Mapping[str, object], key: str) -> Mapping[str, object]:
    table = value.get(key)
    return table if isinstance(table, Mapping) else {}


def _tool_counts(request: _Request) -> Iterator[int]:
    """Yield the number of tools on each page of the list."""
    cursor: dict[str, object] = {}
    for number in range(2, 2 + _MAX_PAGES):
        page = request(_message("tools/list", number, **cursor), number)
        tools = page.get("tools")
        yield len(tools) if isinstance(tools, list) else 0
        cursor = {"cursor": page.get("nextCursor")}
        if not cursor["cursor"]:
            return


def _result(text: bytes, number: int) -> Mapping[str, object] | None:
    """Return the result in a message; None if it is not the answer with this number."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, Mapping) or message.get("id") != number or "method" in message:
        return None
    if "error" in message:
        raise ProbeError("it returned an error", str(_table(message, "error").get("message", "")))
    return _table(message, "result")


# Over stdio


def _probe_stdio(
    call: ServerCall, environ: Mapping[str, str], cwd: str, deadline: float
) -> ProbeResult:
    """Run the program, talk to it, and stop it with all processes it started."""
    command = call.command[0]
    try:
        process = subprocess.Popen(
            call.command,
            cwd=cwd,
            env={**environ, "PWD": cwd, **dict(call.env)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        if os.path.exists(command):
            raise ProbeError(f"the program that runs `{command}` was not found") from None
        where = "" if "/" in command else " on PATH"
        raise ProbeError(f"`{command}` was not found{where}") from None
    except OSError as error:
        raise ProbeError(f"`{command}` could not be started: {error.strerror}") from None
    except ValueError as error:  # a null character
        raise ProbeError(f"`{command}` could not be started: {error}") from None
    with _Pipes(process, deadline) as pipes:
        return _handshake(pipes.request)


class _Pipes:
    """The pipes of a program; leaving the context stops its whole process group."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        self.process = process
        self.deadline = deadline
        self.received = b""
        self.count = 0
        self.stderr = b""
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
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(OSError):
                pipe.close() if pipe else None
        self.selector.close()
        self._wait()  # with its stdin closed, it should exit by itself
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
            self._wait()

    def _wait(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(_GRACE)
        return None

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
            ready = self.selector.select(_time_left(self.deadline))
        except ProbeTimeoutError:
            raise ProbeTimeoutError(self._last_error_line()) from None
        for key, _ in ready:
            pipe = key.fileobj
            data = os.read(key.fd, 65536)
            if pipe is self.process.stderr:
                self._add_stderr(data)
            elif not data:
                raise self._exit_error()
            else:
                self.received += data
                self.count += len(data)
        if self.count > _MAX_BYTES:
            raise ProbeError(f"it sent more than {_MAX_BYTES:,} bytes")

    def _add_stderr(self, data: bytes) -> None:
        self.stderr += data
        if len(self.stderr) > _MAX_STDERR:
            # Whole lines only: a secret that is cut in two could not be hidden.
            self.stderr = self.stderr[-_MAX_STDERR:].partition(b"\n")[2]
        if not data and self.process.stderr is not None:
            self.selector.unregister(self.process.stderr)

    def _exit_error(self) -> ProbeError:
        """Return how the program ended, and its last line of stderr."""
        code = self._wait()
        with suppress(BlockingIOError, ValueError):
            while data := self._read(self.process.stderr):
                self._add_stderr(data)
        how = f"it exited with code {code}"
        if code is None:
            how = "it closed its output"
        elif code < 0:
            how = f"it was killed by signal {-code}"
        return ProbeError(how, self._last_error_line())

    @staticmethod
    def _read(pipe: IO[bytes] | None) -> bytes:
        return os.read(pipe.fileno(), 65536) if pipe else b""

    def _last_error_line(self) -> str:
        lines = self.stderr.decode("utf-8", "replace").split("\n")
        filled_lines = [line.strip() for line in lines if line.strip()]
        return filled_lines[-1] if filled_lines else ""


# Over HTTP


def _probe_http(call: ServerCall, deadline: float) -> ProbeResult:
    """Probe over streamable HTTP: each message is a request, its answer JSON or an event stream."""
    session: dict[str, str] = {}  # headers of the session

    def request(message: bytes, number: int | None) -> Mapping[str, object]:
        headers = {"Content-Type": "application/json", **session}
        with _request(call, "POST", message, headers, deadline) as response:
            if response.headers.get("Mcp-Session-Id"):
                session["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            for _, text in _events(response, deadline) if number is not None else ():
                answer = _result(text, number or 0)
                if answer is not None:
                    session.setdefault("MCP-Protocol-Version", str(answer.get("protocolVersion")))
                    return answer
        if number is not None:
            raise ProbeError("it answered, but not as an MCP server")
        return {}

    try:
        return _handshake(request)
    finally:
        if "Mcp-Session-Id" in session:
            with suppress(ProbeError, TimeoutError):
                _request(call, "DELETE", None, session, time.monotonic() + _GRACE).close()


def _probe_sse(call: ServerCall, deadline: float) -> ProbeResult:
    """Probe over the older SSE transport: its first event is the endpoint for messages."""
    with _request(call, "GET", None, {}, deadline) as response:
        for event, _ in _events(response, deadline):
            if event == b"endpoint":
                return ProbeResult()
    raise ProbeError("it answered, but not as an MCP server over sse")


def _request(
    call: ServerCall, method: str, data: bytes | None, headers: Mapping[str, str], deadline: float
) -> "HTTPResponse":
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class NoRedirects(HTTPRedirectHandler):
        """Headers may contain secrets, so they are sent to the configured address only."""

        def redirect_request(self, *_: object) -> None:
            return None

    standard = {"Accept": "application/json, text/event-stream", "User-Agent": "city"}
    try:
        url, login = _without_login(call.url)
        request = Request(
            url, data, {**standard, **login, **dict(call.headers), **headers}, method=method
        )
        response: HTTPResponse = build_opener(NoRedirects).open(
            request, timeout=_time_left(deadline)
        )
    except HTTPError as error:
        error.close()
        raise ProbeError(f"it answered {error.code}", str(error.reason)) from None
    except TimeoutError:
        raise
    except URLError as error:
        match error.reason:
            case TimeoutError():
                raise TimeoutError from None
            case OSError(strerror=str(text)) | text:
                raise ProbeError("it cannot be reached", str(text)) from None
    except (HTTPException, OSError, ValueError) as error:
        raise ProbeError(f"it cannot be reached: {type(error).__name__}") from None
    return response


def _without_login(url: str) -> tuple[str, dict[str, str]]:
    """Return an address without user name and password, and the header that replaces them."""
    from base64 import b64encode
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    login, separator, host = parts.netloc.rpartition("@")
    if not separator:
        return url, {}
    token = b64encode(unquote(login).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {token}"}


def _events(response: "HTTPResponse", deadline: float) -> Iterator[tuple[bytes, bytes]]:
    """Yield the events of a stream with their data; a plain answer is one event."""
    from http.client import HTTPException

    stream = response.headers.get_content_type() == "text/event-stream"
    event, data, count = b"", [], 0
    try:
        while line := response.readline(_MAX_BYTES):
            _time_left(deadline)
            count += len(line)
            if count > _MAX_BYTES:
                raise ProbeError(f"it sent more than {_MAX_BYTES:,} bytes")
            if not stream:
                data.append(line)
                continue
            key, _, value = line.rstrip(b"\r\n").partition(b":")
            if key == b"event":
                event = value.strip()
            elif key == b"data":
                data.append(value.strip())
            elif not key and not value:
                yield event, b"\n".join(data)
                event, data = b"", []
    except (HTTPException, ConnectionError) as error:
        raise ProbeError(f"the answer broke off: {type(error).__name__}") from None
    if data:
        yield event, b"".join(data) if not stream else b"\n".join(data)
