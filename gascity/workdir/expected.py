"""The servers and skills that a provider should find in an agent's working directory."""

from typing import NamedTuple

from gascity.model.city import Agent, City
from gascity.render.agent_files import agent_file_name
from gascity.workdir.planner import PlanningScope, requirements_of


class Expected(NamedTuple):
    """A working directory and the names that the provider should list in it."""

    workdir: str
    servers: frozenset[str]
    skills: frozenset[str]
    agents: frozenset[str] = frozenset()  # names of the agent files


def expected_of(scope: PlanningScope, agent: Agent) -> Expected:
    """Return the servers and skills that the agent's provider should list in its directory."""
    root, requirements = requirements_of(scope, agent)
    name = str(agent.name)
    delivery = requirements.deliveries.get(name)
    directory = _skill_directory(scope.planner.city, agent)
    skills = {
        path.removeprefix(directory).partition("/")[0]
        for path, wanted in requirements.wanted.items()
        if directory and path.startswith(directory) and name in wanted.agents
    }
    servers = frozenset(delivery.projected) if delivery else frozenset()
    subjects = requirements.file_subjects.items()
    agents = {
        agent_file_name(subject)
        for path, subject in subjects
        if name in requirements.wanted[path].agents
    }
    return Expected(root, servers, frozenset(skills), frozenset(agents))


def _skill_directory(city: City, agent: Agent) -> str:
    provider = city.provider_of(agent)
    directory = provider.facts.skills.directory if provider else ""
    return f"{directory.rstrip('/')}/" if directory else ""
