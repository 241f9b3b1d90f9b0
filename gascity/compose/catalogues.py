"""One precedence for overlays, skills, servers, fragments and HUD: the nearer to the agent wins."""

from collections.abc import Iterator

from gascity.model.city import Agent, City
from gascity.model.pack import Import, Pack, downwards
from gascity.model.records import NamedTuple

BUILT_IN_ORIGIN = "built-in"
CITY_ORIGIN = "city"
AGENT_ORIGIN = "agent"


class Shelf(NamedTuple):
    """A place that may hold catalogues: a pack's root or an agent's directory, as shown.

    `itself` says that the directory is the one catalogue it has, whatever its name.
    """

    origin: str
    directory: str
    catalogues: frozenset[str]
    pack: str
    itself: bool = False

    def path(self, kind: str) -> str:
        if self.itself:
            return self.directory
        return kind if self.directory == "." else f"{self.directory}/{kind}"

    def is_own(self, agent: Agent) -> bool:
        """Can the city's people mend what is here? The city's own, and its agents' directories."""
        theirs = self.directory == agent.home.directory and agent.layer != "pack"
        return self.pack == "." or theirs


def city_shelves(city: City, agent: Agent | None = None) -> list[Shelf]:
    """Shelves of the city and what it imports, lowest first, as far as they reach `agent`."""
    found = [shelf for one in city.pack.imports for shelf in _import_shelves(one, agent)]
    found += _own_shelves(CITY_ORIGIN, city.pack)
    return _last_of_each(found)


def agent_shelves(city: City, agent: Agent) -> list[Shelf]:
    """Every shelf an agent sees: imports, city, its rig's imports, its own directory."""
    found = city_shelves(city, agent)
    for one in city.rig_imports.get(agent.name.rig or "", ()):
        found += _import_shelves(one, agent)
    found.append(Shelf(AGENT_ORIGIN, agent.home.directory, agent.home.catalogues, agent.home.pack))
    return _last_of_each(found)


def every_shelf(city: City) -> list[Shelf]:
    """All shelves but agents' own: the city's, then those of imports of any rig."""
    found = city_shelves(city)
    for imports in city.rig_imports.values():
        for one in imports:
            if one.pack is not None:
                found += _pack_shelves(one.binding, one.pack)
    return _last_of_each(found)


def _import_shelves(one: Import, agent: Agent | None) -> Iterator[Shelf]:
    """An import reaches everybody, unless `share = false` keeps it to its own agents."""
    shared = one.values.get("share", True)
    own = agent is not None and agent.name.binding == one.binding
    if one.pack is not None and (shared or own or agent is None):
        yield from _pack_shelves(one.binding, one.pack)


def _pack_shelves(binding: str, pack: Pack) -> Iterator[Shelf]:
    for one in reversed([*downwards(pack)]):
        yield from _own_shelves(binding, one)


def _own_shelves(origin: str, pack: Pack) -> Iterator[Shelf]:
    for kind, directory in pack.shelves:
        yield Shelf(origin, directory, frozenset((kind,)), pack.root, itself=True)
    yield Shelf(origin, pack.root, pack.catalogues, pack.root)


def _last_of_each(shelves: list[Shelf]) -> list[Shelf]:
    """A pack reached twice counts where it is nearest."""
    found: dict[str, Shelf] = {}
    for shelf in shelves:
        found.pop(shelf.directory, None)
        found[shelf.directory] = shelf
    return list(found.values())


def lenient_packs(city: City) -> frozenset[str]:
    """Roots of packs whose templates may name what nothing defines.

    A city is strict with its own files and lenient with those it imports, unless a pack or the
    import says otherwise.
    """
    found = {city.pack.root} if city.pack.templates == "lenient" else set()
    todo = [*city.pack.imports, *(one for imports in city.rig_imports.values() for one in imports)]
    done: set[str] = set()
    while todo:
        one = todo.pop()
        if one.pack is None or one.pack.root in done:
            continue
        done.add(one.pack.root)
        todo += one.pack.imports
        if (one.values.get("templates") or one.pack.templates or "lenient") == "lenient":
            found.add(one.pack.root)
    return frozenset(found)
