"""`city mcp`: list the MCP servers of an agent."""

import click

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "list": ("gascity.cli.mcp.list", "list_servers", "List an agent's MCP servers."),
    "check": (
        "gascity.cli.mcp.check",
        "check_servers",
        "Check that each MCP server starts and responds.",
    ),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS, page="how-to/mcp")
def mcp() -> None:
    """List and check MCP servers."""
