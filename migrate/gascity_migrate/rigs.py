"""Converts rigs: `overrides` become patches, paths move to the machine-local file."""

import os
from collections.abc import Iterator

from gascity.model.document_text import insert_block, line_end, newline
from gascity.model.problems import KeyPath
from gascity.source.disk import read_plain
from gascity.toml import positions, read
from gascity.toml.edit import declare_rig, rig_entry, set_fields
from gascity.toml.rewrite import (
    comments,
    cut_tables,
    remove_key,
    rename_key,
    rename_tables,
    replace_statement,
    table_begin,
)
from gascity_migrate.draft import CITY, INCLUDED, Draft, Manifest
from gascity_migrate.names import read_machine_file
from gascity_migrate.v1_tables import table_at, tables_at, text_at

LOCAL = "city.local.toml"
_LOCAL_HEAD = "# This machine's layer over city.toml. Not for git.\n"


def rename_overrides(draft: Draft, manifest: Manifest) -> None:
    """Rename `[[rigs.overrides]]` to `[[rigs.patches]]`, before the existing patches."""
    for at in manifest.v1.overrides:
        text = _renamed(manifest.text, at)
        if text is None:
            words = "`overrides` is kept: it cannot be merged with `patches`, "
            words += "which uses a different syntax; it still applies, before `patches`"
            draft.note(manifest, at, words)
        else:
            manifest.change(text, "`overrides` is now `patches`")


def _renamed(text: str, at: KeyPath) -> str | None:
    """Return the text with `overrides` renamed; None if it cannot be merged with `patches`."""
    patches: KeyPath = (*at[:2], "patches")
    inline, beside = positions.value_mark(text, at), positions.value_mark(text, patches)
    other = table_begin(text, patches)
    if beside is not None or (inline is not None and other is not None):
        return None
    if inline is not None:
        return rename_key(text, at, "patches")
    first = table_begin(text, at)
    if other is not None and first is not None and other < first:
        text, blocks = cut_tables(text, at)
        blocks = rename_tables(blocks, ("rigs", "overrides"), "patches")
        return insert_block(text, table_begin(text, patches) or 0, blocks)
    return rename_tables(text, at, "patches")


# Paths


def move_paths(draft: Draft) -> None:
    """Move the paths of rigs to city.local.toml; paths that it already sets take precedence.

    v1's machine-local file goes there too and takes precedence over city.toml. A city without
    other v1 parts keeps relative paths, which are the same on every machine.
    """
    is_v1 = draft.city.is_v1
    local = draft.read(LOCAL, "local") if os.path.lexists(draft.absolute(LOCAL)) else None
    before = local.text if local else _LOCAL_HEAD
    text = _with_machine_file(draft, before) if draft.city.has_marks else before
    moved = text != before
    for manifest in draft.city.manifests:
        for index, name, path in _paths(manifest):
            if not is_v1 and path[:1] not in ("/", "~"):
                continue
            moved = True
            known = "path" in (rig_entry(text, name) or {})
            new = text if known else declare_rig(text, name, {"path": path})
            at = None if known else _end_of_path(new, name)
            rest, comment = _without_path(manifest.text, index, keep=at is None)
            manifest.change(rest, f"paths of rigs are in {LOCAL}")
            text = f"{new[:at]}  {comment}{new[at:]}" if comment else new
    if not moved:
        return
    if local is not None:
        local.change(text, "paths of rigs are specific to this machine")
        draft.city.manifests.append(local)
    else:
        mode = draft.city_toml.new_mode
        draft.files.write(LOCAL, text.encode(), mode, "paths of rigs are specific to this machine")
    _ignore_local(draft)


def _without_path(text: str, index: int, *, keep: bool) -> tuple[str, str]:
    """Remove a rig's path; return the text and the trailing comment, which `keep` leaves in."""
    where = ("rigs", index, "path")
    mark = positions.value_mark(text, where)
    if mark is None or mark.kind != "key" or keep:
        return remove_key(text, where), ""
    comment = " ".join(comments(text, mark.end, line_end(text, mark.end)))
    return replace_statement(text, mark, (), keep=False), comment


def _end_of_path(text: str, name: str) -> int | None:
    """Return the offset after a rig's path for a comment; None inside an inline table."""
    rigs = tables_at(read.parse(text.encode()), "rigs")
    index = next(index for index, rig in rigs if rig.get("name") == name)
    mark = positions.value_mark(text, ("rigs", index, "path"))
    return mark.end if mark and mark.kind == "key" else None


def _with_machine_file(draft: Draft, text: str) -> str:
    machine_file = read_machine_file(draft.root)
    known = table_at(read.parse(text.encode()), "workspace")
    new = {f"workspace.{k}": v for k, v in machine_file.workspace.items() if k not in known}
    text = set_fields(text, new)
    for name, path in machine_file.paths.items():
        if name in (draft.rigs or ()) and "path" not in (rig_entry(text, name) or {}):
            text = declare_rig(text, name, {"path": path})
    return text


def _paths(manifest: Manifest) -> Iterator[tuple[int, str, str]]:
    rigs = tables_at(manifest.raw, "rigs") if manifest.kind in (CITY, INCLUDED) else []
    for index, rig in rigs:
        if isinstance(rig.get("name"), str) and isinstance(rig.get("path"), str):
            yield index, text_at(rig, "name"), text_at(rig, "path")


def _ignore_local(draft: Draft) -> None:
    """Add city.local.toml to .gitignore, if the city is in a git repository or has the file."""
    path = draft.absolute(".gitignore")
    if not os.path.lexists(path) and _in_git(draft.root):
        line = f"{LOCAL}\n".encode()
        draft.files.write(".gitignore", line, 0o644, f"keep {LOCAL} out of git")
    data = read_plain(path) if os.path.isfile(path) else None
    if data is None:
        return
    lines = {line.strip().lstrip(b"/") for line in data.splitlines()}
    if LOCAL.encode() in lines or b"*.local.toml" in lines:
        return
    end = newline(data.decode("utf-8", "replace")).encode()
    begun = b"" if not data or data.endswith(b"\n") else end
    draft.edits[".gitignore"] = (data + begun + LOCAL.encode() + end, f"keep {LOCAL} out of git")


def _in_git(path: str) -> bool:
    while not os.path.lexists(f"{path}/.git"):
        if path == (path := os.path.dirname(path)):
            return False
    return True
