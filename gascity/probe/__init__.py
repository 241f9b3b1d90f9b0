"""Talks to MCP servers: starts or calls one, shakes hands, and says what it found."""

import time
from collections.abc import Callable, Mapping

from gascity.model.mcp import SSE, STDIO, Server
from gascity.model.references import filled
from gascity.model.secrets import hidden_in
from gascity.probe.program import start
from gascity.probe.talk import Answer, Call, NoAnswer, TooLate
from gascity.probe.web import converse, listen

_LONGEST = 200


def call_of(server: Server, resolve: Callable[[str], str | None]) -> tuple[Call, list[str]]:
    """What to start or call, and the variables that are not set."""
    unset: list[str] = []
    known: set[str] = set(server.secrets)

    def looked_up(name: str) -> str | None:
        value = resolve(name)
        known.add(value or "")
        return value

    def text(value: str) -> str:
        done, missing = filled(value, looked_up)
        unset.extend(missing)
        return done

    env = tuple((key, text(value)) for key, value in server.env.items())
    headers = tuple((key, text(value)) for key, value in server.headers.items())
    call = Call(
        server.transport,
        tuple(text(word) for word in (server.command, *server.args) if server.command),
        env,
        text(server.url),
        headers,
        frozenset((*known, *(value for _, value in (*env, *headers)))),
    )
    return call, list(dict.fromkeys(unset))


def probe(call: Call, environ: Mapping[str, str], cwd: str, limit: float) -> Answer:
    """Complete the handshake within `limit` seconds; nothing that it started is left running."""
    until = time.monotonic() + limit
    try:
        if call.transport == STDIO:
            answer = start(call, environ, cwd, until)
        elif call.transport == SSE:
            answer = listen(call, until)
        else:
            answer = converse(call, until)
    except NoAnswer as none:
        return Answer(none.ours + _quoted(none.theirs, call))
    except TimeoutError as late:
        theirs = late.theirs if isinstance(late, TooLate) else ""
        return Answer(f"no answer within {limit:g} s" + _quoted(theirs, call))
    name, version = (hidden_in(text, call.hidden) for text in (answer.name, answer.version))
    return answer._replace(name=name, version=version)


def _quoted(words: str, call: Call) -> str:
    """What the server itself said; our own words hold no secrets, and a short one would be cut."""
    return f": {hidden_in(words, call.hidden)[:_LONGEST]}" if words else ""
