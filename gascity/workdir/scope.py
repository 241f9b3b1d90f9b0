"""Opens a city for planning and reads only as much of it as the selected agents need."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity.location import OWN, WORKTREE, Site
from gascity.model.city import Agent, City
from gascity.pipeline import find_agent, open_agent, open_city
from gascity.prompts import Machine, Prompts
from gascity.source.disk import Disk
from gascity.workdir.planner import Planner
from gascity.workdir.wanted import CityContent, Requirements


class PlanningScope(NamedTuple):
    """A city that is ready for planning, and the selected agents."""

    planner: Planner
    agents: tuple[Agent, ...]
    selected: frozenset[str] | None  # names of the selected agents; None: all


def open_scope(
    root: str, environ: Mapping[str, str], machine: Machine, reference: str | None = None
) -> PlanningScope:
    """Open the city, or only one agent if it has a directory of its own."""
    if reference is None:
        city = open_city(root, environ)
        agents = tuple(agent for agent in city.agents if not agent.broken)
        return PlanningScope(_planner(city, environ, machine), agents, None)
    city, agent = open_agent(root, environ, reference)
    planner = _planner(city, environ, machine)
    if _may_share_directory(planner, agent):
        city = open_city(root, environ)
        agent = find_agent(city, reference) or agent
        planner = _planner(city, environ, machine)
    return PlanningScope(planner, (agent,), frozenset((str(agent.name),)))


def _planner(city: City, environ: Mapping[str, str], machine: Machine) -> Planner:
    def whole_city() -> City:
        return open_city(city.root, environ)

    prompts = Prompts(city, Disk(city.root), machine, whole_city)
    return Planner(CityContent.of(prompts, environ))


def _may_share_directory(planner: Planner, agent: Agent) -> bool:
    """Return whether other agents may work in the agent's directory; if not, only it is read."""
    site = planner.sites.of(agent)
    if site.kind not in (OWN, WORKTREE) or agent.settings.work_dir:
        return True
    claimants = planner.ledgers.read(os.path.realpath(site.workdir)).claimants
    return bool(claimants - {str(agent.name)})


class Expected(NamedTuple):
    """Servers and skills that a provider should find in an agent's directory."""

    workdir: str
    servers: frozenset[str]
    skills: frozenset[str]


def requirements_of(
    scope: PlanningScope, agent: Agent, place: tuple[str, Sequence[Site]] | None = None
) -> tuple[str, Requirements]:
    """Return an agent's directory and what all agents there need in it.

    `place` is the directory of one of its sessions; default: the one that `apply` writes.
    """
    root, sites = place or _first_directory(scope.planner, agent)
    return root, scope.planner.requirements(root, sites)


def _first_directory(planner: Planner, agent: Agent) -> tuple[str, Sequence[Site]]:
    site = planner.sites.of(agent)
    root = os.path.realpath(site.workdir)
    directories = planner.directories(other for other in planner.city.agents if not other.broken)
    return root, [site, *(other for other in directories.get(root, ()) if other is not site)]


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
    return Expected(root, servers, frozenset(skills))


def _skill_directory(city: City, agent: Agent) -> str:
    provider = city.providers.get(agent.provider)
    directory = provider.facts.skills.directory if provider else ""
    return f"{directory.rstrip('/')}/" if directory else ""
