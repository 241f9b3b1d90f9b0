"""Plans the migration of a v1 city; writes nothing."""

import os
from collections.abc import Iterator, Mapping, Sequence

from gascity.model.city import City
from gascity.model.problems import CityError, KeyPath
from gascity.model.tables import (
    AGENT_NOT_ACTED_ON,
    CITY_NOT_ACTED_ON,
    NOT_ACTED_ON,
    PATCHES_NOT_ACTED_ON,
)
from gascity.pipeline import open_city
from gascity_migrate.agents import AgentFolder, SharedSettings, take_agents, write_agents
from gascity_migrate.draft import Draft, Migration, PackFiles, disk_of, drop_emptied, read_manifests
from gascity_migrate.entries import move_entries
from gascity_migrate.files import EDIT, REMOVE, WRITE, Change, follow_links, mentions, walk
from gascity_migrate.imports import bind_includes
from gascity_migrate.manifests import (
    ambiguous_names,
    bound_names,
    city_scopes,
    drop_dispatcher,
    own_fragments,
    pack_has_fragments,
    patch_imported,
    raise_schema,
    rename_defaults,
    rename_references,
    rewrite_patches,
    share_fragments,
    shared_fragments,
)
from gascity_migrate.names import Names
from gascity_migrate.paths import move_shared_dirs, note_uses, rewrite_paths
from gascity_migrate.rigs import move_paths, rename_overrides
from gascity_migrate.v1_tables import INCLUDES, table_at, tables_at


def plan_migration(root: str, environ: Mapping[str, str]) -> Migration:
    """Return the changes that convert a v1 city; none if the city has no v1 parts.

    If a problem is an error, return only the problems and no changes.
    """
    draft = Draft(os.path.abspath(root))
    read_manifests(draft)
    if draft.problems:
        return Migration(problems=tuple(draft.problems))
    note_uses(draft)
    shared = shared_fragments(draft.city)
    folders: list[AgentFolder] = []
    names: list[Names] = []
    for home in draft.homes:
        pack_folders, pack_names = take_agents(draft, home, _shared_settings(home, shared))
        folders += pack_folders
        names.append(pack_names)
        move_shared_dirs(draft, home)
        move_entries(draft, home)
    draft.folders = [folder.path for folder in folders]
    write_agents(draft, folders)
    _rewrite_manifests(draft, shared, names, _load_original(draft.root, environ))
    return _build_migration(draft, shared)


def _load_original(root: str, environ: Mapping[str, str]) -> City | None:
    """Load the city before migration, for its imports and agent names; None if it is invalid."""
    try:
        return open_city(root, environ, disk=disk_of(root), dialects=True)
    except CityError:
        return None


def _shared_settings(home: PackFiles, shared: Sequence[str]) -> SharedSettings:
    fragments = shared if home.is_city else ()
    return SharedSettings(
        fragments, bool(fragments) and pack_has_fragments(home), city_scopes(home)
    )


def _rewrite_manifests(
    draft: Draft, shared: list[str], names: list[Names], before: City | None
) -> None:
    """Rewrite the other parts of the manifests in place: imports, patches, references, rigs."""
    for home in draft.homes:
        for manifest in home.manifests:
            rewrite_paths(draft, manifest)
            rewrite_patches(manifest, shared if home.is_city else ())
            rename_overrides(draft, manifest)
        own_fragments(home, shared)
    bound = bind_includes(draft)
    renamed = bound_names(before, bound) if before else {}
    draft.renamed |= renamed
    bindings = ambiguous_names(before, renamed) if before else {}
    existing = {agent.name.bare for agent in before.agents} if before else set()
    for home, pack_names in zip(draft.homes, names, strict=True):
        rigs = draft.rigs if home.is_city else None
        rename_references(home, pack_names, bindings if home.is_city else {}, rigs)
        for manifest in home.manifests:
            rename_defaults(manifest)
            share_fragments(manifest)
            drop_dispatcher(draft, manifest, existing.union(name for _, name in pack_names))
        raise_schema(home)
    if before is not None:
        patch_imported(draft, before, shared)
    move_paths(draft)
    drop_emptied(draft)


def _build_migration(draft: Draft, shared: list[str]) -> Migration:
    placed = draft.files.plan_changes(draft.absolute(home.root) for home in draft.homes)
    problems = (*draft.problems, *draft.files.problems)
    if problems:
        return Migration(problems=problems)
    changes, moved = [*_edits(draft), *placed], draft.files.moved
    if not changes:
        return Migration(notes=tuple(draft.outside))
    links, files = walk(draft.root)
    gone = [draft.absolute(change.path) for change in changes if change.op == REMOVE]
    changes += follow_links(draft.root, links, moved, gone)
    gone = [draft.absolute(change.path) for change in changes if change.op == REMOVE]
    for manifest in draft.manifests:
        for path, reason in _ignored_keys(manifest.raw):
            draft.record_not_carried(manifest, path, reason)
    texts = {
        draft.followed(draft.absolute(change.path)): change.content.decode("utf-8", "replace")
        for change in changes
        if change.op in (EDIT, WRITE)
    }
    kept = [path for path in dict.fromkeys((*files, *texts)) if path not in gone]
    draft.notes += mentions(draft.root, kept, moved, texts)
    return Migration(
        tuple(changes),
        tuple(sorted(draft.not_carried)),
        (*draft.outside, *draft.notes),
        renamed=draft.renamed,
        folders=tuple(draft.folders),
        shared=tuple(shared),
    )


def _edits(draft: Draft) -> Iterator[Change]:
    for home in draft.homes:
        for manifest in (*home.manifests, *home.agent_files):
            if manifest.text != manifest.original:
                reason, content = "; ".join(manifest.reasons), manifest.text.encode()
                yield Change(
                    EDIT, manifest.file, content=content, mode=manifest.mode, reason=reason
                )
    for path, (content, reason) in draft.edits.items():
        mode = os.stat(draft.absolute(path)).st_mode & 0o777
        yield Change(EDIT, path, content=content, mode=mode, reason=reason)


# Keys that stay in a file without effect

# Converted, or reported elsewhere.
_CARRIED = frozenset((*INCLUDES, "default_rig_includes", "global_fragments", "defaults", "pool"))


def _ignored_keys(raw: Mapping[str, object]) -> Iterator[tuple[KeyPath, str]]:
    """Yield every key of a manifest that city knows but ignores, with the reason."""
    for key in [key for key in raw if key in CITY_NOT_ACTED_ON]:
        yield from _ignored_table(raw, key)
    for name in ("workspace", "session", "pack"):
        yield from _keys(table_at(raw, name), (name,), NOT_ACTED_ON[name])
    for name, kind in (("imports", "import"), ("providers", "provider")):
        for entry in table_at(raw, name):
            yield from _keys(table_at(raw, name, entry), (name, entry), NOT_ACTED_ON[kind])
    for name in ("agent_defaults", "agents"):
        yield from _keys(table_at(raw, name), (name,), AGENT_NOT_ACTED_ON)
    yield from _keys(table_at(raw, "patches"), ("patches",), PATCHES_NOT_ACTED_ON)
    yield from _patch_keys(table_at(raw, "patches"), ("patches",), "agent")
    for index, rig in tables_at(raw, "rigs"):
        yield from _rig_keys(rig, ("rigs", index))


def _rig_keys(rig: Mapping[str, object], at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    yield from _keys(rig, at, NOT_ACTED_ON["rig"])
    for name in ("overrides", "patches"):
        yield from _patch_keys(rig, at, name)
    for index, table in tables_at(rig, "overrides"):
        if table.get("dir") not in (None, "", rig.get("name")):
            reason = "an agent of a rig cannot move to another directory"
            yield (*at, "overrides", index, "dir"), reason


def _ignored_table(raw: Mapping[str, object], key: str) -> Iterator[tuple[KeyPath, str]]:
    """Yield each key of an ignored table; an array of tables only once."""
    reason = CITY_NOT_ACTED_ON[key]
    if key not in ("packs", "topologies") and isinstance(raw[key], Mapping):
        names = table_at(raw, key).keys() - ({"dir"} if key == "formulas" else set())
        yield from (((key, name), reason) for name in names)
    elif key not in ("packs", "topologies", "doctor", "commands"):
        yield (key,), reason


def _keys(
    table: Mapping[str, object], at: KeyPath, known: Mapping[str, str]
) -> Iterator[tuple[KeyPath, str]]:
    for key in table:
        if key in known and key not in _CARRIED:
            yield (*at, key), known[key]


def _patch_keys(
    around: Mapping[str, object], at: KeyPath, name: str
) -> Iterator[tuple[KeyPath, str]]:
    for index, table in tables_at(around, name):
        here: KeyPath = (*at, name, index)
        yield from _keys(table, here, AGENT_NOT_ACTED_ON)
        for key in table_at(table, "pool"):
            reason = AGENT_NOT_ACTED_ON.get("scale_check" if key == "check" else key)
            if reason is not None:
                yield (*here, "pool", key), reason
