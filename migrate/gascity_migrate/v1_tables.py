"""What of a manifest is written in the first layout: each thing found, with its key path. Pure."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gascity.model.problems import KeyPath, Place, Problem

SHARED_PROMPTS = "prompts/shared"
OVERLAYS = "overlays"  # directories of overlays, each named by some agent's overlay_dir

# Older words for the same list, in the order in which their packs were read.
INCLUDES = ("topology", "pack", "topologies", "packs", "includes")


class AgentTable(NamedTuple):
    """One `[[agent]]`, or `[[agents]]` of the first releases; `name` and `dir` tell it apart."""

    name: str
    dir: str
    table: Mapping[str, object]
    at: KeyPath


class Include(NamedTuple):
    """A pack that is named without a binding; `at` is the key, or the item of its list.

    `whose` is `pack`, `city`, `default-rig`, or `rig`, and `rig` is that rig's name.
    """

    source: str
    at: KeyPath
    whose: str
    rig: str = ""


class NamedPack(NamedTuple):
    """One `[packs.<name>]`: a repository under a name that includes may use."""

    name: str
    source: str
    ref: str
    path: str
    at: KeyPath


class PatchTable(NamedTuple):
    """A change to an agent: `[[patches.agent]]`, or of a rig `patches` or `overrides`."""

    table: Mapping[str, object]
    at: KeyPath
    rig: str = ""


class Entry(NamedTuple):
    """One `[[doctor]]` or `[[commands]]`."""

    table: Mapping[str, object]
    at: KeyPath


class First(NamedTuple):
    """Everything of the first layout in one file, in the order written.

    `marks` are the key paths of what today's layout does not have; without any of them a file is
    written in today's. `patches` are all patches, for some keys in them may be older ones.
    `defaults` is `[agents]` where that is a table: the older name of `[agent_defaults]`.
    `overrides` are rigs with the older name of their patches, by key path.
    """

    agents: tuple[AgentTable, ...]
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


def take_apart(manifest: Mapping[str, object], file: str) -> First:
    """Find what is of the first layout in pack.toml, city.toml or a file that one includes.

    What has the wrong shape is a problem in `file`, and the rest is found all the same.
    """
    return _Finder(file).read(manifest)


class _Finder:
    """Goes through one file. `read` is called once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.agents: list[AgentTable] = []
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

    def read(self, manifest: Mapping[str, object]) -> First:
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
        return First(
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
        self._wrong(("agent",), "an array of tables", "write [[agent]]")

    def _agents(self, value: object) -> None:
        if isinstance(value, list):
            self._agent_tables(value, "agents")
            return
        self.marks.append(("agents",))
        if isinstance(value, Mapping):
            self.defaults = value
        else:
            self._wrong(("agents",), "a table", "write [agent_defaults]")

    def _agent_tables(self, entries: list[object], key: str) -> None:
        for index, entry in enumerate(entries):
            at: KeyPath = (key, index)
            self.marks.append(at)
            if not isinstance(entry, Mapping):
                self._wrong(at, "a table", f"write [[{key}]]")
                continue
            name, home = entry.get("name"), entry.get("dir")
            if name is None:
                words = "an agent needs a `name`"
                self.problems.append(Problem("missing-key", words, Place(self.file, at)))
            elif not isinstance(name, str):
                self._wrong((*at, "name"), "a string")
            elif home is not None and not isinstance(home, str):
                self._wrong((*at, "dir"), "a string")
            else:
                self.agents.append(AgentTable(name, home or "", entry, at))

    def _packs(self, value: object, key: str) -> None:
        """`[packs]`, or `[topologies]` of the first releases."""
        self.marks.append((key,))
        if not isinstance(value, Mapping):
            self._wrong((key,), "a table")
        for name, entry in _table(value).items():
            table = _table(entry)
            found = [table.get(part, "") for part in ("source", "ref", "path")]
            source, ref, path = (part if isinstance(part, str) else "" for part in found)
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
                whose = "default-rig" if key == "default_rig_includes" else "city"
                self._include(table[key], ("workspace", key), whose)
        if "global_fragments" in table:
            at: KeyPath = ("workspace", "global_fragments")
            self.marks.append(at)
            self.global_fragments = self._strings(table["global_fragments"], at)

    def _include(self, value: object, at: KeyPath, whose: str, rig: str = "") -> None:
        self.marks.append(at)
        if isinstance(value, str):
            self.includes.append(Include(value, at, whose, rig))
            return
        for index, source in enumerate(self._strings(value, at)):
            self.includes.append(Include(source, (*at, index), whose, rig))

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
        """Their shape is told by whoever decodes them: patches are of today's layout too."""
        for index, entry in enumerate(value if isinstance(value, list) else ()):
            if isinstance(entry, Mapping):
                here = (*at, index)
                self.patches.append(PatchTable(entry, here, rig))
                if "pool" in entry:
                    self.marks.append((*here, "pool"))

    def _formulas(self, value: object) -> None:
        found = value.get("dir") if isinstance(value, Mapping) else None
        if isinstance(found, str):
            self.marks.append(("formulas", "dir"))
            self.formulas_dir = found

    def _entries(self, value: object, key: str, found: list[Entry]) -> None:
        if not isinstance(value, list):
            return  # [doctor] of city.toml is something else
        self.marks.append((key,))
        for index, entry in enumerate(value):
            if isinstance(entry, Mapping):
                found.append(Entry(entry, (key, index)))
            else:
                self._wrong((key, index), "a table", f"write [[{key}]]")

    def _strings(self, value: object, at: KeyPath) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self._wrong(at, "a list of strings")
        return ()

    def _wrong(self, at: KeyPath, wanted: str, hint: str | None = None) -> None:
        name = ".".join(part for part in at if isinstance(part, str))
        words = f"`{name}` should be {wanted}"
        self.problems.append(Problem("bad-type", words, Place(self.file, at), hint))


def _table(value: object) -> Mapping[str, object]:
    """A table, or an empty one where something else stands: its reader says so."""
    return value if isinstance(value, Mapping) else {}
