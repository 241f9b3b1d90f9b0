"""`city mcp serve`, for command lines that the fast path does not handle."""

from functools import partial

import click

from gascity.cli.command import command
from gascity.cli.context import CommandContext, agent_option, pass_context
from gascity.cli.fast_mcp_serve import serve as serve_stdio


@command(
    "serve",
    examples=(
        "city mcp serve",
        "city mcp serve --as human",
        "city mcp serve --server docs",
    ),
    page="how-to/agents-together",
)
@click.option(
    "--as",
    "served",
    type=click.Choice(["human"]),
    help="Serve your own MCP client, outside a session.",
)
@click.option(
    "--server", metavar="NAME", help="Serve one of the agent's MCP servers through the gateway."
)
@agent_option("Agent whose server to serve, with --as human.")
@pass_context
def serve(
    context: CommandContext, served: str | None, server: str | None, agent: str | None
) -> int:
    """Serve the city's tools, or a server behind the gateway, over MCP.

    Speaks the Model Context Protocol on standard input and output. Agents get this server
    with the pack `builtin:tools`; it identifies the session that starts it.
    """
    if agent is not None and (server is None or served is None):
        raise click.UsageError("--agent needs --server NAME and --as human")
    if server is not None:
        from gascity.cli.fast_mcp_serve import serve_gateway
        from gascity.cli.mcp_call import user_server

        spec = partial(user_server, context, server, agent) if served is not None else None
        return serve_gateway(context.root, context.environ, context.cwd, server, spec)
    return serve_stdio(context.root, context.environ, context.cwd, served is not None)
