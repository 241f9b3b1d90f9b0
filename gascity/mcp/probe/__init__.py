"""Check that an MCP server starts and responds: start or call it and complete the handshake."""

import time
from collections.abc import Callable, Mapping

from gascity.mcp.probe.http import probe_http, probe_sse
from gascity.mcp.probe.protocol import ProbeError, ProbeResult, ProbeTimeoutError, ServerCall
from gascity.mcp.probe.stdio import probe_stdio
from gascity.mcp.types import SSE, STDIO, McpServer
from gascity.model.references import filled
from gascity.model.secrets import mask_secrets

_MAX_OUTPUT = 200  # characters of the server's own error text


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
            result = probe_stdio(call, environ, cwd, deadline)
        elif call.transport == SSE:
            result = probe_sse(call, deadline)
        else:
            result = probe_http(call, deadline)
    except ProbeError as error:
        return ProbeResult(error.message + _quoted(error.output, call))
    except TimeoutError as error:
        output = error.output if isinstance(error, ProbeTimeoutError) else ""
        return ProbeResult(f"no answer within {limit:g} s" + _quoted(output, call))
    name, version = (mask_secrets(text, call.hidden) for text in (result.name, result.version))
    return result._replace(name=name, version=version)


def _quoted(output: str, call: ServerCall) -> str:
    """Return the server's own error text without secrets."""
    return f": {mask_secrets(output, call.hidden)[:_MAX_OUTPUT]}" if output else ""
