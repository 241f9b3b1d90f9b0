"""What of a city names files that may move: settings that stay, links, and texts."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.problems import Place
from gascity.source import toml
from gascity.source.disk import is_below, read_plain
from gascity_migrate.changes import LINK, REMOVE, Change
from gascity_migrate.draft import Draft, Home, Manifest
from gascity_migrate.files import goal_of, retarget
from gascity_migrate.templates import is_template, template_name
from gascity_migrate.texts import with_text

_PATHS = ("prompt", "prompt_template", "overlay_dir", "namepool", "session_setup_script")
_APART = frozenset((".git", ".gc", "node_modules", "__pycache__"))
_PATH = re.compile(r"[\w.@+-]*(?:/[\w.@+-]+)+")
_MOST_BYTES = 1024 * 1024
_MOST_NOTES = 50


def read_folders(draft: Draft) -> None:
    """agent.toml of every agent that is a folder already."""
    for home in draft.homes:
        agents = home.under("agents")
        there = draft.absolute(agents)
        for name in sorted(os.listdir(there)) if os.path.isdir(there) else ():
            file = f"{agents}/{name}/agent.toml"
            if name[0] not in "._" and os.path.isfile(draft.absolute(file)):
                manifest = draft.read(file, "agent")
                home.folders += [manifest] if manifest else []


def note_uses(draft: Draft) -> None:
    """Files that settings name which stay as they are: those files stay, too."""
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
    yield from (patch.table for patch in manifest.first.patches)


def _named(draft: Draft, home: Home, manifest: Manifest, field: str, written: object) -> str | None:
    if not isinstance(written, str) or not written:
        return None
    if field == "prompt" and manifest.kind != "agent":
        return draft.absolute(home.under(f"patches/{written}"))
    return draft.find(written, home, manifest)


def _gets_suffix(draft: Draft, home: Home, manifest: Manifest, field: str, path: str) -> bool:
    """Does a patch name a prompt that its name does not tell for the template it is?"""
    if field != "prompt_template" or manifest.kind == "agent" or not home.has_marks:
        return False
    named = template_name(path) == path
    return not named and draft.belongs(path, home) and is_template(path)


class Found(NamedTuple):
    """Links and other files of a city, absolute."""

    links: tuple[str, ...]
    files: tuple[str, ...]


def walk(root: str) -> Found:
    """The city's own files: not those of projects with a git of their own inside it."""
    links: list[str] = []
    files: list[str] = []
    for place, folders, names in os.walk(root):
        linked = [one for one in folders if os.path.islink(f"{place}/{one}")]
        folders[:] = sorted(
            one
            for one in folders
            if one not in _APART and not os.path.lexists(f"{place}/{one}/.git")
        )
        for name in sorted([*names, *linked]):
            path = f"{place}/{name}"
            (links if os.path.islink(path) else files).append(path)
    return Found(tuple(links), tuple(files))


def follow_links(
    root: str, links: Sequence[str], moved: Mapping[str, str], gone: Sequence[str]
) -> list[Change]:
    """Links that stay and whose goal moves lead to its new place; those to directories that
    nothing is left of go, too. `gone` is what is taken away, absolute."""
    found = []
    for link in links:
        if any(is_below(link, source) for source in (*moved, *gone)):
            continue
        path = link[len(root) + 1 :]
        new = retarget(link, link, moved)
        if new != os.readlink(link):
            reason = "what it leads to has moved"
            found.append(Change(LINK, path, content=os.fsencode(new), reason=reason))
        elif os.path.isdir(link) and any(is_below(goal_of(link), one) for one in gone):
            found.append(Change(REMOVE, path, reason="what it leads to is gone"))
    return found


def mentions(
    root: str, files: Sequence[str], moved: Mapping[str, str], texts: Mapping[str, str]
) -> list[str]:
    """Notes of places in scripts and texts that name a file by the path it had.

    `texts` are files, absolute, as they will be.
    """
    goals = {_shown(root, source): _shown(root, goal) for source, goal in moved.items()}
    notes = []
    for path in files if goals else ():
        text = texts[path] if path in texts else _text(path)
        for number, line in enumerate(text.split("\n"), 1):
            for word in dict.fromkeys(_paths_in(line, goals)) if "/" in line else ():
                shown = _shown(root, _moved_to(path, moved))
                notes.append(f"{shown}:{number} mentions {word}, which is {goals[word]} now")
    more = len(notes) - _MOST_NOTES
    return [*notes[:_MOST_NOTES], f"… and {more} more such places"] if more > 0 else notes


def _paths_in(line: str, known: Mapping[str, str]) -> Iterator[str]:
    """Known paths in a line, whatever stands before them: a variable, or another directory."""
    for found in _PATH.findall(line):
        parts = found.rstrip(".").split("/")
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
    if os.path.getsize(path) > _MOST_BYTES:
        return ""
    data = read_plain(path) or b""
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def own_path(draft: Draft, home: Home, manifest: Manifest, written: str, file: str) -> str:
    """A path in a manifest, as `file`, absolute, has to write it to mean the same."""
    found = draft.find(written, home, manifest)
    base = draft.absolute(home.root)
    if found is None or found == _meant(draft, base, written, file):
        return written
    if is_below(found, base):
        return os.path.relpath(found, base)
    return f"//{draft.shown(found)}" if is_below(found, draft.root) else written


def _meant(draft: Draft, base: str, written: str, file: str) -> str:
    """What a path in a file of today's layout means."""
    if written.startswith("//"):
        return os.path.normpath(draft.absolute(written.lstrip("/")))
    beside = written.startswith(("./", "../"))
    start = os.path.dirname(file) if beside else base
    return os.path.normpath(os.path.join(start, written))


def _give_suffix(draft: Draft, path: str, place: Place) -> None:
    target = draft.shown(template_name(path))
    if (path, target) not in draft.files.wanted():
        draft.files.take(path, target, "a template is one by its name", place)


def rewrite_paths(draft: Draft, home: Home, manifest: Manifest) -> None:
    """Paths in patches that mean something else today: of included files, and in other packs."""
    text = manifest.text
    for patch in manifest.first.patches:
        for field in _PATHS[1:]:
            written = patch.table.get(field)
            if isinstance(written, str) and written:
                file = draft.absolute(manifest.file)
                new = own_path(draft, home, manifest, written, file)
                found = draft.find(written, home, manifest)
                if found and _gets_suffix(draft, home, manifest, field, found):
                    new = template_name(new)
                    place = manifest.place((*patch.at, field), of_value=True)
                    _give_suffix(draft, found, place)
                mark = (
                    toml.written(toml.marks(text), (*patch.at, field)) if new != written else None
                )
                text = with_text(text, mark, new) if mark else text
    manifest.change(text, "paths of patches are the city's own")
