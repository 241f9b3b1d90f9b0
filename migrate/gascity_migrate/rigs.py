"""Rigs: `overrides` become patches, and paths go to the file of the machine they are true on."""

import os
from collections.abc import Iterator, Mapping

from gascity.model.problems import KeyPath
from gascity.render.lines import line_end, newline, put_block
from gascity.source import toml
from gascity.source.disk import read_plain
from gascity.source.edit import declare_rig, rig_entry, set_fields
from gascity_migrate.draft import CITY, INCLUDED, Draft, Manifest
from gascity_migrate.site import read_site
from gascity_migrate.texts import (
    comments,
    cut_tables,
    drop,
    rename_key,
    rename_tables,
    replace,
    table_begin,
)

LOCAL = "city.local.toml"
_LOCAL_HEAD = "# This machine's layer over city.toml. Not for git.\n"


def rename_overrides(draft: Draft, manifest: Manifest) -> None:
    """`[[rigs.overrides]]` is called `[[rigs.patches]]`, and stands before those that are."""
    for at in manifest.first.overrides:
        text = _renamed(manifest.text, at)
        if text is None:
            line = manifest.line(at)
            draft.notes.append(
                f"{manifest.file}:{line}: `overrides` stands beside `patches`, the two written "
                "differently; it is still read, before them"
            )
        else:
            manifest.change(text, "overrides are patches")


def _renamed(text: str, at: KeyPath) -> str | None:
    """None where the two cannot become one list."""
    marks = toml.marks(text)
    rig, patches = at[:2], (*at[:2], "patches")
    inline, beside = toml.written(marks, at), toml.written(marks, patches)
    other = table_begin(text, patches)
    if beside is not None or (inline is not None and other is not None):
        return None
    if inline is not None:
        return rename_key(text, inline, "patches")
    first = table_begin(text, at)
    if other is not None and first is not None and other < first:
        text, blocks = cut_tables(text, at)
        return put_block(text, table_begin(text, patches) or 0, _blocks_renamed(blocks))
    return rename_tables(
        text, lambda path: 1 if path[:3] == (*rig, "overrides") else None, "patches"
    )


def _blocks_renamed(blocks: str) -> str:
    return rename_tables(
        blocks,
        lambda path: 1 if path[0] == "rigs" and "overrides" in path[1:3] else None,
        "patches",
    )


# Paths


def move_paths(draft: Draft) -> None:
    """Paths of rigs go to city.local.toml, whose own word counts where it has one.

    So does what the older program kept of this machine, before what city.toml says.

    In a city that has nothing else of the first layout a path that is true everywhere may stay.
    """
    everything = draft.city.is_first
    local = draft.read(LOCAL, "local") if os.path.lexists(draft.absolute(LOCAL)) else None
    before = local.text if local else _LOCAL_HEAD
    text = _with_site(draft, before) if draft.city.has_marks else before
    moved = text != before
    for manifest in draft.city.manifests:
        for index, name, path in _paths(manifest):
            if not everything and path[:1] not in ("/", "~"):
                continue
            moved = True
            known = "path" in (rig_entry(text, name) or {})
            new = text if known else declare_rig(text, name, {"path": path})
            at = None if known else _end_of_path(new, name)
            left, behind = _without_path(manifest.text, index, keep=at is None)
            manifest.change(left, f"paths of rigs are in {LOCAL}")
            text = f"{new[:at]}  {behind}{new[at:]}" if behind else new
    if not moved:
        return
    if local is not None:
        local.change(text, "where rigs are is this machine's to say")
        draft.city.manifests.append(local)
    else:
        mode = next(one.new_mode for one in draft.city.manifests if one.kind == CITY)
        draft.files.write(LOCAL, text.encode(), mode, "where rigs are is this machine's to say")
    _ignore_local(draft)


def _without_path(text: str, index: int, *, keep: bool) -> tuple[str, str]:
    """The text without a rig's path, and what was said behind it; with `keep` that stays."""
    where = ("rigs", index, "path")
    mark = toml.written(toml.marks(text), where)
    if mark is None or mark.kind != "key" or keep:
        return drop(text, where), ""
    behind = " ".join(comments(text, mark.end, line_end(text, mark.end)))
    return replace(text, mark, (), keep=False), behind


def _end_of_path(text: str, name: str) -> int | None:
    """Where something can be said behind a rig's path; None inside an inline table."""
    rigs = toml.parse(text.encode())["rigs"]
    named = (isinstance(rig, Mapping) and rig.get("name") == name for rig in rigs)
    index = list(named).index(True)
    mark = toml.written(toml.marks(text), ("rigs", index, "path"))
    return mark.end if mark and mark.kind == "key" else None


def _with_site(draft: Draft, text: str) -> str:
    site = read_site(draft.root)
    own = toml.parse(text.encode()).get("workspace")
    said = own if isinstance(own, Mapping) else {}
    told = {f"workspace.{key}": site.workspace[key] for key in site.workspace if key not in said}
    text = set_fields(text, told)
    for name in site.paths:
        if name in (draft.rigs or ()) and "path" not in (rig_entry(text, name) or {}):
            text = declare_rig(text, name, {"path": site.paths[name]})
    return text


def _paths(manifest: Manifest) -> Iterator[tuple[int, str, str]]:
    rigs = manifest.raw.get("rigs") if manifest.kind in (CITY, INCLUDED) else None
    for index, rig in enumerate(rigs if isinstance(rigs, list) else ()):
        if isinstance(rig, Mapping):
            name, path = rig.get("name"), rig.get("path")
            if isinstance(name, str) and isinstance(path, str):
                yield index, name, path


def _ignore_local(draft: Draft) -> None:
    """Keep the machine's own file out of git, where the city is in one or says such things."""
    path = draft.absolute(".gitignore")
    if not os.path.lexists(path) and _in_git(draft.root):
        line = f"{LOCAL}\n".encode()
        draft.files.write(".gitignore", line, 0o644, f"{LOCAL} is not for git")
    data = read_plain(path) if os.path.isfile(path) else None
    if data is None:
        return
    lines = {line.strip().lstrip(b"/") for line in data.splitlines()}
    if LOCAL.encode() in lines or b"*.local.toml" in lines:
        return
    end = newline(data.decode("utf-8", "replace")).encode()
    begun = b"" if not data or data.endswith(b"\n") else end
    draft.edits[".gitignore"] = (data + begun + LOCAL.encode() + end, f"{LOCAL} is not for git")


def _in_git(path: str) -> bool:
    while not os.path.lexists(f"{path}/.git"):
        if path == (path := os.path.dirname(path)):
            return False
    return True
