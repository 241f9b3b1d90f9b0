"""Undoes an apply: restores a directory, and keeps and reports what changed since."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from gascity.model.plan import FileChange
from gascity.model.wanted import ABSENT
from gascity.workdir.write.directory import ConcurrentChangeError, Directory
from gascity.workdir.write.execute import ApplyState, missing_directories, set_record
from gascity.workdir.write.journal import JournalEntry, PathChange
from gascity.workdir.write.ledger import Ledger
from gascity.workdir.write.recover import all_changes, matches


class UndoResult(NamedTuple):
    """Paths that were restored, and paths that changed since the apply and were kept."""

    restored: tuple[PathChange, ...] = ()
    kept: tuple[PathChange, ...] = ()


def undo(
    state: ApplyState, entry: JournalEntry, sync: Callable[[Ledger], Ledger]
) -> tuple[UndoResult, Ledger]:
    """Undo one apply. The caller holds the directory's lock.

    Kept paths stay recorded as managed. `sync` is called with the new ledger before the journal
    entry is deleted, to update git and the MCP markers.
    """
    ledger = state.ledgers.read(entry.root)
    changes = all_changes(ledger) if entry.new else entry.changes
    created = [change for change in changes if change.before.kind == ABSENT]
    replaced = [change for change in changes if change.before.kind != ABSENT]
    restored: list[PathChange] = []
    kept: list[PathChange] = []
    with Directory(entry.root) as directory:
        removed = {change.path for change in created}
        missing = missing_directories(directory, [change.path for change in replaced], removed)
        entry = state.journal.undoing(entry, missing)
        # Remove what the apply created first: it may be in the place of what it removed.
        for change in created:
            (restored if _restore(entry, change, directory) else kept).append(change)
        directories = {
            path
            for path in sorted(ledger.directories, reverse=True)  # deepest first
            if not path or not directory.remove_empty(path)
        }
        for change in replaced:
            (restored if _restore(entry, change, directory) else kept).append(change)
        directories.update(directory.created)
    if entry.new:
        with suppress(OSError):  # another process put a file there
            os.rmdir(entry.root)
        if not os.path.lexists(entry.root):
            directories.discard("")
    paths = dict(ledger.paths)
    for change in restored:
        set_record(paths, change.path, change.record_before)
    result = ledger._replace(paths=paths, directories=tuple(sorted(directories))).unsynced()
    state.ledgers.write(result)
    result = sync(result)
    state.ledgers.write(result)
    state.journal.undone(entry, complete=not kept)
    return UndoResult(tuple(sorted(restored)), tuple(sorted(kept))), result


def _restore(entry: JournalEntry, change: PathChange, directory: Directory) -> bool:
    """Restore one path; return False if it is no longer as the apply left it."""
    try:
        if matches(directory, change.path, change.before, compare_mode=True):
            return True
        if not matches(directory, change.path, change.after):
            return False
        directory.apply(_restoring_change(entry, change, directory))
    except ConcurrentChangeError:
        return False
    return True


def _restoring_change(entry: JournalEntry, change: PathChange, directory: Directory) -> FileChange:
    before = change.before
    data = entry.blob(before.blob) if before.blob else None
    return FileChange(
        change.path,
        before.kind,
        directory.state(change.path),
        data=data,
        mode=before.mode,
        target=before.target,
        durable=data is not None,
    )
