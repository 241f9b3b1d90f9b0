"""Directories whose assets an agent gets, lowest precedence first.

Assets are overlays, skills, MCP servers, prompt fragments and HUD files. The same order decides
for all of them: of two assets with the same name, the one nearer to the agent wins.
"""

from collections.abc import Iterator
from typing import NamedTuple

from gascity.model.city import Agent, City
from gascity.model.pack import Import, Pack, downwards
from gascity.model.problems import NOT_ACCEPTED, Problem

BUILT_IN_ORIGIN = "built-in"
CITY_ORIGIN = "city"
AGENT_ORIGIN = "agent"

# Catalogues that are used although the user has not accepted the pack: prompts need the fragments
# and HUD sections that they name, and no program reads those. Commands of HUD sections do not run.
_TEXTS = frozenset(("template-fragments", "hud"))


class AssetDir(NamedTuple):
    """A directory with asset catalogues such as `skills/`: a pack's root or an agent's directory.

    `directory` and `pack` are paths as shown to users. With `itself`, the directory is itself the
    one catalogue it has, whatever its name.
    """

    origin: str
    directory: str
    catalogues: frozenset[str]
    pack: str
    itself: bool = False

    def path(self, kind: str) -> str:
        """Return the path of one catalogue, such as `skills`."""
        if self.itself:
            return self.directory
        return kind if self.directory == "." else f"{self.directory}/{kind}"

    def is_own(self, agent: Agent) -> bool:
        """Return whether the files belong to the city, not to an imported pack."""
        own_home = self.directory == agent.home.directory and agent.layer != "pack"
        return self.pack == "." or own_home


def city_asset_dirs(city: City, agent: Agent | None = None) -> list[AssetDir]:
    """Return the directories of the city and its imports that reach `agent`, or all of them."""
    directories = [
        directory
        for imported in city.pack.imports
        for directory in _import_asset_dirs(imported, agent)
    ]
    directories += _own_asset_dirs(CITY_ORIGIN, city.pack)
    return _nearest(directories)


def agent_asset_dirs(city: City, agent: Agent) -> list[AssetDir]:
    """Return all directories of an agent: imports, city, its rig's imports, its own directory."""
    directories = city_asset_dirs(city, agent)
    for imported in city.rig_imports.get(agent.name.rig or "", ()):
        directories += _import_asset_dirs(imported, agent)
    home = agent.home
    catalogues = home.catalogues if agent.accepted else home.catalogues & _TEXTS
    directories.append(AssetDir(AGENT_ORIGIN, home.directory, catalogues, home.pack))
    return _nearest(directories)


def all_asset_dirs(city: City) -> list[AssetDir]:
    """Return all directories except those of agents: the city's, then those rigs import."""
    directories = city_asset_dirs(city)
    for imports in city.rig_imports.values():
        for imported in imports:
            directories += _import_asset_dirs(imported, None)
    return _nearest(directories)


def _import_asset_dirs(imported: Import, agent: Agent | None) -> Iterator[AssetDir]:
    """Yield the directories of an import; `share = false` limits them to the import's agents."""
    own = agent is None or agent.name.binding == imported.binding
    if imported.pack is not None and (imported.settings.share or own):
        for pack in reversed([*downwards(imported.pack)]):
            yield from _own_asset_dirs(imported.binding, pack)


def _own_asset_dirs(origin: str, pack: Pack) -> Iterator[AssetDir]:
    if not pack.accepted:
        yield AssetDir(origin, pack.root, pack.catalogues & _TEXTS, pack.root)
        return
    for kind, directory in pack.extra_asset_dirs:
        yield AssetDir(origin, directory, frozenset((kind,)), pack.root, itself=True)
    yield AssetDir(origin, pack.root, pack.catalogues, pack.root)


def _nearest(directories: list[AssetDir]) -> list[AssetDir]:
    """Keep the last of each directory: a pack imported twice counts where it is nearest."""
    nearest: dict[str, AssetDir] = {}
    for asset_dir in directories:
        nearest.pop(asset_dir.directory, None)
        nearest[asset_dir.directory] = asset_dir
    return list(nearest.values())


def left_out(city: City, agent: Agent) -> list[Problem]:
    """Return why an agent does not get the assets of packs that the user has not accepted."""
    imports = [*city.pack.imports, *city.rig_imports.get(agent.name.rig or "", ())]
    places = {
        imported.place
        for imported in imports
        if (imported.settings.share or agent.name.binding == imported.binding)
        and any(not pack.accepted for pack in downwards(imported.pack))
    }
    if not places:
        return []
    return [p for p in city.problems if p.code == NOT_ACCEPTED and p.place in places]


def lenient_packs(city: City) -> frozenset[str]:
    """Return the roots of packs whose templates may use undefined names.

    A city is strict with its own files and lenient with imported ones, unless a pack or the
    import says otherwise.
    """
    lenient = {city.pack.root} if city.pack.templates == "lenient" else set()
    todo = [*city.pack.imports]
    todo += [imported for imports in city.rig_imports.values() for imported in imports]
    done: set[str] = set()
    while todo:
        imported = todo.pop()
        pack = imported.pack
        if pack is None or pack.root in done:
            continue
        done.add(pack.root)
        todo += pack.imports
        if (imported.settings.templates or pack.templates or "lenient") == "lenient":
            lenient.add(pack.root)
    return frozenset(lenient)
