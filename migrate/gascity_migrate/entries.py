"""Converts doctor checks, commands, orders and formulas to directories."""

import os
import posixpath

from gascity.model.names import is_name
from gascity.model.problems import Place
from gascity.source.disk import read_plain
from gascity.toml import read
from gascity.toml.read import TomlError
from gascity.toml.rewrite import change_value, remove_key, remove_tables, rename_key, take_tables
from gascity_migrate.draft import Draft, Manifest, PackFiles
from gascity_migrate.v1_tables import Entry, table_at

_MANIFESTS = {"doctor": "doctor.toml", "commands": "command.toml"}
_CALLED = {"doctor": "checks", "commands": "commands"}


def move_entries(draft: Draft, home: PackFiles) -> None:
    """Convert a pack's doctor checks, commands, formulas and orders."""
    for manifest in home.manifests:
        for kind, entries in manifest.v1.entries.items():
            if entries:
                text, texts = take_tables(manifest.text, kind)
                manifest.change(text, f"{_CALLED[kind]} are directories")
                for entry in entries:
                    _move_entry(draft, manifest, kind, entry, texts[int(entry.at[1])])
        _move_formulas_dir(draft, manifest)
    _move_orders(draft, home)


def _move_entry(draft: Draft, manifest: Manifest, kind: str, entry: Entry, text: str) -> None:
    """Write `doctor/<name>/doctor.toml` or `commands/<name>/command.toml`; keep the script."""
    words = entry.name.split()
    if not words or not all(map(is_name, words)):
        place = manifest.place((*entry.at, "name"), of_value=True)
        draft.report("bad-name", f"`{entry.name}` is not a valid name", place)
        return
    leaf = manifest.home.under("/".join((kind, *words)))
    text = remove_key(text, ("name",))
    script = draft.find(entry.script, manifest) if entry.script is not None else None
    if script is not None:
        text = _script_text(text, posixpath.relpath(draft.shown(script), leaf))
    if kind == "commands" and entry.long_description is not None:
        _write_help(draft, manifest, entry.long_description, entry, leaf)
        text = remove_key(text, ("long_description",))
    if text.strip() or not os.path.isdir(draft.absolute(leaf)):
        target, reason = f"{leaf}/{_MANIFESTS[kind]}", f"{_CALLED[kind]} are directories"
        place = manifest.place(entry.at)
        draft.files.write(target, text.encode(), manifest.new_mode, reason, place)


def _script_text(text: str, path: str) -> str:
    """Replace `script` by `run`, whose path is relative to the entry's directory."""
    if path == "run.sh":
        return remove_key(text, ("script",))
    return rename_key(change_value(text, ("script",), path), ("script",), "run")


def _write_help(draft: Draft, manifest: Manifest, text: str, entry: Entry, leaf: str) -> None:
    """Move the long description to help.md: the file it names, or the text itself."""
    target, reason = f"{leaf}/help.md", "help of a command"
    place = manifest.place((*entry.at, "long_description"), of_value=True)
    named = draft.find(text, manifest) if text and "\n" not in text else None
    if named is not None and os.path.isfile(named):
        keeps = not draft.belongs(named, manifest.home)
        draft.files.take(named, target, reason, place, keeps=keeps)
    elif text:
        content = (text if text.endswith("\n") else text + "\n").encode()
        draft.files.write(target, content, manifest.new_mode, reason, place)


# Formulas and orders


def _move_formulas_dir(draft: Draft, manifest: Manifest) -> None:
    written, home = manifest.v1.formulas_dir, manifest.home
    if not written:
        return
    at = ("formulas", "dir")
    source = draft.find(written, manifest)
    if source != draft.absolute(home.under("formulas")):
        if source is not None and os.path.isdir(source) and draft.belongs(source, home):
            _move_formulas(draft, home, source, manifest.place(at))
        else:
            reason = f"{written} is not a directory of the pack; use formulas/"
            draft.record_not_carried(manifest, at, reason)
    text = remove_key(manifest.text, at)
    if read.parse(text.encode()).get("formulas") == {}:
        text = remove_tables(text, ("formulas",))
    manifest.change(text, "formulas are in formulas/")


def _move_formulas(draft: Draft, home: PackFiles, source: str, place: Place) -> None:
    for name in sorted(os.listdir(source)):
        if name != "orders":
            target = home.under(f"formulas/{name}")
            draft.files.take(f"{source}/{name}", target, "formulas are in formulas/", place)
    for directory, _, names in os.walk(f"{source}/orders"):
        below = directory[len(source) + 1 :]
        for name in sorted(set(names) - {"order.toml"}):
            target = home.under(f"{below}/{name}")
            draft.files.take(f"{directory}/{name}", target, "orders are in orders/", place)


def _move_orders(draft: Draft, home: PackFiles) -> None:
    formulas = {manifest.v1.formulas_dir or "formulas" for manifest in home.manifests}
    parents = sorted({"formulas", *map(posixpath.normpath, formulas)})
    for directory in (*(f"{parent}/orders" for parent in parents), "orders"):
        for name in draft.names_in(home.under(directory)):
            path = draft.absolute(home.under(f"{directory}/{name}"))
            if os.path.isfile(f"{path}/order.toml") and name[0] not in "._":
                _order(draft, f"{path}/order.toml", home.under(f"orders/{name}.toml"))
            elif directory == "orders" and name.endswith(".toml"):
                _gate(draft, path)
    for directory, kind in (("automations", "automation"), ("plugins", "plugin")):
        for name in draft.names_in(home.under(f"formulas/{directory}")):
            file = home.under(f"formulas/{directory}/{name}/{kind}.toml")
            if os.path.isfile(draft.absolute(file)):
                target = home.under(f"orders/{name}.toml")
                words = f"is not read; rewrite it as {target} with an [order] table"
                draft.notes.append(f"{file} {words}")


def _order(draft: Draft, file: str, target: str) -> None:
    """Move order.toml of an order directory to orders/; other files in it stay."""
    text = _triggered(draft, file)
    shown = draft.shown(file)
    reason = "an order is a file in orders/"
    if text is None:
        draft.files.take(file, target, reason)
    else:
        mode = os.stat(file).st_mode & 0o777
        draft.files.write(target, text.encode(), mode, reason, Place(shown))
        draft.files.discard(shown, f"replaced by {target}")
    others = set(os.listdir(os.path.dirname(file))) - {"order.toml"}
    if others:
        directory = posixpath.dirname(shown)
        draft.notes.append(
            f"{target} was in {directory}, which still contains {', '.join(sorted(others))}; "
            "check uses of `$ORDER_DIR`, which has changed"
        )


def _gate(draft: Draft, file: str) -> None:
    text = _triggered(draft, file)
    if text is not None and not os.path.islink(file):
        draft.edits[draft.shown(file)] = (text.encode(), "`gate` is now `trigger`")


def _triggered(draft: Draft, file: str) -> str | None:
    """Return the text of an order with `gate` renamed to `trigger`; None if it has no `gate`."""
    data = read_plain(file) or b""
    try:
        document = read.parse(data)
    except TomlError as error:
        draft.report_invalid(draft.shown(file), error)
        return None
    text = data.decode()
    for path in (("order",), ()):
        if "trigger" not in table_at(document, *path):
            text = rename_key(text, (*path, "gate"), "trigger")
    return text if text != data.decode() else None
