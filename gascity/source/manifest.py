"""Decodes city.toml, city.local.toml and pack.toml into layers, patches, imports and rigs."""

from collections.abc import Iterator, Mapping
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
from gascity.model.names import did_you_mean, is_name, is_rig_name, near
from gascity.model.pack import NamedSession, Patch
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.settings import ImportSettings, NamedSessionSettings, RigSettings
from gascity.model.tables import (
    CITY_NOT_ACTED_ON,
    CITY_TABLES,
    IMPORT,
    NAMED_SESSION,
    NOT_ACTED_ON,
    PACK,
    PACK_FILE_NOT_ACTED_ON,
    PACK_TABLES,
    PATCHES_NOT_ACTED_ON,
    RIG,
)
from gascity.model.values import as_flag, as_integer, as_list, as_table, as_text, as_texts
from gascity.source.agents import decode_agent, is_path
from gascity.source.decode import Decoded, decode, decode_provider, for_others
from gascity.source.disk import Disk
from gascity.toml.read import TomlTable

_TARGET_KEYS = frozenset(("name", "agent", "dir", "rig"))
# These tables apply to every agent, so an error in one of them breaks every agent.
_CITY_WIDE = frozenset(("workspace", "session", "security", "agent_defaults"))
_RIG_TABLES = frozenset(("imports", "patches", "overrides"))
# Keys of v1 by table: what `city migrate` converts them to.
_V1_INCLUDES = {
    "workspace": {"includes": "[imports]", "default_rig_includes": "[defaults.rig.imports]"},
    "rig": {"includes": "[rigs.imports]"},
    "pack": {"includes": "[imports]"},
}
# Directories of packs that only other layouts use.
_OTHER_DIRECTORIES = ("overlays", "prompts")
_GLOBAL_FRAGMENTS = "global_fragments"
_MISPLACED = {
    "city": "the city's own settings are in [workspace]",
    "pack": "[pack] belongs in pack.toml",
    "workspace": "[workspace] belongs in city.toml",
    "rigs": "[[rigs]] belongs in city.toml",
    "agents": "write [agent_defaults]",
}


class ImportEntry(NamedTuple):
    """An import as written in a file, not yet resolved."""

    binding: str
    settings: ImportSettings
    place: Place


class RigEntry(NamedTuple):
    """A `[[rigs]]` entry; `bindings` names imports of the city that it uses."""

    name: str
    layer: Layer
    patches: tuple[Patch, ...]
    imports: tuple[ImportEntry, ...]
    bindings: tuple[str, ...]
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
        self.errors: list[Problem] = []  # of settings for the whole city; they break every agent


def is_current_layout(
    disk: Disk, manifest: Mapping[str, object], root: str, known: Mapping[str, object]
) -> bool:
    """Is everything at the top of a pack and of its manifest part of the current layout?"""
    if "agent" in manifest or any(key not in known for key in manifest):
        return False
    pack = as_table(manifest.get("pack"))
    schema = as_integer(pack.get("schema"))
    if any(key not in PACK.keys for key in pack) or (schema is not None and schema < 2):
        return False
    return not any(disk.is_directory(f"{root}/{name}") for name in _OTHER_DIRECTORIES)


def read_manifest(
    disk: Disk, raw: Mapping[str, object], path: str, pack: str, kind: str
) -> Manifest:
    """Decode a parsed file; `kind` is `city`, `local` (city.local.toml) or `pack`."""
    return _ManifestReader(disk, raw, path, pack, kind).read()


class _ManifestReader:
    """Decodes one file; `path` and `pack` are absolute."""

    def __init__(
        self, disk: Disk, raw: Mapping[str, object], path: str, pack: str, kind: str
    ) -> None:
        self.disk = disk
        self.path = path
        self.pack = pack
        self.kind = kind
        self.file = disk.shown(path)
        self.manifest = Manifest(self.file)
        self.problems = self.manifest.problems
        self.raw = TomlTable(raw, self.file, (), self.problems)

    def read(self) -> Manifest:
        manifest = self.manifest
        known = PACK_TABLES if self.kind == "pack" else CITY_TABLES
        for key in self.raw.values:
            before = len(self.problems)
            if key not in known:
                self.problems.append(self._unknown(key, known))
                self._misspelt(key, before)
            elif (table := known[key]) is not None:
                self._plain_table(table, key)
                if key in _CITY_WIDE:
                    self.manifest.errors += self._take_errors(before)
        self._agent_tables()
        self._v1_includes()
        self._defaults()
        self._patches()
        self._providers()
        manifest.imports = self._imports(self.raw)
        self._named_sessions()
        if self.kind != "pack":
            self._default_imports()
            self._rigs()
            self._implicit()
            manifest.includes = [
                (Place(self.file, ("include", index), of_value=True), file)
                for index, file in enumerate(self.raw.texts("include", "a list of files") or ())
            ]
        elif self.pack != self.disk.root:
            manifest.problems = [for_others(problem) for problem in self.problems]
        return manifest

    def _unknown(self, key: str, known: Mapping[str, Table | None]) -> Problem:
        place = Place(self.file, (key,))
        reasons = PACK_FILE_NOT_ACTED_ON if self.kind == "pack" else CITY_NOT_ACTED_ON
        if key in reasons:
            return warning("not-acted-on", f"`{key}` has no effect: {reasons[key]}", place)
        file = "pack.toml" if self.kind == "pack" else "city.toml"
        hint = _MISPLACED.get(key) or did_you_mean(key, known)
        return Problem("unknown-key", f"`{key}` is not part of {file}", place, hint)

    def _misspelt(self, key: str, before: int) -> None:
        """Break the agents that a table was for, if its name is misspelt."""
        if near(key, _CITY_WIDE):
            self.manifest.errors += self._take_errors(before)
        elif near(key, ("patches",)):
            for kind, entries in as_table(self.raw.values[key]).items():
                self._invalid_patches(entries, (key, kind), self.problems[before])

    def _decode(
        self, table: Table, raw: TomlTable, handled: frozenset[str] = frozenset()
    ) -> Decoded:
        reasons = NOT_ACTED_ON.get(table.name)
        if self.pack == self.disk.root:
            handled |= _V1_INCLUDES.get(table.name, {}).keys()
        if table.name == "workspace":
            handled |= {_GLOBAL_FRAGMENTS}
        decoded = decode(
            table, raw.values, self.file, raw.at, not_acted_on=reasons, handled=handled
        )
        self.problems += decoded.problems
        return decoded

    def _plain_table(self, table: Table, key: str) -> None:
        raw = self.raw.table(key)
        if raw is not None:
            layer = self._decode(table, raw).layer(key, self.file, raw.at)
            self.manifest.layers[key] = layer

    def _agent_tables(self) -> None:
        """Report `[[agent]]`, and `[[agents]]` of early releases."""
        for key in ("agent", "agents"):
            entries = self.raw.values.get(key)
            # `[agent]` is an entry like `[[agent]]`, but `[agents]` has defaults.
            only = [entries] if key == "agent" and entries is not None else []
            for index, entry in enumerate(as_list(entries, only)):
                name = as_table(entry).get("name", "?")
                self.problems.append(
                    Problem(
                        "agent-table",
                        f"[[{key}]] `{name}` is not read: agents are directories now",
                        Place(self.file, (key, index)),
                        "run `city migrate` to convert all `[[agent]]` tables",
                    )
                )

    def _v1_includes(self) -> None:
        """Report packs that a file of the city includes as in v1: they are not read."""
        if self.pack != self.disk.root:
            return
        tables: list[tuple[str, KeyPath, object]] = [
            ("workspace", ("workspace",), self.raw.values.get("workspace")),
            ("pack", ("pack",), self.raw.values.get("pack")),
        ]
        for index, rig in enumerate(as_list(self.raw.values.get("rigs"))):
            tables.append(("rig", ("rigs", index), rig))
        for name, at, table in tables:
            for key, new in _V1_INCLUDES[name].items():
                if as_table(table).get(key):
                    self.problems.append(
                        Problem(
                            "v1-includes",
                            f"`{key}` is not read: packs are imported by name now",
                            Place(self.file, (*at, key)),
                            f"run `city migrate` to convert it to {new}",
                        )
                    )

    def _global_fragments(self) -> tuple[str, ...]:
        """Return `[workspace] global_fragments` of v1, which are defaults of every agent."""
        workspace = self.raw.table("workspace") if self.kind != "pack" else None
        if workspace is None or _GLOBAL_FRAGMENTS not in workspace.values:
            return ()
        newer = "append_fragments of [agent_defaults]"
        self._older_spelling(_GLOBAL_FRAGMENTS, newer, ("workspace", _GLOBAL_FRAGMENTS))
        return workspace.texts(_GLOBAL_FRAGMENTS, "a list of fragment names") or ()

    def _defaults(self) -> None:
        """Decode `[agent_defaults]` over `[agents]`, its older name."""
        values: dict[str, object] = {}
        written: dict[str, str] = {}
        before = len(self.problems)
        has_older = self.kind != "pack" and not isinstance(self.raw.values.get("agents"), list)
        for name in ("agents", "agent_defaults") if has_older else ("agent_defaults",):
            table = self.raw.table(name)
            if table is None:
                continue
            if name == "agents":
                self._older_spelling("[agents]", "[agent_defaults]", (name,))
            decoded = decode_agent(self.disk, table.values, self.path, table.at, self.pack)
            self.problems += decoded.problems
            values |= decoded.values
            written |= {key: f"{name}.{decoded.written.get(key, key)}" for key in decoded.values}
        if fragments := self._global_fragments():
            own = as_texts(values.get("append_fragments")) or ()
            values["append_fragments"] = tuple(dict.fromkeys((*fragments, *own)))
            written.setdefault("append_fragments", f"workspace.{_GLOBAL_FRAGMENTS}")
        errors = self._take_errors(before)
        if values or errors:
            kind = PACK_DEFAULTS if self.kind == "pack" else CITY_DEFAULTS
            layer = Layer(kind, self.file, values, (), written, errors=errors)
            self.manifest.defaults = layer

    def _take_errors(self, before: int) -> tuple[Problem, ...]:
        """Remove and return the errors since `before`, as users of the file see them.

        They belong to a layer then, and break the agents that it applies to; those of a layer
        that applies to none are added to the city's problems when it is composed.
        """
        own = self.pack == self.disk.root
        problems = [p if own else for_others(p) for p in self.problems[before:]]
        self.problems[before:] = [problem for problem in problems if not problem.is_error]
        return tuple(problem for problem in problems if problem.is_error)

    def _older_spelling(self, older: str, newer: str, at: KeyPath) -> None:
        message = f"`{older}` is an older spelling of `{newer}`"
        place = Place(self.file, at)
        self.problems.append(warning("older-spelling", message, place, f"write {newer}"))

    def _patches(self) -> None:
        table = self.raw.table("patches")
        if table is None:
            return
        for key in table.values:
            if key != "agent":
                problem = self._other_patch(key)
                self.problems.append(problem)
                self._invalid_patches(table.values[key], ("patches", key), problem)
        self.manifest.patches += self._patch_list(table, "agent", self._patch_kind(), "name")

    def _patch_kind(self) -> str:
        return {"city": CITY_PATCH, "local": LOCAL_PATCH, "pack": PACK_PATCH}[self.kind]

    def _invalid_patches(self, entries: object, at: KeyPath, problem: Problem) -> None:
        """Break the agents that patches under an invalid key name."""
        problem = problem if self.pack == self.disk.root else for_others(problem)
        for index, entry in enumerate(as_list(entries)):
            name = as_text(as_table(entry).get("name"))
            if problem.is_error and name:
                layer = Layer(self._patch_kind(), self.file, {}, (*at, index), errors=(problem,))
                place = Place(self.file, (*at, index, "name"), of_value=True)
                self.manifest.patches.append(Patch(name, None, layer, place))

    def _other_patch(self, key: str) -> Problem:
        place = Place(self.file, ("patches", key))
        if key in PATCHES_NOT_ACTED_ON:
            text = f"`patches.{key}` has no effect: {PATCHES_NOT_ACTED_ON[key]}"
            return warning("not-acted-on", text, place)
        message = f"`patches.{key}` is not a kind of patch"
        return Problem("unknown-key", message, place, did_you_mean(key, ("agent",)))

    def _patch_list(self, raw: TomlTable, key: str, kind: str, target: str) -> list[Patch]:
        before = len(self.problems)
        entries = raw.tables(key)
        written = raw.values.get(key)
        if isinstance(written, dict):  # [patches.agent] instead of [[patches.agent]]
            one = TomlTable(written, self.file, (*raw.at, key), self.problems)
            patches = [self._patch(one, kind, target, before)]
        else:
            patches = [self._patch(entry, kind, target) for entry in entries]
        return [patch for patch in patches if patch is not None]

    def _patch(
        self, entry: TomlTable, kind: str, target: str, before: int | None = None
    ) -> Patch | None:
        """Decode a patch; `target` is the usual key of the agent's name here.

        Errors since `before` (default: now) are errors of this patch.
        """
        before = len(self.problems) if before is None else before
        keys = {key: entry.text(key) for key in _TARGET_KEYS if key in entry.values}
        spelled = target if target in keys else ("agent" if target == "name" else "name")
        name, rig = keys.get(spelled), keys.get("rig", keys.get("dir"))
        if not name:
            if len(self.problems) == before:
                message = f"a patch needs `{target}`, the agent it changes"
                self.problems.append(Problem("missing-key", message, Place(self.file, entry.at)))
            return None
        if rig and is_path(rig):
            message = "`dir` has no effect in a patch: it is a path, not a rig"
            place = Place(self.file, (*entry.at, "dir"))
            self.problems.append(warning("not-acted-on", message, place))
            rig = None
        decoded = decode_agent(
            self.disk,
            entry.values,
            self.path,
            entry.at,
            self.pack,
            handled=_TARGET_KEYS,
            patch=True,
        )
        self.problems += decoded.problems
        own = kind != PACK_PATCH or self.pack == self.disk.root
        layer = decoded.layer(kind, self.file, entry.at)
        layer = layer._replace(may_shrink=own, errors=self._take_errors(before))
        place = Place(self.file, (*entry.at, spelled), of_value=True)
        return Patch(name, None if rig in ("", "*") else rig, layer, place)

    def _named_tables(self, raw: TomlTable, key: str) -> Iterator[tuple[str, TomlTable]]:
        """Yield the tables under a key; invalid names become problems."""
        for name, table in raw.named_tables(key):
            if is_name(name):
                yield name, table
            else:
                self._bad_name(name, table.at)

    def _bad_name(self, name: str, at: KeyPath, *, of_value: bool = False) -> None:
        self.problems.append(
            Problem(
                "bad-name",
                f"`{name}` is not a valid name",
                Place(self.file, at, of_value=of_value),
                "use letters, digits, - and _, starting with a letter or digit",
            )
        )

    def _providers(self) -> None:
        for name, table in self._named_tables(self.raw, "providers"):
            before = len(self.problems)
            decoded = decode_provider(table.values, self.file, table.at)
            self.problems += decoded.problems
            layer = decoded.layer(self.kind, self.file, table.at)
            self.manifest.providers[name] = layer._replace(errors=self._take_errors(before))

    def _imports(self, raw: TomlTable) -> list[ImportEntry]:
        imports = []
        for name, table in self._named_tables(raw, "imports"):
            layer = self._decode(IMPORT, table).layer("import", self.file, table.at)
            settings = ImportSettings((layer,))
            place = Place(self.file, (*table.at, "source"))
            if settings.source:
                imports.append(ImportEntry(name, settings, place))
            elif "source" in layer.values:
                self._empty(place)
        return imports

    def _empty(self, place: Place) -> None:
        message = f"`{place.path[-1]}` must not be empty"
        self.problems.append(Problem("bad-value", message, place._replace(of_value=True)))

    def _default_imports(self) -> None:
        """Check `[defaults.rig.imports]`, which `rig add` copies into a new rig."""
        raw = self.raw
        for key, only in (("defaults", "rig"), ("rig", "imports")):
            table = raw.table(key)
            if table is None:
                return
            for name in table.values:
                if name != only:
                    dotted = ".".join(map(str, (*table.at, name)))
                    problem = Problem(
                        "unknown-key",
                        f"`{dotted}` is not part of city.toml",
                        Place(self.file, (*table.at, name)),
                        did_you_mean(name, (only,)) or f"only `{only}` is allowed here",
                    )
                    self.problems.append(problem)
            raw = table
        self._imports(raw)

    def _named_sessions(self) -> None:
        for entry in self.raw.tables("named_session"):
            layer = self._decode(NAMED_SESSION, entry).layer("named session", self.file, entry.at)
            settings = NamedSessionSettings((layer,))
            place = Place(self.file, (*entry.at, "template"), of_value=True)
            if settings.name is not None and not is_rig_name(settings.name):
                self._bad_name(settings.name, (*entry.at, "name"), of_value=True)
            elif settings.template:
                self.manifest.named_sessions.append(NamedSession(settings, place))
            elif "template" in layer.values:
                self._empty(place)

    def _rigs(self) -> None:
        names: set[str] = set()
        for entry in self.raw.tables("rigs"):
            rig = self._rig(entry)
            if rig is None:
                continue
            if rig.name.lower() in names:
                place = Place(self.file, (*entry.at, "name"), of_value=True)
                message = f"rig `{rig.name}` is declared twice"
                self.problems.append(Problem("duplicate-name", message, place, "keep one of them"))
            else:
                names.add(rig.name.lower())
                self.manifest.rigs.append(rig)

    def _rig(self, entry: TomlTable) -> RigEntry | None:
        before = len(self.problems)
        decoded = self._decode(RIG, entry, _RIG_TABLES)
        layer = decoded.layer("rig", self.file, entry.at)
        name = RigSettings((layer,)).name
        if "name" not in layer.values:
            return None
        if not is_rig_name(name):
            self._bad_name(name, (*entry.at, "name"), of_value=True)
            return None
        layer = layer._replace(errors=self._take_errors(before))
        patches = self._rig_patches(entry)
        bindings: tuple[str, ...] = ()
        imports: list[ImportEntry] = []
        if isinstance(entry.values.get("imports"), list):
            bindings = entry.texts("imports", "a list of names") or ()
        else:
            imports = self._imports(entry)
        place = Place(self.file, entry.at)
        return RigEntry(name, layer, tuple(patches), tuple(imports), bindings, place)

    def _rig_patches(self, entry: TomlTable) -> list[Patch]:
        kind = LOCAL_PATCH if self.kind == "local" else RIG_PATCH
        if "overrides" in entry.values:
            at = (*entry.at, "overrides")
            self._older_spelling("[[rigs.overrides]]", "[[rigs.patches]]", at)
        older = self._patch_list(entry, "overrides", kind, "agent")
        return [*older, *self._patch_list(entry, "patches", kind, "agent")]

    def _implicit(self) -> None:
        implicit = as_flag(self.raw.values.get("implicit_agents"))
        if implicit is None:
            expected = "true, false or a list of names"
            self.manifest.implicit = self.raw.texts("implicit_agents", expected)
        else:
            self.manifest.implicit = implicit
