"""Requests to MCP servers over HTTP. Redirects are not followed."""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gascity.mcp.server_call import ServerCall, ServerError

if TYPE_CHECKING:
    from http.client import HTTPResponse


def time_left(deadline: float) -> float:
    """Return the seconds until the deadline; raises TimeoutError if it is over."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def http_request(
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
        raise ServerError(f"it answered {error.code}", str(error.reason)) from None
    except TimeoutError:
        raise
    except URLError as error:
        match error.reason:
            case TimeoutError():
                raise TimeoutError from None
            case OSError(strerror=str(text)) | text:
                raise ServerError("it cannot be reached", str(text)) from None
    except (HTTPException, OSError, ValueError) as error:
        raise ServerError(f"it cannot be reached: {type(error).__name__}") from None
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


def http_events(
    response: "HTTPResponse", deadline: float, limit: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the events of a stream with their data; a plain answer is one event.

    ServerError if one is longer than `limit` bytes.
    """
    from http.client import HTTPException

    stream = response.headers.get_content_type() == "text/event-stream"
    event, data, count = b"", [], 0
    try:
        while line := response.readline(limit + 1):
            time_left(deadline)
            count += len(line)
            if count > limit:
                raise ServerError(f"it sent more than {limit:,} bytes")
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
                event, data, count = b"", [], 0
    except (HTTPException, ConnectionError) as error:
        raise ServerError(f"the answer broke off: {type(error).__name__}") from None
    if data:
        yield event, b"".join(data) if not stream else b"\n".join(data)
