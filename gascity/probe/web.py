"""A server behind an address: requests, streams of events, and no redirects."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from gascity.probe.talk import GRACE, MOST, Answer, Call, NoAnswer, handshake, left, result

if TYPE_CHECKING:
    from http.client import HTTPResponse


def converse(call: Call, until: float) -> Answer:
    """Streamable HTTP: every message is a request, its answer JSON or a stream of events."""
    state: dict[str, str] = {}

    def ask(message: bytes, number: int | None) -> Mapping[str, object]:
        headers = {"Content-Type": "application/json", **state}
        with _request(call, "POST", message, headers, until) as response:
            if response.headers.get("Mcp-Session-Id"):
                state["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            for _, text in _events(response, until) if number is not None else ():
                found = result(text, number or 0)
                if found is not None:
                    state.setdefault("MCP-Protocol-Version", str(found.get("protocolVersion")))
                    return found
        if number is not None:
            raise NoAnswer("it answered, but not as an MCP server")
        return {}

    try:
        return handshake(ask)
    finally:
        if "Mcp-Session-Id" in state:
            with suppress(NoAnswer, TimeoutError):
                _request(call, "DELETE", None, state, time.monotonic() + GRACE).close()


def listen(call: Call, until: float) -> Answer:
    """The older way: a stream whose first event says where messages go."""
    with _request(call, "GET", None, {}, until) as response:
        for event, _ in _events(response, until):
            if event == b"endpoint":
                return Answer()
    raise NoAnswer("it answered, but not as an MCP server over sse")


def _request(
    call: Call, method: str, data: bytes | None, headers: Mapping[str, str], until: float
) -> "HTTPResponse":
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        """Headers may hold secrets, so they go to the address that was written and no other."""

        def redirect_request(self, *_: object) -> None:
            return None

    kind = {"Accept": "application/json, text/event-stream", "User-Agent": "city"}
    try:
        url, more = _without_person(call.url)
        request = Request(
            url, data, {**kind, **more, **dict(call.headers), **headers}, method=method
        )
        found: HTTPResponse = build_opener(Stay).open(request, timeout=left(until))
    except HTTPError as error:
        error.close()
        raise NoAnswer(f"it answered {error.code}", str(error.reason)) from None
    except TimeoutError:
        raise
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise TimeoutError from None
        why = error.reason.strerror if isinstance(error.reason, OSError) else error.reason
        raise NoAnswer("it cannot be reached", str(why or error.reason)) from None
    except (HTTPException, OSError, ValueError) as error:
        raise NoAnswer(f"it cannot be reached: {type(error).__name__}") from None
    return found


def _without_person(url: str) -> tuple[str, dict[str, str]]:
    """An address without its name and password, and the header that stands for them."""
    from base64 import b64encode
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    person, sign, host = parts.netloc.rpartition("@")
    if not sign:
        return url, {}
    word = b64encode(unquote(person).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {word}"}


def _events(response: "HTTPResponse", until: float) -> Iterator[tuple[bytes, bytes]]:
    """Events of a stream with their data; a plain answer is one event."""
    from http.client import HTTPException

    stream = response.headers.get_content_type() == "text/event-stream"
    event, data, count = b"", [], 0
    try:
        while line := response.readline(MOST):
            left(until)
            count += len(line)
            if count > MOST:
                raise NoAnswer(f"it said more than {MOST:,} bytes")
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
        raise NoAnswer(f"the answer broke off: {type(error).__name__}") from None
    if data:
        yield event, b"".join(data) if not stream else b"\n".join(data)
