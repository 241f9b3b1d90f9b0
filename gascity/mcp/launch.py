"""The arguments and variables that pass MCP servers and trust to one launch of a provider."""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.mcp.delivery import LAUNCH, Delivery
from gascity.model.provider import Provider
from gascity.render.arguments import fill_placeholders


class LaunchArguments(NamedTuple):
    """Arguments and variables of a launch beside the provider's own."""

    args: tuple[str, ...]
    env: Mapping[str, str]
    servers: tuple[str, ...] = ()  # that the launch gets, by name
    file_prompt: str | None = None  # the prompt whose text is in the session's own agent file
    hud: str = ""  # the HUD sections of that prompt, which the file does not have
    agent_name: str = ""  # of the session's own agent, if another one has its usual name
    gateways: tuple[str, ...] = ()  # those of them that are behind the gateway
    withheld: tuple[str, ...] = ()  # variables that only servers behind the gateway need


def launch_arguments(
    provider: Provider, delivery: Delivery, workdir: str, file: str
) -> LaunchArguments:
    """Return the arguments that mark the directory as trusted and pass the servers.

    `file` is the path of the launch's own servers, if it has any.
    """
    facts = provider.facts
    args, env = facts.trust.args, dict(facts.trust.env)
    if delivery.mode == LAUNCH:
        args += facts.mcp.launch_args
        env |= facts.mcp.launch_env
    elif delivery.targets:
        env |= facts.mcp.env
    values = {"workdir": workdir, "file": file, "json": delivery.content}
    return LaunchArguments(
        tuple(fill_placeholders(arg, values) for arg in args),
        {name: fill_placeholders(text, values) for name, text in env.items()},
        delivery.projected,
        gateways=delivery.gateways,
        withheld=delivery.withheld,
    )
