"""One agent table of the first layout in today's settings; patches of agents too. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.model.ignored import AGENT_NOT_ACTED_ON
from gascity.model.names import is_rig_name

# What the file says of which agent is meant; it is no setting.
_OF_AGENT = frozenset(("name", "dir"))
_OF_PATCH = frozenset(("name", "agent", "dir"))

_POOL = {
    "min": "min_active_sessions",
    "max": "max_active_sessions",
    "check": "scale_check",
    "namepool": "namepool",
    "drain_timeout": "drain_timeout",
    "on_boot": "on_boot",
    "on_death": "on_death",
}
# The older spelling first: its fragments stand before the others in the prompt.
_FRAGMENTS = {
    "append_fragments": ("inject_fragments", "append_fragments"),
    "append_fragments_append": ("inject_fragments_append", "append_fragments_append"),
}
_EDITS = ("", "_append")
# The lists of a patch that say something when they are empty.
_CLEARED = frozenset(("args", "inject_fragments"))
_TODAY = {old: today for today, names in _FRAGMENTS.items() for old in names}
_TOMBSTONES = {
    "shadow": "an own agent and an imported one have names of their own",
    "pre_sync": "a worktree begins at the branch as it is; `pre_start` may fetch first",
    **{
        key + edit: AGENT_NOT_ACTED_ON[key]
        for key in ("skills", "mcp")
        if key in AGENT_NOT_ACTED_ON
        for edit in _EDITS
    },
}


class Translated(NamedTuple):
    """A table as it would be written today, in the order of the file.

    `written` says for a key of today's how the file spells it, dotted, where that differs.
    `apart` is what tells the agent and is no setting: `name` and `dir`, of a patch also `agent`.
    `dropped` are keys, dotted, that say nothing today, each with the reason. `unset` are keys that
    never said anything: they are empty.
    """

    values: dict[str, object]
    written: dict[str, str]
    apart: dict[str, object]
    dropped: tuple[tuple[str, str], ...]
    unset: tuple[str, ...] = ()


class _Pair(NamedTuple):
    """A value under today's key, and the key it is written with."""

    key: str
    spelled: str
    value: object


def translate(
    table: Mapping[str, object], *, patch: bool = False, rigs: Collection[str] | None = None
) -> Translated:
    """Today's settings of an agent, or with `patch` of a change to one.

    What is not understood stays as it is, so that whoever decodes it says what is wrong with it.
    A patch keeps `prompt_template`: its path is the pack's own, while `prompt` of a patch is
    looked for under patches/. Its `dir` only says whom it changes. `rigs` are those that there
    are, where that is known: any other dir is one that the agent works in.
    """
    dropped: list[tuple[str, str]] = []
    apart = _OF_PATCH if patch else _OF_AGENT
    unset = tuple(_unset(table, patch))
    table = _without(table, unset)
    out = Translated({}, {}, {}, (), unset)
    for key, value in table.items():
        if key in apart:
            out.apart[key] = value
        if key in _TOMBSTONES:
            dropped.append((key, _TOMBSTONES[key]))
        elif key not in apart or (key == "dir" and not patch):
            if key == "dir":
                pairs = _home(table, value, rigs, dropped)
            else:
                pairs = _today(table, key, value, patch, dropped)
            for pair in pairs:
                out.values[pair.key] = pair.value
                if pair.spelled != pair.key:
                    out.written[pair.key] = pair.spelled
    return out._replace(dropped=tuple(dropped))


def _unset(table: Mapping[str, object], patch: bool) -> Iterator[str]:
    """Keys, dotted, whose value is as good as none: the first layout had no word for "nothing"."""
    for key, value in table.items():
        if key in _OF_PATCH or key in _TOMBSTONES:
            continue
        if key == "pool" and isinstance(value, Mapping):
            yield from (f"pool.{one}" for one in value if value[one] == "" and not patch)
        elif (value == [] and not (patch and key in _CLEARED)) or (value == "" and not patch):
            yield key


def _without(table: Mapping[str, object], unset: Collection[str]) -> Mapping[str, object]:
    left = {key: value for key, value in table.items() if key not in unset}
    if isinstance(pool := left.get("pool"), Mapping):
        left["pool"] = {key: value for key, value in pool.items() if f"pool.{key}" not in unset}
    return left


def _today(
    table: Mapping[str, object],
    key: str,
    value: object,
    patch: bool,
    dropped: list[tuple[str, str]],
) -> Iterator[_Pair]:
    if key == "pool" and isinstance(value, Mapping):
        yield from _pool(table, value, dropped)
    elif key in _TODAY:
        yield from _fragments(table, key, value)
    elif key == "prompt_template" and not patch and "prompt" not in table:
        yield _Pair("prompt", key, value)
    else:
        yield _Pair(key, key, value)


def _pool(
    table: Mapping[str, object], pool: Mapping[str, object], dropped: list[tuple[str, str]]
) -> Iterator[_Pair]:
    """The settings of a pool are the agent's own today; what the agent says itself wins."""
    unknown: dict[str, object] = {}
    for key, value in pool.items():
        today = _POOL.get(key)
        if today is None:
            unknown[key] = value
        elif today in table:
            dropped.append((f"pool.{key}", f"`{today}` says it too"))
        else:
            yield _Pair(today, f"pool.{key}", value)
    if unknown:
        yield _Pair("pool", "pool", unknown)


def _fragments(table: Mapping[str, object], key: str, value: object) -> Iterator[_Pair]:
    """Both spellings are one list, which stands where the first of them does."""
    today = _TODAY[key]
    written = [name for name in table if name in _FRAGMENTS[today]]
    if len(written) == 1:
        yield _Pair(today, key, value)
        return
    lists = [table[name] for name in _FRAGMENTS[today]]
    if not all(isinstance(one, list) for one in lists):
        yield _Pair(key, key, value)
    elif key == written[0]:
        yield _Pair(today, key, once_each(item for one in lists for item in _items(one)))


def once_each(items: Iterable[object]) -> list[object]:
    """Each item where it first stands, whatever it is."""
    found: list[object] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _home(
    table: Mapping[str, object],
    directory: object,
    rigs: Collection[str] | None,
    dropped: list[tuple[str, str]],
) -> Iterator[_Pair]:
    """`dir` is the rig an agent lives in; what no rig is called is where it works."""
    if not isinstance(directory, str):
        yield _Pair("dir", "dir", directory)
    elif not directory:
        return
    elif lives_in_rig(directory, rigs):
        if "rigs" in table:
            dropped.append(("dir", "`rigs` says where it lives"))
        else:
            yield _Pair("rigs", "dir", [directory])
    elif "work_dir" in table:
        dropped.append(("dir", "`work_dir` says where it works"))
    else:
        yield _Pair("work_dir", "dir", directory)


def lives_in_rig(directory: str, rigs: Collection[str] | None) -> bool:
    """Is a `dir` the name of a rig? Where the rigs are not known, of one that may be there."""
    return is_rig_name(directory) if rigs is None else directory in rigs
