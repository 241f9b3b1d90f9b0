"""Reads the v1 parts of a manifest, and translates agent tables to current settings. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from gascity.model.names import is_rig_name
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.tables import AGENT_NOT_ACTED_ON

SHARED_PROMPTS = "prompts/shared"
OVERLAYS = "overlays"  # directories of overlays, each named by some agent's overlay_dir
FRAGMENTS: Final = "append_fragments"

# All v1 spellings of the list of included packs, in the order in which v1 read them.
INCLUDES = ("topology", "pack", "topologies", "packs", "includes")


# Parts of a parsed document. A value of the wrong type counts as missing: decoding reports it.


def table_at(value: object, *path: str) -> Mapping[str, object]:
    """Return the table at a key path, or an empty one."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def list_at(value: object, *path: str) -> list[object]:
    """Return the list at a key path, or an empty one."""
    items = table_at(value, *path[:-1]).get(path[-1])
    return items if isinstance(items, list) else []


def tables_at(value: object, *path: str) -> list[tuple[int, Mapping[str, object]]]:
    """Return the tables of the list at a key path, each with its index."""
    items = enumerate(list_at(value, *path))
    return [(index, item) for index, item in items if isinstance(item, Mapping)]


def text_at(value: object, *path: str) -> str:
    """Return the string at a key path, or an empty one."""
    text = table_at(value, *path[:-1]).get(path[-1])
    return text if isinstance(text, str) else ""


def texts_at(value: object, *path: str) -> list[str]:
    """Return the strings in the list at a key path."""
    return [item for item in list_at(value, *path) if isinstance(item, str)]


# The v1 parts of a manifest.


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
    """One `[[doctor]]` or `[[commands]]`; `script` and `long_description` are None if not set."""

    name: str
    script: str | None
    long_description: str | None
    at: KeyPath


class V1Manifest:
    """All v1 parts of pack.toml, city.toml or a file that city.toml includes, in file order.

    `marks` are the key paths that only v1 has; a file without any is not v1. `patches` are all
    patches, since some of their keys may be v1 keys. `defaults` is `[agents]` if that is a table:
    the v1 name of `[agent_defaults]`. `overrides` are the key paths of `rigs.overrides`, the v1
    name of a rig's patches. Values of the wrong type become problems in `file`; all other parts
    are still read.
    """

    def __init__(self, manifest: Mapping[str, object], file: str) -> None:
        self.file = file
        self.agents: list[V1AgentTable] = []
        self.defaults: Mapping[str, object] | None = None
        self.packs: list[NamedPack] = []
        self.includes: list[Include] = []
        self.files: list[str] = []
        self.global_fragments: list[str] = []
        self.city_agents: list[str] | None = None
        self.patches: list[PatchTable] = []
        self.overrides: list[KeyPath] = []
        self.formulas_dir = ""
        self.entries: dict[str, list[Entry]] = {"doctor": [], "commands": []}
        self.marks: list[KeyPath] = []
        self.problems: list[Problem] = []
        for key in manifest:
            if key in _READERS:
                _READERS[key](self, manifest, key)

    def _read_agents(self, manifest: Mapping[str, object], key: str) -> None:
        value = manifest[key]
        if isinstance(value, list):
            for index, table in enumerate(value):
                self._read_agent(table, key, index)
            return
        self.marks.append((key,))
        if key == "agent":
            self._wrong_type((key,), "an array of tables", "write [[agent]]")
        elif isinstance(value, Mapping):
            self.defaults = value
        else:
            self._wrong_type((key,), "a table", "write [agent_defaults]")

    def _read_agent(self, table: object, key: str, index: int) -> None:
        at: KeyPath = (key, index)
        self.marks.append(at)
        if not isinstance(table, Mapping):
            self._wrong_type(at, "a table", f"write [[{key}]]")
            return
        name, directory = table.get("name"), table.get("dir", "")
        if name is None:
            words = "an agent needs a `name`"
            self.problems.append(Problem("missing-key", words, Place(self.file, at)))
        elif not isinstance(name, str):
            self._wrong_type((*at, "name"), "a string")
        elif not isinstance(directory, str):
            self._wrong_type((*at, "dir"), "a string")
        else:
            self.agents.append(V1AgentTable(name, directory, table, at))

    def _read_packs(self, manifest: Mapping[str, object], key: str) -> None:
        """Read `[packs]`, called `[topologies]` in early releases."""
        self.marks.append((key,))
        if not isinstance(manifest[key], Mapping):
            self._wrong_type((key,), "a table")
        for name, table in table_at(manifest, key).items():
            source, ref, path = (text_at(table, part) for part in ("source", "ref", "path"))
            if source:
                self.packs.append(NamedPack(name, source, ref, path, (key, name)))
            else:
                words, place = f"`{key}.{name}` needs a `source`", Place(self.file, (key, name))
                self.problems.append(Problem("missing-key", words, place))

    def _read_pack(self, manifest: Mapping[str, object], key: str) -> None:
        for name, value in table_at(manifest, key).items():
            if name == "includes":
                self._read_includes(value, (key, name), "pack")
            elif name == "city_agents":
                self.city_agents = self._marked_strings(value, (key, name))

    def _read_workspace(self, manifest: Mapping[str, object], key: str) -> None:
        table = table_at(manifest, key)
        for name in (*INCLUDES, "default_rig_includes"):
            if name in table:
                owner = "default-rig" if name == "default_rig_includes" else "city"
                self._read_includes(table[name], (key, name), owner)
        if "global_fragments" in table:
            at = (key, "global_fragments")
            self.global_fragments = self._marked_strings(table["global_fragments"], at)

    def _read_includes(self, value: object, at: KeyPath, owner: str, rig: str = "") -> None:
        if isinstance(value, str):
            self.marks.append(at)
            self.includes.append(Include(value, at, owner, rig))
            return
        for index, source in enumerate(self._marked_strings(value, at)):
            self.includes.append(Include(source, (*at, index), owner, rig))

    def _read_files(self, manifest: Mapping[str, object], key: str) -> None:
        self.files = self._strings(manifest[key], (key,))

    def _read_rigs(self, manifest: Mapping[str, object], key: str) -> None:
        for index, table in tables_at(manifest, key):
            rig = text_at(table, "name")
            for name in INCLUDES:
                if name in table:
                    self._read_includes(table[name], (key, index, name), "rig", rig)
            if "overrides" in table:
                self.marks.append((key, index, "overrides"))
                self.overrides.append((key, index, "overrides"))
            for name in ("overrides", "patches"):
                self._read_patch_tables(table, name, (key, index, name), rig)

    def _read_patches(self, manifest: Mapping[str, object], key: str) -> None:
        self._read_patch_tables(table_at(manifest, key), "agent", (key, "agent"))

    def _read_patch_tables(
        self, around: Mapping[str, object], key: str, at: KeyPath, rig: str = ""
    ) -> None:
        for index, table in tables_at(around, key):
            self.patches.append(PatchTable(table, (*at, index), rig))
            if "pool" in table:
                self.marks.append((*at, index, "pool"))

    def _read_formulas(self, manifest: Mapping[str, object], key: str) -> None:
        if isinstance(table_at(manifest, key).get("dir"), str):
            self.marks.append((key, "dir"))
            self.formulas_dir = text_at(manifest, key, "dir")

    def _read_entries(self, manifest: Mapping[str, object], key: str) -> None:
        value = manifest[key]
        if not isinstance(value, list):
            return  # city.toml has an unrelated table [doctor]
        self.marks.append((key,))
        for index, table in enumerate(value):
            if isinstance(table, Mapping):
                script, long = (
                    _text_or_none(table, name) for name in ("script", "long_description")
                )
                entry = Entry(text_at(table, "name"), script, long, (key, index))
                self.entries[key].append(entry)
            else:
                self._wrong_type((key, index), "a table", f"write [[{key}]]")

    def _marked_strings(self, value: object, at: KeyPath) -> list[str]:
        self.marks.append(at)
        return self._strings(value, at)

    def _strings(self, value: object, at: KeyPath) -> list[str]:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        self._wrong_type(at, "a list of strings")
        return []

    def _wrong_type(self, at: KeyPath, wanted: str, hint: str | None = None) -> None:
        name = ".".join(part for part in at if isinstance(part, str))
        words = f"`{name}` should be {wanted}"
        self.problems.append(Problem("bad-type", words, Place(self.file, at), hint))


_READERS = {
    "agent": V1Manifest._read_agents,
    "agents": V1Manifest._read_agents,
    "packs": V1Manifest._read_packs,
    "topologies": V1Manifest._read_packs,
    "pack": V1Manifest._read_pack,
    "workspace": V1Manifest._read_workspace,
    "include": V1Manifest._read_files,
    "rigs": V1Manifest._read_rigs,
    "patches": V1Manifest._read_patches,
    "formulas": V1Manifest._read_formulas,
    "doctor": V1Manifest._read_entries,
    "commands": V1Manifest._read_entries,
}


def _text_or_none(table: Mapping[str, object], key: str) -> str | None:
    value = table.get(key)
    return value if isinstance(value, str) else None


# One agent table or patch.

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
_FRAGMENT_KEYS = {
    "append_fragments": ("inject_fragments", "append_fragments"),
    "append_fragments_append": ("inject_fragments_append", "append_fragments_append"),
}
_CURRENT_KEYS = {old: current for current, names in _FRAGMENT_KEYS.items() for old in names}
# Lists of a patch for which an empty value has a meaning.
_CLEARED = frozenset(("args", "inject_fragments"))
_TOMBSTONES = {
    "shadow": "not needed: imported agents have qualified names",
    "pre_sync": "worktrees start from the local branch; to fetch first, use `pre_start`",
    **{
        key + edit: AGENT_NOT_ACTED_ON[key]
        for key in ("skills", "mcp")
        if key in AGENT_NOT_ACTED_ON
        for edit in ("", "_append")
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

    def path(self, key: str) -> tuple[str, ...]:
        """Return where the table writes a current key."""
        return tuple(self.written.get(key, key).split("."))

    @property
    def fragments(self) -> list[object]:
        return list_at(self.values, FRAGMENTS)


class _Pair(NamedTuple):
    """A value with its current key and its dotted v1 key, and why it is dropped, if it is."""

    key: str
    spelled: str
    value: object
    dropped: str = ""


def translate(
    table: Mapping[str, object], *, patch: bool = False, rigs: Collection[str] | None = None
) -> TranslatedAgent:
    """Return the current settings of a v1 agent table, or of a patch with `patch`.

    Unknown keys and invalid values are kept, so that decoding can report them. A patch keeps
    `prompt_template`, whose path is relative to the pack, because a patch's `prompt` is relative
    to patches/. Its `dir` only selects the agent. `rigs` are the names of the existing rigs, or
    None if they are not known; any other `dir` is a working directory.
    """
    unset = tuple(_unset(table, patch))
    table = {key: value for key, value in table.items() if key not in unset}
    if pool := table_at(table, "pool"):
        table["pool"] = {key: pool[key] for key in pool if f"pool.{key}" not in unset}
    identity = _PATCH_IDENTITY if patch else _AGENT_IDENTITY
    pairs = list(_convert(table, patch, rigs))
    kept = [pair for pair in pairs if not pair.dropped]
    return TranslatedAgent(
        {pair.key: pair.value for pair in kept},
        {pair.key: pair.spelled for pair in kept if pair.spelled != pair.key},
        {key: value for key, value in table.items() if key in identity},
        tuple((pair.spelled, pair.dropped) for pair in pairs if pair.dropped),
        unset,
    )


def _unset(table: Mapping[str, object], patch: bool) -> Iterator[str]:
    """Yield dotted keys with an empty value, which v1 treats as not set."""
    for key, value in table.items():
        if key in _PATCH_IDENTITY or key in _TOMBSTONES:
            continue
        if key == "pool" and isinstance(value, Mapping):
            yield from (f"pool.{name}" for name in value if value[name] == "" and not patch)
        elif (value == [] and not (patch and key in _CLEARED)) or (value == "" and not patch):
            yield key


def _convert(
    table: Mapping[str, object], patch: bool, rigs: Collection[str] | None
) -> Iterator[_Pair]:
    for key, value in table.items():
        if key in _TOMBSTONES:
            yield _Pair(key, key, value, _TOMBSTONES[key])
        elif key == "dir" and not patch:
            yield from _convert_dir(table, value, rigs)
        elif key in (_PATCH_IDENTITY if patch else _AGENT_IDENTITY):
            continue
        elif key == "pool" and isinstance(value, Mapping):
            yield from _convert_pool(table, value)
        elif key in _CURRENT_KEYS:
            yield from _merge_fragments(table, key, value)
        elif key == "prompt_template" and not patch and "prompt" not in table:
            yield _Pair("prompt", key, value)
        else:
            yield _Pair(key, key, value)


def _convert_pool(table: Mapping[str, object], pool: Mapping[str, object]) -> Iterator[_Pair]:
    """Yield the settings of `pool` as agent settings; the agent's own value takes precedence."""
    for key, value in pool.items():
        if key in _POOL:
            current_key = _POOL[key]
            reason = f"overridden by `{current_key}`" if current_key in table else ""
            yield _Pair(current_key, f"pool.{key}", value, reason)
    unknown = {key: value for key, value in pool.items() if key not in _POOL}
    if unknown:
        yield _Pair("pool", "pool", unknown)


def _merge_fragments(table: Mapping[str, object], key: str, value: object) -> Iterator[_Pair]:
    """Merge both spellings into one list, at the position of the first."""
    current_key = _CURRENT_KEYS[key]
    written = [name for name in table if name in _FRAGMENT_KEYS[current_key]]
    if len(written) == 1:
        yield _Pair(current_key, key, value)
    elif not all(isinstance(table[name], list) for name in written):
        yield _Pair(key, key, value)
    elif key == written[0]:
        lists = [list_at(table, name) for name in _FRAGMENT_KEYS[current_key]]
        yield _Pair(current_key, key, unique(item for items in lists for item in items))


def unique(items: Iterable[object]) -> list[object]:
    """Return the items without duplicates, in order; items need not be hashable."""
    result: list[object] = []
    for item in items:
        if item not in result:
            result.append(item)
    return result


def _convert_dir(
    table: Mapping[str, object], directory: object, rigs: Collection[str] | None
) -> Iterator[_Pair]:
    """Yield `dir` as the agent's rig if a rig has that name, else as its working directory."""
    if not isinstance(directory, str):
        yield _Pair("dir", "dir", directory)
    elif directory:
        in_rig = lives_in_rig(directory, rigs)
        key = "rigs" if in_rig else "work_dir"
        reason = f"overridden by `{key}`" if key in table else ""
        yield _Pair(key, "dir", [directory] if in_rig else directory, reason)


def lives_in_rig(directory: str, rigs: Collection[str] | None) -> bool:
    """Return whether `dir` names a rig; if the rigs are not known, whether it could."""
    return is_rig_name(directory) if rigs is None else directory in rigs
