"""Checks that `city check` makes on working directories without looking at any of them."""

from collections.abc import Iterator

from gascity.location import Site, Sites, nested_problems
from gascity.model.city import Agent, City
from gascity.model.problems import Problem, warning
from gascity.prompts import Machine, Prompts
from gascity.providers.registry import provider_files
from gascity.render.flags import HEADLESS, is_restricted, mode_problem
from gascity.source.disk import Disk
from gascity.workdir.wanted import CityContent, collect

# Problems of this machine, or reported elsewhere; they matter when something is planned.
_NOT_HERE = ("shared-directory", "rig-missing")


class _AnyVariable(dict[str, str]):
    """An environment in which every variable is set: which are set matters only at launch."""

    def get(self, name: str, default: object = None) -> str:
        del name, default
        return ""


def workdir_problems(city: City, disk: Disk, machine: Machine) -> list[Problem]:
    """Return problems of overlays, servers and skills, and conflicts between agents."""
    content = CityContent.of(Prompts(city, disk, machine), _AnyVariable())
    all_sites = Sites(city, disk, {})
    directories: dict[str, list[Site]] = {}
    for agent in city.agents:
        if not agent.broken:
            site = all_sites.of(agent)
            directories.setdefault(site.workdir, []).append(site)
    providers = frozenset((*provider_files()[0], *city.providers))
    problems: dict[Problem, None] = {}  # an ordered set
    sites = [site for group in directories.values() for site in group]
    problems.update(dict.fromkeys(problem for _, problem in nested_problems(sites)))
    for group in directories.values():
        requirements = collect(content, group, lambda _: False, ask_git=False)
        for agent_problems in requirements.problems.values():
            problems.update(
                dict.fromkeys(
                    problem for problem in agent_problems if problem.code not in _NOT_HERE
                )
            )
        for site in group:
            servers = requirements.servers.get(str(site.agent.name))
            problems.update(dict.fromkeys(servers.problems if servers is not None else ()))
            if servers is not None and servers.servers:
                problems.update(dict.fromkeys(_unused_servers(city, site.agent)))
            problems.update(dict.fromkeys(_unusable_mode(city, site.agent)))
            problems.update(dict.fromkeys(content.overlays.unknown_slots(site.agent, providers)))
    return list(problems)


def _unused_servers(city: City, agent: Agent) -> Iterator[Problem]:
    """Warn about servers that one-shot runs could use only in a mode that `[tools]` rules out."""
    provider = city.providers.get(agent.provider)
    mode = provider.facts.mcp.needs_mode if provider else ""
    if mode and is_restricted(agent):
        yield warning(
            "mcp-needs-mode",
            f"one-shot runs of `{agent.name}` do not use its MCP servers: `{agent.provider}` uses "
            f'them only with permission_mode = "{mode}", which an agent with `[tools]` never gets',
            agent.setting("tools.allow").place or agent.setting("tools.deny").place,
            "use another provider, or remove `[tools]`",
        )


def _unusable_mode(city: City, agent: Agent) -> Iterator[Problem]:
    """Warn about a configured permission mode that the agent's `[tools]` rule out."""
    provider = city.providers.get(agent.provider)
    problem = mode_problem(provider, agent, HEADLESS) if provider else None
    if problem is not None and problem.place is not None:
        yield problem
