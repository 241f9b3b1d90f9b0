"""Decodes city.toml, city.local.toml and pack.toml into layers, patches, imports and rigs."""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.model.fields import Table
from gascity.model.layers import (
    CITY_DEFAULTS,
    CITY_PATCH,
    LOCAL_PATCH,
    PACK_DEFAULTS,
    PACK_PATCH,
    RIG_PATCH,
    Layer,
)
from gascity.model.names import did_you_mean, is_name, is_rig_name
from gascity.model.pack import NamedSession, Patch
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.tables import (
    CITY_NOT_ACTED_ON,
    CITY_TABLES,
    IMPORT,
    NAMED_SESSION,
    NOT_ACTED_ON,
    PACK_FILE_NOT_ACTED_ON,
    PACK_TABLES,
    PATCHES_NOT_ACTED_ON,
    RIG,
)
from gascity.source.agents import decode_agent, is_path
from gascity.source.decode import decode, decode_provider, describe, for_others
from gascity.source.disk import Disk

_TARGET_KEYS = frozenset(("name", "agent", "dir", "rig"))
_MISPLACED = {
    "city": "the city's own settings are in [workspace]",
    "pack": "[pack] belongs in pack.toml",
    "workspace": "[workspace] belongs in city.toml",
    "rigs": "[[rigs]] belongs in city.toml",
    "agents": "write [agent_defaults]",
}


class FileSource(NamedTuple):
    """The file being decoded; `path` and `pack` are absolute."""

    disk: Disk
    path: str
    pack: str
    kind: str

    @property
    def file(self) -> str:
        return self.disk.shown(self.path)


class ImportEntry(NamedTuple):
    """An import as written in a file, not yet resolved."""

    binding: str
    values: Mapping[str, object]
    place: Place


class Manifest:
    """One decoded file. Lists keep the order of the file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.layers: dict[str, Layer] = {}
        self.defaults: Layer | None = None
        self.patches: list[Patch] = []
        self.imports: list[ImportEntry] = []
        self.providers: dict[str, Layer] = {}
        self.named_sessions: list[NamedSession] = []
        self.rigs: list[RigEntry] = []
        self.implicit: bool | tuple[str, ...] | None = None
        self.includes: list[tuple[Place, str]] = []
        self.problems: list[Problem] = []


class RigEntry(NamedTuple):
    """A `[[rigs]]` entry; `bindings` names imports of the city that it uses."""

    name: str
    layer: Layer
    patches: tuple[Patch, ...]
    imports: tuple[ImportEntry, ...]
    bindings: tuple[str, ...]
    place: Place


def read_manifest(
    disk: Disk, raw: Mapping[str, object], path: str, pack: str, kind: str
) -> Manifest:
    """Decode a parsed file; `kind` is `city`, `local` (city.local.toml) or `pack`."""
    source = FileSource(disk, path, pack, kind)
    out = Manifest(source.file)
    known = PACK_TABLES if kind == "pack" else CITY_TABLES
    for key, value in raw.items():
        if key not in known:
            out.problems.append(_unknown(source, key, known))
        elif (table := known[key]) is not None:
            _plain_table(source, out, table, key, value)
    _agent_tables(source, out, raw)
    _defaults(source, out, raw)
    _patches(source, out, raw)
    _providers(source, out, raw)
    out.imports = _imports(source, out, raw.get("imports"), ("imports",))
    _named_sessions(source, out, raw)
    if kind != "pack":
        _default_imports(source, out, raw)
        _rigs(source, out, raw)
        _implicit(source, out, raw)
        _includes(source, out, raw)
    elif pack != disk.root:
        out.problems = [for_others(problem) for problem in out.problems]
    return out


def _unknown(source: FileSource, key: str, known: Mapping[str, Table | None]) -> Problem:
    place = Place(source.file, (key,))
    reasons = PACK_FILE_NOT_ACTED_ON if source.kind == "pack" else CITY_NOT_ACTED_ON
    if key in reasons:
        return warning("not-acted-on", f"`{key}` has no effect: {reasons[key]}", place)
    what = "pack.toml" if source.kind == "pack" else "city.toml"
    hint = _MISPLACED.get(key) or did_you_mean(key, known)
    return Problem("unknown-key", f"`{key}` is not part of {what}", place, hint)


def _plain_table(source: FileSource, out: Manifest, table: Table, key: str, value: object) -> None:
    if not isinstance(value, dict):
        out.problems.append(_wrong_type(source, (key,), "a table", value))
        return
    decoded = decode(table, value, source.file, (key,), not_acted_on=NOT_ACTED_ON.get(table.name))
    out.problems += decoded.problems
    out.layers[key] = Layer(key, source.file, decoded.values, (key,), decoded.written or None)


def _agent_tables(source: FileSource, out: Manifest, raw: Mapping[str, object]) -> None:
    """Report `[[agent]]`, and `[[agents]]` of early releases. A table `[agents]` has defaults."""
    for key in ("agent", "agents"):
        entries = raw.get(key)
        if entries is None or (key == "agents" and not isinstance(entries, list)):
            continue
        for index, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            name = entry.get("name", "?") if isinstance(entry, dict) else "?"
            out.problems.append(
                Problem(
                    "agent-table",
                    f"[[{key}]] `{name}` is not read: agents are directories now",
                    Place(source.file, (key, index)),
                    "run `city migrate` to convert all `[[agent]]` tables",
                )
            )


def _defaults(source: FileSource, out: Manifest, raw: Mapping[str, object]) -> None:
    """Decode `[agent_defaults]` over `[agents]`, its older name."""
    kind = PACK_DEFAULTS if source.kind == "pack" else CITY_DEFAULTS
    values: dict[str, object] = {}
    written: dict[str, str] = {}
    for name in ("agents", "agent_defaults"):
        table = raw.get(name)
        if table is None or (
            name == "agents" and (source.kind == "pack" or isinstance(table, list))
        ):
            continue
        if not isinstance(table, dict):
            out.problems.append(_wrong_type(source, (name,), "a table", table))
            continue
        if name == "agents":
            out.problems.append(
                warning(
                    "older-spelling",
                    "`[agents]` is an older spelling of `[agent_defaults]`",
                    Place(source.file, (name,)),
                    "write [agent_defaults]",
                )
            )
        decoded = decode_agent(source.disk, table, source.path, (name,), source.pack)
        out.problems += decoded.problems
        values |= decoded.values
        written |= {key: f"{name}.{decoded.written.get(key, key)}" for key in decoded.values}
    if values:
        out.defaults = Layer(kind, source.file, values, (), written)


def _patches(source: FileSource, out: Manifest, raw: Mapping[str, object]) -> None:
    table = raw.get("patches")
    if table is None:
        return
    if not isinstance(table, dict):
        out.problems.append(_wrong_type(source, ("patches",), "a table", table))
        return
    out.problems += [_other_patch(source, key) for key in table if key != "agent"]
    kind = {"city": CITY_PATCH, "local": LOCAL_PATCH, "pack": PACK_PATCH}[source.kind]
    out.patches = _patch_list(
        source, out.problems, table.get("agent"), ("patches", "agent"), kind, "name"
    )


def _other_patch(source: FileSource, key: str) -> Problem:
    place = Place(source.file, ("patches", key))
    if key in PATCHES_NOT_ACTED_ON:
        text = f"`patches.{key}` has no effect: {PATCHES_NOT_ACTED_ON[key]}"
        return warning("not-acted-on", text, place)
    message = f"`patches.{key}` is not a kind of patch"
    return Problem("unknown-key", message, place, did_you_mean(key, ("agent",)))


def _providers(source: FileSource, out: Manifest, raw: Mapping[str, object]) -> None:
    for name, at, table in _tables(source, out, raw.get("providers"), ("providers",)):
        decoded = decode_provider(table, source.file, at)
        out.problems += decoded.problems
        layer = {"pack": "pack", "local": "local"}.get(source.kind, "city")
        out.providers[name] = Layer(layer, source.file, decoded.values, at, decoded.written or None)


def _tables(
    source: FileSource, out: Manifest, tables: object, at: KeyPath
) -> list[tuple[str, KeyPath, dict[str, object]]]:
    """Return the named tables under `at`; those with invalid names or types become problems."""
    if tables is None:
        return []
    if not isinstance(tables, dict):
        out.problems.append(_wrong_type(source, at, "a table of tables", tables))
        return []
    valid = []
    for name, table in tables.items():
        here = (*at, name)
        if not isinstance(table, dict):
            out.problems.append(_wrong_type(source, here, "a table", table))
        elif not is_name(name):
            out.problems.append(_bad_name(source, name, here))
        else:
            valid.append((name, here, table))
    return valid


def _imports(source: FileSource, out: Manifest, tables: object, at: KeyPath) -> list[ImportEntry]:
    imports = []
    for name, here, table in _tables(source, out, tables, at):
        decoded = decode(IMPORT, table, source.file, here, not_acted_on=NOT_ACTED_ON["import"])
        out.problems += decoded.problems
        if decoded.values.get("source"):
            imports.append(ImportEntry(name, decoded.values, Place(source.file, (*here, "source"))))
        elif "source" in decoded.values:
            place = Place(source.file, (*here, "source"), of_value=True)
            out.problems.append(Problem("bad-value", "`source` must not be empty", place))
    return imports


def _named_sessions(source: FileSource, out: Manifest, raw: Mapping[str, object]) -> None:
    entries = raw.get("named_session")
    if entries is None:
        return
    if not isinstance(entries, list):
        out.problems.append(_wrong_type(source, ("named_session",), "an array of tables", entries))
        return
    for index, entry in enumerate(entries):
        at: KeyPath = ("named_session", index)
        if not isinstance(entry, dict):
            out.problems.append(_wrong_type(source, at, "a table", entry))
            continue
        decoded = decode(NAMED_SESSION, entry, source.file, at)
        out.problems += decoded.problems
        name = decoded.values.get("name")
        if isinstance(name, str) and not is_rig_name(name):
            out.problems.append(_bad_name(source, name, (*at, "name"), of_value=True))
        elif decoded.values.get("template") == "":
            place = Place(source.file, (*at, "template"), of_value=True)
            out.problems.append(Problem("bad-value", "`template` must not be empty", place))
        elif "template" in decoded.values:
            out.named_sessions.append(
                NamedSession(decoded.values, Place(source.file, (*at, "template"), of_value=True))
            )


def _default_imports(source: FileSource, out: Manifest, raw: Mapping[str, object]) -> None:
    """Check `[defaults.rig.imports]`, which `rig add` copies into a new rig."""
    at: KeyPath = ()
    table: object = raw
    for key in ("defaults", "rig", "imports"):
        if not isinstance(table, dict):
            out.problems.append(_wrong_type(source, at, "a table", table))
            return
        for name in table if at else ():
            if name != key:
                dotted = ".".join(str(part) for part in (*at, name))
                problem = Problem(
                    "unknown-key",
                    f"`{dotted}` is not part of city.toml",
                    Place(source.file, (*at, name)),
                    did_you_mean(name, (key,)) or f"only `{key}` is allowed here",
                )
                out.problems.append(problem)
        if key not in table:
            return
        at, table = (*at, key), table[key]
    _imports(source, out, table, at)


def _rigs(source: FileSource, out: Manifest, raw: Mapping[str, object]) -> None:
    entries = raw.get("rigs")
    if entries is None:
        return
    if not isinstance(entries, list):
        out.problems.append(_wrong_type(source, ("rigs",), "an array of tables", entries))
        return
    names: dict[str, int] = {}
    for index, entry in enumerate(entries):
        at: KeyPath = ("rigs", index)
        if not isinstance(entry, dict):
            out.problems.append(_wrong_type(source, at, "a table", entry))
            continue
        rig = _rig(source, out, entry, at)
        if rig is None:
            continue
        if names.setdefault(rig.name.lower(), index) != index:
            place = Place(source.file, (*at, "name"), of_value=True)
            message = f"rig `{rig.name}` is declared twice"
            out.problems.append(Problem("duplicate-name", message, place, "keep one of them"))
            continue
        out.rigs.append(rig)


def _rig(
    source: FileSource, out: Manifest, entry: Mapping[str, object], at: KeyPath
) -> RigEntry | None:
    handled = frozenset(("imports", "patches", "overrides"))
    decoded = decode(RIG, entry, source.file, at, not_acted_on=NOT_ACTED_ON["rig"], handled=handled)
    out.problems += decoded.problems
    name = decoded.values.get("name")
    if not isinstance(name, str):
        return None
    if not is_rig_name(name):
        out.problems.append(_bad_name(source, name, (*at, "name"), of_value=True))
        return None
    patches = _rig_patches(source, out, entry, at)
    imports = entry.get("imports")
    bindings: tuple[str, ...] = ()
    written: list[ImportEntry] = []
    if isinstance(imports, list):
        bindings = tuple(item for item in imports if isinstance(item, str))
        if len(bindings) < len(imports):
            at_imports = (*at, "imports")
            out.problems.append(_wrong_type(source, at_imports, "a list of names", imports))
    else:
        written = _imports(source, out, imports, (*at, "imports"))
    return RigEntry(
        name,
        Layer("rig", source.file, decoded.values, at),
        tuple(patches),
        tuple(written),
        bindings,
        Place(source.file, at),
    )


def _rig_patches(
    source: FileSource, out: Manifest, entry: Mapping[str, object], at: KeyPath
) -> list[Patch]:
    kind = LOCAL_PATCH if source.kind == "local" else RIG_PATCH
    patches = []
    if "overrides" in entry:
        out.problems.append(
            warning(
                "older-spelling",
                "`[[rigs.overrides]]` is an older spelling of `[[rigs.patches]]`",
                Place(source.file, (*at, "overrides")),
                "write [[rigs.patches]]",
            )
        )
        patches += _patch_list(
            source, out.problems, entry["overrides"], (*at, "overrides"), kind, "agent"
        )
    patches += _patch_list(
        source, out.problems, entry.get("patches"), (*at, "patches"), kind, "agent"
    )
    return patches


def _implicit(source: FileSource, out: Manifest, raw: Mapping[str, object]) -> None:
    value = raw.get("implicit_agents")
    if value is None or isinstance(value, bool):
        out.implicit = value
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        out.implicit = tuple(value)
    else:
        out.problems.append(
            _wrong_type(source, ("implicit_agents",), "true, false or a list of names", value)
        )


def _includes(source: FileSource, out: Manifest, raw: Mapping[str, object]) -> None:
    """Decode `include`: files with more tables of city.toml."""
    value = raw.get("include")
    if value is None:
        return
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        out.problems.append(_wrong_type(source, ("include",), "a list of files", value))
        return
    out.includes = [
        (Place(source.file, ("include", index), of_value=True), item)
        for index, item in enumerate(value)
    ]


def _wrong_type(source: FileSource, at: KeyPath, wanted: str, value: object) -> Problem:
    name = ".".join(str(part) for part in at if isinstance(part, str))
    return Problem(
        "bad-type", f"`{name}` should be {wanted}, not {describe(value)}", Place(source.file, at)
    )


def _bad_name(source: FileSource, name: str, at: KeyPath, *, of_value: bool = False) -> Problem:
    return Problem(
        "bad-name",
        f"`{name}` is not a valid name",
        Place(source.file, at, of_value=of_value),
        "use letters, digits, - and _, starting with a letter or digit",
    )


def _patch_list(
    source: FileSource,
    problems: list[Problem],
    entries: object,
    at: KeyPath,
    kind: str,
    target: str,
) -> list[Patch]:
    if entries is None:
        return []
    if not isinstance(entries, list):
        name = ".".join(str(part) for part in at if isinstance(part, str))
        hint = f"write [[{name}]]"
        problems.append(
            Problem(
                "bad-type", f"`{name}` should be an array of tables", Place(source.file, at), hint
            )
        )
        return []
    patches = (
        _patch(source, problems, entry, (*at, index), kind, target)
        for index, entry in enumerate(entries)
    )
    return [patch for patch in patches if patch is not None]


def _patch(
    source: FileSource, problems: list[Problem], entry: object, at: KeyPath, kind: str, target: str
) -> Patch | None:
    place = Place(source.file, at)
    if not isinstance(entry, dict):
        problems.append(_wrong_type(source, at, "a table", entry))
        return None
    name = entry.get(target, entry.get("agent" if target == "name" else "name"))
    rig = entry.get("rig", entry.get("dir"))
    for key in _TARGET_KEYS & entry.keys():
        if not isinstance(entry[key], str):
            problems.append(_wrong_type(source, (*at, key), "a string", entry[key]))
            return None
    if not name:
        message = f"a patch needs `{target}`, the agent it changes"
        problems.append(Problem("missing-key", message, place))
        return None
    if is_path(rig):
        message = "`dir` has no effect in a patch: it is a path, not a rig"
        problems.append(warning("not-acted-on", message, Place(source.file, (*at, "dir"))))
        rig = None
    decoded = decode_agent(
        source.disk, entry, source.path, at, source.pack, handled=_TARGET_KEYS, patch=True
    )
    problems += decoded.problems
    own = kind != PACK_PATCH or source.pack == source.disk.root
    layer = Layer(kind, source.file, decoded.values, at, decoded.written or None, own)
    spelled = target if target in entry else ("agent" if target == "name" else "name")
    return Patch(
        name,
        None if rig in ("", "*") else rig,
        layer,
        Place(source.file, (*at, spelled), of_value=True),
    )
