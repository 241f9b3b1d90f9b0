"""A city made ready for planning: as much of it as the agents asked about need."""

import os
from collections.abc import Callable, Mapping, Sequence

from gascity.materialise.claims import Claims, Materials
from gascity.materialise.directories import Planner
from gascity.model.city import Agent, City
from gascity.model.records import NamedTuple
from gascity.pipeline import find_agent, open_agent, open_city
from gascity.prompts import Machine, Prompts
from gascity.sites import OWN, WORKTREE, Site
from gascity.source.disk import Disk


class Yard(NamedTuple):
    """A city, ready for planning, and the agents that were asked about."""

    planner: Planner
    agents: tuple[Agent, ...]
    whose: frozenset[str] | None  # None: everybody


def open_yard(
    root: str, environ: Mapping[str, str], machine: Machine, reference: str | None = None
) -> Yard:
    """Read what planning needs. For one agent with a directory of its own, that agent alone."""
    if reference is None:
        city = open_city(root, environ)
        sound = tuple(agent for agent in city.agents if not agent.broken)
        return Yard(_planner(city, environ, machine), sound, None)
    city, agent = open_agent(root, environ, reference)
    planner = _planner(city, environ, machine)
    if _shares(planner, agent):
        city = open_city(root, environ)
        agent = find_agent(city, reference) or agent
        planner = _planner(city, environ, machine)
    return Yard(planner, (agent,), frozenset((str(agent.name),)))


def _planner(city: City, environ: Mapping[str, str], machine: Machine) -> Planner:
    everyone: Callable[[], City] = lambda: open_city(city.root, environ)  # noqa: E731
    prompts = Prompts(city, Disk(city.root), machine, everyone)
    return Planner(Materials.of(prompts, environ))


def _shares(planner: Planner, agent: Agent) -> bool:
    """May others work in the agent's directory? Asked so that most commands read one agent only."""
    site = planner.sites.of(agent)
    if site.kind not in (OWN, WORKTREE) or agent.value("work_dir"):
        return True
    known = planner.ledgers.read(os.path.realpath(site.workdir)).claimants
    return bool(known - {str(agent.name)})


class Expected(NamedTuple):
    """What a provider should find in an agent's directory."""

    workdir: str
    servers: frozenset[str]
    skills: frozenset[str]


def claims_of(
    yard: Yard, agent: Agent, place: tuple[str, Sequence[Site]] | None = None
) -> tuple[str, Claims]:
    """An agent's directory, and what everybody who works there wants in it.

    `place` is that of one of its sessions, in place of the one that `apply` makes.
    """
    planner = yard.planner
    root, sites = place or _first_place(planner, agent)
    return root, planner.claims(root, sites)


def _first_place(planner: Planner, agent: Agent) -> tuple[str, Sequence[Site]]:
    site = planner.sites.of(agent)
    root = os.path.realpath(site.workdir)
    others = planner.directories(one for one in planner.city.agents if not one.broken)
    return root, [site, *(one for one in others.get(root, ()) if one is not site)]


def expected_of(yard: Yard, agent: Agent) -> Expected:
    """What the agent's provider should list in its directory."""
    root, claims = claims_of(yard, agent)
    name = str(agent.name)
    delivery = claims.deliveries.get(name)
    sink = _sink(yard.planner.city, agent)
    skills = {
        path.removeprefix(sink).partition("/")[0]
        for path, one in claims.wanted.items()
        if sink and path.startswith(sink) and name in one.agents
    }
    servers = frozenset(delivery.projected) if delivery else frozenset()
    return Expected(root, servers, frozenset(skills))


def _sink(city: City, agent: Agent) -> str:
    provider = city.providers.get(agent.provider)
    directory = provider.text("skills.directory") if provider else ""
    return f"{directory.rstrip('/')}/" if directory else ""
