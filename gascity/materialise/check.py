"""What can be said of working directories without looking at any."""

from gascity.materialise.claims import Materials, gather
from gascity.model.city import City
from gascity.model.problems import Problem
from gascity.prompts import Machine, Prompts
from gascity.providers.registry import provider_files
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
            found.update(dict.fromkeys(materials.overlays.unknown_slots(site.agent, known)))
    return list(found)
