"""Doctor checks, commands, orders and formulas: from tables and old places to directories."""

import os
import posixpath

from gascity.model.names import is_name
from gascity.model.problems import Place, Problem
from gascity.source import toml
from gascity.source.disk import read_plain
from gascity.source.toml import TomlFault
from gascity_migrate.draft import Draft, Home, Manifest
from gascity_migrate.first import Entry
from gascity_migrate.texts import drop, drop_tables, rename_key, take_tables, with_text

_MANIFESTS = {"doctor": "doctor.toml", "commands": "command.toml"}
_CALLED = {"doctor": "checks", "commands": "commands"}
_SCRIPT = "run.sh"


def move_entries(draft: Draft, home: Home) -> None:
    """Everything that a pack brings besides agents."""
    for manifest in home.manifests:
        for kind, entries in (
            ("doctor", manifest.first.doctor),
            ("commands", manifest.first.commands),
        ):
            if entries:
                text, texts = take_tables(manifest.text, kind)
                manifest.change(text, f"{_CALLED[kind]} are directories")
                for entry in entries:
                    _entry(draft, home, manifest, kind, entry, texts[int(entry.at[1])])
        _formulas(draft, home, manifest)
    _orders(draft, home)


def _entry(
    draft: Draft, home: Home, manifest: Manifest, kind: str, entry: Entry, text: str
) -> None:
    """`doctor/<name>/doctor.toml` or `commands/<name>/command.toml`; the script stays."""
    name, script = entry.table.get("name"), entry.table.get("script")
    words = name.split() if isinstance(name, str) else []
    if not words or not all(map(is_name, words)):
        place = manifest.place((*entry.at, "name"), of_value=True)
        draft.problems.append(Problem("bad-name", f"`{name}` cannot be a name here", place))
        return
    leaf = home.under("/".join((kind, *words)))
    place = manifest.place(entry.at)
    text = drop(text, ("name",))
    if isinstance(script, str):
        text = _run(draft, home, manifest, leaf, text, script)
    if kind == "commands":
        text = _help(draft, home, manifest, entry, leaf, text)
    reason = f"{_CALLED[kind]} are directories"
    if text.strip() or not os.path.isdir(draft.absolute(leaf)):
        target = f"{leaf}/{_MANIFESTS[kind]}"
        draft.files.write(target, text.encode(), manifest.new_mode, reason, place)


def _run(draft: Draft, home: Home, manifest: Manifest, leaf: str, text: str, script: str) -> str:
    """`run` says where the script is, from the entry's own directory."""
    found = draft.find(script, home, manifest)
    mark = toml.written(toml.marks(text), ("script",))
    if found is None or mark is None:
        return text
    relative = posixpath.relpath(draft.shown(found), leaf)
    if relative == _SCRIPT:
        return drop(text, ("script",))
    return rename_key(with_text(text, mark, relative), mark, "run")


def _help(draft: Draft, home: Home, manifest: Manifest, entry: Entry, leaf: str, text: str) -> str:
    """A long description is help.md: the file it names, or the text it is."""
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
    return drop(text, ("long_description",))


# Formulas and orders


def _formulas(draft: Draft, home: Home, manifest: Manifest) -> None:
    written = manifest.first.formulas_dir
    if not written:
        return
    at = ("formulas", "dir")
    source = draft.find(written, home, manifest)
    target = draft.absolute(home.under("formulas"))
    if source is None or not os.path.isdir(source) or not draft.belongs(source, home):
        if source != target:
            draft.lose(manifest, at, f"{written} is no directory of the pack; write formulas/")
    elif source != target:
        _move_formulas(draft, home, source, manifest.place(at))
    text = drop(manifest.text, at)
    left = toml.parse(text.encode()).get("formulas")
    text = drop_tables(text, ("formulas",)) if left == {} else text
    manifest.change(text, "formulas are in formulas/")


def _move_formulas(draft: Draft, home: Home, source: str, place: Place) -> None:
    for name in sorted(os.listdir(source)):
        if name != "orders":
            target = home.under(f"formulas/{name}")
            draft.files.take(f"{source}/{name}", target, "formulas are in formulas/", place)
    for directory, _, names in os.walk(f"{source}/orders"):
        below = directory[len(source) + 1 :]
        for name in sorted(set(names) - {"order.toml"}):
            target = home.under(f"{below}/{name}")
            draft.files.take(f"{directory}/{name}", target, "orders are in orders/", place)


def _orders(draft: Draft, home: Home) -> None:
    formulas = [posixpath.normpath(one.first.formulas_dir or "formulas") for one in home.manifests]
    for directory in (*(f"{one}/orders" for one in sorted({"formulas", *formulas})), "orders"):
        there = draft.absolute(home.under(directory))
        for name in sorted(os.listdir(there)) if os.path.isdir(there) else ():
            file = f"{there}/{name}/order.toml"
            if os.path.isfile(file) and name[0] not in "._":
                _order(draft, file, home.under(f"orders/{name}.toml"))
            elif directory == "orders" and name.endswith(".toml"):
                _gate(draft, f"{there}/{name}")
    for directory, kind in (("automations", "automation"), ("plugins", "plugin")):
        there = draft.absolute(home.under(f"formulas/{directory}"))
        for name in sorted(os.listdir(there)) if os.path.isdir(there) else ():
            if os.path.isfile(f"{there}/{name}/{kind}.toml"):
                draft.notes.append(
                    f"{draft.shown(there)}/{name}/{kind}.toml is not read: an order is "
                    f"{home.under(f'orders/{name}.toml')}, with an [order] table"
                )


def _order(draft: Draft, file: str, target: str) -> None:
    """An order of a directory is one file; what else is in the directory stays."""
    text = _triggered(draft, file)
    shown = draft.shown(file)
    reason = "an order is a file in orders/"
    if text is None:
        draft.files.take(file, target, reason)
    else:
        mode = os.stat(file).st_mode & 0o777
        draft.files.write(target, text.encode(), mode, reason, Place(shown))
        draft.files.discard(shown, f"it is {target} now")
    others = set(os.listdir(os.path.dirname(file))) - {"order.toml"}
    if others:
        directory = posixpath.dirname(shown)
        draft.notes.append(
            f"{target} was in {directory}, which keeps {', '.join(sorted(others))}: "
            "`$ORDER_DIR` leads elsewhere now"
        )


def _gate(draft: Draft, file: str) -> None:
    text = _triggered(draft, file)
    if text is not None and not os.path.islink(file):
        draft.edits[draft.shown(file)] = (text.encode(), "`gate` is called `trigger`")


def _triggered(draft: Draft, file: str) -> str | None:
    """The text of an order that says `gate`, with today's word; None for any other."""
    data = read_plain(file)
    try:
        raw = toml.parse(data or b"")
    except TomlFault as fault:
        place = Place(draft.shown(file), line=fault.line, col=fault.col)
        draft.problems.append(Problem(fault.code, fault.message, place, fault.hint))
        return None
    text = (data or b"").decode()
    changed = None
    for path in (("order",), ()):
        table = raw.get("order") if path else raw
        mark = toml.written(toml.marks(text), (*path, "gate"))
        if mark is not None and isinstance(table, dict) and "trigger" not in table:
            changed = text = rename_key(text, mark, "trigger")
    return changed
