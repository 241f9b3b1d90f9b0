"""Settings that hold for many agents: `[agents]`, fragments for all, and what patches say."""

from collections.abc import Mapping, Sequence

from gascity.model.city import City
from gascity.model.layers import CITY_DEFAULTS, PACK_DEFAULTS
from gascity.source import toml
from gascity.source.edit import set_fields, set_patch
from gascity_migrate.draft import CITY, Draft, Home, Manifest
from gascity_migrate.keys import translate
from gascity_migrate.texts import drop, drop_tables, rename_key, rename_tables
from gascity_migrate.words import FRAGMENTS, fragments_text, pool_text

_DEFAULTS = "[agents] is called [agent_defaults]"
_APPENDED = "fragments are appended in the order they had"


def rename_defaults(manifest: Manifest) -> None:
    """`[agents]` is called `[agent_defaults]`, whose own word counts where both say something."""
    older = manifest.first.defaults
    if older is None:
        return
    newer = manifest.raw.get("agent_defaults")
    if isinstance(newer, Mapping):
        missing = {f"agent_defaults.{k}": v for k, v in older.items() if k not in newer}
        text = set_fields(drop_tables(manifest.text, ("agents",)), missing)
        manifest.change(text, _DEFAULTS)
        return
    mark = toml.written(toml.marks(manifest.text), ("agents",))
    if mark is not None:
        manifest.change(rename_key(manifest.text, mark, "agent_defaults"), _DEFAULTS)
    else:
        text = rename_tables(
            manifest.text, lambda path: 0 if path[0] == "agents" else None, "agent_defaults"
        )
        manifest.change(text, _DEFAULTS)


# Fragments that every prompt of the city gets


def shared_fragments(home: Home) -> list[str]:
    """`global_fragments` of all the city's files, each once."""
    said = (one for manifest in home.manifests for one in manifest.first.global_fragments)
    return list(dict.fromkeys(said))


def share_fragments(manifest: Manifest) -> None:
    """`global_fragments` are the first of the defaults' fragments."""
    if ("workspace", "global_fragments") not in manifest.first.marks:
        return
    text = drop(manifest.text, ("workspace", "global_fragments"))
    table = toml.parse(text.encode()).get("agent_defaults")
    own = table.get(FRAGMENTS) if isinstance(table, Mapping) else None
    new = [*manifest.first.global_fragments, *(own if isinstance(own, list) else ())]
    if new:
        fragments = list(dict.fromkeys(new))
        text = set_fields(text, {f"agent_defaults.{FRAGMENTS}": fragments})
    manifest.change(text, _APPENDED)


def pack_has_fragments(home: Home) -> bool:
    """Do the pack's own defaults append fragments? They would come before the city's."""
    table = home.pack.raw.get("agent_defaults") if home.pack else None
    return isinstance(table, Mapping) and bool(table.get(FRAGMENTS))


def own_fragments(home: Home, shared: Sequence[str]) -> None:
    """Folders that are there: one list of fragments in each agent.toml, the shared ones first."""
    first = shared if home.is_city else ()
    for manifest in home.folders:
        own = translate(manifest.raw).values.get(FRAGMENTS)
        listed = own if isinstance(own, list) else []
        if "inject_fragments" in manifest.raw or (first and (listed or pack_has_fragments(home))):
            fragments = list(dict.fromkeys([*first, *listed]))
            manifest.change(fragments_text(manifest.text, (), fragments), _APPENDED)


def patch_imported(draft: Draft, city: City, shared: Sequence[str]) -> None:
    """Imported agents with fragments of their own get the shared ones before them by a patch."""
    manifest = next(one for one in draft.city.manifests if one.kind == CITY)
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
        for one in setting.chain():
            if one.kind in (PACK_DEFAULTS, CITY_DEFAULTS) and isinstance(one.value, tuple):
                inherited = one.value
                break
        own = [index for index, item in enumerate(listed) if item not in inherited]
        first = listed[: own[-1] + 1] if own else []
        fragments = list(dict.fromkeys([*shared, *first]))
        manifest.change(set_patch(manifest.text, name, {FRAGMENTS: fragments}), _APPENDED)


# Patches


def rewrite_patches(home: Home, manifest: Manifest, shared: Sequence[str]) -> None:
    """Pools, fragments and empty lists in patches, in today's words."""
    for patch in reversed(manifest.first.patches):
        today = translate(patch.table, patch=True)
        text = manifest.text
        for key in today.unset if home.has_marks else ():
            text = drop(text, (*patch.at, *key.split(".")))
        if "pool" in patch.table:
            text = pool_text(text, patch.at, today)
        own = today.values.get(FRAGMENTS)
        if isinstance(own, list):  # an empty one says something: there are none
            listed = list(dict.fromkeys([*shared, *own])) if own else []
            text = fragments_text(text, patch.at, listed)
        if today.written.get("append_fragments_append") == "inject_fragments_append":
            mark = toml.written(toml.marks(text), (*patch.at, "inject_fragments_append"))
            text = rename_key(text, mark, "append_fragments_append") if mark else text
        manifest.change(text, "patches in today's words")


def city_scopes(home: Home) -> Mapping[str, str]:
    """`city_agents` of pack.toml: scope by an agent's name; who is not named lives in rigs."""
    pack = home.pack
    if pack is None or pack.first.city_agents is None:
        return {}
    named = pack.first.city_agents
    return {one.name: "city" if one.name in named else "rig" for one in pack.first.agents}


def raise_schema(home: Home) -> None:
    """A pack of today's layout says so; `city_agents` is in its agents' `scope` now."""
    pack = home.pack
    if pack is None:
        return
    if pack.first.city_agents is not None:
        pack.change(drop(pack.text, ("pack", "city_agents")), "agents say their own scope")
    table = pack.raw.get("pack")
    mark = toml.written(toml.marks(pack.text), ("pack", "schema"))
    if mark is not None and isinstance(table, Mapping) and table.get("schema") == 1:
        text = pack.text[: mark.value] + "2" + pack.text[mark.end :]
        pack.change(text, "the layout is that of schema 2")
