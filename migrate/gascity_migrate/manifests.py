"""Rewrites manifests in place: defaults, patches, fragments, references to agents."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from gascity.model.city import City
from gascity.model.document_text import line_end
from gascity.model.layers import CITY_DEFAULTS, PACK_DEFAULTS
from gascity.model.names import parse_name
from gascity.model.problems import KeyPath
from gascity.toml import positions, read
from gascity.toml.edit import literal, replace_value, set_fields, set_patch
from gascity.toml.rewrite import (
    add_lines,
    change_value,
    comments,
    cut_tables,
    remove_key,
    remove_tables,
    rename_key,
    rename_tables,
    replace_statement,
)
from gascity_migrate.draft import CITY, Draft, Manifest, PackFiles
from gascity_migrate.imports import NewImport
from gascity_migrate.names import Names, renamed_reference
from gascity_migrate.v1_tables import TranslatedAgent, lives_in_rig, translate

FRAGMENTS = "append_fragments"


def fragments_text(text: str, table: KeyPath, fragments: list[str]) -> str:
    """Write the fragments of an agent or patch as one `append_fragments` list."""
    names = ("inject_fragments", FRAGMENTS)
    marks = [mark for name in names if (mark := positions.value_mark(text, (*table, name)))]
    marks.sort(key=lambda mark: mark.start)
    for extra in reversed(marks[1:]):
        text = replace_statement(text, extra, ())
    if not marks:
        return set_fields(text, {FRAGMENTS: fragments}) if fragments and not table else text
    if _value(text, marks[0]) == fragments:
        return rename_key(text, marks[0].path, FRAGMENTS)
    return replace_statement(text, marks[0], [f"{FRAGMENTS} = {literal(fragments)}"])


def _value(text: str, mark: positions.Mark) -> object:
    return read.parse(f"value = {text[mark.value : mark.end]}".encode())["value"]


def pool_text(
    text: str, table: KeyPath, translated: TranslatedAgent, excluded: tuple[str, ...] = ()
) -> str:
    """Move the keys of `pool` to its table, at the same position, without those in `excluded`."""
    inside = {
        name: positions.value_mark(text, (*table, *spelled.split(".")))
        for name, spelled in translated.written.items()
        if spelled.startswith("pool.") and name not in excluded
    }
    values = {name: text[mark.value : mark.end] for name, mark in inside.items() if mark}
    lines = [f"{name} = {value}" for name, value in values.items()]
    pool = positions.value_mark(text, (*table, "pool"))
    if pool is not None:
        return replace_statement(text, pool, lines)
    rest, block = cut_tables(text, (*table, "pool"))
    if block:
        keys = {translated.written[name].removeprefix("pool."): name for name in values}
        return add_lines(rest, table, _unfolded(block, keys))
    for name, mark in reversed(inside.items()):
        text = rename_key(text, mark.path, name) if mark else text
    return text


def _unfolded(block: str, keys: Mapping[str, str]) -> list[str]:
    """Return the lines of a table without its header, with keys renamed and comments kept."""
    lines: list[str] = []
    after = 0
    for mark in (mark for _, inside in positions.sections(block) for mark in inside):
        lines += comments(block, after, mark.start)
        after = line_end(block, mark.end) if mark.path[-1] in keys else mark.end
        if mark.path[-1] in keys:
            value = block[mark.value : after].rstrip()
            lines.append(f"{keys[str(mark.path[-1])]} = {value}")
    return [*lines, *comments(block, after, len(block))]


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
        text = set_fields(remove_tables(manifest.text, ("agents",)), missing)
        manifest.change(text, _DEFAULTS)
        return
    text = rename_key(manifest.text, ("agents",), "agent_defaults")
    manifest.change(rename_tables(text, ("agents",), "agent_defaults"), _DEFAULTS)


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
    text = remove_key(manifest.text, ("workspace", "global_fragments"))
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
            text = remove_key(text, (*patch.at, *key.split(".")))
        if "pool" in patch.table:
            text = pool_text(text, patch.at, translated)
        own = translated.values.get(FRAGMENTS)
        if isinstance(own, list):  # an empty list removes inherited fragments
            listed = list(dict.fromkeys([*shared, *own])) if own else []
            text = fragments_text(text, patch.at, listed)
        if translated.written.get("append_fragments_append") == "inject_fragments_append":
            at = (*patch.at, "inject_fragments_append")
            text = rename_key(text, at, "append_fragments_append")
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
        pack.change(remove_key(pack.text, ("pack", "city_agents")), "each agent sets its scope")
    table = pack.raw.get("pack")
    if isinstance(table, Mapping) and table.get("schema") == 1:
        pack.change(change_value(pack.text, ("pack", "schema"), 2), "the pack uses schema 2")


_SETTINGS = ("depends_on.*", "agents_filter.allow.*", "agents_filter.deny.*")
_LAYERS = ("", "agent_defaults.", "patches.agent.*.", "rigs.*.patches.*.", "rigs.*.overrides.*.")
_SHAPES = {
    tuple(shape.split("."))
    for shape in (
        "patches.agent.*.name",
        "patches.agent.*.agent",
        "rigs.*.patches.*.agent",
        "rigs.*.patches.*.name",
        "rigs.*.overrides.*.agent",
        "rigs.*.overrides.*.name",
        "rigs.*.default_sling_target",
        "rigs.*.default_sling_targets.*",
        "named_session.*.template",
        *(layer + setting for layer in _LAYERS for setting in _SETTINGS),
    )
}
_DISPATCHER = "control-dispatcher"
_REASON = "use the new names of agents"


def rename_references(
    home: PackFiles, names: Names, bare: Mapping[str, str], rigs: Collection[str] | None = None
) -> None:
    """Update every reference to a renamed agent.

    `names` are the new names of the pack's agents; `bare` maps names of other agents that need
    their binding. `rigs` are the existing rigs, or None if they are not known.
    """
    for manifest in (*home.manifests, *home.folders):
        text = manifest.text
        document = read.parse(text.encode())
        for mark in reversed(positions.marks(text)):
            shape = tuple("*" if isinstance(part, int) else part for part in mark.path)
            value = _at(document, mark.path)
            if shape in _SHAPES and isinstance(value, str) and mark.kind != "part":
                rig = _rig_of(document, mark.path)
                new = renamed_reference(names, value, rig, rigs)
                new = bare.get(value, value) if new == value else new
                text = replace_value(text, mark, new) if new != value else text
        manifest.change(_without_places(text, document, names, rigs), _REASON)


def _at(value: Any, path: KeyPath) -> Any:
    for part in path:
        value = value[part]
    return value


def _rig_of(document: Mapping[str, Any], path: KeyPath) -> str:
    """Return the rig of the referring table: a bare name means the agent in that rig."""
    tables = [_at(document, path[:length]) for length in range(1, len(path))]
    for table in reversed(tables):
        if isinstance(table, Mapping) and isinstance(table.get("dir"), str):
            return str(table["dir"])
    if path[0] == "rigs":
        name = tables[1].get("name")
        return name if isinstance(name, str) else ""
    rigs = document.get("rigs") if path[0] in ("depends_on", "agents_filter") else None
    alone = isinstance(rigs, list) and len(rigs) == 1 and isinstance(rigs[0], str)
    return str(rigs[0]) if alone and rigs else ""


def _without_places(
    text: str, document: Mapping[str, Any], names: Names, rigs: Collection[str] | None
) -> str:
    """Drop `dir` from patches and sessions if it is not a rig: the new name is sufficient."""
    patches = document.get("patches")
    tables = [
        (("patches", "agent"), patches.get("agent") if isinstance(patches, Mapping) else None),
        (("named_session",), document.get("named_session")),
    ]
    for at, entries in tables:
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            home = entry.get("dir") if isinstance(entry, Mapping) else None
            if isinstance(home, str) and any(home == there for there, _ in names):
                if not lives_in_rig(home, rigs):
                    text = remove_key(text, (*at, index, "dir"))
    return text


def bound_names(city: City, bound: Iterable[NewImport]) -> dict[str, str]:
    """Map old to new names of agents of included packs: they now have a binding."""
    bindings = {(new_import.rig, new_import.binding) for new_import in bound}
    renamed: dict[str, str] = {}
    for agent in city.agents:
        rig, binding = agent.name.rig or "", agent.name.binding or ""
        if (rig, binding) in bindings or ("", binding) in bindings:
            renamed[str(agent.name._replace(binding=None))] = str(agent.name)
    own = {str(agent.name) for agent in city.agents if agent.name.binding is None}
    return {old: new for old, new in renamed.items() if old not in own}


def ambiguous_names(city: City, renamed: Mapping[str, str]) -> dict[str, str]:
    """Return the renamed agents whose name is ambiguous without the binding."""
    answers: dict[str, set[str]] = {}
    for agent in city.agents:
        answers.setdefault(agent.name.bare, set()).add(agent.name.without_rig)
    return {
        old: new
        for old, new in renamed.items()
        if "." in new and "." not in old and len(answers[parse_name(new).bare]) > 1
    }


def drop_dispatcher(draft: Draft, manifest: Manifest, known: Iterable[str]) -> None:
    """Remove the named session that v1 generated for its dispatcher, if it has no agent."""
    sessions = manifest.raw.get("named_session")
    if _DISPATCHER in known or not isinstance(sessions, list):
        return
    for index in reversed(range(len(sessions))):
        session = sessions[index]
        if isinstance(session, Mapping) and session.get("template") == _DISPATCHER:
            at: KeyPath = ("named_session", index)
            draft.record_not_carried(
                manifest, at, "generated by v1 for an agent that does not exist"
            )
            reason = "remove the session of v1's dispatcher"
            manifest.change(remove_tables(manifest.text, at), reason)
