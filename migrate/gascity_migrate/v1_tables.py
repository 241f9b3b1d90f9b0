"""Finds the v1 parts of a manifest, each with its key path. Pure."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gascity.model.problems import KeyPath, Place, Problem

SHARED_PROMPTS = "prompts/shared"
OVERLAYS = "overlays"  # directories of overlays, each named by some agent's overlay_dir

# All v1 spellings of the list of included packs, in the order in which v1 read them.
INCLUDES = ("topology", "pack", "topologies", "packs", "includes")


class V1AgentTable(NamedTuple):
    """One `[[agent]]` (`[[agents]]` in early releases), identified by `name` and `dir`."""

    name: str
    dir: str
    table: Mapping[str, object]
    at: KeyPath


class Include(NamedTuple):
    """A pack included without a binding; `at` is the path of the key or list item.

    `owner` is `pack`, `city`, `default-rig`, or `rig`, and `rig` is that rig's name.
    """

    source: str
    at: KeyPath
    owner: str
    rig: str = ""


class NamedPack(NamedTuple):
    """One `[packs.<name>]`: a repository that includes can refer to by name."""

    name: str
    source: str
    ref: str
    path: str
    at: KeyPath


class PatchTable(NamedTuple):
    """A patch of an agent: `[[patches.agent]]`, or `patches` or `overrides` of a rig."""

    table: Mapping[str, object]
    at: KeyPath
    rig: str = ""


class Entry(NamedTuple):
    """One `[[doctor]]` or `[[commands]]`."""

    table: Mapping[str, object]
    at: KeyPath


class V1Manifest(NamedTuple):
    """All v1 parts of one file, in file order.

    `marks` are the key paths that only v1 has; a file without any is not v1. `patches` are all
    patches, since some of their keys may be v1 keys. `defaults` is `[agents]` if that is a table:
    the v1 name of `[agent_defaults]`. `overrides` are the key paths of `rigs.overrides`, the v1
    name of a rig's patches.
    """

    agents: tuple[V1AgentTable, ...]
    defaults: Mapping[str, object] | None
    packs: tuple[NamedPack, ...]
    includes: tuple[Include, ...]
    files: tuple[str, ...]
    global_fragments: tuple[str, ...]
    city_agents: tuple[str, ...] | None
    patches: tuple[PatchTable, ...]
    overrides: tuple[KeyPath, ...]
    formulas_dir: str
    doctor: tuple[Entry, ...]
    commands: tuple[Entry, ...]
    marks: tuple[KeyPath, ...]
    problems: tuple[Problem, ...]


def read_v1_parts(manifest: Mapping[str, object], file: str) -> V1Manifest:
    """Return the v1 parts of pack.toml, city.toml or a file that city.toml includes.

    Values of the wrong type become problems in `file`; all other parts are still returned.
    """
    return _V1Reader(file).read(manifest)


class _V1Reader:
    """Collects the v1 parts of one file; call `read` once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.agents: list[V1AgentTable] = []
        self.defaults: Mapping[str, object] | None = None
        self.packs: list[NamedPack] = []
        self.includes: list[Include] = []
        self.files: tuple[str, ...] = ()
        self.global_fragments: tuple[str, ...] = ()
        self.city_agents: tuple[str, ...] | None = None
        self.patches: list[PatchTable] = []
        self.overrides: list[KeyPath] = []
        self.formulas_dir = ""
        self.doctor: list[Entry] = []
        self.commands: list[Entry] = []
        self.marks: list[KeyPath] = []
        self.problems: list[Problem] = []

    def read(self, manifest: Mapping[str, object]) -> V1Manifest:
        readers: Mapping[str, Callable[[object], None]] = {
            "agent": self._agent,
            "agents": self._agents,
            "packs": lambda value: self._packs(value, "packs"),
            "topologies": lambda value: self._packs(value, "topologies"),
            "pack": self._pack,
            "workspace": self._workspace,
            "include": self._files,
            "rigs": self._rigs,
            "patches": self._patches,
            "formulas": self._formulas,
            "doctor": lambda value: self._entries(value, "doctor", self.doctor),
            "commands": lambda value: self._entries(value, "commands", self.commands),
        }
        for key, value in manifest.items():
            if key in readers:
                readers[key](value)
        return V1Manifest(
            tuple(self.agents),
            self.defaults,
            tuple(self.packs),
            tuple(self.includes),
            self.files,
            self.global_fragments,
            self.city_agents,
            tuple(self.patches),
            tuple(self.overrides),
            self.formulas_dir,
            tuple(self.doctor),
            tuple(self.commands),
            tuple(self.marks),
            tuple(self.problems),
        )

    def _agent(self, value: object) -> None:
        if isinstance(value, list):
            self._agent_tables(value, "agent")
            return
        self.marks.append(("agent",))
        self._wrong_type(("agent",), "an array of tables", "write [[agent]]")

    def _agents(self, value: object) -> None:
        if isinstance(value, list):
            self._agent_tables(value, "agents")
            return
        self.marks.append(("agents",))
        if isinstance(value, Mapping):
            self.defaults = value
        else:
            self._wrong_type(("agents",), "a table", "write [agent_defaults]")

    def _agent_tables(self, entries: list[object], key: str) -> None:
        for index, entry in enumerate(entries):
            at: KeyPath = (key, index)
            self.marks.append(at)
            if not isinstance(entry, Mapping):
                self._wrong_type(at, "a table", f"write [[{key}]]")
                continue
            name, home = entry.get("name"), entry.get("dir")
            if name is None:
                words = "an agent needs a `name`"
                self.problems.append(Problem("missing-key", words, Place(self.file, at)))
            elif not isinstance(name, str):
                self._wrong_type((*at, "name"), "a string")
            elif home is not None and not isinstance(home, str):
                self._wrong_type((*at, "dir"), "a string")
            else:
                self.agents.append(V1AgentTable(name, home or "", entry, at))

    def _packs(self, value: object, key: str) -> None:
        """Read `[packs]`, called `[topologies]` in early releases."""
        self.marks.append((key,))
        if not isinstance(value, Mapping):
            self._wrong_type((key,), "a table")
        for name, entry in _table(value).items():
            table = _table(entry)
            values = [table.get(part, "") for part in ("source", "ref", "path")]
            source, ref, path = (part if isinstance(part, str) else "" for part in values)
            if source:
                self.packs.append(NamedPack(name, source, ref, path, (key, name)))
            else:
                words, place = f"`{key}.{name}` needs a `source`", Place(self.file, (key, name))
                self.problems.append(Problem("missing-key", words, place))

    def _pack(self, value: object) -> None:
        for key, item in _table(value).items():
            at: KeyPath = ("pack", key)
            if key == "includes":
                self._include(item, at, "pack")
            elif key == "city_agents":
                self.marks.append(at)
                self.city_agents = self._strings(item, at)

    def _workspace(self, value: object) -> None:
        table = _table(value)
        for key in (*INCLUDES, "default_rig_includes"):
            if key in table:
                owner = "default-rig" if key == "default_rig_includes" else "city"
                self._include(table[key], ("workspace", key), owner)
        if "global_fragments" in table:
            at: KeyPath = ("workspace", "global_fragments")
            self.marks.append(at)
            self.global_fragments = self._strings(table["global_fragments"], at)

    def _include(self, value: object, at: KeyPath, owner: str, rig: str = "") -> None:
        self.marks.append(at)
        if isinstance(value, str):
            self.includes.append(Include(value, at, owner, rig))
            return
        for index, source in enumerate(self._strings(value, at)):
            self.includes.append(Include(source, (*at, index), owner, rig))

    def _files(self, value: object) -> None:
        self.files = self._strings(value, ("include",))

    def _rigs(self, value: object) -> None:
        for index, entry in enumerate(value if isinstance(value, list) else ()):
            if not isinstance(entry, Mapping):
                continue
            at: KeyPath = ("rigs", index)
            name = entry.get("name")
            rig = name if isinstance(name, str) else ""
            for key in INCLUDES:
                if key in entry:
                    self._include(entry[key], (*at, key), "rig", rig)
            if "overrides" in entry:
                self.marks.append((*at, "overrides"))
                self.overrides.append((*at, "overrides"))
            for key in ("overrides", "patches"):
                self._patch_tables(entry.get(key), (*at, key), rig)

    def _patches(self, value: object) -> None:
        if isinstance(value, Mapping):
            self._patch_tables(value.get("agent"), ("patches", "agent"))

    def _patch_tables(self, value: object, at: KeyPath, rig: str = "") -> None:
        """Collect patch tables; decoding reports wrong types, since patches are not only v1."""
        for index, entry in enumerate(value if isinstance(value, list) else ()):
            if isinstance(entry, Mapping):
                here = (*at, index)
                self.patches.append(PatchTable(entry, here, rig))
                if "pool" in entry:
                    self.marks.append((*here, "pool"))

    def _formulas(self, value: object) -> None:
        directory = value.get("dir") if isinstance(value, Mapping) else None
        if isinstance(directory, str):
            self.marks.append(("formulas", "dir"))
            self.formulas_dir = directory

    def _entries(self, value: object, key: str, entries: list[Entry]) -> None:
        if not isinstance(value, list):
            return  # city.toml has an unrelated table [doctor]
        self.marks.append((key,))
        for index, entry in enumerate(value):
            if isinstance(entry, Mapping):
                entries.append(Entry(entry, (key, index)))
            else:
                self._wrong_type((key, index), "a table", f"write [[{key}]]")

    def _strings(self, value: object, at: KeyPath) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self._wrong_type(at, "a list of strings")
        return ()

    def _wrong_type(self, at: KeyPath, wanted: str, hint: str | None = None) -> None:
        name = ".".join(part for part in at if isinstance(part, str))
        words = f"`{name}` should be {wanted}"
        self.problems.append(Problem("bad-type", words, Place(self.file, at), hint))


def _table(value: object) -> Mapping[str, object]:
    """Return the value if it is a table, else an empty one; decoding reports the wrong type."""
    return value if isinstance(value, Mapping) else {}
