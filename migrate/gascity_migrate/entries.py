"""Converts doctor checks, commands, orders and formulas to directories."""

import os
import posixpath

from gascity.model.names import is_name
from gascity.model.problems import Place, Problem
from gascity.source.disk import read_plain
from gascity.toml import read
from gascity.toml.read import TomlError
from gascity.toml.rewrite import change_value, remove_key, remove_tables, rename_key, take_tables
from gascity_migrate.draft import Draft, Manifest, PackFiles
from gascity_migrate.v1_tables import Entry

_MANIFESTS = {"doctor": "doctor.toml", "commands": "command.toml"}
_CALLED = {"doctor": "checks", "commands": "commands"}
_SCRIPT = "run.sh"


def move_entries(draft: Draft, home: PackFiles) -> None:
    """Convert a pack's doctor checks, commands, formulas and orders."""
    for manifest in home.manifests:
        for kind, entries in (
            ("doctor", manifest.v1.doctor),
            ("commands", manifest.v1.commands),
        ):
            if entries:
                text, texts = take_tables(manifest.text, kind)
                manifest.change(text, f"{_CALLED[kind]} are directories")
                for entry in entries:
                    _entry(draft, home, manifest, kind, entry, texts[int(entry.at[1])])
        _formulas(draft, home, manifest)
    _orders(draft, home)


def _entry(
    draft: Draft, home: PackFiles, manifest: Manifest, kind: str, entry: Entry, text: str
) -> None:
    """Write `doctor/<name>/doctor.toml` or `commands/<name>/command.toml`; keep the script."""
    name, script = entry.table.get("name"), entry.table.get("script")
    words = name.split() if isinstance(name, str) else []
    if not words or not all(map(is_name, words)):
        place = manifest.place((*entry.at, "name"), of_value=True)
        draft.problems.append(Problem("bad-name", f"`{name}` is not a valid name", place))
        return
    leaf = home.under("/".join((kind, *words)))
    place = manifest.place(entry.at)
    text = remove_key(text, ("name",))
    if isinstance(script, str):
        text = _run(draft, home, manifest, leaf, text, script)
    if kind == "commands":
        text = _help(draft, home, manifest, entry, leaf, text)
    reason = f"{_CALLED[kind]} are directories"
    if text.strip() or not os.path.isdir(draft.absolute(leaf)):
        target = f"{leaf}/{_MANIFESTS[kind]}"
        draft.files.write(target, text.encode(), manifest.new_mode, reason, place)


def _run(
    draft: Draft, home: PackFiles, manifest: Manifest, leaf: str, text: str, script: str
) -> str:
    """Replace `script` by `run`, whose path is relative to the entry's directory."""
    source = draft.find(script, home, manifest)
    if source is None:
        return text
    relative = posixpath.relpath(draft.shown(source), leaf)
    if relative == _SCRIPT:
        return remove_key(text, ("script",))
    return rename_key(change_value(text, ("script",), relative), ("script",), "run")


def _help(
    draft: Draft, home: PackFiles, manifest: Manifest, entry: Entry, leaf: str, text: str
) -> str:
    """Move the long description to help.md: the file it names, or the text itself."""
    long = entry.table.get("long_description")
    if not isinstance(long, str):
        return text
    place = manifest.place((*entry.at, "long_description"), of_value=True)
    named = draft.find(long, home, manifest) if long and "\n" not in long else None
    if named is not None and os.path.isfile(named):
        keeps = not draft.belongs(named, home)
        draft.files.take(named, f"{leaf}/help.md", "help of a command", place, keeps=keeps)
    elif long:
        content = (long if long.endswith("\n") else long + "\n").encode()
        draft.files.write(f"{leaf}/help.md", content, manifest.new_mode, "help of a command", place)
    return remove_key(text, ("long_description",))


# Formulas and orders


def _formulas(draft: Draft, home: PackFiles, manifest: Manifest) -> None:
    written = manifest.v1.formulas_dir
    if not written:
        return
    at = ("formulas", "dir")
    source = draft.find(written, home, manifest)
    target = draft.absolute(home.under("formulas"))
    if source is None or not os.path.isdir(source) or not draft.belongs(source, home):
        if source != target:
            draft.record_not_carried(
                manifest, at, f"{written} is not a directory of the pack; use formulas/"
            )
    elif source != target:
        _move_formulas(draft, home, source, manifest.place(at))
    text = remove_key(manifest.text, at)
    left = read.parse(text.encode()).get("formulas")
    text = remove_tables(text, ("formulas",)) if left == {} else text
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


def _orders(draft: Draft, home: PackFiles) -> None:
    formulas = [
        posixpath.normpath(manifest.v1.formulas_dir or "formulas") for manifest in home.manifests
    ]
    for directory in (
        *(f"{manifest}/orders" for manifest in sorted({"formulas", *formulas})),
        "orders",
    ):
        path = draft.absolute(home.under(directory))
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
            file = f"{path}/{name}/order.toml"
            if os.path.isfile(file) and name[0] not in "._":
                _order(draft, file, home.under(f"orders/{name}.toml"))
            elif directory == "orders" and name.endswith(".toml"):
                _gate(draft, f"{path}/{name}")
    for directory, kind in (("automations", "automation"), ("plugins", "plugin")):
        path = draft.absolute(home.under(f"formulas/{directory}"))
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
            if os.path.isfile(f"{path}/{name}/{kind}.toml"):
                draft.notes.append(
                    f"{draft.shown(path)}/{name}/{kind}.toml is not read; rewrite it as "
                    f"{home.under(f'orders/{name}.toml')} with an [order] table"
                )


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
    data = read_plain(file)
    try:
        raw = read.parse(data or b"")
    except TomlError as error:
        place = Place(draft.shown(file), line=error.line, col=error.col)
        draft.problems.append(Problem(error.code, error.message, place, error.hint))
        return None
    text = original = (data or b"").decode()
    for path in (("order",), ()):
        table = raw.get("order") if path else raw
        if isinstance(table, dict) and "gate" in table and "trigger" not in table:
            text = rename_key(text, (*path, "gate"), "trigger")
    return text if text != original else None
