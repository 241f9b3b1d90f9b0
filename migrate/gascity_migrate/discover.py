"""Find what a city is made of: its own files, and the packs inside it that it uses."""

import os
from collections.abc import Iterator, Mapping

from gascity.model.problems import KeyPath, Problem
from gascity.model.repositories import is_remote
from gascity.source import toml
from gascity.source.disk import is_below
from gascity.source.toml import TomlFault
from gascity_migrate.draft import CITY, INCLUDED, PACK, Draft, Home, Manifest
from gascity_migrate.names import as_import
from gascity_migrate.texts import drop, replace


def survey(draft: Draft) -> None:
    """Read everything that may have to change. The city comes first, each pack once."""
    city = draft.read("city.toml", CITY)
    if city is None:
        if not draft.problems:
            words = f"there is no city.toml in {draft.root}"
            draft.problems.append(Problem("no-city", words, None, "`city init` makes a city here"))
        return
    pack = draft.read("pack.toml", PACK)
    included = _included(draft, city)
    manifests = [one for one in (pack, city, *included) if one is not None]
    draft.homes.append(Home("", manifests))
    for home in draft.homes:  # grows while packs are found
        for manifest in home.manifests:
            draft.problems += manifest.first.problems
            for path, source in _sources(manifest):
                _follow(draft, home, manifest, path, source)


def _included(draft: Draft, city: Manifest) -> Iterator[Manifest]:
    for index, written in enumerate(city.first.files):
        if is_remote(written):
            continue
        path = os.path.normpath(draft.absolute(written.lstrip("/")))
        place = city.place(("include", index))
        if not is_below(path, draft.root):
            words = f"`{written}` lies outside the city"
            hint = "keep the file in the city"
            draft.problems.append(Problem("path-leaves-pack", words, place, hint))
        elif not os.path.lexists(path):
            words = f"{draft.shown(path)} is not there"
            draft.problems.append(Problem("missing-file", words, place))
        elif (one := draft.read(draft.shown(path), INCLUDED)) is not None:
            yield one


def drop_emptied(draft: Draft) -> None:
    """An included file that nothing is left of goes, and city.toml does not include it any more."""
    city = next(one for one in draft.city.manifests if one.kind == CITY)
    for index in reversed(range(len(city.first.files))):
        path = os.path.normpath(city.first.files[index].lstrip("/"))
        one = next((m for m in draft.city.manifests if (m.kind, m.file) == (INCLUDED, path)), None)
        if one is None or one.text.strip() or not one.original.strip():
            continue
        draft.city.manifests.remove(one)
        draft.files.discard(one.file, "nothing is left in it")
        mark = toml.written(toml.marks(city.text), ("include", index))
        text = replace(city.text, mark, ()) if mark else city.text
        if toml.parse(text.encode()).get("include") == []:
            text = drop(text, ("include",))
        city.change(text, "a file that it included is gone")


def _sources(manifest: Manifest) -> Iterator[tuple[KeyPath, str]]:
    """Everything that names a pack, and where."""
    raw, first = manifest.raw, manifest.first
    for include in first.includes:
        yield include.at, as_import(include.source, first.packs)["source"]
    yield from _imports(raw.get("imports"), ("imports",))
    default = raw.get("defaults")
    rig = default.get("rig") if isinstance(default, Mapping) else None
    if isinstance(rig, Mapping):
        yield from _imports(rig.get("imports"), ("defaults", "rig", "imports"))
    rigs = raw.get("rigs")
    for index, entry in enumerate(rigs if isinstance(rigs, list) else ()):
        if isinstance(entry, Mapping):
            yield from _imports(entry.get("imports"), ("rigs", index, "imports"))


def _imports(tables: object, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    for binding, table in tables.items() if isinstance(tables, Mapping) else ():
        source = table.get("source") if isinstance(table, Mapping) else None
        if isinstance(source, str) and source:
            yield (*at, binding), source


def _follow(draft: Draft, home: Home, manifest: Manifest, at: KeyPath, source: str) -> None:
    if is_remote(source) or source.startswith("builtin:"):
        return
    path = directory(draft, home, source)
    if not os.path.isfile(f"{path}/pack.toml"):
        if os.path.isfile(f"{path}/topology.toml"):
            reason = f"{draft.shown(path)}/topology.toml is not read: write it as pack.toml"
            draft.lose(manifest, at, f"{reason}, with a [pack] table, and migrate again")
        return  # that it is missing is said by whoever loads the city
    real = os.path.realpath(path)
    if not is_below(real, os.path.realpath(draft.root)) or not is_below(path, draft.root):
        _outside(draft, manifest, at, path)
        return
    root = draft.shown(path)
    known = {os.path.realpath(draft.absolute(one.root)) for one in draft.homes}
    if real in known or root.partition("/")[0] == ".gc":
        return
    pack = draft.read(f"{root}/pack.toml", PACK)
    if pack is not None:
        draft.homes.append(Home(root, [pack]))


def directory(draft: Draft, home: Home, source: str) -> str:
    """The directory that a source on this disk means, absolute."""
    if source.startswith("//"):
        return os.path.normpath(draft.absolute(source.lstrip("/")))
    base = draft.absolute(home.root)
    return os.path.normpath(os.path.join(base, os.path.expanduser(source)))


def _outside(draft: Draft, manifest: Manifest, at: KeyPath, path: str) -> None:
    """A pack of the first layout that is not the city's to change."""
    data = draft.disk.read(f"{path}/pack.toml")
    try:
        other = Manifest(f"{path}/pack.toml", PACK, data or b"", 0)
    except TomlFault:
        return
    if other.first.marks:
        home = "pack" if draft.is_pack else "city"
        words = f"{path} lies outside the {home}: it is read as it is, and not migrated"
        note = f"{manifest.file}:{manifest.line(at)}: {words}"
        if note not in draft.outside:
            draft.outside.append(note)
