"""Records for MCP servers, independent of any provider's format."""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.model.problems import Problem

STDIO, HTTP, SSE = "stdio", "http", "sse"
# By which a server finds its city, and proves which session it acts for.
SESSION_VARIABLES = ("CITY_ROOT", "CITY_SESSION_ID", "CITY_GENERATION", "CITY_SESSION_TOKEN")


class McpServer(NamedTuple):
    """One server. Its texts may contain `${NAME}`, a variable of the launch."""

    name: str
    description: str
    transport: str
    file: str
    origin: str
    command: str = ""  # absolute, or a program on PATH
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}
    capabilities: tuple[str, ...] = ()  # of its tools
    tool_capabilities: Mapping[str, tuple[str, ...]] = {}  # of single tools instead
    gateway: bool | None = None  # None: as the city says
    timeout: float | None = None
    session: bool = False  # it acts for the session, and needs its variables
    secrets: frozenset[str] = frozenset()  # literal texts in it that must not be shown


def is_city_server(server: McpServer) -> bool:
    """Return whether a server is `city mcp serve`, which serves the tools of the city."""
    return server.command == "city" and server.args[:2] == ("mcp", "serve")


class ShadowedServer(NamedTuple):
    """A server that another of the same name overrides; both by file."""

    name: str
    source: str
    by: str


class AgentServers(NamedTuple):
    """The servers of an agent, whether or not its provider supports them."""

    servers: tuple[McpServer, ...] = ()
    shadowed: tuple[ShadowedServer, ...] = ()
    problems: tuple[Problem, ...] = ()
