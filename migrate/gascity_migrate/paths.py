"""Renames shared directories and templates, and rewrites paths to them."""

import os
from collections.abc import Iterator, Mapping

from gascity.model.problems import Place
from gascity.source.disk import is_below, read_plain
from gascity.toml.rewrite import change_value
from gascity_migrate.draft import Draft, Manifest, PackFiles
from gascity_migrate.v1_tables import OVERLAYS, SHARED_PROMPTS

# v1 recognises template prompts by content, city by file name.
_TEMPLATE_SUFFIXES = (".template.md", ".md.tmpl")
_PATHS = ("prompt", "prompt_template", "overlay_dir", "namepool", "session_setup_script")


def read_folders(draft: Draft) -> None:
    """Read agent.toml of every existing agent directory."""
    for home in draft.homes:
        agents = home.under("agents")
        directory = draft.absolute(agents)
        for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
            file = f"{agents}/{name}/agent.toml"
            if name[0] not in "._" and os.path.isfile(draft.absolute(file)):
                manifest = draft.read(file, "agent")
                home.folders += [manifest] if manifest else []


def note_uses(draft: Draft) -> None:
    """Mark files as in use that settings name which the migration does not rewrite."""
    for home in draft.homes:
        for manifest in (*home.manifests, *home.folders):
            for table in _tables(manifest):
                for field in _PATHS:
                    written = table.get(field)
                    path = _named(draft, home, manifest, field, written)
                    if path is not None and not _gets_suffix(draft, home, manifest, field, path):
                        draft.files.stays_in_use(path)


def _tables(manifest: Manifest) -> Iterator[Mapping[str, object]]:
    if manifest.kind == "agent":
        yield manifest.raw
    for name in ("agent_defaults", "agents"):
        table = manifest.raw.get(name)
        if isinstance(table, Mapping):
            yield table
    yield from (patch.table for patch in manifest.v1.patches)


def _named(
    draft: Draft, home: PackFiles, manifest: Manifest, field: str, written: object
) -> str | None:
    if not isinstance(written, str) or not written:
        return None
    if field == "prompt" and manifest.kind != "agent":
        return draft.absolute(home.under(f"patches/{written}"))
    return draft.find(written, home, manifest)


def _gets_suffix(draft: Draft, home: PackFiles, manifest: Manifest, field: str, path: str) -> bool:
    """Return whether a patch names a template that lacks the template suffix."""
    if field != "prompt_template" or manifest.kind == "agent" or not home.has_marks:
        return False
    named = template_name(path) == path
    return not named and draft.belongs(path, home) and is_template(path)


def own_path(draft: Draft, home: PackFiles, manifest: Manifest, written: str, file: str) -> str:
    """Return how `file` (absolute) must write a path of a manifest to mean the same file."""
    target = draft.find(written, home, manifest)
    base = draft.absolute(home.root)
    if target is None or target == _current_meaning(draft, base, written, file):
        return written
    if is_below(target, base):
        return os.path.relpath(target, base)
    return f"//{draft.shown(target)}" if is_below(target, draft.root) else written


def _current_meaning(draft: Draft, base: str, written: str, file: str) -> str:
    """Return the absolute path that `written` means in a current (not v1) file."""
    if written.startswith("//"):
        return os.path.normpath(draft.absolute(written.lstrip("/")))
    beside = written.startswith(("./", "../"))
    start = os.path.dirname(file) if beside else base
    return os.path.normpath(os.path.join(start, written))


def is_template(path: str) -> bool:
    """Return whether a v1 prompt (absolute path) is a template."""
    return path.endswith(_TEMPLATE_SUFFIXES) or b"{{" in (read_plain(path) or b"")


def template_name(path: str) -> str:
    """Return the path with the suffix that marks a template."""
    if path.endswith(_TEMPLATE_SUFFIXES):
        return path
    stem, suffix = os.path.splitext(path)
    return f"{stem if suffix == '.md' else path}.template.md"


def _give_suffix(draft: Draft, path: str, place: Place) -> None:
    target = draft.shown(template_name(path))
    if (path, target) not in draft.files.requests():
        draft.files.take(path, target, "templates end in .template.md", place)


def rewrite_paths(draft: Draft, home: PackFiles, manifest: Manifest) -> None:
    """Rewrite paths in patches whose meaning differs from v1: in included files and packs."""
    text = manifest.text
    for patch in manifest.v1.patches:
        for field in _PATHS[1:]:
            written = patch.table.get(field)
            if isinstance(written, str) and written:
                file = draft.absolute(manifest.file)
                new = own_path(draft, home, manifest, written, file)
                target = draft.find(written, home, manifest)
                if target and _gets_suffix(draft, home, manifest, field, target):
                    new = template_name(new)
                    place = manifest.place((*patch.at, field), of_value=True)
                    _give_suffix(draft, target, place)
                if new != written:
                    text = change_value(text, (*patch.at, field), new)
    manifest.change(text, "paths in patches are relative to the city")


_FRAGMENTS = "template-fragments"
_OLD, _NEW = ".md.tmpl", ".template.md"


def move_shared_dirs(draft: Draft, home: PackFiles) -> None:
    """Move a pack's shared directories. Call it after the agents' own files are requested."""
    for directory in sorted({SHARED_PROMPTS, *_beside_prompts(draft, home)}):
        if home.is_v1:  # otherwise the directory has no special meaning
            _move_fragments(draft, home, directory)
    for directory in (_FRAGMENTS, *_in_agents(draft, home, _FRAGMENTS)):
        _rename_files(draft, home, directory)
    for directory in _in_agents(draft, home, ""):
        _rename_prompt(draft, home, directory)
    _move_overlays(draft, home)


def _beside_prompts(draft: Draft, home: PackFiles) -> Iterator[str]:
    """Yield `shared/` next to each prompt that moves: v1 reads fragments from it."""
    base = draft.absolute(home.root)
    for source, target in draft.files.requests():
        name = os.path.basename(target)
        if name.startswith("prompt.") and draft.belongs(source, home):
            path = f"{os.path.dirname(source)}/shared"
            if os.path.isdir(path):
                yield path[len(base) + 1 :]


def _names(draft: Draft, path: str) -> list[str]:
    directory = draft.absolute(path)
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def _move_fragments(draft: Draft, home: PackFiles, directory: str) -> None:
    path = draft.absolute(home.under(directory))
    reason = f"fragments are in {_FRAGMENTS}/"
    if os.path.islink(path):
        draft.files.take(path, home.under(_FRAGMENTS), reason)
        return
    for directory_path, folders, names in os.walk(path):
        links = [folder for folder in folders if os.path.islink(f"{directory_path}/{folder}")]
        for name in sorted([*names, *links]):
            below = f"{directory_path}/{name}"[len(path) + 1 :]
            target = home.under(f"{_FRAGMENTS}/{_renamed(below)}")
            draft.files.take(f"{directory_path}/{name}", target, reason)


def _renamed(name: str) -> str:
    return name.removesuffix(_OLD) + _NEW if name.endswith(_OLD) else name


def _in_agents(draft: Draft, home: PackFiles, below: str) -> Iterator[str]:
    for name in _names(draft, home.under("agents")):
        path = f"agents/{name}/{below}".rstrip("/")
        plain = name[0] not in "._" and not os.path.islink(draft.absolute(f"agents/{name}"))
        if plain and os.path.isdir(draft.absolute(home.under(path))):
            yield path


def _rename_files(draft: Draft, home: PackFiles, directory: str) -> None:
    if os.path.islink(draft.absolute(home.under(directory))):
        return
    for name in _names(draft, home.under(directory)):
        if name.endswith(_OLD):
            path = home.under(f"{directory}/{name}")
            target = home.under(f"{directory}/{_renamed(name)}")
            draft.files.take(draft.absolute(path), target, f"templates end in {_NEW}")


def _rename_prompt(draft: Draft, home: PackFiles, directory: str) -> None:
    path = draft.absolute(home.under(f"{directory}/prompt{_OLD}"))
    if os.path.lexists(path) and not draft.files.is_in_use(path):
        target = home.under(f"{directory}/prompt{_NEW}")
        draft.files.take(path, target, f"templates end in {_NEW}")


def _move_overlays(draft: Draft, home: PackFiles) -> None:
    """Rename `overlays/` to `overlay/` if it is one overlay, not a directory of several."""
    path = draft.absolute(home.under(OVERLAYS))
    if not os.path.isdir(path) or draft.files.is_in_use(path):
        return
    inside = [source for source, _ in draft.files.requests() if source.startswith(path + "/")]
    names = _names(draft, home.under(OVERLAYS))
    if not inside and any(_of_overlay(f"{path}/{name}") for name in names):
        draft.files.take(path, home.under("overlay"), "the overlay for all agents is overlay/")
        return
    for name in names:
        if not any(
            source == f"{path}/{name}" or source.startswith(f"{path}/{name}/") for source in inside
        ):
            shown = home.under(f"{OVERLAYS}/{name}")
            draft.notes.append(f"{shown} is not used as an overlay by any agent and is not moved")


def _of_overlay(path: str) -> bool:
    """Return whether this is a typical entry of an overlay, not an overlay itself."""
    name = os.path.basename(path)
    return name.startswith(".") or name == "per-provider" or not os.path.isdir(path)
