"""What is said to a server and what it answers, over whatever wire."""

import json
import time
from collections.abc import Callable, Iterator, Mapping

from gascity.model.records import NamedTuple

PROTOCOL = "2025-06-18"
MOST = 4 * 1024 * 1024  # bytes of answers; a server that says more is not listened to
GRACE = 0.5  # seconds for what is done once the answer is there
_PAGES = 50

Ask = Callable[[bytes, int | None], Mapping[str, object]]


class Call(NamedTuple):
    """A server as it is started or called, every variable in it known.

    `hidden` are the texts that may not come out again, whoever says them.
    """

    transport: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    url: str
    headers: tuple[tuple[str, str], ...]
    hidden: frozenset[str]


class Answer(NamedTuple):
    """Who answered and how many tools it has; or why there was no answer."""

    fault: str = ""
    name: str = ""
    version: str = ""
    tools: int | None = None


class NoAnswer(Exception):
    """Why there is none: in our words, and in those of the server."""

    def __init__(self, ours: str, theirs: str = "") -> None:
        super().__init__(ours)
        self.ours = ours
        self.theirs = theirs


class TooLate(TimeoutError):
    """Time is up; what the server said so far, if anything."""

    def __init__(self, theirs: str = "") -> None:
        super().__init__()
        self.theirs = theirs


def left(until: float) -> float:
    """Seconds that are left; raises TooLate when none are."""
    left = until - time.monotonic()
    if left <= 0:
        raise TooLate
    return left


def _message(method: str, number: int | None = None, **params: object) -> bytes:
    found: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    found |= {} if number is None else {"id": number}
    found |= {"params": params} if params else {}
    return json.dumps(found).encode() + b"\n"


def handshake(ask: Ask) -> Answer:
    """The whole conversation. `ask` sends a message and gives the result with that number."""
    us = {"name": "city", "version": "1"}
    hello = _message("initialize", 1, protocolVersion=PROTOCOL, capabilities={}, clientInfo=us)
    said = ask(hello, 1)
    if "protocolVersion" not in said:
        raise NoAnswer("it answered, but not as an MCP server")
    ask(_message("notifications/initialized"), None)
    who, able = _table(said, "serverInfo"), _table(said, "capabilities")
    tools = sum(_pages(ask)) if "tools" in able else 0
    return Answer("", str(who.get("name", "")), str(who.get("version", "")), tools)


def _table(value: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _pages(ask: Ask) -> Iterator[int]:
    """How many tools each page of the list has."""
    cursor: dict[str, object] = {}
    for number in range(2, 2 + _PAGES):
        found = ask(_message("tools/list", number, **cursor), number)
        tools = found.get("tools")
        yield len(tools) if isinstance(tools, list) else 0
        cursor = {"cursor": found.get("nextCursor")}
        if not cursor["cursor"]:
            return


def result(text: bytes, number: int) -> Mapping[str, object] | None:
    """The result in a message, if it is the answer we wait for."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, Mapping) or message.get("id") != number or "method" in message:
        return None
    if "error" in message:
        raise NoAnswer("it refused", str(_table(message, "error").get("message", "")))
    return _table(message, "result")
