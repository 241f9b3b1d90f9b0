"""Permission to call an agent's MCP servers in its permission mode, by the provider's own means.

It is a permission, not a limit: the tools of the servers become callable, built-in tools stay as
they are, and `ask` and `deny` still win. Each run gets the narrowest permission that its provider
knows, in the command line or a file of the run.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity.model.city import Agent
from gascity.model.problems import Problem, warning
from gascity.model.provider import Provider
from gascity.render.arguments import fill_placeholders
from gascity.render.flags import (
    HEADLESS,
    UNRESTRICTED,
    allowed_tools,
    own_delivery,
    permission_mode,
)
from gascity.render.tool_words import ALL, ToolSyntax

PERMISSIONS = "permissions.json"  # name of the file of a run
_DENIAL = "it cannot deny single tools of a server"
_UNKNOWN = "it asks before each call, and nobody can answer"


class ServerAccess(NamedTuple):
    """Arguments and the file that let a run call servers; `refused` are servers it cannot call.

    `refused` has the reason by server. A server that the agent's own settings deny is not in it.
    """

    args: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    refused: Mapping[str, str] = {}


def server_access(
    provider: Provider,
    agent: Agent,
    kind: str,
    servers: Sequence[str],
    file: str = "",
    gateways: Sequence[str] = (),
) -> ServerAccess:
    """Return the permission for one kind of run; `file` is the path for a file of the run.

    `gateways` are servers behind the gateway, which refuses single tools itself.
    """
    facts = provider.facts.mcp
    mode = permission_mode(provider, agent, kind)
    needs_none = mode == UNRESTRICTED or mode in facts.closed_modes
    if not servers or agent.settings.start_command or needs_none:
        return ServerAccess()
    scope = _Scope(provider, agent, kind, gateways)
    wanted = {server: scope.tools(server) for server in servers}
    wanted = {server: tools for server, tools in wanted.items() if tools}
    if not facts.grant:
        return ServerAccess(refused=dict.fromkeys(wanted, facts.not_callable or _UNKNOWN))
    refused = {server: _DENIAL for server in wanted if scope.loses_denial(server)}
    granted = {server: tools for server, tools in wanted.items() if server not in refused}
    args, text = _compiled(provider, agent, kind, granted, file)
    return ServerAccess(tuple(args), {PERMISSIONS: text} if text else {}, refused)


def _compiled(
    provider: Provider, agent: Agent, kind: str, granted: Mapping[str, Sequence[str]], file: str
) -> tuple[list[str], str]:
    """Return arguments and a file's text for the granted tools by server."""
    facts = provider.facts.mcp
    match facts.grant:
        case "flag" if granted and allowed_tools(agent) is None:  # else the allow list has them
            syntax = ToolSyntax(provider, kind)
            natives = [name for server in granted for name in syntax.native(f"{server}/{ALL}")]
            return syntax.args(syntax.allow_flag, natives) if syntax.allow_flag else [], ""
        case "args":
            args: list[str] = []
            for server, tools in granted.items():
                for tool in tools:
                    pattern = facts.grant_args if tool == ALL else facts.grant_tool_args
                    values = {"server": server, "tool": tool}
                    args += (fill_placeholders(arg, values) for arg in pattern)
            return args, ""
        case "file" if granted:
            parts = (fill_placeholders(facts.grant_server or "", {"server": s}) for s in granted)
            text = (facts.grant_text or "{servers}").replace("{servers}", ",".join(parts))
            values = {"file": file}
            return [fill_placeholders(arg, values) for arg in facts.grant_args], text + "\n"
    return [], ""


class _Scope:
    """The part of an agent's `[tools]` that is about its servers, in one kind of run."""

    def __init__(
        self, provider: Provider, agent: Agent, kind: str, gateways: Sequence[str]
    ) -> None:
        tools = agent.settings.tools
        self.gateways = frozenset(gateways)
        self.syntax = ToolSyntax(provider, kind)
        self.allow = allowed_tools(agent)
        self.deny = [*tools.deny, *(tools.ask if kind == HEADLESS else ())]
        self.ask = () if kind == HEADLESS else tools.ask
        facts = provider.facts
        self.denies = bool(self.syntax.deny_flag and facts.tools.server_tool)
        self.denies = self.denies or bool(facts.mcp.deny_args)
        rules = facts.agents.tools.style == "permission"
        self.denies = self.denies or (rules and bool(own_delivery(provider, agent)))

    def tools(self, server: str) -> list[str]:
        """Return the tools of a server to allow, `*` for all; none where the user is to be asked.

        A provider cannot ask for one tool of an allowed server, so it asks for all of them.
        """
        denied = self._of(self.deny, server)
        if ALL in denied or self._of(self.ask, server):
            return []
        wanted = [ALL] if self.allow is None else self._of(self.allow, server)
        if server in self.gateways:
            return [ALL] if wanted else []
        return [ALL] if ALL in wanted else [tool for tool in wanted if tool not in denied]

    def loses_denial(self, server: str) -> bool:
        """Return whether allowing a server would allow a tool that the provider cannot deny."""
        denied = [word for word in self.deny if self.syntax.tool_of(word, server)]
        if not denied or server in self.gateways or self.tools(server) != [ALL]:
            return False
        return not self.denies or any(not self.syntax.native(word) for word in denied)

    def _of(self, words: Sequence[str], server: str) -> list[str]:
        tools = (self.syntax.tool_of(word, server) for word in words)
        return list(dict.fromkeys(tool for tool in tools if tool is not None))


def access_problems(
    provider: Provider, agent: Agent, servers: Sequence[str], gateways: Sequence[str] = ()
) -> list[Problem]:
    """Return warnings about servers that the agent's headless runs cannot call."""
    if not servers or provider.facts.script or not provider.headless:
        return []
    if not provider.facts.mcp.target:
        names = ", ".join(f"`{name}`" for name in servers)
        return [
            warning(
                "mcp-unsupported",
                f"agent `{agent.name}` does not get MCP server {names}: provider "
                f"`{provider.name}` cannot take servers from a project",
                agent.setting("provider").place,
                "use another provider, or deny them with `[mcp_filter]`",
            )
        ]
    refused = server_access(provider, agent, HEADLESS, servers, gateways=gateways).refused
    return [
        warning(
            "mcp-not-callable",
            f"headless runs of `{agent.name}` cannot call MCP server `{server}` with provider "
            f"`{provider.name}`: {reason}",
            agent.setting("provider").place,
            "use another provider, or deny the server with `[mcp_filter]`",
        )
        for server, reason in refused.items()
    ]


def has_access_problems(provider: Provider, agent: Agent) -> bool:
    """Return whether `access_problems` may find any, without knowing the servers."""
    tools = agent.settings.tools
    facts = provider.facts.mcp
    if provider.facts.script:
        return False
    return not facts.target or not facts.grant or bool(tools.deny or tools.ask)
