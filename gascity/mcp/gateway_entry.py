"""The entry of a server behind the gateway: the provider starts the gateway instead of the server.

The gateway, `city mcp serve --server NAME`, starts or calls the real server. So the provider's file
has neither its command and address nor its variables and secrets.
"""

from collections.abc import Iterator, Sequence

from gascity.mcp.types import SESSION_VARIABLES, SSE, STDIO, McpServer
from gascity.model.city import Agent
from gascity.model.problems import Problem, warning
from gascity.model.provider import Provider
from gascity.model.secrets import names_in


def gateway_entry(server: McpServer, provider: Provider) -> McpServer:
    """Return what a provider gets for a server behind the gateway."""
    passes = provider.facts.mcp.passes_environment
    return server._replace(
        transport=STDIO,
        command="city",
        args=("mcp", "serve", "--server", server.name),
        env={} if passes else {name: f"${{{name}}}" for name in SESSION_VARIABLES},
        url="",
        headers={},
        secrets=frozenset(),
    )


def can_relay(server: McpServer) -> bool:
    """Return whether the gateway speaks the transport of a server."""
    return server.transport != SSE


def skill_name(server: str) -> str:
    """Return the name of the skill that describes a server's tools."""
    return f"mcp-{server.lower().replace('_', '-')}"


def capability_problems(
    provider: Provider, agent: Agent, servers: Sequence[McpServer]
) -> Iterator[Problem]:
    """Yield the rules of `[capabilities]` that nothing enforces for a tool of a server."""
    limits = agent.settings.capabilities
    if limits.allow is None and not limits.deny:
        return
    from gascity.render.flags import UNENFORCEABLE
    from gascity.render.tool_scope import refusal_place, tool_rules

    for server in servers:
        if server.gateway:
            continue
        rules = tool_rules(provider, agent, server.name)
        kinds = (server.capabilities, *server.tool_capabilities.values())
        refusals = (rules.capability_refusal(capabilities) for capabilities in kinds)
        refusal = next((refusal for refusal in refusals if refusal is not None), None)
        if refusal is not None:
            message = f"`{refusal.rule}` of agent `{agent.name}` has no effect on server "
            message += f"`{server.name}`, which is not behind the gateway"
            hint = f"set `gateway = true` in {server.file}"
            yield warning(UNENFORCEABLE, message, refusal_place(agent, refusal), hint)


def server_variables(server: McpServer) -> list[str]:
    """Return the variables that a server refers to."""
    texts = (server.command, *server.args, *server.env.values())
    texts = (*texts, server.url, *server.headers.values())
    return list(dict.fromkeys(name for text in texts for name in names_in(text)))
