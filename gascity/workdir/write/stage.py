"""Creates a new working directory under a temporary name and renames it when it is complete.

No other process looks at the files before the rename, so neither per-file temporary names nor
checks for concurrent changes are needed, and one journal entry without any content suffices. The
order:

1. journal: an entry with `new`, and no changes;
2. all files below `<parent>/.city-<key>`;
3. ledger: the records as `<file>.json.next`;
4. rename to the final name: the moment at which the directory exists;
5. ledger: `.next` becomes the current file; journal: done.

A crash before 4 leaves the temporary directory, which `recover` deletes with the pending ledger. A
crash after 4 leaves the pending ledger, which `recover` makes the current one.
"""

import os
from collections.abc import Mapping, Sequence

from gascity.files import write_new
from gascity.model.plan import FILE, FileChange, PathRecord, Stamp, Step
from gascity.paths import path_key
from gascity.workdir.write.directory import ConcurrentChangeError, content, stamp_of
from gascity.workdir.write.execute import (
    ApplyState,
    ExecuteResult,
    Progress,
    change_of,
    with_stamp,
)
from gascity.workdir.write.journal import JournalEntry
from gascity.workdir.write.ledger import Ledger
from gascity.workdir.write.mcp_markers import mark_unsynced


def create_directory(
    state: ApplyState,
    ledger: Ledger,
    steps: Sequence[Step],
    records: Mapping[str, PathRecord],
    run: str,
    progress: Progress,
) -> ExecuteResult:
    """Execute all steps of a directory that does not exist, or none. The caller holds its lock."""
    agents = tuple(sorted({name for step in steps if step.record for name in step.record.agents}))
    entry = state.journal.begin(JournalEntry("", ledger.root, run, (), True, agents=agents), {})
    staging = staging_path(ledger.root)
    paths = dict(records)
    created: dict[str, None] = {}
    done: list[Step] = []
    conflicts: list[Step] = []
    try:
        os.makedirs(staging)
        for step in steps:
            try:
                stamp = _write(staging, change_of(step), created)
            except ConcurrentChangeError:
                paths.pop(step.path, None)
                conflicts.append(step)
                continue
            if step.record is not None:
                paths[step.path] = with_stamp(step, stamp)
            done.append(step)
            progress(len(done), len(steps))
        result = mark_unsynced(ledger._replace(paths=paths, directories=("", *created)))
        state.ledgers.write_pending(result)
        os.rename(staging, ledger.root)
    except BaseException as error:
        discard_staging(state, entry)
        if not isinstance(error, OSError):
            raise
        where = error.filename or ledger.root
        return ExecuteResult(ledger=ledger, error=OSError(error.errno, error.strerror, where))
    state.ledgers.commit_pending(ledger.root)
    state.journal.finish(entry)
    return ExecuteResult(tuple(done), tuple(conflicts), result)


def staging_path(root: str) -> str:
    return f"{os.path.dirname(root)}/.city-{path_key(root)}"


def discard_staging(state: ApplyState, entry: JournalEntry) -> None:
    """Delete an incomplete new directory with its pending ledger and journal entry."""
    import shutil

    shutil.rmtree(staging_path(entry.root), ignore_errors=True)
    state.ledgers.drop_pending(entry.root)
    state.journal.forget(entry)


def _write(staging: str, change: FileChange, created: dict[str, None]) -> Stamp | None:
    """Write one file or link and the directories above it."""
    parent = change.path.rpartition("/")[0]
    if parent and parent not in created:
        _create_parents(staging, parent, created)
    target = f"{staging}/{change.path}"
    if change.kind != FILE:
        os.symlink(change.target, target)
        return None
    try:
        return stamp_of(write_new(target, content(change), change.mode, durable=False))
    except ConcurrentChangeError:
        os.unlink(target)
        raise


def _create_parents(staging: str, path: str, created: dict[str, None]) -> None:
    parent = path.rpartition("/")[0]
    if parent and parent not in created:
        _create_parents(staging, parent, created)
    os.mkdir(f"{staging}/{path}", 0o755)
    created[path] = None
