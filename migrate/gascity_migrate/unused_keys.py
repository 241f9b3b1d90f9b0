"""Lists keys that stay in the file without effect, each with the reason."""

from collections.abc import Iterator, Mapping

from gascity.model.ignored_keys import (
    AGENT_NOT_ACTED_ON,
    CITY_NOT_ACTED_ON,
    NOT_ACTED_ON,
    PATCHES_NOT_ACTED_ON,
)
from gascity.model.problems import KeyPath
from gascity_migrate.draft import Draft, Manifest
from gascity_migrate.v1_tables import INCLUDES

# Keys that are converted, or reported elsewhere.
_CARRIED = frozenset((*INCLUDES, "default_rig_includes", "global_fragments", "defaults", "pool"))
_TABLES = ("workspace", "session", "pack")
_ENTRIES = (("imports", "import"), ("providers", "provider"))


def record_ignored_keys(draft: Draft, manifest: Manifest) -> None:
    """Record every key of a file that city knows but ignores."""
    for path, reason in _ignored_keys(manifest.raw):
        if path[0] not in ("packs", "topologies") and path[:2] != ("formulas", "dir"):
            draft.record_not_carried(manifest, path, reason)


def _ignored_keys(raw: Mapping[str, object]) -> Iterator[tuple[KeyPath, str]]:
    for key, value in raw.items():
        if key in CITY_NOT_ACTED_ON:
            yield from _whole(key, value)
    for name in _TABLES:
        yield from _keys(raw.get(name), (name,), NOT_ACTED_ON[name])
    for name, kind in _ENTRIES:
        tables = raw.get(name)
        for entry in tables if isinstance(tables, Mapping) else ():
            yield from _keys(_under(tables, entry), (name, entry), NOT_ACTED_ON[kind])
    for name in ("agent_defaults", "agents"):
        yield from _keys(raw.get(name), (name,), AGENT_NOT_ACTED_ON)
    patches = raw.get("patches")
    yield from _keys(patches, ("patches",), PATCHES_NOT_ACTED_ON)
    yield from _patches(_under(patches, "agent"), ("patches", "agent"))
    rigs = raw.get("rigs")
    for index, rig in enumerate(rigs if isinstance(rigs, list) else ()):
        at: KeyPath = ("rigs", index)
        yield from _keys(rig, at, NOT_ACTED_ON["rig"])
        for name in ("overrides", "patches"):
            yield from _patches(_under(rig, name), (*at, name))
        yield from _moved_agents(rig, at)


def _moved_agents(rig: object, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield overrides that change an agent's `dir`, which patches cannot do."""
    entries = _under(rig, "overrides")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if _under(entry, "dir") not in (None, "", _under(rig, "name")):
            yield (
                (*at, "overrides", index, "dir"),
                "an agent of a rig cannot move to another directory",
            )


def _under(table: object, key: str) -> object:
    return table.get(key) if isinstance(table, Mapping) else None


def _whole(key: str, value: object) -> Iterator[tuple[KeyPath, str]]:
    """Yield each key of an ignored table; an array of tables only once."""
    reason = CITY_NOT_ACTED_ON[key]
    if isinstance(value, Mapping):
        yield from (((key, name), reason) for name in value)
    elif key not in ("doctor", "commands"):
        yield (key,), reason


def _keys(table: object, at: KeyPath, known: Mapping[str, str]) -> Iterator[tuple[KeyPath, str]]:
    for key in table if isinstance(table, Mapping) else ():
        if key in known and key not in _CARRIED:
            yield (*at, key), known[key]


def _patches(entries: object, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        yield from _keys(entry, (*at, index), AGENT_NOT_ACTED_ON)
        pool = _under(entry, "pool")
        for key in pool if isinstance(pool, Mapping) else ():
            current_key = "scale_check" if key == "check" else str(key)
            if current_key in AGENT_NOT_ACTED_ON:
                yield (*at, index, "pool", key), AGENT_NOT_ACTED_ON[current_key]
