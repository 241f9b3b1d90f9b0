"""`city mcp serve`, for command lines that the fast path does not handle."""

import click

from gascity.cli.command import command
from gascity.cli.context import CommandContext, pass_context
from gascity.cli.fast_mcp_serve import serve as serve_stdio


@command(
    "serve",
    examples=("city mcp serve", "city mcp serve --as human"),
    page="how-to/agents-together",
)
@click.option(
    "--as",
    "served",
    type=click.Choice(["human"]),
    help="Serve your own MCP client, outside a session.",
)
@pass_context
def serve(context: CommandContext, served: str | None) -> int:
    """Serve the city's tools to an agent over MCP.

    Speaks the Model Context Protocol on standard input and output. Agents get this server
    with the pack `builtin:tools`; it identifies the session that starts it.
    """
    return serve_stdio(context.root, context.environ, context.cwd, served is not None)
