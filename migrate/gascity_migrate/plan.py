"""Plans the migration of a v1 city; writes nothing."""

import os
from collections.abc import Iterable, Iterator, Mapping

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
from gascity_migrate.draft import (
    Draft,
    Manifest,
    Migration,
    PackFiles,
    disk_of,
    drop_emptied,
    read_manifests,
)
from gascity_migrate.entries import move_entries
from gascity_migrate.files import EDIT, REMOVE, WRITE, Change, follow_links, mentions, walk
from gascity_migrate.imports import NewImport, bind_includes
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
from gascity_migrate.paths import move_shared_dirs, note_uses, read_folders, rewrite_paths
from gascity_migrate.rigs import move_paths, rename_overrides
from gascity_migrate.v1_tables import INCLUDES


def plan_migration(root: str, environ: Mapping[str, str]) -> Migration:
    """Return the changes that convert a v1 city; none if the city has no v1 parts.

    If a problem is an error, return only the problems and no changes.
    """
    draft = Draft(os.path.abspath(root))
    read_manifests(draft)
    if not draft.problems:
        read_folders(draft)
    if draft.problems:
        return Migration(problems=tuple(draft.problems))
    note_uses(draft)
    shared = shared_fragments(draft.city)
    folders: list[AgentFolder] = []
    names: list[Names] = []
    for home in draft.homes:
        pack_folders, pack_names = take_agents(draft, home, _shared_settings(home, shared))
        folders += pack_folders
        draft.folders += [folder.path for folder in pack_folders]
        names.append(pack_names)
        move_shared_dirs(draft, home)
        move_entries(draft, home)
    write_agents(draft, folders)
    _rewrite_manifests(draft, shared, names, _load_original(root, environ))
    return _build_migration(draft)


def _load_original(root: str, environ: Mapping[str, str]) -> City | None:
    """Load the city before migration, for its imports and agent names; None if it is invalid."""
    try:
        root = os.path.abspath(root)
        return open_city(root, environ, disk=disk_of(root), dialects=True)
    except CityError:
        return None


def _shared_settings(home: PackFiles, shared: Iterable[str]) -> SharedSettings:
    fragments = list(shared) if home.is_city else []
    always = bool(fragments) and pack_has_fragments(home)
    return SharedSettings(fragments, always, city_scopes(home))


def _rewrite_manifests(
    draft: Draft, shared: list[str], names: list[Names], before: City | None
) -> None:
    """Rewrite the other parts of the manifests in place: imports, patches, references, rigs."""
    for home in draft.homes:
        for manifest in home.manifests:
            rewrite_paths(draft, home, manifest)
            rewrite_patches(home, manifest, shared if home.is_city else ())
            rename_overrides(draft, manifest)
        own_fragments(home, shared)
    bound = bind_includes(draft)
    bindings = _bindings(draft, bound, before)
    for home, pack_names in zip(draft.homes, names, strict=True):
        rigs = draft.rigs if home.is_city else None
        rename_references(home, pack_names, bindings if home.is_city else {}, rigs)
        for manifest in home.manifests:
            rename_defaults(manifest)
            share_fragments(manifest)
            drop_dispatcher(draft, manifest, _bare_names(pack_names, before))
        raise_schema(home)
    if before is not None:
        patch_imported(draft, before, shared)
    move_paths(draft)
    drop_emptied(draft)


def _bindings(draft: Draft, bound: list[NewImport], before: City | None) -> dict[str, str]:
    """Record the new names of included agents; return those that references must use."""
    if before is None:
        return {}
    renamed = bound_names(before, bound)
    draft.renamed |= renamed
    return ambiguous_names(before, renamed)


def _bare_names(names: Names, before: City | None) -> set[str]:
    existing = {agent.name.bare for agent in before.agents} if before else set()
    return {name for _, name in names} | existing


def _build_migration(draft: Draft) -> Migration:
    placed = draft.files.plan_changes(draft.absolute(home.root) for home in draft.homes)
    problems = (*draft.problems, *placed.problems)
    if problems:
        return Migration(problems=problems)
    changes = [*_edits(draft), *placed.changes]
    if not changes:
        return Migration(notes=tuple(draft.outside))
    files = walk(draft.root)
    removed = [draft.absolute(change.path) for change in changes if change.op == REMOVE]
    changes += follow_links(draft.root, files.links, placed.moved, removed)
    for home in draft.homes:
        for manifest in home.manifests:
            record_ignored_keys(draft, manifest)
    texts = {
        draft.followed(draft.absolute(change.path)): change.content.decode("utf-8", "replace")
        for change in changes
        if change.op in (EDIT, WRITE)
    }
    gone = {draft.absolute(change.path) for change in changes if change.op == REMOVE}
    kept = [path for path in dict.fromkeys((*files.files, *texts)) if path not in gone]
    draft.notes += mentions(draft.root, kept, placed.moved, texts)
    not_carried = tuple(sorted(draft.not_carried))
    notes = (*draft.outside, *draft.notes)
    return Migration(tuple(changes), not_carried, notes, (), draft.renamed, tuple(draft.folders))


def _edits(draft: Draft) -> list[Change]:
    changes = []
    for home in draft.homes:
        for manifest in (*home.manifests, *home.folders):
            if manifest.text != manifest.original:
                reason = "; ".join(manifest.reasons)
                content = manifest.text.encode()
                changes.append(
                    Change(EDIT, manifest.file, content=content, mode=manifest.mode, reason=reason)
                )
    for path, (content, reason) in draft.edits.items():
        mode = os.stat(draft.absolute(path)).st_mode & 0o777
        changes.append(Change(EDIT, path, content=content, mode=mode, reason=reason))
    return changes


# Keys that are converted, or reported elsewhere.
_CARRIED = frozenset((*INCLUDES, "default_rig_includes", "global_fragments", "defaults", "pool"))
_TABLES = ("workspace", "session", "pack")
_ENTRIES = (("imports", "import"), ("providers", "provider"))


def record_ignored_keys(draft: Draft, manifest: Manifest) -> None:
    """Record every key of a file that city knows but ignores."""
    for path, reason in _ignored_keys(manifest.raw):
        if path[0] not in ("packs", "topologies") and path[:2] != ("formulas", "dir"):
            draft.record_not_carried(manifest, path, reason)


def _ignored_keys(raw: Mapping[str, object]) -> Iterator[tuple[KeyPath, str]]:
    for key, value in raw.items():
        if key in CITY_NOT_ACTED_ON:
            yield from _whole(key, value)
    for name in _TABLES:
        yield from _keys(raw.get(name), (name,), NOT_ACTED_ON[name])
    for name, kind in _ENTRIES:
        tables = raw.get(name)
        for entry in tables if isinstance(tables, Mapping) else ():
            yield from _keys(_under(tables, entry), (name, entry), NOT_ACTED_ON[kind])
    for name in ("agent_defaults", "agents"):
        yield from _keys(raw.get(name), (name,), AGENT_NOT_ACTED_ON)
    patches = raw.get("patches")
    yield from _keys(patches, ("patches",), PATCHES_NOT_ACTED_ON)
    yield from _patches(_under(patches, "agent"), ("patches", "agent"))
    rigs = raw.get("rigs")
    for index, rig in enumerate(rigs if isinstance(rigs, list) else ()):
        at: KeyPath = ("rigs", index)
        yield from _keys(rig, at, NOT_ACTED_ON["rig"])
        for name in ("overrides", "patches"):
            yield from _patches(_under(rig, name), (*at, name))
        yield from _moved_agents(rig, at)


def _moved_agents(rig: object, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield overrides that change an agent's `dir`, which patches cannot do."""
    entries = _under(rig, "overrides")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if _under(entry, "dir") not in (None, "", _under(rig, "name")):
            yield (
                (*at, "overrides", index, "dir"),
                "an agent of a rig cannot move to another directory",
            )


def _under(table: object, key: str) -> object:
    return table.get(key) if isinstance(table, Mapping) else None


def _whole(key: str, value: object) -> Iterator[tuple[KeyPath, str]]:
    """Yield each key of an ignored table; an array of tables only once."""
    reason = CITY_NOT_ACTED_ON[key]
    if isinstance(value, Mapping):
        yield from (((key, name), reason) for name in value)
    elif key not in ("doctor", "commands"):
        yield (key,), reason


def _keys(table: object, at: KeyPath, known: Mapping[str, str]) -> Iterator[tuple[KeyPath, str]]:
    for key in table if isinstance(table, Mapping) else ():
        if key in known and key not in _CARRIED:
            yield (*at, key), known[key]


def _patches(entries: object, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        yield from _keys(entry, (*at, index), AGENT_NOT_ACTED_ON)
        pool = _under(entry, "pool")
        for key in pool if isinstance(pool, Mapping) else ():
            current_key = "scale_check" if key == "check" else str(key)
            if current_key in AGENT_NOT_ACTED_ON:
                yield (*at, index, "pool", key), AGENT_NOT_ACTED_ON[current_key]
