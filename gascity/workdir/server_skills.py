"""Skills that offer an agent its MCP servers: `mcp-<server>`, generated from lists of tools."""

from collections.abc import Sequence
from typing import NamedTuple

from gascity.mcp.gateway_entry import can_relay, skill_name
from gascity.mcp.tool_lists import decode_tools, tool_list_file
from gascity.mcp.types import McpServer
from gascity.model.city import Agent
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Provider
from gascity.model.wanted import FILE, WantedPath
from gascity.render.server_skill import skill_text
from gascity.render.tool_scope import tool_rules
from gascity.source.disk import Disk


class ServerSkills(NamedTuple):
    """The files of an agent's server skills, and servers whose tools are not known."""

    wanted: tuple[WantedPath, ...]
    problems: tuple[Problem, ...]


def server_skills(
    disk: Disk, provider: Provider, agent: Agent, servers: Sequence[McpServer]
) -> ServerSkills:
    """Return the skills of an agent's servers, with the tools that it may call."""
    wanted: list[WantedPath] = []
    problems: list[Problem] = []
    sink = (provider.facts.skills.directory or "").removeprefix("./").rstrip("/")
    for server in servers:
        if not can_relay(server):
            continue
        tools = decode_tools(disk.read(disk.absolute(tool_list_file(server))))
        if tools is None:
            problems.append(_unknown_tools(server))
            continue
        rules = tool_rules(
            provider, agent, server.name, server.capabilities, server.tool_capabilities
        )
        own = [tool for tool in tools if rules.refusal(str(tool.get("name"))) is None]
        name = skill_name(server.name)
        text = skill_text(name, server.name, server.description, own)
        path = f"{sink}/{name}/SKILL.md"
        agents = (str(agent.name),)
        wanted.append(
            WantedPath(path, FILE, server.file, server.origin, agents, data=text.encode())
        )
    return ServerSkills(tuple(wanted), tuple(problems))


def _unknown_tools(server: McpServer) -> Problem:
    message = f"the tools of server `{server.name}` are not known, so it has no skill yet"
    hint = "run `city mcp check`, then `city apply`"
    return warning("no-tool-list", message, Place(server.file), hint)
