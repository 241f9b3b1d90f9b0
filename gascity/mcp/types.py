"""An MCP server as people write it, before any provider's words."""

from collections.abc import Mapping

from gascity.model.problems import Problem
from gascity.model.records import NamedTuple

STDIO, HTTP, SSE = "stdio", "http", "sse"


class Server(NamedTuple):
    """One server. Its texts may hold `${NAME}`, a variable of the launch."""

    name: str
    description: str
    transport: str
    file: str
    origin: str
    command: str = ""  # absolute, or a bare word that PATH finds
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}
    capabilities: tuple[str, ...] = ()
    timeout: float | None = None
    secrets: frozenset[str] = frozenset()  # literal texts in it that may not be shown


class Shadowed(NamedTuple):
    """A server that another of its name covers; both by file."""

    name: str
    source: str
    by: str


class Effective(NamedTuple):
    """The servers an agent has, whatever its provider makes of them."""

    servers: tuple[Server, ...] = ()
    shadowed: tuple[Shadowed, ...] = ()
    problems: tuple[Problem, ...] = ()
