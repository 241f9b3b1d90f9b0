"""Finds settings, links and texts that mention files which may move."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.problems import Place
from gascity.source.disk import is_below, read_plain
from gascity.toml import positions
from gascity.toml.edit import replace_value
from gascity_migrate.changes import LINK, REMOVE, Change
from gascity_migrate.draft import Draft, Manifest, PackFiles
from gascity_migrate.files import goal_of, retarget

# v1 recognises template prompts by content, city by file name.
_TEMPLATE_SUFFIXES = (".template.md", ".md.tmpl")
_PATHS = ("prompt", "prompt_template", "overlay_dir", "namepool", "session_setup_script")
_SKIPPED_DIRS = frozenset((".git", ".gc", "node_modules", "__pycache__"))
_PATH = re.compile(r"[\w.@+-]*(?:/[\w.@+-]+)+")
_MAX_BYTES = 1024 * 1024
_MAX_NOTES = 50


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


class CityFiles(NamedTuple):
    """Symlinks and other files of a city, as absolute paths."""

    links: tuple[str, ...]
    files: tuple[str, ...]


def walk(root: str) -> CityFiles:
    """Return the city's files, without those of git repositories inside it."""
    links: list[str] = []
    files: list[str] = []
    for directory, folders, names in os.walk(root):
        linked = [folder for folder in folders if os.path.islink(f"{directory}/{folder}")]
        folders[:] = sorted(
            folder
            for folder in folders
            if folder not in _SKIPPED_DIRS and not os.path.lexists(f"{directory}/{folder}/.git")
        )
        for name in sorted([*names, *linked]):
            path = f"{directory}/{name}"
            (links if os.path.islink(path) else files).append(path)
    return CityFiles(tuple(links), tuple(files))


def follow_links(
    root: str, links: Sequence[str], moved: Mapping[str, str], gone: Sequence[str]
) -> list[Change]:
    """Return changes that retarget symlinks to moved files and remove those to removed
    directories. `gone` are the removed paths, absolute."""
    changes = []
    for link in links:
        if any(is_below(link, source) for source in (*moved, *gone)):
            continue
        path = link[len(root) + 1 :]
        new = retarget(link, link, moved)
        if new != os.readlink(link):
            reason = "its target has moved"
            changes.append(Change(LINK, path, content=os.fsencode(new), reason=reason))
        elif os.path.isdir(link) and any(is_below(goal_of(link), path_gone) for path_gone in gone):
            changes.append(Change(REMOVE, path, reason="its target is removed"))
    return changes


def mentions(
    root: str, files: Sequence[str], moved: Mapping[str, str], texts: Mapping[str, str]
) -> list[str]:
    """Return notes on files that mention the old path of a moved file.

    `texts` maps absolute paths to the new text of changed files.
    """
    goals = {_shown(root, source): _shown(root, goal) for source, goal in moved.items()}
    notes = []
    for path in files if goals else ():
        text = texts[path] if path in texts else _text(path)
        for number, line in enumerate(text.split("\n"), 1):
            for word in dict.fromkeys(_paths_in(line, goals)) if "/" in line else ():
                shown = _shown(root, _moved_to(path, moved))
                notes.append(f"{shown}:{number} mentions {word}, which moved to {goals[word]}")
    more = len(notes) - _MAX_NOTES
    return [*notes[:_MAX_NOTES], f"… and {more} more"] if more > 0 else notes


def _paths_in(line: str, known: Mapping[str, str]) -> Iterator[str]:
    """Yield known paths in a line, also after a prefix such as a variable or a directory."""
    for match in _PATH.findall(line):
        parts = match.rstrip(".").split("/")
        for at in range(len(parts) - 1):
            if (path := "/".join(parts[at:])) in known:
                yield path


def _moved_to(path: str, moved: Mapping[str, str]) -> str:
    for source, goal in moved.items():
        if is_below(path, source):
            return goal + path[len(source) :]
    return path


def _shown(root: str, path: str) -> str:
    return path[len(root) + 1 :] if is_below(path, root) else path


def _text(path: str) -> str:
    if os.path.getsize(path) > _MAX_BYTES:
        return ""
    data = read_plain(path) or b""
    return "" if b"\0" in data else data.decode("utf-8", "replace")


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
                mark = positions.value_mark(text, (*patch.at, field)) if new != written else None
                text = replace_value(text, mark, new) if mark else text
    manifest.change(text, "paths in patches are relative to the city")
