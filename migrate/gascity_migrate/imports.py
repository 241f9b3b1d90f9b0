"""Converts packs included without a name to imports with a binding."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gascity.model.document_text import insert_block, newline
from gascity.model.problems import KeyPath
from gascity.model.repositories import is_remote
from gascity.toml.edit import declare_rig, key_text, literal, set_fields
from gascity.toml.rewrite import remove_key, remove_tables, table_begin
from gascity_migrate.draft import Draft, Manifest, PackFiles
from gascity_migrate.names import as_import, binding_for, without_credentials
from gascity_migrate.v1_tables import INCLUDES, Include, NamedPack, table_at, tables_at

_REASON = "packs are imported by name"
_DEFAULT_IMPORTS = ("defaults", "rig", "imports")


class NewImport(NamedTuple):
    """An include converted to an import of the rig `rig`, or of the city if that is ""."""

    binding: str
    rig: str


def bind_includes(draft: Draft) -> list[NewImport]:
    """Convert every include to an import; return those of the city's own manifests."""
    new_imports: list[NewImport] = []
    for home in draft.homes:
        packs = [pack for manifest in home.manifests for pack in manifest.v1.packs]
        known: dict[str, object] = {}
        for manifest in home.manifests:
            known |= table_at(manifest.raw, "imports")
        for manifest in home.manifests:
            bound = _bind(draft, manifest, packs, known)
            new_imports += bound if home.is_city else ()
            _drop_packs(draft, manifest)
            _report_credentials(draft, manifest)
        _move_default_imports(draft, home)
    return new_imports


def _bind(
    draft: Draft, manifest: Manifest, packs: Sequence[NamedPack], known: dict[str, object]
) -> list[NewImport]:
    """Bind the includes of one manifest; adds to `known`, the bindings of the city or pack."""
    own: list[Include] = []
    default: list[Include] = []
    rigs: dict[str | int, list[Include]] = {}
    for include in manifest.v1.includes:
        if include.owner == "rig":
            rigs.setdefault(include.at[1], []).append(include)
        else:
            (default if include.owner == "default-rig" else own).append(include)
    new = _new_imports(own, packs, known)
    for path in filter(_is_include, manifest.v1.marks):
        manifest.change(remove_key(manifest.text, path), _REASON)
    manifest.change(_add(manifest.text, ("imports",), new), _REASON)
    existing = dict(table_at(manifest.raw, *_DEFAULT_IMPORTS))
    defaults = _new_imports(default, packs, existing)
    manifest.change(_add(manifest.text, _DEFAULT_IMPORTS, defaults), _REASON)
    bound = [NewImport(binding, "") for binding in new]
    for index, rig in tables_at(manifest.raw, "rigs"):
        if index in rigs:
            bound += _bind_rig(draft, manifest, index, rig, rigs[index], packs)
    return bound


def _is_include(path: KeyPath) -> bool:
    """Return whether the key path is a list of included packs, even if it is empty."""
    if path[0] == "pack":
        return path[1:] == ("includes",)
    known = (*INCLUDES, "default_rig_includes")
    return path[0] in ("workspace", "rigs") and len(path) > 1 and path[-1] in known


def _new_imports(
    includes: Iterable[Include], packs: Sequence[NamedPack], known: dict[str, object]
) -> dict[str, dict[str, str]]:
    """Return import tables by binding, without packs that are already imported."""
    new: dict[str, dict[str, str]] = {}
    for include in includes:
        table = as_import(include.source, packs)
        dotted = {**table, "source": _dotted(table["source"])}
        if table not in known.values() and dotted not in known.values():
            binding = binding_for(include.source, known)
            new[binding] = known[binding] = dotted
    return new


def _dotted(source: str) -> str:
    """Prefix a bare path with `./`, to mark it clearly as a path."""
    plain = source[:1] not in (".", "/", "~") and not source.startswith("builtin:")
    return f"./{source}" if plain and not is_remote(source) else source


def _add(text: str, path: KeyPath, tables: Mapping[str, Mapping[str, str]]) -> str:
    """Insert imports before the existing ones, because v1 read includes first."""
    begin = table_begin(text, path) if tables else None
    if begin is None:
        return set_fields(text, _flat(key_text(*path), tables))
    end = newline(text)
    blocks = []
    for binding, table in tables.items():
        lines = [f"{name} = {literal(value)}" for name, value in table.items()]
        blocks.append(end.join([f"[{key_text(*path, binding)}]", *lines]))
    return insert_block(text, begin, (end * 2).join(blocks))


def _flat(prefix: str, tables: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return tables as dotted keys, so that they are added to those that exist."""
    return {
        f"{prefix}.{binding}.{name}": value
        for binding, table in tables.items()
        for name, value in table.items()
    }


def _bind_rig(
    draft: Draft,
    manifest: Manifest,
    index: int,
    rig: Mapping[str, object],
    includes: Sequence[Include],
    packs: Sequence[NamedPack],
) -> list[NewImport]:
    name = includes[0].rig
    path: KeyPath = ("rigs", index, "imports")
    if isinstance(rig.get("imports"), list):
        words = f"rig `{name}` has both `includes` and a list of `imports`"
        hint = "rewrite the list as [rigs.imports.NAME] tables, then run `city migrate` again"
        draft.report("bad-value", words, manifest.place(path), hint)
        return []
    new = _new_imports(includes, packs, dict(table_at(rig, "imports")))
    if table_begin(manifest.text, path) is None:
        manifest.change(declare_rig(manifest.text, name, _flat("imports", new)), _REASON)
    else:
        manifest.change(_add(manifest.text, path, new), _REASON)
    return [NewImport(binding, name) for binding in new]


def _drop_packs(draft: Draft, manifest: Manifest) -> None:
    """Remove `[packs]`: its sources are now in the imports. Report packs that are not used."""
    all_includes = [each for layer in manifest.home.manifests for each in layer.v1.includes]
    used = {include.source for include in all_includes}
    for pack in manifest.v1.packs:
        if pack.name not in used:
            draft.record_not_carried(manifest, pack.at, "no pack or rig includes it")
    for path in manifest.v1.marks:
        if path in (("packs",), ("topologies",)):
            manifest.change(remove_tables(manifest.text, path), _REASON)


def _report_credentials(draft: Draft, manifest: Manifest) -> None:
    """Report credentials in sources: an import never contains any."""
    reason = "removed user and password; use a git credential helper or an ssh address"
    sources = [(item.source, (*item.at, "source")) for item in manifest.v1.packs]
    sources += [(item.source, item.at) for item in manifest.v1.includes]
    for source, at in sources:
        if without_credentials(source) != source:
            draft.record_not_carried(manifest, at, reason)


def _move_default_imports(draft: Draft, home: PackFiles) -> None:
    """Move `[defaults.rig.imports]` from pack.toml to city.toml."""
    pack = home.pack
    imports = table_at(pack.raw, *_DEFAULT_IMPORTS) if pack else {}
    if pack is None or not imports:
        return
    if not home.is_city or draft.is_pack:
        draft.record_not_carried(pack, ("defaults",), "only a city can set the imports of new rigs")
    else:
        city = draft.city_toml
        existing = table_at(city.raw, *_DEFAULT_IMPORTS)
        new = {name: table_at(imports, name) for name in imports if name not in existing}
        city.change(set_fields(city.text, _flat("defaults.rig.imports", new)), _REASON)
    pack.change(remove_tables(pack.text, ("defaults",)), _REASON)
