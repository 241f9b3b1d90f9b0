"""Recovers from an interrupted apply or undo.

Recovery corrects the ledger to match what the interrupted run actually did.

The journal entry of the interrupted run has both versions of every path. A path that looks like
the new version was changed: its new record goes into the ledger. Any other path keeps its old
record. So after recovery the ledger is right again, and the next plan does what is missing or, if
the user edited a file meanwhile, sees that its content no longer matches the record. Recovery
itself changes no content: it deletes temporary files and empty directories that apply created.
"""

import os

from gascity.model.wanted import (
    ABSENT,
    BLOCKED,
    DIRECTORY,
    DOCUMENT,
    FILE,
    digest,
)
from gascity.workdir.write.directory import Directory
from gascity.workdir.write.execute import (
    ApplyState,
    discard_staging,
    set_record,
    staging_path,
)
from gascity.workdir.write.journal import UNDOING, JournalEntry, PathChange, PathVersion
from gascity.workdir.write.ledger import Ledger


def recover(state: ApplyState, root: str) -> bool:
    """Recover interrupted runs in one directory; return False if there were none.

    The caller holds the directory's lock.
    """
    entries = state.journal.interrupted(root)
    for entry in entries:
        if entry.new and entry.state != UNDOING:
            _recover_new_directory(state, entry)
        else:
            _recover(state, entry)
    return bool(entries)


def _recover(state: ApplyState, entry: JournalEntry) -> None:
    ledger = state.ledgers.read(entry.root)
    undoing = entry.state == UNDOING
    paths = dict(ledger.paths)
    done = set()
    with Directory(entry.root) as directory:
        created = {path for path in entry.directories if directory.state(path).kind == DIRECTORY}
        for change in all_changes(ledger) if entry.new else entry.changes:
            directory.remove_temporary(change.path)
            # If apply created a directory there, the file that had its name is gone.
            if change.path in created or _is_done(directory, change, undoing):
                done.add(change.path)
                record = change.record_before if undoing else change.record_after
                set_record(paths, change.path, record)
        directories = {*ledger.directories, *created}
        for path in sorted(directories - {""}, reverse=True):  # deepest first
            if directory.remove_empty(path):
                directories.remove(path)
    ledger = ledger._replace(paths=paths, directories=tuple(sorted(directories)))
    state.ledgers.write(ledger.unsynced())
    if undoing:
        state.journal.finish(entry)
    elif done:
        state.journal.finish(entry, done)
    else:
        state.journal.forget(entry)


def _is_done(directory: Directory, change: PathChange, undoing: bool) -> bool:
    old, new = (change.after, change.before) if undoing else (change.before, change.after)
    # The two versions may differ in their mode only.
    if not matches(directory, change.path, new):
        return False
    return not matches(directory, change.path, old, compare_mode=True)


def _recover_new_directory(state: ApplyState, entry: JournalEntry) -> None:
    if os.path.isdir(staging_path(entry.root)) or not os.path.lexists(entry.root):
        discard_staging(state, entry)
    else:
        state.ledgers.commit_pending(entry.root)
        state.journal.finish(entry)


def all_changes(ledger: Ledger) -> tuple[PathChange, ...]:
    """Return every managed path of a directory as a change that created it."""
    return tuple(
        PathChange(
            path,
            PathVersion(ABSENT),
            PathVersion(
                FILE if record.kind == DOCUMENT else record.kind,
                record.sha256,
                record.mode,
                record.target,
            ),
            None,
            record,
        )
        for path, record in ledger.paths.items()
    )


def matches(
    directory: Directory, path: str, version: PathVersion, *, compare_mode: bool = False
) -> bool:
    """Return whether a path now looks like one version of a change."""
    now = directory.state(path)
    if compare_mode and now.kind == FILE and now.mode != version.mode:
        return False
    sha256 = digest(directory.read(path)) if now.kind == FILE == version.kind else ""
    kind = ABSENT if now.kind == BLOCKED else now.kind  # nothing can exist below a file
    return version.is_like(kind, sha256, now.target)


def managed_files(ledger: Ledger) -> tuple[frozenset[str], dict[str, str]]:
    """Return paths that are still as apply wrote them, and hashes of what covers tracked files."""
    covered = {path: record.sha256 for path, record in ledger.paths.items() if record.covers}
    with Directory(ledger.root) as directory:
        managed = {
            change.path
            for change in all_changes(ledger)
            if change.path not in covered and matches(directory, change.path, change.after)
        }
    return frozenset(managed), covered
