"""From a city of the first layout to everything that has to change in it; nothing is written."""

import os
from collections.abc import Iterable, Mapping

from gascity.model.city import City
from gascity.model.problems import CityError
from gascity.pipeline import open_city
from gascity_migrate.agents import Common, Folder, take_agents, write_agents
from gascity_migrate.around import (
    follow_links,
    mentions,
    note_uses,
    read_folders,
    rewrite_paths,
    walk,
)
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
from gascity_migrate.draft import Draft, Home, disk_of
from gascity_migrate.entries import move_entries
from gascity_migrate.imports import Bound, bind_includes
from gascity_migrate.losses import list_losses
from gascity_migrate.names import Names
from gascity_migrate.references import (
    ambiguous_names,
    bound_names,
    drop_dispatcher,
    rename_references,
)
from gascity_migrate.rigs import move_paths, rename_overrides
from gascity_migrate.shelves import move_shelves
from gascity_migrate.survey import drop_emptied, survey


def plan_migration(root: str, environ: Mapping[str, str]) -> Migration:
    """Decide how a city gets to today's layout. A city that is there already has no changes.

    With a problem that is an error there is no migration: nothing but the problems is returned.
    """
    draft = Draft(os.path.abspath(root))
    survey(draft)
    if not draft.problems:
        read_folders(draft)
    if draft.problems:
        return Migration(problems=tuple(draft.problems))
    note_uses(draft)
    shared = shared_fragments(draft.city)
    folders: list[Folder] = []
    names: list[Names] = []
    for home in draft.homes:
        found, given = take_agents(draft, home, _common(home, shared))
        folders += found
        draft.folders += [one.path for one in found]
        names.append(given)
        move_shelves(draft, home)
        move_entries(draft, home)
    write_agents(draft, folders)
    _rewrite(draft, shared, names, _before(root, environ))
    return _migration(draft)


def _before(root: str, environ: Mapping[str, str]) -> City | None:
    """The city as it is: whom it imports, and under which names. None where it cannot be read."""
    try:
        root = os.path.abspath(root)
        return open_city(root, environ, disk=disk_of(root), dialects=True)
    except CityError:
        return None


def _common(home: Home, shared: Iterable[str]) -> Common:
    fragments = list(shared) if home.is_city else []
    always = bool(fragments) and pack_has_fragments(home)
    return Common(fragments, always, city_scopes(home))


def _rewrite(draft: Draft, shared: list[str], names: list[Names], before: City | None) -> None:
    """What manifests say besides agents, each thing where it stands."""
    for home in draft.homes:
        for manifest in home.manifests:
            rewrite_paths(draft, home, manifest)
            rewrite_patches(home, manifest, shared if home.is_city else ())
            rename_overrides(draft, manifest)
        own_fragments(home, shared)
    bound = bind_includes(draft)
    bare = _bindings(draft, bound, before)
    for home, given in zip(draft.homes, names, strict=True):
        known = draft.rigs if home.is_city else None
        rename_references(home, given, bare if home.is_city else {}, known)
        for manifest in home.manifests:
            rename_defaults(manifest)
            share_fragments(manifest)
            drop_dispatcher(draft, manifest, _bare_names(given, before))
        raise_schema(home)
    if before is not None:
        patch_imported(draft, before, shared)
    move_paths(draft)
    drop_emptied(draft)


def _bindings(draft: Draft, bound: list[Bound], before: City | None) -> dict[str, str]:
    """Note the names that agents of includes get; return those that references have to use."""
    if before is None:
        return {}
    found = bound_names(before, bound)
    draft.renamed |= found
    return ambiguous_names(before, found)


def _bare_names(names: Names, before: City | None) -> set[str]:
    others = {agent.name.bare for agent in before.agents} if before else set()
    return {name for _, name in names} | others


def _migration(draft: Draft) -> Migration:
    settled = draft.files.settle(draft.absolute(home.root) for home in draft.homes)
    problems = (*draft.problems, *settled.problems)
    if problems:
        return Migration(problems=problems)
    changes = [*_edits(draft), *settled.changes]
    if not changes:
        return Migration(notes=tuple(draft.outside))
    found = walk(draft.root)
    empty = [draft.absolute(one.path) for one in changes if one.op == REMOVE]
    changes += follow_links(draft.root, found.links, settled.moved, empty)
    for home in draft.homes:
        for manifest in home.manifests:
            list_losses(draft, manifest)
    texts = {
        draft.followed(draft.absolute(one.path)): one.content.decode("utf-8", "replace")
        for one in changes
        if one.op in (EDIT, WRITE)
    }
    gone = {draft.absolute(one.path) for one in changes if one.op == REMOVE}
    stay = [path for path in dict.fromkeys((*found.files, *texts)) if path not in gone]
    draft.notes += mentions(draft.root, stay, settled.moved, texts)
    lost = tuple(sorted(draft.not_carried))
    notes = (*draft.outside, *draft.notes)
    return Migration(tuple(changes), lost, notes, (), draft.renamed, tuple(draft.folders))


def _edits(draft: Draft) -> list[Change]:
    found = []
    for home in draft.homes:
        for one in (*home.manifests, *home.folders):
            if one.text != one.original:
                reason = "; ".join(one.reasons)
                content = one.text.encode()
                found.append(Change(EDIT, one.file, content=content, mode=one.mode, reason=reason))
    for path, (content, reason) in draft.edits.items():
        mode = os.stat(draft.absolute(path)).st_mode & 0o777
        found.append(Change(EDIT, path, content=content, mode=mode, reason=reason))
    return found
