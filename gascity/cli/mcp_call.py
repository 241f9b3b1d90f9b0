"""`city mcp call`: calls one tool of an MCP server through the gateway, and prints the result."""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from gascity import __version__
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, agent_option, machine
from gascity.cli.identity import caller
from gascity.cli.output import print_stderr
from gascity.cli.problems import city_error, require_accepted
from gascity.model.values import JsonObject, TableView, as_table

if TYPE_CHECKING:
    from gascity.control.gateway import GatewaySpec
    from gascity.mcp.jsonrpc import RpcRequest
    from gascity.mcp.types import McpServer
    from gascity.model.city import Agent


@json_command(
    "call",
    examples=(
        'city mcp call docs find \'{"text": "tides"}\'',
        "city mcp call docs find --stdin < arguments.json",
        "city mcp call docs find --agent clerk --json",
    ),
    page="how-to/gateway",
)
@click.argument("server", metavar="SERVER")
@click.argument("tool", metavar="TOOL")
@click.argument("arguments", metavar="[JSON]", required=False)
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the arguments from standard input.")
@agent_option("Agent whose server to call (default: the only one of that name).")
def call_tool(
    context: CommandContext,
    server: str,
    tool: str,
    arguments: str | None,
    from_stdin: bool,
    agent: str | None,
) -> int:
    """Call a tool of an MCP server.

    Inside a session, calls a server of its agent, if the agent's `[tools]` and
    `[capabilities]` allow the tool. Exits with 1 if the call is refused or fails.
    """
    values = _arguments(arguments, from_stdin)
    if caller(context) is not None:
        if agent is not None:
            message = "--agent is for users: a session calls the servers of its own agent"
            raise city_error("not-from-a-session", message, "remove --agent")
        result = _call(context, server, tool, values, None)
    else:
        spec = partial(user_server, context, server, agent)
        result = _call(context, server, tool, values, spec)
    failed = bool(result.get("isError"))
    content = TableView(result).tables("content")
    answer = {
        "server": server,
        "tool": tool,
        "is_error": failed,
        "content": [block.values for block in content],
        "structured": result.get("structuredContent"),
        "problems": [],
    }
    if failed and not context.as_json:
        for line in _lines(content):
            print_stderr(line)
        return 1
    context.output(answer, lambda: _lines(content))
    return int(failed)


def _arguments(text: str | None, from_stdin: bool) -> JsonObject:
    if text is not None and from_stdin:
        raise click.UsageError("pass the arguments as JSON or with --stdin, not both")
    if from_stdin:
        text = sys.stdin.read()
    try:
        values = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise click.UsageError("the arguments are not a JSON object")
    return values


def _lines(content: Sequence[TableView]) -> Iterator[str]:
    """Yield the texts of a result; anything else as JSON."""
    for block in content:
        match block.values:
            case {"type": "text", "text": str(text)}:
                yield from text.split("\n")
            case other:
                yield json.dumps(other, ensure_ascii=False)


def user_server(context: CommandContext, name: str, reference: str | None) -> "GatewaySpec":
    """Return the server that a user means; CityError if there is none, or several differ."""
    from gascity.control.gateway import find_server, user_spec
    from gascity.mcp.servers import ServerResolver
    from gascity.model.names import did_you_mean
    from gascity.prompts import Prompts
    from gascity.source.disk import Disk

    if reference is not None:
        city, selected = context.agent(reference)
        require_accepted(selected)
        resolver = ServerResolver(Prompts(city, Disk(city.root), machine()))
        server = find_server(resolver.of(selected).servers, selected, name)
        return user_spec(selected, server, context.environ)
    city = context.city()
    resolver = ServerResolver(Prompts(city, Disk(city.root), machine()))
    names: set[str] = set()
    found: list[tuple[McpServer, Agent]] = []
    for agent in city.agents:
        if agent.accepted and not agent.broken:
            servers = resolver.of(agent).servers
            names |= {server.name for server in servers}
            named = (server for server in servers if server.name == name)
            found += ((server, agent) for server in named)
    if not found:
        hint = did_you_mean(name, names) or "run `city mcp list --agent NAME` to see the servers"
        raise city_error("unknown-server", f"no agent has an MCP server `{name}`", hint)
    specs = [user_spec(agent, server, context.environ) for server, agent in found]
    if any(spec != specs[0] for spec in specs):
        message = f"agents have different MCP servers named `{name}`"
        raise city_error("ambiguous-server", message, "pass --agent NAME")
    return specs[0]


def _call(
    context: CommandContext,
    name: str,
    tool: str,
    arguments: Mapping[str, object],
    user_spec: "Callable[[], GatewaySpec] | None",
) -> Mapping[str, object]:
    """Return the result of a call, through a gateway in a thread of this process."""
    from gascity.cli.fast_mcp_serve import gateway_server, line_finder
    from gascity.control.gateway import serve_server, session_server

    root, environ = context.root, context.environ
    server = gateway_server(root, environ, context.cwd, user_spec is not None)
    spec = (user_spec or partial(session_server, server, name))()
    (gateway_in, to_gateway), (from_gateway, gateway_out) = os.pipe(), os.pipe()
    ends = (gateway_in, gateway_out, line_finder(root))
    gateway = threading.Thread(target=serve_server, args=(server, name, lambda: spec, *ends))
    gateway.start()
    try:
        return _exchange(name, from_gateway, to_gateway, tool, arguments)
    finally:
        os.close(to_gateway)  # the gateway stops the server and ends
        gateway.join()
        for number in (gateway_in, gateway_out, from_gateway):
            os.close(number)


def _exchange(
    name: str, input: int, output: int, tool: str, arguments: Mapping[str, object]
) -> Mapping[str, object]:
    """Complete the handshake with a server and call a tool; CityError if that fails."""
    from gascity.mcp.jsonrpc import METHOD_NOT_FOUND, ClosedError, RpcConnection, RpcError
    from gascity.mcp.service import LATEST

    def refuse(request: "RpcRequest") -> object:
        raise RpcError(METHOD_NOT_FOUND, f"there is no method `{request.method}`")

    connection = RpcConnection(input, output, refuse)
    threading.Thread(target=connection.serve, daemon=True).start()
    client = {"name": "city", "version": __version__}
    hello = {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": client}
    try:
        connection.request("initialize", hello).wait()
        connection.notify("notifications/initialized", {})
        called = {"name": tool, "arguments": arguments}
        result = connection.request("tools/call", called).wait()
    except RpcError as error:
        raise city_error("server-failed", error.message) from None
    except ClosedError:
        raise city_error("server-failed", f"server `{name}` did not answer") from None
    return as_table(result)
