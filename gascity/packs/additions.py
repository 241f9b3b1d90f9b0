"""Assets that each import of a city adds to agents of other packs."""

from collections.abc import Iterator
from typing import NamedTuple

from gascity.compose.asset_dirs import AssetDir, city_asset_dirs
from gascity.gotemplate import TemplateSet
from gascity.model.city import City
from gascity.model.pack import CATALOGUES, Import
from gascity.render.templates import TemplateFile, parse_fragment
from gascity.render.variables import functions
from gascity.source.catalogues import entry_names, read_fragments
from gascity.source.disk import Disk

_FRAGMENTS = "template-fragments"


class AddedEntry(NamedTuple):
    """A catalogue entry of an import that agents of other packs get."""

    kind: str
    name: str
    agents: list[str]


class ImportAdditions(NamedTuple):
    """Assets that one import provides to agents of other packs."""

    binding: str
    adds: list[AddedEntry]


def list_additions(city: City, disk: Disk) -> list[ImportAdditions]:
    """Return what each import of the city provides to agents of other packs."""
    return [
        ImportAdditions(each.binding, list(_additions(city, disk, each)))
        for each in city.pack.imports
        if each.pack is not None
    ]


def _additions(city: City, disk: Disk, imported: Import) -> Iterator[AddedEntry]:
    others = [
        str(agent.name)
        for agent in city.agents
        if agent.name.binding != imported.binding
        and any(asset_dir.origin == imported.binding for asset_dir in city_asset_dirs(city, agent))
    ]
    if not others:
        return
    for kind in CATALOGUES:
        winners: dict[str, str] = {}
        for asset_dir in city_asset_dirs(city):
            if kind in asset_dir.catalogues:
                names = _names(disk, asset_dir, kind)
                winners |= dict.fromkeys(names, asset_dir.origin)
        for name in sorted(name for name, origin in winners.items() if origin == imported.binding):
            yield AddedEntry(kind.removeprefix("template-"), name, others)


def _names(disk: Disk, asset_dir: AssetDir, kind: str) -> Iterator[str]:
    """Yield the names of a catalogue's entries.

    For fragments, these are the blocks that each file defines, and the file itself if it has text
    outside them.
    """
    if kind != _FRAGMENTS:
        yield from entry_names(disk, asset_dir.path(kind), kind)
        return
    for file, text in read_fragments(disk, asset_dir.path(kind)):
        template = parse_fragment(TemplateFile(file, text), functions(), [])
        if template is not None:
            yield from (name for name, part in TemplateSet([template]).items() if not part.blank)
