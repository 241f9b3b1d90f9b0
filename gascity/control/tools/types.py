"""Records of city tools: a tool, a call of it, and the error that a caller gets."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gascity.control.tools.scope import CallerScope, CityServer
from gascity.mcp.jsonrpc import RpcRequest
from gascity.model.problems import CityError, Problem
from gascity.model.values import JsonObject


class ToolCall(NamedTuple):
    """One call: its arguments are valid, and its caller may use the tool."""

    server: CityServer
    scope: CallerScope
    request: RpcRequest
    arguments: Mapping[str, object]


class ToolFailure(NamedTuple):
    """A result that is an error, with an object for programs beside its text."""

    text: str
    value: Mapping[str, object]


class Tool(NamedTuple):
    """A tool. `run` returns its result, which fits `output`, or a failure; or raises CityError."""

    name: str
    description: str
    input: Mapping[str, object]
    output: Mapping[str, object]
    capabilities: tuple[str, ...]
    run: Callable[[ToolCall], Mapping[str, object] | ToolFailure]
    read_only: bool = False

    def as_object(self) -> JsonObject:
        """Return the description for `tools/list`."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input,
            "outputSchema": self.output,
            "annotations": {"readOnlyHint": self.read_only, "openWorldHint": False},
        }


def refuse(code: str, message: str, hint: str | None = None) -> CityError:
    """Return the error of a call."""
    return CityError(Problem(code, message, None, hint))
