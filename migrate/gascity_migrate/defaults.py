"""Converts settings for many agents: `[agents]`, fragments for all, and patches."""

from collections.abc import Mapping, Sequence

from gascity.model.city import City
from gascity.model.layers import CITY_DEFAULTS, PACK_DEFAULTS
from gascity.toml import positions, read
from gascity.toml.edit import set_fields, set_patch
from gascity_migrate.draft import CITY, Draft, Manifest, PackFiles
from gascity_migrate.keys import translate
from gascity_migrate.renamed_keys import FRAGMENTS, fragments_text, pool_text
from gascity_migrate.toml_text import drop, drop_tables, rename_key, rename_tables

_DEFAULTS = "[agents] is now [agent_defaults]"
_APPENDED = "keep the order of appended fragments"


def rename_defaults(manifest: Manifest) -> None:
    """Rename `[agents]` to `[agent_defaults]`; an existing `[agent_defaults]` takes precedence."""
    v1_defaults = manifest.v1.defaults
    if v1_defaults is None:
        return
    defaults = manifest.raw.get("agent_defaults")
    if isinstance(defaults, Mapping):
        missing = {f"agent_defaults.{k}": v for k, v in v1_defaults.items() if k not in defaults}
        text = set_fields(drop_tables(manifest.text, ("agents",)), missing)
        manifest.change(text, _DEFAULTS)
        return
    mark = positions.value_mark(manifest.text, ("agents",))
    if mark is not None:
        manifest.change(rename_key(manifest.text, mark, "agent_defaults"), _DEFAULTS)
    else:
        text = rename_tables(
            manifest.text, lambda path: 0 if path[0] == "agents" else None, "agent_defaults"
        )
        manifest.change(text, _DEFAULTS)


# Fragments for every prompt of the city


def shared_fragments(home: PackFiles) -> list[str]:
    """Return `global_fragments` of all the city's manifests, without duplicates."""
    fragments = (
        fragment for manifest in home.manifests for fragment in manifest.v1.global_fragments
    )
    return list(dict.fromkeys(fragments))


def share_fragments(manifest: Manifest) -> None:
    """Move `global_fragments` to the start of the defaults' fragments."""
    if ("workspace", "global_fragments") not in manifest.v1.marks:
        return
    text = drop(manifest.text, ("workspace", "global_fragments"))
    table = read.parse(text.encode()).get("agent_defaults")
    own = table.get(FRAGMENTS) if isinstance(table, Mapping) else None
    new = [*manifest.v1.global_fragments, *(own if isinstance(own, list) else ())]
    if new:
        fragments = list(dict.fromkeys(new))
        text = set_fields(text, {f"agent_defaults.{FRAGMENTS}": fragments})
    manifest.change(text, _APPENDED)


def pack_has_fragments(home: PackFiles) -> bool:
    """Return whether the pack's defaults append fragments, which come before the city's."""
    table = home.pack.raw.get("agent_defaults") if home.pack else None
    return isinstance(table, Mapping) and bool(table.get(FRAGMENTS))


def own_fragments(home: PackFiles, shared: Sequence[str]) -> None:
    """Merge the fragments in existing agent.toml files into one list, shared ones first."""
    first = shared if home.is_city else ()
    for manifest in home.folders:
        own = translate(manifest.raw).values.get(FRAGMENTS)
        listed = own if isinstance(own, list) else []
        if "inject_fragments" in manifest.raw or (first and (listed or pack_has_fragments(home))):
            fragments = list(dict.fromkeys([*first, *listed]))
            manifest.change(fragments_text(manifest.text, (), fragments), _APPENDED)


def patch_imported(draft: Draft, city: City, shared: Sequence[str]) -> None:
    """Patch imported agents with fragments of their own, to put the shared ones first."""
    manifest = next(layer for layer in draft.city.manifests if layer.kind == CITY)
    done = set()
    for agent in city.agents:
        name = agent.name.without_rig
        if not shared or agent.name.binding is None or name in done:
            continue
        setting = agent.setting(FRAGMENTS)
        listed = list(setting.value) if isinstance(setting.value, tuple) else []
        if not listed or list(dict.fromkeys([*shared, *listed])) == listed:
            continue
        done.add(name)
        inherited: tuple[object, ...] = ()
        for layer in setting.chain():
            if layer.kind in (PACK_DEFAULTS, CITY_DEFAULTS) and isinstance(layer.value, tuple):
                inherited = layer.value
                break
        own = [index for index, item in enumerate(listed) if item not in inherited]
        first = listed[: own[-1] + 1] if own else []
        fragments = list(dict.fromkeys([*shared, *first]))
        manifest.change(set_patch(manifest.text, name, {FRAGMENTS: fragments}), _APPENDED)


# Patches


def rewrite_patches(home: PackFiles, manifest: Manifest, shared: Sequence[str]) -> None:
    """Convert pools, fragments and empty lists in patches to current keys."""
    for patch in reversed(manifest.v1.patches):
        translated = translate(patch.table, patch=True)
        text = manifest.text
        for key in translated.unset if home.has_marks else ():
            text = drop(text, (*patch.at, *key.split(".")))
        if "pool" in patch.table:
            text = pool_text(text, patch.at, translated)
        own = translated.values.get(FRAGMENTS)
        if isinstance(own, list):  # an empty list removes inherited fragments
            listed = list(dict.fromkeys([*shared, *own])) if own else []
            text = fragments_text(text, patch.at, listed)
        if translated.written.get("append_fragments_append") == "inject_fragments_append":
            mark = positions.value_mark(text, (*patch.at, "inject_fragments_append"))
            text = rename_key(text, mark, "append_fragments_append") if mark else text
        manifest.change(text, "rename keys of patches")


def city_scopes(home: PackFiles) -> Mapping[str, str]:
    """Return scopes by agent name from `city_agents`; agents not listed have scope "rig"."""
    pack = home.pack
    if pack is None or pack.v1.city_agents is None:
        return {}
    city_agents = pack.v1.city_agents
    return {agent.name: "city" if agent.name in city_agents else "rig" for agent in pack.v1.agents}


def raise_schema(home: PackFiles) -> None:
    """Set `schema = 2` and remove `city_agents`, which the agents' `scope` replaces."""
    pack = home.pack
    if pack is None:
        return
    if pack.v1.city_agents is not None:
        pack.change(drop(pack.text, ("pack", "city_agents")), "each agent sets its scope")
    table = pack.raw.get("pack")
    mark = positions.value_mark(pack.text, ("pack", "schema"))
    if mark is not None and isinstance(table, Mapping) and table.get("schema") == 1:
        text = pack.text[: mark.value] + "2" + pack.text[mark.end :]
        pack.change(text, "the pack uses schema 2")
