"""Finds the v1 parts of a manifest and translates agent tables to current settings. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.model.names import is_rig_name
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.tables import AGENT_NOT_ACTED_ON

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


# Keys that identify the agent; they are not settings.
_AGENT_IDENTITY = frozenset(("name", "dir"))
_PATCH_IDENTITY = frozenset(("name", "agent", "dir"))

_POOL = {
    "min": "min_active_sessions",
    "max": "max_active_sessions",
    "check": "scale_check",
    "namepool": "namepool",
    "drain_timeout": "drain_timeout",
    "on_boot": "on_boot",
    "on_death": "on_death",
}
# The v1 spelling first: its fragments come first in the prompt.
_FRAGMENTS = {
    "append_fragments": ("inject_fragments", "append_fragments"),
    "append_fragments_append": ("inject_fragments_append", "append_fragments_append"),
}
_EDITS = ("", "_append")
# Lists of a patch for which an empty value has a meaning.
_CLEARED = frozenset(("args", "inject_fragments"))
_CURRENT_KEYS = {old: current for current, names in _FRAGMENTS.items() for old in names}
_TOMBSTONES = {
    "shadow": "not needed: imported agents have qualified names",
    "pre_sync": "worktrees start from the local branch; to fetch first, use `pre_start`",
    **{
        key + edit: AGENT_NOT_ACTED_ON[key]
        for key in ("skills", "mcp")
        if key in AGENT_NOT_ACTED_ON
        for edit in _EDITS
    },
}


class TranslatedAgent(NamedTuple):
    """A v1 table converted to current settings, in file order.

    `written` maps a current key to its dotted v1 key where they differ. `identity` has the keys
    that identify the agent and are not settings: `name`, `dir`, in a patch `agent`. `dropped` are
    dotted keys that have no effect now, each with the reason. `unset` are dotted keys with an
    empty value, which never had an effect.
    """

    values: dict[str, object]
    written: dict[str, str]
    identity: dict[str, object]
    dropped: tuple[tuple[str, str], ...]
    unset: tuple[str, ...] = ()


class _Pair(NamedTuple):
    """A value with its current key and its dotted v1 key."""

    key: str
    spelled: str
    value: object


def translate(
    table: Mapping[str, object], *, patch: bool = False, rigs: Collection[str] | None = None
) -> TranslatedAgent:
    """Return the current settings of a v1 agent table, or of a patch with `patch`.

    Unknown keys and invalid values are kept, so that decoding can report them. A patch keeps
    `prompt_template`, whose path is relative to the pack, because a patch's `prompt` is relative
    to patches/. Its `dir` only selects the agent. `rigs` are the names of the existing rigs, or
    None if they are not known; any other `dir` is a working directory.
    """
    dropped: list[tuple[str, str]] = []
    identity_keys = _PATCH_IDENTITY if patch else _AGENT_IDENTITY
    unset = tuple(_unset(table, patch))
    table = _without(table, unset)
    result = TranslatedAgent({}, {}, {}, (), unset)
    for key, value in table.items():
        if key in identity_keys:
            result.identity[key] = value
        if key in _TOMBSTONES:
            dropped.append((key, _TOMBSTONES[key]))
        elif key not in identity_keys or (key == "dir" and not patch):
            if key == "dir":
                pairs = _convert_dir(table, value, rigs, dropped)
            else:
                pairs = _convert_key(table, key, value, patch, dropped)
            for pair in pairs:
                result.values[pair.key] = pair.value
                if pair.spelled != pair.key:
                    result.written[pair.key] = pair.spelled
    return result._replace(dropped=tuple(dropped))


def _unset(table: Mapping[str, object], patch: bool) -> Iterator[str]:
    """Yield dotted keys with an empty value, which v1 treats as not set."""
    for key, value in table.items():
        if key in _PATCH_IDENTITY or key in _TOMBSTONES:
            continue
        if key == "pool" and isinstance(value, Mapping):
            yield from (f"pool.{name}" for name in value if value[name] == "" and not patch)
        elif (value == [] and not (patch and key in _CLEARED)) or (value == "" and not patch):
            yield key


def _without(table: Mapping[str, object], unset: Collection[str]) -> Mapping[str, object]:
    left = {key: value for key, value in table.items() if key not in unset}
    if isinstance(pool := left.get("pool"), Mapping):
        left["pool"] = {key: value for key, value in pool.items() if f"pool.{key}" not in unset}
    return left


def _convert_key(
    table: Mapping[str, object],
    key: str,
    value: object,
    patch: bool,
    dropped: list[tuple[str, str]],
) -> Iterator[_Pair]:
    if key == "pool" and isinstance(value, Mapping):
        yield from _convert_pool(table, value, dropped)
    elif key in _CURRENT_KEYS:
        yield from _merge_fragments(table, key, value)
    elif key == "prompt_template" and not patch and "prompt" not in table:
        yield _Pair("prompt", key, value)
    else:
        yield _Pair(key, key, value)


def _convert_pool(
    table: Mapping[str, object], pool: Mapping[str, object], dropped: list[tuple[str, str]]
) -> Iterator[_Pair]:
    """Yield the settings of `pool` as agent settings; the agent's own value takes precedence."""
    unknown: dict[str, object] = {}
    for key, value in pool.items():
        current_key = _POOL.get(key)
        if current_key is None:
            unknown[key] = value
        elif current_key in table:
            dropped.append((f"pool.{key}", f"overridden by `{current_key}`"))
        else:
            yield _Pair(current_key, f"pool.{key}", value)
    if unknown:
        yield _Pair("pool", "pool", unknown)


def _merge_fragments(table: Mapping[str, object], key: str, value: object) -> Iterator[_Pair]:
    """Merge both spellings into one list, at the position of the first."""
    current_key = _CURRENT_KEYS[key]
    written = [name for name in table if name in _FRAGMENTS[current_key]]
    if len(written) == 1:
        yield _Pair(current_key, key, value)
        return
    lists = [table[name] for name in _FRAGMENTS[current_key]]
    if not all(isinstance(values, list) for values in lists):
        yield _Pair(key, key, value)
    elif key == written[0]:
        yield _Pair(current_key, key, unique(item for values in lists for item in _items(values)))


def unique(items: Iterable[object]) -> list[object]:
    """Return the items without duplicates, in order; items need not be hashable."""
    result: list[object] = []
    for item in items:
        if item not in result:
            result.append(item)
    return result


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _convert_dir(
    table: Mapping[str, object],
    directory: object,
    rigs: Collection[str] | None,
    dropped: list[tuple[str, str]],
) -> Iterator[_Pair]:
    """Yield `dir` as the agent's rig if a rig has that name, else as its working directory."""
    if not isinstance(directory, str):
        yield _Pair("dir", "dir", directory)
    elif not directory:
        return
    elif lives_in_rig(directory, rigs):
        if "rigs" in table:
            dropped.append(("dir", "overridden by `rigs`"))
        else:
            yield _Pair("rigs", "dir", [directory])
    elif "work_dir" in table:
        dropped.append(("dir", "overridden by `work_dir`"))
    else:
        yield _Pair("work_dir", "dir", directory)


def lives_in_rig(directory: str, rigs: Collection[str] | None) -> bool:
    """Return whether `dir` names a rig; if the rigs are not known, whether it could."""
    return is_rig_name(directory) if rigs is None else directory in rigs
