"""A real MCP server in one file, over stdio or HTTP.

Its only tool, `echo`, returns its argument, the command line and the variable GREETING.
With `--two`, it also lists `shout`, which does the same. With `--witness FILE`, it writes the same
as one line to the file when a client initializes.
"""

import http.server
import json
import os
import sys
from typing import Any

PROTOCOL = "2025-06-18"
TOOL = {
    "name": "echo",
    "description": "Say it back.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


def answer(request: dict[str, Any]) -> dict[str, Any] | None:
    """Return the reply to a message; None for a notification."""
    if "id" not in request:
        return None
    found = _result(request.get("method", ""), request.get("params") or {})
    said = {"error": {"code": -32601, "message": "no such method"}} if found is None else found
    return {"jsonrpc": "2.0", "id": request["id"], **said}


def _result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            _witness()
            version = params.get("protocolVersion", PROTOCOL)
            server = {"name": "tests", "version": "1"}
            return _of(protocolVersion=version, capabilities={"tools": {}}, serverInfo=server)
        case "tools/list":
            more = [{**TOOL, "name": "shout"}] if "--two" in sys.argv else []
            return _of(tools=[TOOL, *more])
        case "tools/call":
            text = (params.get("arguments") or {}).get("text")
            said = json.dumps({"text": text, **_reached()})
            return _of(content=[{"type": "text", "text": said}])
        case "ping":
            return _of()
    return None


def _reached() -> dict[str, object]:
    return {"argv": sys.argv[1:], "greeting": os.environ.get("GREETING")}


def _witness() -> None:
    if "--witness" in sys.argv:
        with open(sys.argv[sys.argv.index("--witness") + 1], "a", encoding="utf-8") as file:
            file.write(json.dumps(_reached()) + "\n")


def _of(**values: object) -> dict[str, Any]:
    return {"result": values}


def serve_stdio() -> None:
    """Serve one JSON message per line until the client closes its end."""
    for line in sys.stdin:
        reply = answer(json.loads(line)) if line.strip() else None
        if reply is not None:
            print(json.dumps(reply), flush=True)


class HttpServer(http.server.ThreadingHTTPServer):
    """Serves on a free local port and records the headers of every request."""

    daemon_threads = True  # a client may keep its connection open

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Http)
        self.seen: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class _Http(http.server.BaseHTTPRequestHandler):
    """Streamable HTTP without a stream: each request is answered at once, as JSON."""

    server: HttpServer
    protocol_version = "HTTP/1.1"  # some clients lose a request if connections close after each

    def do_POST(self) -> None:
        self.server.seen.append(dict(self.headers.items()))
        length = int(self.headers.get("Content-Length") or 0)
        reply = answer(json.loads(self.rfile.read(length)))
        body = b"" if reply is None else json.dumps(reply).encode()
        self.send_response(202 if reply is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    serve_stdio()
