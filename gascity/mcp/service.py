"""The MCP methods of a server that has only tools: initialize, ping, tools/list and tools/call."""

from __future__ import annotations

from gascity import __version__
from gascity.mcp.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from gascity.model.values import TableView

TYPE_CHECKING = False  # importing `typing` would take longer than answering `initialize`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gascity.mcp.jsonrpc import RpcRequest

LATEST = "2025-06-18"
VERSIONS = (LATEST, "2025-03-26", "2024-11-05")


def negotiated(params: Mapping[str, object]) -> str:
    """Return the protocol version to use: the client's, or the latest that this server knows."""
    wanted = TableView(params).text("protocolVersion")
    return wanted if wanted in VERSIONS else LATEST


class ToolService:
    """Answers requests; `tools` describes the tools of this moment, `call` runs one.

    `call` gets the request, the name and the arguments of a tool, and returns the result object.
    It raises RpcError for a tool that does not exist.
    """

    def __init__(
        self,
        name: str,
        instructions: str,
        tools: Callable[[], Sequence[Mapping[str, object]]],
        call: Callable[[RpcRequest, str, Mapping[str, object]], Mapping[str, object]],
    ) -> None:
        self.name = name
        self.instructions = instructions
        self.tools = tools
        self.call = call

    def answer(self, request: RpcRequest) -> Mapping[str, object]:
        """Return the result of a request; RpcError if there is none."""
        match request.method:
            case "initialize":
                return {
                    "protocolVersion": negotiated(request.params),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": self.name, "version": __version__},
                    "instructions": self.instructions,
                }
            case "ping":
                return {}
            case "tools/list":
                return {"tools": list(self.tools())}
            case "tools/call":
                return self._call(request)
        raise RpcError(METHOD_NOT_FOUND, f"there is no method `{request.method}`")

    def _call(self, request: RpcRequest) -> Mapping[str, object]:
        match request.params:
            case {"name": str(name), "arguments": dict(arguments)}:
                return self.call(request, name, arguments)
            case {"name": str(), "arguments": value} if value is not None:
                raise RpcError(INVALID_PARAMS, "`arguments` is not an object")
            case {"name": str(name)}:
                return self.call(request, name, {})
        raise RpcError(INVALID_PARAMS, "`name` is missing")
