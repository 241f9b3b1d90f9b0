"""The MCP handshake, independent of the transport."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

PROTOCOL = "2025-06-18"
MAX_BYTES = 4 * 1024 * 1024  # of all answers; a server that sends more is given up
GRACE = 0.5  # seconds for cleaning up after the answer
_MAX_PAGES = 50  # of the list of tools

Request = Callable[[bytes, int | None], Mapping[str, object]]


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


def time_left(deadline: float) -> float:
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


def handshake(request: Request) -> ProbeResult:
    """Initialize the server and count its tools.

    `request` sends a message and returns the result with that number.
    """
    client = {"name": "city", "version": "1"}
    hello = _message("initialize", 1, protocolVersion=PROTOCOL, capabilities={}, clientInfo=client)
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


def _tool_counts(request: Request) -> Iterator[int]:
    """Yield the number of tools on each page of the list."""
    cursor: dict[str, object] = {}
    for number in range(2, 2 + _MAX_PAGES):
        page = request(_message("tools/list", number, **cursor), number)
        tools = page.get("tools")
        yield len(tools) if isinstance(tools, list) else 0
        cursor = {"cursor": page.get("nextCursor")}
        if not cursor["cursor"]:
            return


def result(text: bytes, number: int) -> Mapping[str, object] | None:
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
