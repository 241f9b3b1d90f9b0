"""Packs that were included without a name become imports, each under a binding of its own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.problems import KeyPath, Problem
from gascity.model.repositories import is_remote
from gascity.render.lines import newline, put_block
from gascity.source.edit import declare_rig, set_fields
from gascity_migrate.draft import PACK, Draft, Home, Manifest
from gascity_migrate.first import INCLUDES, Include, NamedPack
from gascity_migrate.names import as_import, binding_for, without_credentials
from gascity_migrate.texts import drop, drop_tables, key, literal, table_begin

_REASON = "packs are imported by name"


class Bound(NamedTuple):
    """An include that is an import now; `rig` is the rig whose it is, "" for the city's."""

    binding: str
    rig: str


def bind_includes(draft: Draft) -> list[Bound]:
    """Turn every include into an import; those of the city's own files are returned."""
    found: list[Bound] = []
    for home in draft.homes:
        packs = [pack for manifest in home.manifests for pack in manifest.first.packs]
        known = dict(pair for manifest in home.manifests for pair in _imports(manifest.raw))
        for manifest in home.manifests:
            bound = _bind(draft, manifest, packs, known)
            found += bound if home.is_city else ()
            _drop_packs(draft, home, manifest)
            _lose_credentials(draft, manifest)
        _move_default_imports(draft, home)
    return found


def _imports(table: Mapping[str, object], *path: str) -> Iterator[tuple[str, object]]:
    value: object = table
    for part in (*path, "imports"):
        value = value.get(part) if isinstance(value, Mapping) else None
    yield from value.items() if isinstance(value, Mapping) else ()


def _bind(
    draft: Draft, manifest: Manifest, packs: Sequence[NamedPack], known: dict[str, object]
) -> list[Bound]:
    """Bindings of one manifest; `known` are those of the whole city or pack, and grow."""
    own: list[Include] = []
    default: list[Include] = []
    rigs: dict[str | int, list[Include]] = {}
    for include in manifest.first.includes:
        if include.whose == "rig":
            rigs.setdefault(include.at[1], []).append(include)
        else:
            (default if include.whose == "default-rig" else own).append(include)
    new = _named(own, packs, known)
    bound = [Bound(binding, "") for binding in new]
    for path in manifest.first.marks:
        if _is_include(path):
            manifest.change(drop(manifest.text, path), _REASON)
    manifest.change(_add(manifest.text, ("imports",), new), _REASON)
    there = dict(_imports(manifest.raw, "defaults", "rig"))
    defaults = _named(default, packs, there)
    manifest.change(_add(manifest.text, ("defaults", "rig", "imports"), defaults), _REASON)
    for index, includes in rigs.items():
        bound += _bind_rig(draft, manifest, index, includes, packs)
    return bound


def _is_include(path: KeyPath) -> bool:
    """Is this a key that includes packs, or would if its list were not empty?"""
    if path[0] == "pack":
        return path[1:] == ("includes",)
    known = (*INCLUDES, "default_rig_includes")
    return path[0] in ("workspace", "rigs") and len(path) > 1 and path[-1] in known


def _named(
    includes: Iterable[Include], packs: Sequence[NamedPack], known: dict[str, object]
) -> dict[str, dict[str, str]]:
    """Tables of imports by their bindings; what is imported already is not imported again."""
    new: dict[str, dict[str, str]] = {}
    for include in includes:
        table = as_import(include.source, packs)
        dotted = {**table, "source": _dotted(table["source"])}
        if table not in known.values() and dotted not in known.values():
            binding = binding_for(include.source, known)
            new[binding] = known[binding] = dotted
    return new


def _dotted(source: str) -> str:
    """A bare path begins with `./`, so that nobody takes it for anything else."""
    plain = source[:1] not in (".", "/", "~") and not source.startswith("builtin:")
    return f"./{source}" if plain and not is_remote(source) else source


def _add(text: str, path: KeyPath, tables: Mapping[str, Mapping[str, str]]) -> str:
    """Write imports before those that are there: what was included was read first."""
    if not tables:
        return text
    begin = table_begin(text, path)
    if begin is None:
        words = ".".join(str(part) for part in path)
        flat = {f"{words}.{b}.{k}": v for b, table in tables.items() for k, v in table.items()}
        return set_fields(text, flat)
    return put_block(text, begin, _blocks(text, path, tables))


def _blocks(text: str, path: KeyPath, tables: Mapping[str, Mapping[str, str]]) -> str:
    end = newline(text)
    words = ".".join(part for part in path if isinstance(part, str))
    blocks = []
    for binding, table in tables.items():
        lines = [f"{name} = {literal(value)}" for name, value in table.items()]
        blocks.append(end.join([f"[{words}.{key(binding)}]", *lines]))
    return (end * 2).join(blocks)


def _bind_rig(
    draft: Draft,
    manifest: Manifest,
    index: str | int,
    includes: Sequence[Include],
    packs: Sequence[NamedPack],
) -> list[Bound]:
    rigs = manifest.raw["rigs"]
    rig = rigs[index] if isinstance(rigs, list) and isinstance(index, int) else {}
    if isinstance(rig.get("imports"), list):
        words = f"rig `{includes[0].rig}` has `includes` beside a list of `imports`"
        hint = "write the list as [rigs.imports.NAME] tables first"
        place = manifest.place(("rigs", index, "imports"))
        draft.problems.append(Problem("bad-value", words, place, hint))
        return []
    new = _named(includes, packs, dict(_imports(rig)))
    path: KeyPath = ("rigs", index, "imports")
    if table_begin(manifest.text, path) is None:
        flat = {f"imports.{b}.{k}": v for b, table in new.items() for k, v in table.items()}
        manifest.change(declare_rig(manifest.text, includes[0].rig, flat), _REASON)
    else:
        manifest.change(_add(manifest.text, path, new), _REASON)
    return [Bound(binding, includes[0].rig) for binding in new]


def _drop_packs(draft: Draft, home: Home, manifest: Manifest) -> None:
    """`[packs]` goes: what an include named there stands in its import."""
    used = {include.source for one in home.manifests for include in one.first.includes}
    for pack in manifest.first.packs:
        if pack.name not in used:
            draft.lose(manifest, pack.at, "nothing includes it")
    for path in manifest.first.marks:
        if path in (("packs",), ("topologies",)):
            manifest.change(drop_tables(manifest.text, path), _REASON)


def _lose_credentials(draft: Draft, manifest: Manifest) -> None:
    """Who may read a repository is never said in an import."""
    reason = "the import has no user or password: git asks its credential helper, or use ssh"
    found = [(one.source, (*one.at, "source")) for one in manifest.first.packs]
    found += [(one.source, one.at) for one in manifest.first.includes]
    for source, at in found:
        if without_credentials(source) != source:
            draft.lose(manifest, at, reason)


def _move_default_imports(draft: Draft, home: Home) -> None:
    """`[defaults.rig.imports]` of pack.toml: they are the city's to say."""
    pack = home.pack
    tables = dict(_imports(pack.raw, "defaults", "rig")) if pack else {}
    if pack is None or not tables:
        return
    if not home.is_city or draft.is_pack:
        draft.lose(pack, ("defaults",), "what a new rig imports is for the city to say")
    else:
        city = next(one for one in home.manifests if one.kind != PACK)
        there = dict(_imports(city.raw, "defaults", "rig"))
        flat = {
            f"defaults.rig.imports.{binding}.{name}": value
            for binding, table in tables.items()
            if binding not in there and isinstance(table, Mapping)
            for name, value in table.items()
        }
        city.change(set_fields(city.text, flat), _REASON)
    pack.change(drop_tables(pack.text, ("defaults",)), _REASON)
