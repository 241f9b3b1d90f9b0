"""One precedence for overlays, skills, servers, fragments and HUD: the nearer to the agent wins."""

from collections.abc import Iterator
from dataclasses import dataclass

from gascity.model.city import Agent, City
from gascity.model.pack import Import, Pack

CITY_ORIGIN = "city"
AGENT_ORIGIN = "agent"


@dataclass(frozen=True, slots=True)
class Shelf:
    """A place that may hold catalogues: a pack's root or an agent's directory, as shown."""

    origin: str
    directory: str
    catalogues: frozenset[str]

    def path(self, kind: str) -> str:
        return kind if self.directory == "." else f"{self.directory}/{kind}"


def city_shelves(city: City, agent: Agent | None = None) -> list[Shelf]:
    """Shelves of the city and what it imports, lowest first, as far as they reach `agent`."""
    found = [shelf for one in city.pack.imports for shelf in _import_shelves(one, agent)]
    found.append(Shelf(CITY_ORIGIN, ".", city.pack.catalogues))
    return _last_of_each(found)


def agent_shelves(city: City, agent: Agent) -> list[Shelf]:
    """Every shelf an agent sees: imports, city, its rig's imports, its own directory."""
    found = city_shelves(city, agent)
    for binding, pack in city.rig_packs.get(agent.name.rig or "", ()):
        found += _pack_shelves(binding, pack)
    found.append(Shelf(AGENT_ORIGIN, agent.home.directory, agent.home.catalogues))
    return _last_of_each(found)


def _import_shelves(one: Import, agent: Agent | None) -> Iterator[Shelf]:
    """An import reaches everybody, unless `share = false` keeps it to its own agents."""
    shared = one.values.get("share", True)
    own = agent is not None and agent.name.binding == one.binding
    if one.pack is not None and (shared or own or agent is None):
        yield from _pack_shelves(one.binding, one.pack)


def _pack_shelves(binding: str, pack: Pack) -> Iterator[Shelf]:
    for one in pack.imports:
        if one.pack is not None:
            yield from _pack_shelves(binding, one.pack)
    yield Shelf(binding, pack.root, pack.catalogues)


def _last_of_each(shelves: list[Shelf]) -> list[Shelf]:
    """A pack reached twice counts where it is nearest."""
    found: dict[str, Shelf] = {}
    for shelf in shelves:
        found.pop(shelf.directory, None)
        found[shelf.directory] = shelf
    return list(found.values())
