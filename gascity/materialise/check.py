"""What can be said of working directories without looking at any."""

from collections.abc import Iterator

from gascity.materialise.claims import Materials, gather
from gascity.model.city import Agent, City
from gascity.model.problems import Problem, warning
from gascity.prompts import Machine, Prompts
from gascity.providers.registry import provider_files
from gascity.render.options import mode_problem
from gascity.render.tool_flags import HEADLESS, restricted
from gascity.sites import Site, Sites, nested
from gascity.source.disk import Disk

# Nothing is wrong with the city, or it is said already: these count where something is planned.
_LATER = ("shared-directory", "rig-missing")


class _AnyVariable(dict[str, str]):
    """Whether a variable is set is a matter of the launch, not of the city."""

    def get(self, name: str, default: object = None) -> str:
        del name, default
        return ""


def material_problems(city: City, disk: Disk, machine: Machine) -> list[Problem]:
    """Faults of overlays, servers and skills, and agents that would stand in each other's way."""
    materials = Materials.of(Prompts(city, disk, machine), _AnyVariable())
    places = Sites(city, disk, {})
    directories: dict[str, list[Site]] = {}
    for agent in city.agents:
        if not agent.broken:
            site = places.of(agent)
            directories.setdefault(site.workdir, []).append(site)
    known = frozenset((*provider_files()[0], *city.providers))
    found: dict[Problem, None] = {}
    sites = [site for together in directories.values() for site in together]
    found.update(dict.fromkeys(problem for _, problem in nested(sites)))
    for together in directories.values():
        claims = gather(materials, together, lambda _: False, ask_git=False)
        for problems in claims.problems.values():
            found.update(dict.fromkeys(one for one in problems if one.code not in _LATER))
        for site in together:
            servers = claims.servers.get(str(site.agent.name))
            found.update(dict.fromkeys(servers.problems if servers is not None else ()))
            if servers is not None and servers.servers:
                found.update(dict.fromkeys(_unused_servers(city, site.agent)))
            found.update(dict.fromkeys(_not_lifted(city, site.agent)))
            found.update(dict.fromkeys(materials.overlays.unknown_slots(site.agent, known)))
    return list(found)


def _unused_servers(city: City, agent: Agent) -> Iterator[Problem]:
    """Servers that one-shot runs would use only without any checks, which `[tools]` rules out."""
    provider = city.providers.get(agent.provider)
    mode = provider.text("mcp.needs_mode") if provider else ""
    if mode and restricted(agent):
        yield warning(
            "mcp-needs-mode",
            f"one-shot runs of `{agent.name}` do not use its MCP servers: `{agent.provider}` does "
            f'so only with permission_mode = "{mode}", and an agent with `[tools]` never has it',
            agent.setting("tools.allow").place or agent.setting("tools.deny").place,
            "give it another provider, or leave `[tools]` out",
        )


def _not_lifted(city: City, agent: Agent) -> Iterator[Problem]:
    """A mode without checks that a person wrote, and that the agent's scope rules out."""
    provider = city.providers.get(agent.provider)
    problem = mode_problem(provider, agent, HEADLESS) if provider else None
    if problem is not None and problem.place is not None:
        yield problem
