"""Probe a server over HTTP: streamable HTTP and SSE, without following redirects."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from gascity.mcp.probe.protocol import (
    GRACE,
    MAX_BYTES,
    ProbeError,
    ProbeResult,
    ServerCall,
    handshake,
    result,
    time_left,
)

if TYPE_CHECKING:
    from http.client import HTTPResponse


def probe_http(call: ServerCall, deadline: float) -> ProbeResult:
    """Probe over streamable HTTP: each message is a request, its answer JSON or an event stream."""
    session: dict[str, str] = {}  # headers of the session

    def request(message: bytes, number: int | None) -> Mapping[str, object]:
        headers = {"Content-Type": "application/json", **session}
        with _request(call, "POST", message, headers, deadline) as response:
            if response.headers.get("Mcp-Session-Id"):
                session["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            for _, text in _events(response, deadline) if number is not None else ():
                answer = result(text, number or 0)
                if answer is not None:
                    session.setdefault("MCP-Protocol-Version", str(answer.get("protocolVersion")))
                    return answer
        if number is not None:
            raise ProbeError("it answered, but not as an MCP server")
        return {}

    try:
        return handshake(request)
    finally:
        if "Mcp-Session-Id" in session:
            with suppress(ProbeError, TimeoutError):
                _request(call, "DELETE", None, session, time.monotonic() + GRACE).close()


def probe_sse(call: ServerCall, deadline: float) -> ProbeResult:
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
            request, timeout=time_left(deadline)
        )
    except HTTPError as error:
        error.close()
        raise ProbeError(f"it answered {error.code}", str(error.reason)) from None
    except TimeoutError:
        raise
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise TimeoutError from None
        why = error.reason.strerror if isinstance(error.reason, OSError) else error.reason
        raise ProbeError("it cannot be reached", str(why or error.reason)) from None
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
        while line := response.readline(MAX_BYTES):
            time_left(deadline)
            count += len(line)
            if count > MAX_BYTES:
                raise ProbeError(f"it sent more than {MAX_BYTES:,} bytes")
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
