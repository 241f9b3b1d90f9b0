"""Serves city tools over MCP: identifies the caller of each call, checks its scope, runs the tool.

`initialize` and `ping` are answered without importing any tool, because a client waits for them.
"""

from __future__ import annotations

import json
import threading

from gascity.mcp.jsonrpc import INVALID_PARAMS, RpcConnection, RpcError
from gascity.mcp.service import ToolService

TYPE_CHECKING = False  # importing `typing` would take longer than answering `initialize`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gascity.control.run_config import RunConfig
    from gascity.control.tools.scope import CityServer
    from gascity.control.tools.types import Tool, ToolFailure
    from gascity.mcp.jsonrpc import RpcRequest
    from gascity.model.problems import Problem

_INSTRUCTIONS = (
    "Tools of the city that you are an agent of. agents_list shows the other agents, "
    "agents_message gives one of them a task and returns its answer."
)
_TEXT = "text"


def serve_tools(
    input: int,
    output: int,
    root: str,
    environ: Mapping[str, str],
    directory: str,
    load: Callable[[], RunConfig],
    *,
    as_user: bool,
) -> None:
    """Serve city tools over two descriptors until the client closes the first one."""

    lock = threading.Lock()
    made: list[CityServer] = []

    def server() -> CityServer:
        """Return what all calls share, made when the first one comes."""
        with lock:
            if not made:
                from gascity.control.tools.scope import make_server

                made.append(make_server(root, environ, directory, as_user, load))
        return made[0]

    service = ToolService(
        "city",
        _INSTRUCTIONS,
        lambda: _listed(server()),
        lambda request, name, arguments: _call(server(), request, name, arguments),
    )
    RpcConnection(input, output, service.answer, queued=_is_message).serve()


def _is_message(request: RpcRequest) -> bool:
    """Return whether a request is a message: those are queued in the order of their arrival."""
    return request.method == "tools/call" and request.params.get("name") == "agents_message"


def _listed(server: CityServer) -> Sequence[Mapping[str, object]]:
    """Return the tools that the caller may use.

    All of them if it is not a session: each call then says what is wrong.
    """
    from gascity.control.tools.table import TOOLS
    from gascity.model.problems import CityError

    try:
        scope = server.scope()
    except CityError:
        return [tool.as_object() for tool in TOOLS]
    return [tool.as_object() for tool in TOOLS if tool.name not in scope.refused]


def _call(
    server: CityServer, request: RpcRequest, name: str, arguments: Mapping[str, object]
) -> Mapping[str, object]:
    """Run a tool; an error of the call is a result that the model can read."""
    from gascity.control.tools.table import TOOLS
    from gascity.control.tools.types import ToolFailure
    from gascity.model.problems import CityError, Problem
    from gascity.store.port import StoreError

    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        raise RpcError(INVALID_PARAMS, f"unknown tool `{name}`")
    try:
        result = _run(server, request, tool, arguments)
    except StoreError as error:
        return _refusal([Problem(error.code, error.message)])
    except CityError as error:
        return _refusal(error.problems)
    if isinstance(result, ToolFailure):
        return _result(result.text, result.value, is_error=True)
    return _result(json.dumps(result, ensure_ascii=False), result)


def _refusal(problems: Sequence[Problem]) -> Mapping[str, object]:
    """Return the result of a call that failed, each problem with its code first.

    It has no object, because clients reject one that does not have the tool's output schema.
    """
    lines = [
        f"{problem.code}: {problem.message}" + (f" (hint: {problem.hint})" if problem.hint else "")
        for problem in problems
    ]
    return _result("\n".join(lines), None, is_error=True)


def _run(
    server: CityServer, request: RpcRequest, tool: Tool, arguments: Mapping[str, object]
) -> Mapping[str, object] | ToolFailure:
    from gascity.control.tools.schemas import violations
    from gascity.control.tools.types import ToolCall, refuse

    scope = server.scope()
    if tool.name in scope.refused:
        raise refuse("tool-not-allowed", scope.refused[tool.name])
    if wrong := list(violations(arguments, tool.input)):
        raise refuse("bad-arguments", "; ".join(wrong))
    return tool.run(ToolCall(server, scope, request, arguments))


def _result(
    text: str, value: Mapping[str, object] | None, *, is_error: bool = False
) -> Mapping[str, object]:
    """Return the result of a tool: for the model as text, for programs as an object."""
    content = [{"type": _TEXT, "text": text}]
    structured = {} if value is None else {"structuredContent": value}
    return {"content": content, **structured, "isError": is_error}
