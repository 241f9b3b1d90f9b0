"""Files in which city manages some keys: settings from overlays, and MCP servers.

The rest of the file is the user's and keeps its bytes, order and comments. A file that cannot be
parsed is not touched.

Settings are merged key by key in three ways (see `json_settings`); the record's `settings` is the
base. Servers are owned by name: the record's `entries` has, for every managed server, a hash of
each of its values. A server whose values still have these hashes is managed. If one differs, the
user edited it, and it is kept. Keys that are not in the record were added by the provider (an
approval, say) and stay. If a managed server replaces one of the user's, `replaced` stores theirs
until the managed one is removed. `original` is the user's whole file before the first merge: while
only city has changed the file, removing the managed keys restores it byte for byte.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity.mcp import documents
from gascity.model.document_text import DocumentError, same, value_digest
from gascity.model.plan import MERGE, FileChange, PathRecord, PathState
from gascity.model.problems import Place, Problem
from gascity.model.values import JsonObject, as_table
from gascity.model.wanted import (
    ABSENT,
    BLOCKED,
    DOCUMENT,
    FILE,
    LINK,
    ServerEntry,
    Shape,
    WantedPath,
    digest,
)
from gascity.workdir.decide.context import (
    MODIFIED,
    NO_LONGER_NEEDED,
    SAME,
    TRACKED,
    UNMANAGED,
    DecisionDraft,
    symlinked_target,
)

_JSON = "json"
_PRIVATE = 0o600


class _EditedServers(NamedTuple):
    """A text with the wanted servers, and what the record has to say about them."""

    text: str
    entries: Mapping[str, Mapping[str, str]]
    replaced: Mapping[str, object]
    equal: Sequence[str] = ()  # the project has an equal one: not managed


def merge_document(wanted: WantedPath, record: PathRecord | None, draft: DecisionDraft) -> None:
    """Write the wanted keys into a file, or update them."""
    now, force = draft.disk.path_state(wanted.path), draft.choices.force
    current = _read_text(wanted, record, now, draft)
    if current is None:
        return
    text = current
    covers = wanted.path in draft.disk.coverable or (record is not None and record.covers)
    was_whole = (
        record is not None and record.kind == FILE and digest(text.encode()) == record.sha256
    )
    if was_whole:
        text = ""  # a file that was managed as a whole becomes a merged one
    # If the file is gone, so are the keys that we had in it.
    record = record if record is not None and record.kind == DOCUMENT and now.kind == FILE else None
    kept: list[str] = []
    servers_only = _is_tracked_by_user(wanted, record, draft)
    if servers_only:
        kept.append(TRACKED)
    try:
        merged = wanted._replace(settings=None) if servers_only else wanted
        text, written = _with_settings(merged, record, text, force, kept)
        tracked = wanted.path in draft.disk.tracked
        servers = _with_servers(wanted, record, text, force, kept, tracked)
    except DocumentError as error:
        _keep_unparsable(wanted.path, wanted, error, draft)
        return
    for name in servers.equal:
        draft.keep(wanted.path, wanted, f"server `{name}`: {SAME}")
    made = record.made if record else was_whole or now.kind != FILE
    original = _original(record, now, current) if not made else None
    new = PathRecord(
        DOCUMENT,
        wanted.source,
        wanted.layer,
        wanted.agents,
        mode=_mode(wanted, now, original),
        covers=covers,
        settings=written,
        shape=wanted.shape or (record.shape if record else None),
        entries=servers.entries,
        replaced=servers.replaced,
        sha256=record.sha256 if record else digest(current.encode()),
        made=made,
        original=original,
        adopted=_adopted(wanted, record, kept, draft),
    )
    if now.kind == FILE and servers.entries and not made and not (record and record.entries):
        draft.snapshots.append(wanted.path)
    _add_merge(wanted, now, current, servers.text, new, draft)


def _is_tracked_by_user(
    wanted: WantedPath, record: PathRecord | None, draft: DecisionDraft
) -> bool:
    """Return whether settings would go into a file that git tracks and that we may not cover."""
    managed = record is not None and record.settings is not None
    tracked = wanted.path in draft.disk.tracked and wanted.path not in draft.disk.coverable
    return wanted.settings is not None and tracked and not managed and not draft.choices.force


def _original(record: PathRecord | None, now: PathState, text: str) -> tuple[int, str] | None:
    """Return the user's file before our first merge; None if it was changed by others since."""
    if record is None:
        return now.mode, text
    if digest(text.encode()) != record.sha256 or now.mode != record.mode:
        return None
    return record.original


def _adopted(
    wanted: WantedPath, record: PathRecord | None, kept: Sequence[str], draft: DecisionDraft
) -> str:
    """Return the hash of the wanted keys if the user adopted theirs; else report what is kept."""
    if draft.choices.adopt:
        if kept:
            draft.accepted.append(wanted.path)
        return wanted_hash(wanted) if kept or wanted.data is not None else ""
    if record is not None and record.adopted == wanted_hash(wanted):
        return record.adopted
    for reason in kept:
        draft.keep(wanted.path, wanted, reason)
    return ""


def wanted_hash(wanted: WantedPath) -> str:
    """Return a hash of everything wanted in a document, or of the whole file it replaces."""
    entries = {name: entry.value for name, entry in (wanted.entries or {}).items()}
    whole = digest(wanted.data) if wanted.data is not None else ""
    return value_digest([wanted.settings, entries, whole])


def _add_merge(
    wanted: WantedPath,
    now: PathState,
    before: str,
    after: str,
    record: PathRecord,
    draft: DecisionDraft,
) -> None:
    path = wanted.path
    mode = now.mode if now.kind == FILE else record.mode
    managed = bool(record.entries or record.settings)
    if after == before and now.kind == FILE and mode == record.mode:
        if managed or record.adopted:
            draft.records[path] = record
        else:
            draft.records.pop(path, None)
        return
    if not managed and now.kind == ABSENT:
        draft.records.pop(path, None)
        return
    change = FileChange(
        path, FILE, now, data=after.encode(), mode=record.mode, durable=not record.made
    )
    names = ", ".join(sorted(record.entries or ()))
    draft.change(MERGE, f"servers: {names}" if names else "", change, record)


def _mode(wanted: WantedPath, now: PathState, original: tuple[int, str] | None) -> int:
    """Keep the user's mode, unless a secret goes into the file that others could read."""
    if now.kind != FILE or wanted.mode == _PRIVATE:
        return wanted.mode
    return original[0] if original else now.mode


def _read_text(
    wanted: WantedPath, record: PathRecord | None, now: PathState, draft: DecisionDraft
) -> str | None:
    """Return the text to edit; None if it must not be edited."""
    if now.kind == ABSENT:
        return ""
    if now.kind == FILE:
        try:
            return draft.disk.read(wanted.path).decode()
        except UnicodeDecodeError:
            _keep_unparsable(wanted.path, wanted, _not_utf8(), draft)
            return None
    if now.kind == LINK and record is not None and record.target == now.target:
        return ""
    is_link = now.kind == LINK
    reason = "a symlink is in the way" if is_link else "cannot be written"
    draft.keep(wanted.path, wanted, reason)
    if now.kind in (LINK, BLOCKED):
        where = wanted.path if is_link else now.target
        draft.problems.append(symlinked_target(draft.disk.shown(where)))
    return None


def _not_utf8() -> DocumentError:
    return DocumentError("not UTF-8", 1, 1)


def _keep_unparsable(
    path: str, source: WantedPath | PathRecord, error: DocumentError, draft: DecisionDraft
) -> None:
    draft.keep(path, source, "cannot be parsed")
    draft.problems.append(
        Problem(
            "unparsable-target",
            f"{error.message}; the file was left unchanged",
            Place(draft.disk.shown(path), line=error.line, col=error.col),
            "fix the file, or move it away",
        )
    )


def _with_settings(
    wanted: WantedPath, record: PathRecord | None, text: str, force: bool, kept: list[str]
) -> tuple[str, Mapping[str, object] | None]:
    """Return the text with our settings, and the settings that we wrote."""
    base = record.settings if record else None
    if wanted.settings is None and base is None:
        return text, None
    from gascity.workdir.decide import json_settings

    current = theirs = documents.read(text, _JSON)
    if force:
        theirs = _without(current, wanted.settings or {})
        base = base and _without(base, wanted.settings or {})
    merged = json_settings.merge(base, theirs, wanted.settings)
    for path in merged.theirs:
        reason = MODIFIED if _value_at(base, path) is not None else UNMANAGED
        kept.append(f"`{'.'.join(path)}`: {reason}")
    return json_settings.apply_settings(text, current, merged.value), merged.base or None


def _value_at(base: object, path: tuple[str, ...]) -> object:
    for key in path:
        base = as_table(base).get(key)
    return base


def _without(current: Mapping[str, object], ours: Mapping[str, object]) -> JsonObject:
    """Return a document without the leaves that ours overrides; hooks are merged in any case."""
    result: JsonObject = {}
    for key, value in current.items():
        wanted = ours.get(key)
        if isinstance(value, Mapping) and isinstance(wanted, Mapping) and key != "hooks":
            result[key] = _without(value, wanted)
        elif key not in ours or key == "hooks":
            result[key] = value
    return result


def same_server(definition: Mapping[str, object], wanted: ServerEntry) -> bool:
    """Return whether a definition means the same as a wanted server.

    Keys with empty values, and those that it may leave out, do not count.
    """
    return same(_meaning(definition, wanted), _meaning(wanted.value, wanted))


def _meaning(definition: Mapping[str, object], wanted: ServerEntry) -> JsonObject:
    return {
        key: value
        for key, value in definition.items()
        if value not in ({}, [], (), "", None)
        and not (key in wanted.implied and value == wanted.value[key])
    }


class _Servers:
    """The servers of one file: which are managed, and what to edit."""

    def __init__(self, record: PathRecord | None, current: Mapping[str, object]) -> None:
        self.current = current
        self.tables = {name: value for name, value in current.items() if isinstance(value, Mapping)}
        self.managed = dict(record.entries or {}) if record else {}
        self.replaced = dict(record.replaced or {}) if record else {}
        self.puts: JsonObject = {}
        self.drops: list[str] = []

    def is_modified(self, name: str) -> bool:
        """Return whether the user changed a managed server."""
        if name not in self.managed or self.current.get(name) is None:
            return False
        # It must have every value that we wrote; it may have more.
        now, managed = self.tables.get(name, {}), self.managed[name]
        same = all(
            key in now and value_digest(now[key]) == hashed for key, hashed in managed.items()
        )
        return name not in self.tables or not same

    def equal_to(self, entries: Mapping[str, ServerEntry]) -> list[str]:
        """Return the wanted servers that the file has already, unmanaged."""
        unmanaged = sorted(entries.keys() & self.tables.keys() - self.managed.keys())
        return [name for name in unmanaged if same_server(self.tables[name], entries[name])]

    def put(self, name: str, value: Mapping[str, object]) -> None:
        """Write a server. Stores the user's one that it replaces, keeps keys a provider added."""
        now = self.current.get(name)
        if now is not None and name not in self.managed:
            self.replaced[name] = now
        new = dict(value)
        if name in self.managed:
            added = self.tables.get(name, {}).items()
            new = {**{key: item for key, item in added if key not in self.managed[name]}, **value}
        if now is None or value_digest(now) != value_digest(new):
            self.puts[name] = new
        self.managed[name] = {key: value_digest(item) for key, item in value.items()}

    def release(self, name: str) -> None:
        """Remove a managed server and restore the one it replaced."""
        before = self.replaced.pop(name, None)
        del self.managed[name]
        if before is not None:
            self.puts[name] = before
        elif name in self.current:
            self.drops.append(name)


def _with_servers(
    wanted: WantedPath,
    record: PathRecord | None,
    text: str,
    force: bool,
    kept: list[str],
    tracked: bool = False,
) -> _EditedServers:
    """Return the text with the wanted servers; equal ones in a tracked file stay the project's."""
    shape = wanted.shape or (record.shape if record else None)
    if shape is None:
        return _EditedServers(text, {}, {})
    entries = wanted.entries or {}
    servers = _Servers(record, documents.servers(documents.read(text, shape.format), shape))
    for name in sorted(set(servers.managed) - set(entries)):
        if servers.is_modified(name):
            kept.append(f"server `{name}`: {NO_LONGER_NEEDED}, but {MODIFIED}")
            del servers.managed[name]
        else:
            servers.release(name)
    equal = servers.equal_to(entries) if tracked else []
    for name in sorted(entries.keys() - set(equal)):
        if not servers.is_modified(name) or force:
            servers.put(name, entries[name].value)
        else:
            kept.append(f"server `{name}`: {MODIFIED}")
    if servers.puts or servers.drops:
        text = documents.edit_servers(text, shape, servers.puts, servers.drops)
    return _EditedServers(text, servers.managed, servers.replaced, equal)


def unmerge_document(path: str, record: PathRecord, draft: DecisionDraft) -> None:
    """Remove our keys from a file; remove the file if apply created it and it is empty then."""
    now = draft.disk.path_state(path)
    if now.kind != FILE:
        draft.records.pop(path)
        return
    nothing = WantedPath(path, DOCUMENT, record.source, record.layer, shape=record.shape)
    kept: list[str] = []
    try:
        text = draft.disk.read(path).decode()
        original = _original(record, now, text)
        after, _ = _with_settings(nothing, record, text, False, kept)
        after = _with_servers(nothing, record, after, False, kept).text
        documents.read(after, (record.shape or Shape("", _JSON, ())).format)
    except DocumentError as error:
        _keep_unparsable(path, record, error, draft)
        return
    except UnicodeDecodeError:
        _keep_unparsable(path, record, _not_utf8(), draft)
        return
    for reason in kept:
        draft.keep(path, record, reason)
    mode, after = original or (now.mode, after)
    if record.made and not after.strip(" \t\r\n{}"):  # not even a comment is left
        draft.remove(path, record, now)
    elif after != text or mode != now.mode:
        change = FileChange(path, FILE, now, data=after.encode(), mode=mode, durable=True)
        draft.release(MERGE, NO_LONGER_NEEDED, change, record)
    else:
        draft.records.pop(path)
