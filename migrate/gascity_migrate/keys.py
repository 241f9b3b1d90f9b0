"""Translates one v1 agent table or patch to current settings. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.model.ignored_keys import AGENT_NOT_ACTED_ON
from gascity.model.names import is_rig_name

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
