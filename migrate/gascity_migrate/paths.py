"""Renames shared directories and templates, and rewrites paths to them."""

import os
from collections.abc import Iterator, Mapping

from gascity.source.disk import is_below, read_plain
from gascity.toml.rewrite import change_value
from gascity_migrate.draft import AGENT, Draft, Manifest, PackFiles
from gascity_migrate.files import files_below
from gascity_migrate.v1_tables import OVERLAYS, SHARED_PROMPTS, table_at, text_at

# v1 recognises template prompts by content, city by file name.
_OLD, _NEW = ".md.tmpl", ".template.md"
_TEMPLATES_REASON = f"templates end in {_NEW}"
_FRAGMENTS_DIR = "template-fragments"
_PATHS = ("prompt", "prompt_template", "overlay_dir", "namepool", "session_setup_script")


# Paths in settings


def note_uses(draft: Draft) -> None:
    """Mark files as in use that settings name which the migration does not rewrite."""
    for home in draft.homes:
        for manifest in (*home.manifests, *home.agent_files):
            for table in _tables(manifest):
                for field in _PATHS:
                    path = _named(draft, manifest, field, text_at(table, field))
                    if path is not None and not _gets_suffix(draft, manifest, field, path):
                        draft.files.stays_in_use(path)


def _tables(manifest: Manifest) -> Iterator[Mapping[str, object]]:
    if manifest.kind == AGENT:
        yield manifest.raw
    yield from (table_at(manifest.raw, name) for name in ("agent_defaults", "agents"))
    yield from (patch.table for patch in manifest.v1.patches)


def _named(draft: Draft, manifest: Manifest, field: str, written: str) -> str | None:
    if not written:
        return None
    if field == "prompt" and manifest.kind != AGENT:
        return draft.absolute(manifest.home.under(f"patches/{written}"))
    return draft.find(written, manifest)


def _gets_suffix(draft: Draft, manifest: Manifest, field: str, path: str) -> bool:
    """Return whether a patch names a template that lacks the template suffix."""
    home = manifest.home
    if field != "prompt_template" or manifest.kind == AGENT or not home.has_marks:
        return False
    return template_name(path) != path and draft.belongs(path, home) and is_template(path)


def is_template(path: str) -> bool:
    """Return whether a v1 prompt (absolute path) is a template."""
    return path.endswith((_NEW, _OLD)) or b"{{" in (read_plain(path) or b"")


def template_name(path: str) -> str:
    """Return the path with the suffix that marks a template."""
    return path if path.endswith((_NEW, _OLD)) else path.removesuffix(".md") + _NEW


def rewrite_paths(draft: Draft, manifest: Manifest) -> None:
    """Rewrite paths in patches whose meaning differs from v1: in included files and packs."""
    text = manifest.text
    for patch in manifest.v1.patches:
        for field in _PATHS[1:]:
            written = text_at(patch.table, field)
            if not written:
                continue
            new = path_in_file(draft, manifest, written, draft.absolute(manifest.file))
            source = draft.find(written, manifest)
            if source and _gets_suffix(draft, manifest, field, source):
                new = template_name(new)
                target = draft.shown(template_name(source))
                if (source, target) not in draft.files.requests():
                    place = manifest.place((*patch.at, field), of_value=True)
                    draft.files.take(source, target, _TEMPLATES_REASON, place)
            text = change_value(text, (*patch.at, field), new) if new != written else text
    manifest.change(text, "paths in patches are relative to the city")


def path_in_file(draft: Draft, manifest: Manifest, written: str, file: str) -> str:
    """Return how `file` (absolute) must write a path of a manifest to mean the same file."""
    target = draft.find(written, manifest)
    base = draft.absolute(manifest.home.root)
    if target is None or target == _current_meaning(draft, base, written, file):
        return written
    if is_below(target, base):
        return os.path.relpath(target, base)
    return f"//{draft.shown(target)}" if is_below(target, draft.root) else written


def _current_meaning(draft: Draft, base: str, written: str, file: str) -> str:
    """Return the absolute path that `written` means in a current (not v1) file."""
    if written.startswith("//"):
        return os.path.normpath(draft.absolute(written.lstrip("/")))
    start = os.path.dirname(file) if written.startswith(("./", "../")) else base
    return os.path.normpath(os.path.join(start, written))


# Directories that agents share


def move_shared_dirs(draft: Draft, home: PackFiles) -> None:
    """Move a pack's shared directories. Call it after the agents' own files are requested."""
    if home.is_v1:  # otherwise these directories have no special meaning
        for directory in sorted({SHARED_PROMPTS, *_beside_prompts(draft, home)}):
            _move_fragments(draft, home, directory)
    for directory in (_FRAGMENTS_DIR, *_in_agents(draft, home, f"/{_FRAGMENTS_DIR}")):
        if not os.path.islink(draft.absolute(home.under(directory))):
            for name in draft.names_in(home.under(directory)):
                _rename_template(draft, home, f"{directory}/{name}")
    for directory in _in_agents(draft, home, ""):
        prompt = f"{directory}/prompt{_OLD}"
        path = draft.absolute(home.under(prompt))
        if os.path.lexists(path) and not draft.files.is_in_use(path):
            _rename_template(draft, home, prompt)
    _move_overlays(draft, home)


def _beside_prompts(draft: Draft, home: PackFiles) -> Iterator[str]:
    """Yield `shared/` next to each prompt that moves: v1 reads fragments from it."""
    base = draft.absolute(home.root)
    for source, target in draft.files.requests():
        path = f"{os.path.dirname(source)}/shared"
        is_prompt = os.path.basename(target).startswith("prompt.")
        if is_prompt and draft.belongs(source, home) and os.path.isdir(path):
            yield path[len(base) + 1 :]


def _move_fragments(draft: Draft, home: PackFiles, directory: str) -> None:
    path = draft.absolute(home.under(directory))
    reason = f"fragments are in {_FRAGMENTS_DIR}/"
    if os.path.islink(path):
        draft.files.take(path, home.under(_FRAGMENTS_DIR), reason)
        return
    for source in files_below(path):
        target = home.under(_FRAGMENTS_DIR + _renamed(source[len(path) :]))
        draft.files.take(source, target, reason)


def _renamed(name: str) -> str:
    return name.removesuffix(_OLD) + _NEW if name.endswith(_OLD) else name


def _rename_template(draft: Draft, home: PackFiles, path: str) -> None:
    if path.endswith(_OLD):
        source = draft.absolute(home.under(path))
        draft.files.take(source, home.under(_renamed(path)), _TEMPLATES_REASON)


def _in_agents(draft: Draft, home: PackFiles, below: str) -> Iterator[str]:
    """Yield the directory `below` of each agent directory, relative to the pack."""
    for name in draft.names_in(home.under("agents")):
        agent = draft.absolute(home.under(f"agents/{name}"))
        if name[0] not in "._" and not os.path.islink(agent) and os.path.isdir(agent + below):
            yield f"agents/{name}{below}"


def _move_overlays(draft: Draft, home: PackFiles) -> None:
    """Rename `overlays/` to `overlay/` if it is one overlay, not a directory of several."""
    path = draft.absolute(home.under(OVERLAYS))
    if not os.path.isdir(path) or draft.files.is_in_use(path):
        return
    requested = [source for source, _ in draft.files.requests() if source.startswith(path + "/")]
    names = draft.names_in(home.under(OVERLAYS))
    if not requested and any(_is_overlay_entry(f"{path}/{name}") for name in names):
        draft.files.take(path, home.under("overlay"), "the overlay for all agents is overlay/")
        return
    for name in names:
        if not any(is_below(source, f"{path}/{name}") for source in requested):
            shown = home.under(f"{OVERLAYS}/{name}")
            draft.notes.append(f"{shown} is not used as an overlay by any agent and is not moved")


def _is_overlay_entry(path: str) -> bool:
    """Return whether this is a typical entry of an overlay, not an overlay itself."""
    name = os.path.basename(path)
    return name.startswith(".") or name == "per-provider" or not os.path.isdir(path)
