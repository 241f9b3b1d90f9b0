"""The tools of servers as last seen: `mcp check` and the gateway keep them, skills describe them.

A list belongs to one definition of a server. If the definition changes, the list is not found until
the server is seen again.
"""

import json
from collections.abc import Mapping, Sequence

from gascity.mcp.types import McpServer
from gascity.model.values import TableView

_DIRECTORY = ".gc/mcp-tools"
_KEPT = ("name", "title", "description", "inputSchema")
MAX_BYTES = 4 << 20  # of one list; a longer one is not kept

ToolList = Sequence[Mapping[str, object]]


def tool_list_file(server: McpServer) -> str:
    """Return the path of a server's list, relative to the city's root."""
    from hashlib import sha256

    parts = [server.command, *server.args, server.url]
    parts += [f"{name}={value}" for name, value in (*server.env.items(), *server.headers.items())]
    digest = sha256(json.dumps([server.file, *parts]).encode()).hexdigest()
    return f"{_DIRECTORY}/{server.name}-{digest[:16]}.json"


def encode_tools(tools: Sequence[object]) -> bytes:
    """Return a list as it is kept: names, descriptions and arguments; empty if it is too long."""
    kept = [
        {key: tool.values[key] for key in _KEPT if key in tool.values}
        for tool in map(TableView, tools)
        if isinstance(tool.values.get("name"), str)
    ]
    data = json.dumps({"schema": 1, "tools": kept}).encode()  # escapes: a server may send anything
    return data if len(data) <= MAX_BYTES else b""


def decode_tools(data: bytes | None) -> ToolList | None:
    """Return the tools of a kept list; None if there is none."""
    try:
        value = json.loads(data or b"")
    except (ValueError, RecursionError):
        return None
    match value:
        case {"tools": list()}:
            return [tool.values for tool in TableView(value).tables("tools")]
    return None


def keep_tools(root: str, file: str, tools: Sequence[object]) -> None:
    """Write a list unless it is there already. Failing to is no error: the list is a cache."""
    import os
    from contextlib import suppress

    from gascity.files import write_file

    data, path = encode_tools(tools), os.path.join(root, file)
    if not data:
        return
    with suppress(OSError):
        with suppress(FileNotFoundError), open(path, "rb") as before:
            if before.read() == data:
                return
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_file(path, data, durable=False)
