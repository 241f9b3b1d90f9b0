"""The journal: what each apply replaces, written before it happens. For undo and crash recovery.

Every apply that changes a directory has one numbered directory below `.gc/undo/<key of the root>/`:

- `0`, `1`, … are copies of the files that will be replaced or removed;
- one JSON file lists every change with both versions of the path and both ledger records. Its
  name is the entry's state:

      begun.json ──► done.json ──► undoing.json ──► (deleted) or undone.json

`begun.json` is written after the copies and before the first change; the directory is not an entry
without a state file, so a process killed while writing the copies leaves nothing to recover. After
the last change the ledger is written, and only then is `begun.json` renamed to `done.json`.
`undone.json` means that some paths could not be restored, because the user changed them since; the
copies stay available. An entry in state `begun` or `undoing` while no process holds the lock was
interrupted: see `recover`. The last ten entries of each directory are kept.
"""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from gascity.files import TEMPORARY_SUFFIX, make_private_directory, write_file
from gascity.model.plan import PathRecord
from gascity.model.values import JsonObject
from gascity.model.wanted import FILE, LINK
from gascity.workdir.write.ledger import (
    RootNames,
    damaged_state,
    from_json,
    record_from_json,
    record_to_json,
    to_json,
)

KEPT = 10
BEGUN, DONE, UNDOING, UNDONE = "begun.json", "done.json", "undoing.json", "undone.json"
_STATES = (BEGUN, DONE, UNDOING, UNDONE)


class PathVersion(NamedTuple):
    """A path before or after a change. `blob` names the copy of its content, if one is kept."""

    kind: str
    sha256: str = ""
    mode: int = 0
    target: str = ""
    blob: str = ""

    def is_like(self, kind: str, sha256: str, target: str) -> bool:
        """Return whether a path with this kind, content and target looks like this version."""
        if self.kind != kind:
            return False
        if kind == FILE:
            return self.sha256 == sha256
        return kind != LINK or self.target == target


class PathChange(NamedTuple):
    """One path's change: both versions and both ledger records."""

    path: str
    before: PathVersion
    after: PathVersion
    record_before: PathRecord | None
    record_after: PathRecord | None


class JournalEntry(NamedTuple):
    """One apply to one directory. `new`: the apply created the directory itself."""

    home: str
    root: str
    run: str
    changes: tuple[PathChange, ...]
    new: bool = False
    worktree: bool = False
    agents: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()  # that have to be created for the apply, or for its undo
    state: str = BEGUN

    def blob(self, name: str) -> bytes:
        with open(f"{self.home}/{name}", "rb") as file:
            return file.read()


class Journal:
    """The journal of one city; that of an export (`use`) is separate, as its ledger is."""

    def __init__(self, city: str, use: str = "") -> None:
        self.top = f"{city}/.gc/undo/{use}".rstrip("/")
        self.root_names = RootNames(city)

    def home(self, root: str) -> str:
        return f"{self.top}/{self.root_names.key(root)}"

    def begin(self, entry: JournalEntry, contents: Mapping[str, bytes]) -> JournalEntry:
        """Write an entry and return it with its home.

        `contents` are the files that will be replaced or removed, by path.
        """
        home = self._next(entry.root)
        for directory in (self.top, os.path.dirname(home), home):
            make_private_directory(directory)
        changes = []
        try:
            for number, change in enumerate(entry.changes):
                if change.path in contents:
                    write_file(f"{home}/{number}", contents[change.path])
                    change = change._replace(before=change.before._replace(blob=str(number)))
                changes.append(change)
            entry = entry._replace(home=home, changes=tuple(changes))
            self._write(entry, BEGUN)
        except BaseException:
            _discard(home)
            raise
        return entry

    def finish(self, entry: JournalEntry, done: Collection[str] | None = None) -> None:
        """Mark an entry as done, limited to the paths in `done` if given; drop old entries."""
        if done is None or len(done) == len(entry.changes):
            self._rename(entry, DONE)
        else:
            changes = tuple(change for change in entry.changes if change.path in done)
            self._write(entry._replace(changes=changes), DONE)
            os.unlink(f"{entry.home}/{entry.state}")
        for name in _numbered(self.home(entry.root))[:-KEPT]:
            _discard(f"{self.home(entry.root)}/{name}")

    def undoing(self, entry: JournalEntry, directories: tuple[str, ...]) -> JournalEntry:
        """Mark an entry as being undone, for which `directories` have to be created."""
        self._write(entry._replace(directories=directories), UNDOING)
        os.unlink(f"{entry.home}/{entry.state}")
        return entry._replace(directories=directories, state=UNDOING)

    def undone(self, entry: JournalEntry, *, complete: bool) -> None:
        """Delete an undone entry; unless the undo was complete, keep its copies."""
        if complete:
            self.forget(entry)
        else:
            self._rename(entry, UNDONE)

    def interrupted(self, root: str) -> list[JournalEntry]:
        """Return entries that were begun and not finished, oldest first.

        The caller holds the directory's lock, so temporary files are leftovers and are removed.
        """
        entries = []
        for number in _numbered(self.home(root)):
            home = f"{self.home(root)}/{number}"
            names = os.listdir(home)
            for name in names:
                if name.endswith(TEMPORARY_SUFFIX):
                    os.unlink(f"{home}/{name}")
            entries += [self._load(home, state) for state in (BEGUN, UNDOING) if state in names]
        return [entry for entry in entries if entry is not None]

    def last(self, root: str) -> JournalEntry | None:
        """Return the last apply that changed a directory and was not undone."""
        return self._last(self.home(root))

    def _last(self, home: str) -> JournalEntry | None:
        for name in reversed(_numbered(home)):
            for state in (DONE, UNDOING):
                entry = self._load(f"{home}/{name}", state)
                if entry is not None:
                    return entry
        return None

    def forget(self, entry: JournalEntry) -> None:
        _discard(entry.home)

    def roots(self) -> list[str]:
        """Return the directories that have something to undo."""
        keys = sorted(os.listdir(self.top)) if os.path.isdir(self.top) else ()
        entries = [self._last(f"{self.top}/{key}") for key in keys]
        return [entry.root for entry in entries if entry is not None]

    def _next(self, root: str) -> str:
        """Return the home of the next entry; remove directories without a state file."""
        home = self.home(root)
        numbers = _numbered(home)
        for name in numbers:
            if not set(_STATES).intersection(os.listdir(f"{home}/{name}")):
                _discard(f"{home}/{name}")
        return f"{home}/{int(numbers[-1]) + 1 if numbers else 1:06d}"

    @staticmethod
    def _rename(entry: JournalEntry, state: str) -> None:
        if entry.state != state:
            os.replace(f"{entry.home}/{entry.state}", f"{entry.home}/{state}")

    def _write(self, entry: JournalEntry, state: str) -> None:
        raw = {
            "root": self.root_names.name(entry.root),
            "run": entry.run,
            "deeds": [
                (
                    change.path,
                    change.before,
                    change.after,
                    _optional_json(change.record_before),
                    _optional_json(change.record_after),
                )
                for change in entry.changes
            ],
            "new": entry.new,
            "worktree": entry.worktree,
            "agents": entry.agents,
            "directories": entry.directories,
        }
        write_file(f"{entry.home}/{state}", to_json(raw))

    def _load(self, home: str, state: str) -> JournalEntry | None:
        try:
            with open(f"{home}/{state}", "rb") as file:
                raw = from_json(file.read())
            return _entry(raw, home, self.root_names.path(raw["root"]), state)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise damaged_state(f"{home}/{state}") from None


def _numbered(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if name.isdigit())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _discard(home: str) -> None:
    """Delete an entry, its state file first: without one it is no entry."""
    for name in _STATES:
        with suppress(FileNotFoundError):
            os.unlink(f"{home}/{name}")
    for name in os.listdir(home):
        os.unlink(f"{home}/{name}")
    os.rmdir(home)


def _optional_json(record: PathRecord | None) -> JsonObject | None:
    return None if record is None else record_to_json(record)


def _entry(raw: Mapping[str, Any], home: str, root: str, state: str) -> JournalEntry:
    changes = tuple(
        PathChange(
            path,
            PathVersion(*before),
            PathVersion(*after),
            record_from_json(record_before) if record_before else None,
            record_from_json(record_after) if record_after else None,
        )
        for path, before, after, record_before, record_after in raw["deeds"]
    )
    return JournalEntry(
        home,
        root,
        raw["run"],
        changes,
        raw["new"],
        raw["worktree"],
        tuple(raw["agents"]),
        tuple(raw["directories"]),
        state,
    )
