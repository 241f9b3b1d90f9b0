"""Rewrites manifests in place: defaults, patches, fragments, references to agents."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gascity.model.city import City
from gascity.model.document_text import line_end
from gascity.model.layers import CITY_DEFAULTS, PACK_DEFAULTS
from gascity.model.names import parse_name
from gascity.model.problems import KeyPath
from gascity.toml import positions, read
from gascity.toml.edit import literal, replace_value, set_fields, set_patch, value_at
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
from gascity_migrate.draft import Draft, Manifest, PackFiles
from gascity_migrate.imports import NewImport
from gascity_migrate.names import Names, renamed_reference
from gascity_migrate.v1_tables import (
    FRAGMENTS,
    TranslatedAgent,
    list_at,
    lives_in_rig,
    table_at,
    tables_at,
    text_at,
    texts_at,
    translate,
    unique,
)

_DEFAULTS = "[agents] is now [agent_defaults]"
_APPENDED = "keep the order of appended fragments"


# Keys of an agent or patch, at `table` in the text


def fragments_text(text: str, table: KeyPath, fragments: Sequence[object]) -> str:
    """Write the fragments of an agent or patch as one `append_fragments` list."""
    names = ("inject_fragments", FRAGMENTS)
    marks = [mark for name in names if (mark := positions.value_mark(text, (*table, name)))]
    marks.sort(key=lambda mark: mark.start)
    for extra in reversed(marks[1:]):
        text = replace_statement(text, extra, ())
    if not marks:
        return set_fields(text, {FRAGMENTS: fragments}) if fragments and not table else text
    if value_at(read.parse(text.encode()), marks[0].path) == fragments:
        return rename_key(text, marks[0].path, FRAGMENTS)
    return replace_statement(text, marks[0], [f"{FRAGMENTS} = {literal(fragments)}"])


def pool_text(
    text: str, table: KeyPath, translated: TranslatedAgent, excluded: tuple[str, ...] = ()
) -> str:
    """Move the keys of `pool` to its table, at the same position, without those in `excluded`."""
    inside = {
        name: mark
        for name, spelled in translated.written.items()
        if spelled.startswith("pool.") and name not in excluded
        if (mark := positions.value_mark(text, (*table, *translated.path(name))))
    }
    pool = positions.value_mark(text, (*table, "pool"))
    if pool is not None:
        lines = [f"{name} = {text[mark.value : mark.end]}" for name, mark in inside.items()]
        return replace_statement(text, pool, lines)
    rest, block = cut_tables(text, (*table, "pool"))
    if block:
        keys = {translated.path(name)[-1]: name for name in inside}
        return add_lines(rest, table, list(_unfolded(block, keys)))
    for name, mark in reversed(inside.items()):
        text = rename_key(text, mark.path, name)
    return text


def _unfolded(block: str, keys: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a table without its header, with keys renamed and comments kept."""
    after = 0
    for mark in (mark for section in positions.sections(block) for mark in section.keys):
        yield from comments(block, after, mark.start)
        after = mark.end
        if (key := str(mark.path[-1])) in keys:
            after = line_end(block, mark.end)
            yield f"{keys[key]} = {block[mark.value : after].rstrip()}"
    yield from comments(block, after, len(block))


# Defaults


def rename_defaults(manifest: Manifest) -> None:
    """Rename `[agents]` to `[agent_defaults]`; an existing `[agent_defaults]` takes precedence."""
    v1_defaults = manifest.v1.defaults
    if v1_defaults is None:
        return
    if "agent_defaults" in manifest.raw:
        known = table_at(manifest.raw, "agent_defaults")
        missing = {f"agent_defaults.{k}": v for k, v in v1_defaults.items() if k not in known}
        text = set_fields(remove_tables(manifest.text, ("agents",)), missing)
    else:
        text = rename_key(manifest.text, ("agents",), "agent_defaults")
        text = rename_tables(text, ("agents",), "agent_defaults")
    manifest.change(text, _DEFAULTS)


def raise_schema(home: PackFiles) -> None:
    """Set `schema = 2` and remove `city_agents`, which the agents' `scope` replaces."""
    pack = home.pack
    if pack is not None and pack.v1.city_agents is not None:
        pack.change(remove_key(pack.text, ("pack", "city_agents")), "each agent sets its scope")
    if pack is not None and home.is_schema_1:
        pack.change(change_value(pack.text, ("pack", "schema"), 2), "the pack uses schema 2")


def city_scopes(home: PackFiles) -> Mapping[str, str]:
    """Return scopes by agent name from `city_agents`; agents not listed have scope "rig"."""
    pack = home.pack
    if pack is None or pack.v1.city_agents is None:
        return {}
    city_agents = pack.v1.city_agents
    return {agent.name: "city" if agent.name in city_agents else "rig" for agent in pack.v1.agents}


# Fragments for every prompt of the city


def shared_fragments(home: PackFiles) -> list[str]:
    """Return `global_fragments` of all the city's manifests, without duplicates."""
    lists = (manifest.v1.global_fragments for manifest in home.manifests)
    return list(dict.fromkeys(fragment for fragments in lists for fragment in fragments))


def share_fragments(manifest: Manifest) -> None:
    """Move `global_fragments` to the start of the defaults' fragments."""
    if ("workspace", "global_fragments") not in manifest.v1.marks:
        return
    text = remove_key(manifest.text, ("workspace", "global_fragments"))
    own = list_at(read.parse(text.encode()), "agent_defaults", FRAGMENTS)
    fragments = unique((*manifest.v1.global_fragments, *own))
    if fragments:
        text = set_fields(text, {f"agent_defaults.{FRAGMENTS}": fragments})
    manifest.change(text, _APPENDED)


def pack_has_fragments(home: PackFiles) -> bool:
    """Return whether the pack's defaults append fragments, which come before the city's."""
    return home.pack is not None and bool(table_at(home.pack.raw, "agent_defaults").get(FRAGMENTS))


def own_fragments(home: PackFiles, shared: Sequence[str]) -> None:
    """Merge the fragments in existing agent.toml files into one list, shared ones first."""
    first = shared if home.is_city else ()
    for manifest in home.agent_files:
        listed = translate(manifest.raw).fragments
        if "inject_fragments" in manifest.raw or (first and (listed or pack_has_fragments(home))):
            text = fragments_text(manifest.text, (), unique((*first, *listed)))
            manifest.change(text, _APPENDED)


def patch_imported(draft: Draft, city: City, shared: Sequence[str]) -> None:
    """Patch imported agents with fragments of their own, to put the shared ones first."""
    done = set()
    for agent in city.agents if shared else ():
        name = agent.name.without_rig
        setting = agent.setting(FRAGMENTS)
        listed = agent.settings.append_fragments
        if agent.name.binding is None or name in done or not listed:
            continue
        if tuple(dict.fromkeys((*shared, *listed))) == listed:
            continue
        done.add(name)
        defaults = (PACK_DEFAULTS, CITY_DEFAULTS)
        layers = (layer.value for layer in setting.chain() if layer.kind in defaults)
        known = next((value for value in layers if isinstance(value, tuple)), ())
        own = [index for index, item in enumerate(listed) if item not in known]
        first = listed[: own[-1] + 1] if own else ()
        fragments = list(dict.fromkeys((*shared, *first)))
        text = set_patch(draft.city_toml.text, name, {FRAGMENTS: fragments})
        draft.city_toml.change(text, _APPENDED)


# Patches


def rewrite_patches(manifest: Manifest, shared: Sequence[str]) -> None:
    """Convert pools, fragments and empty lists in patches to current keys."""
    for patch in reversed(manifest.v1.patches):
        translated = translate(patch.table, patch=True)
        text = manifest.text
        for key in translated.unset if manifest.home.has_marks else ():
            text = remove_key(text, (*patch.at, *key.split(".")))
        if "pool" in patch.table:
            text = pool_text(text, patch.at, translated)
        if isinstance(translated.values.get(FRAGMENTS), list):
            own = translated.fragments
            # An empty list removes inherited fragments.
            text = fragments_text(text, patch.at, unique((*shared, *own)) if own else [])
        if translated.written.get("append_fragments_append") == "inject_fragments_append":
            at = (*patch.at, "inject_fragments_append")
            text = rename_key(text, at, "append_fragments_append")
        manifest.change(text, "rename keys of patches")


# References to agents

_SETTINGS = ("depends_on.*", "agents_filter.allow.*", "agents_filter.deny.*")
_LAYERS = ("", "agent_defaults.", "patches.agent.*.", "rigs.*.patches.*.", "rigs.*.overrides.*.")
_SHAPES = {
    tuple(shape.split("."))
    for shape in (
        *(layer + key for layer in _LAYERS[2:] for key in ("name", "agent")),
        "rigs.*.default_sling_target",
        "rigs.*.default_sling_targets.*",
        "named_session.*.template",
        *(layer + setting for layer in _LAYERS for setting in _SETTINGS),
    )
}
_DISPATCHER = "control-dispatcher"


def rename_references(
    home: PackFiles, names: Names, bare: Mapping[str, str], rigs: Collection[str] | None = None
) -> None:
    """Update every reference to a renamed agent.

    `names` are the new names of the pack's agents; `bare` maps names of other agents that need
    their binding. `rigs` are the existing rigs, or None if they are not known.
    """
    for manifest in (*home.manifests, *home.agent_files):
        text = manifest.text
        document = read.parse(text.encode())
        for mark in reversed(positions.marks(text)):
            shape = tuple("*" if isinstance(part, int) else part for part in mark.path)
            value = value_at(document, mark.path) if shape in _SHAPES else None
            if isinstance(value, str) and mark.kind != "part":
                new = renamed_reference(names, value, _rig_of(document, mark.path), rigs)
                new = bare.get(value, value) if new == value else new
                text = replace_value(text, mark, new) if new != value else text
        manifest.change(_without_dirs(text, names, rigs), "use the new names of agents")


def _rig_of(document: Mapping[str, object], path: KeyPath) -> str:
    """Return the rig of the referring table: a bare name means the agent in that rig."""
    for length in range(len(path) - 1, 0, -1):
        table = table_at(value_at(document, path[:length]))
        if isinstance(table.get("dir"), str):
            return text_at(table, "dir")
    if path[0] == "rigs":
        return text_at(value_at(document, path[:2]), "name")
    rigs = list_at(document, "rigs") if path[0] in ("depends_on", "agents_filter") else []
    return "".join(texts_at(document, "rigs")) if len(rigs) == 1 else ""


def _without_dirs(text: str, names: Names, rigs: Collection[str] | None) -> str:
    """Drop `dir` from patches and sessions if it is not a rig: the new name is sufficient."""
    known = {directory for directory, _ in names}
    document = read.parse(text.encode())
    for at in (("patches", "agent"), ("named_session",)):
        for index, table in tables_at(document, *at):
            directory = table.get("dir")
            if isinstance(directory, str) and directory in known:
                if not lives_in_rig(directory, rigs):
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
    if _DISPATCHER in known:
        return
    for index, session in reversed(tables_at(manifest.raw, "named_session")):
        if session.get("template") == _DISPATCHER:
            at: KeyPath = ("named_session", index)
            reason = "generated by v1 for an agent that does not exist"
            draft.record_not_carried(manifest, at, reason)
            text = remove_tables(manifest.text, at)
            manifest.change(text, "remove the session of v1's dispatcher")
