"""Renders the native agent files of a loaded city's agents, with the templates that ship."""

from collections.abc import Sequence

from gascity.model.city import Agent
from gascity.model.provider import Provider
from gascity.providers.registry import provider_files
from gascity.render.agent_files import AgentFile, render_agent_file
from gascity.render.flags import INTERACTIVE
from gascity.resources import package_dir


def agent_file(
    agent: Agent,
    prompt: str,
    provider: Provider,
    *,
    prefix: str = "",
    kind: str = INTERACTIVE,
    own: bool = False,
    words_of: Provider | None = None,
    gateways: Sequence[str] = (),
) -> AgentFile:
    """Return the file of an agent with this prompt, in the provider's format.

    `own`: for the agent's own sessions, not for other agents or users. `words_of`: the agent's own
    provider, if the file may be for another one. `gateways` are servers whose tools the gateway
    limits.
    """
    template = _template(provider.facts.agents.format or "")
    providers = provider_files()[0]
    return render_agent_file(
        agent,
        prompt,
        provider,
        template,
        prefix=prefix,
        kind=kind,
        providers=providers,
        own=own,
        words_of=words_of,
        gateways=gateways,
    )


def _template(file_format: str) -> str:
    with open(f"{package_dir('agent_templates')}/{file_format}.j2", encoding="utf-8") as file:
        return file.read()
