"""Reads provider files and tables, and the implicit agents of providers."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from gascity.model.layers import DEFINITION, Layer
from gascity.model.names import parse_name
from gascity.model.pack import AgentDir, Pack, Sources, downwards
from gascity.model.values import as_texts
from gascity.source.agents import read_agent, read_table
from gascity.source.decode import decode_provider
from gascity.source.disk import Disk
from gascity.source.manifest import Manifest


class ExternalPaths(NamedTuple):
    """Paths outside the city that also define it."""

    user_agents: str
    system_agents: str
    builtin_packs: str
    provider_files: Mapping[str, str]
    looked: Sequence[str] = ()
    cache: str = ""


def read_provider(disk: Disk, path: str, within: str | None = None) -> Layer | None:
    """Read a provider file as a layer; problems are recorded on the disk."""
    raw = read_table(disk, path, within=within)
    if raw is None:
        return None
    file = disk.shown(path)
    decoded = decode_provider(raw, file, shipped=within is None)
    disk.problems += decoded.problems
    return decoded.layer("city" if within else "built-in", file)


def providers_of(manifests: Sequence[Manifest], pack: Pack) -> dict[str, tuple[Layer, ...]]:
    """Return the city's own provider files and tables, highest precedence last."""
    layers = dict(pack.providers)
    for manifest in manifests:
        for name, layer in manifest.providers.items():
            layers[name] = (*layers.get(name, ()), layer)
    return layers


def system_agents(
    disk: Disk, around: ExternalPaths, providers: Mapping[str, tuple[Layer, ...]], wanted: set[str]
) -> dict[str, AgentDir]:
    """Read the implicit agents by provider: those that `init` wrote, else the shipped ones."""
    agents = {}
    for name in sorted(wanted):
        bases = [
            str(layer.values["base"]) for layer in providers.get(name, ()) if "base" in layer.values
        ]
        family = (bases[-1].rpartition(":")[2] if bases else "") or name
        for home, directory in (
            (f"{disk.root}/.gc/system/agents", name),
            (around.system_agents, name),
            (around.system_agents, family),
            (around.system_agents, "_default"),
        ):
            if disk.is_directory(f"{home}/{directory}"):
                agent = read_agent(disk, f"{home}/{directory}", name, home, own=True)
                if agent is not None:
                    agents[name] = agent
                    break
    return agents


def implicit_names(
    around: ExternalPaths,
    manifests: Sequence[Manifest],
    providers: Mapping[str, tuple[Layer, ...]],
    only: str | None,
) -> set[str]:
    """Return the providers whose implicit agent this load may need."""
    known = {*around.provider_files, *providers}
    if only is not None:
        return {only} & known
    names = {"shell", *providers}
    for manifest in manifests:
        names.update(as_texts(manifest.implicit) or ())
        if "workspace" in manifest.layers:
            names.add(str(manifest.layers["workspace"].values.get("provider", "")))
        patches = [*manifest.patches, *(p for rig in manifest.rigs for p in rig.patches)]
        names |= {parse_name(patch.target).bare for patch in patches}
    return names & known


def stock(
    disk: Disk, around: ExternalPaths, sources: Sources, named: Collection[str]
) -> dict[str, Layer]:
    """Read the shipped providers that this city may need, and those named by the caller."""
    for directory in around.looked:
        disk.exists(directory)
    layers: dict[str, Layer] = {}
    for name in sorted(_mentioned(sources).union(named) & around.provider_files.keys()):
        layer = read_provider(disk, around.provider_files[name])
        if layer is not None:
            layers[name] = layer
    return layers


def _mentioned(sources: Sources) -> set[str]:
    """Return the provider names in the city's files, and agent names, which may be providers."""
    names = {"claude", "shell", *sources.providers}
    names.update(as_texts(sources.implicit) or ())
    rigs = (imported.pack for rig in sources.rigs for imported in rig.imports)
    packs = list(downwards(sources.pack, *rigs))
    agents = [a for pack in packs for a in pack.agents] + [*sources.user, *sources.local]
    layers: list[Layer] = [*sources.workspace, *sources.defaults]
    layers += [layer for agent in agents for layer in agent.layers if layer.kind == DEFINITION]
    layers += [pack.defaults for pack in packs if pack.defaults]
    patches = [*sources.patches, *sources.local_patches]
    patches += [p for pack in packs for p in pack.patches]
    patches += [p for rig in sources.rigs for p in rig.patches]
    layers += [patch.layer for patch in patches]
    names |= {str(layer.values["provider"]) for layer in layers if "provider" in layer.values}
    names |= {agent.name for agent in agents}
    if sources.only is not None:
        names.add(sources.only)
    tables = [*sources.providers.values(), *(t for p in packs for t in p.providers.values())]
    bases = {str(layer.values.get("base", "")) for table in tables for layer in table}
    return names | {base.rpartition(":")[2] for base in bases}
