"""Renders the native agent files of a loaded city's agents, with the templates that ship."""

from gascity.model.city import Agent
from gascity.providers.registry import provider_files
from gascity.render.agent_files import AgentFile, render_agent_file
from gascity.render.agent_tools import FileTarget
from gascity.resources import package_dir


def agent_file(agent: Agent, prompt: str, target: FileTarget) -> AgentFile:
    """Return the file of an agent with this prompt, in the format of the target's provider."""
    template = _template(target.provider.facts.agents.format or "")
    target = target._replace(option_tables=provider_files()[0])
    return render_agent_file(agent, prompt, target, template)


def _template(file_format: str) -> str:
    with open(f"{package_dir('agent_templates')}/{file_format}.j2", encoding="utf-8") as file:
        return file.read()
