"""Finds the files of a city and of the packs inside it that it uses."""

import os
from collections.abc import Iterator, Mapping

from gascity.model.problems import KeyPath, Problem
from gascity.model.repositories import is_remote
from gascity.source.disk import is_below
from gascity.toml import positions, read
from gascity.toml.read import TomlError
from gascity_migrate.draft import CITY, INCLUDED, PACK, Draft, Manifest, PackFiles
from gascity_migrate.names import as_import
from gascity_migrate.toml_text import drop, replace


def read_manifests(draft: Draft) -> None:
    """Read all manifests that may change: the city's first, then each pack's once."""
    city = draft.read("city.toml", CITY)
    if city is None:
        if not draft.problems:
            words = f"no city.toml in {draft.root}"
            hint = "to create a city here, run `city init`"
            draft.problems.append(Problem("no-city", words, None, hint))
        return
    pack = draft.read("pack.toml", PACK)
    included = _included(draft, city)
    manifests = [item for item in (pack, city, *included) if item is not None]
    draft.homes.append(PackFiles("", manifests))
    for home in draft.homes:  # grows while packs are found
        for manifest in home.manifests:
            draft.problems += manifest.v1.problems
            for path, source in _sources(manifest):
                _follow(draft, home, manifest, path, source)


def _included(draft: Draft, city: Manifest) -> Iterator[Manifest]:
    for index, written in enumerate(city.v1.files):
        if is_remote(written):
            continue
        path = os.path.normpath(draft.absolute(written.lstrip("/")))
        place = city.place(("include", index))
        if not is_below(path, draft.root):
            words = f"`{written}` is outside the city"
            hint = "move the file into the city"
            draft.problems.append(Problem("path-leaves-pack", words, place, hint))
        elif not os.path.lexists(path):
            words = f"{draft.shown(path)} does not exist"
            draft.problems.append(Problem("missing-file", words, place))
        elif (manifest := draft.read(draft.shown(path), INCLUDED)) is not None:
            yield manifest


def drop_emptied(draft: Draft) -> None:
    """Remove included files that are now empty, and their entries in city.toml."""
    city = next(manifest for manifest in draft.city.manifests if manifest.kind == CITY)
    for index in reversed(range(len(city.v1.files))):
        path = os.path.normpath(city.v1.files[index].lstrip("/"))
        included = next(
            (
                manifest
                for manifest in draft.city.manifests
                if (manifest.kind, manifest.file) == (INCLUDED, path)
            ),
            None,
        )
        if included is None or included.text.strip() or not included.original.strip():
            continue
        draft.city.manifests.remove(included)
        draft.files.discard(included.file, "the file is empty now")
        mark = positions.value_mark(city.text, ("include", index))
        text = replace(city.text, mark, ()) if mark else city.text
        if read.parse(text.encode()).get("include") == []:
            text = drop(text, ("include",))
        city.change(text, "an included file is empty now")


def _sources(manifest: Manifest) -> Iterator[tuple[KeyPath, str]]:
    """Yield the source of every include and import with its key path."""
    raw, v1 = manifest.raw, manifest.v1
    for include in v1.includes:
        yield include.at, as_import(include.source, v1.packs)["source"]
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


def _follow(draft: Draft, home: PackFiles, manifest: Manifest, at: KeyPath, source: str) -> None:
    if is_remote(source) or source.startswith("builtin:"):
        return
    path = directory(draft, home, source)
    if not os.path.isfile(f"{path}/pack.toml"):
        if os.path.isfile(f"{path}/topology.toml"):
            reason = f"{draft.shown(path)}/topology.toml is not supported"
            fix = "rename it to pack.toml with a [pack] table, then run `city migrate` again"
            draft.record_not_carried(manifest, at, f"{reason}; {fix}")
        return  # loading the city reports a missing pack
    real = os.path.realpath(path)
    if not is_below(real, os.path.realpath(draft.root)) or not is_below(path, draft.root):
        _outside(draft, manifest, at, path)
        return
    root = draft.shown(path)
    known = {os.path.realpath(draft.absolute(pack_files.root)) for pack_files in draft.homes}
    if real in known or root.partition("/")[0] == ".gc":
        return
    pack = draft.read(f"{root}/pack.toml", PACK)
    if pack is not None:
        draft.homes.append(PackFiles(root, [pack]))


def directory(draft: Draft, home: PackFiles, source: str) -> str:
    """Return the absolute directory of a local source."""
    if source.startswith("//"):
        return os.path.normpath(draft.absolute(source.lstrip("/")))
    base = draft.absolute(home.root)
    return os.path.normpath(os.path.join(base, os.path.expanduser(source)))


def _outside(draft: Draft, manifest: Manifest, at: KeyPath, path: str) -> None:
    """Note a v1 pack outside the city, which is not migrated."""
    data = draft.disk.read(f"{path}/pack.toml")
    try:
        other = Manifest(f"{path}/pack.toml", PACK, data or b"", 0)
    except TomlError:
        return
    if other.v1.marks:
        home = "pack" if draft.is_pack else "city"
        words = f"{path} is outside the {home} and is not migrated"
        note = f"{manifest.file}:{manifest.line(at)}: {words}"
        if note not in draft.outside:
            draft.outside.append(note)
