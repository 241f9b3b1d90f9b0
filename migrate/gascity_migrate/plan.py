"""Plans the migration of a v1 city; writes nothing."""

import os
from collections.abc import Iterable, Mapping

from gascity.model.city import City
from gascity.model.problems import CityError
from gascity.pipeline import open_city
from gascity_migrate.agents import AgentFolder, SharedSettings, take_agents, write_agents
from gascity_migrate.changes import EDIT, REMOVE, WRITE, Change, Migration
from gascity_migrate.defaults import (
    city_scopes,
    own_fragments,
    pack_has_fragments,
    patch_imported,
    raise_schema,
    rename_defaults,
    rewrite_patches,
    share_fragments,
    shared_fragments,
)
from gascity_migrate.discover import drop_emptied, read_manifests
from gascity_migrate.draft import Draft, PackFiles, disk_of
from gascity_migrate.entries import move_entries
from gascity_migrate.imports import NewImport, bind_includes
from gascity_migrate.mentions import (
    follow_links,
    mentions,
    note_uses,
    read_folders,
    rewrite_paths,
    walk,
)
from gascity_migrate.moved_dirs import move_shared_dirs
from gascity_migrate.names import Names
from gascity_migrate.references import (
    ambiguous_names,
    bound_names,
    drop_dispatcher,
    rename_references,
)
from gascity_migrate.rigs import move_paths, rename_overrides
from gascity_migrate.unused_keys import record_ignored_keys


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
