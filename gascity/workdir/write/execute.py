"""Executes the steps of a plan in one directory so that a crash at any point loses nothing.

The order for a directory that exists:

1. journal: copies of everything that will be replaced, then `begun.json`;
2. the changes, removals first, each atomic (`Directory.apply`);
3. ledger: the new records, with the sync state "unknown";
4. journal: `begun.json` becomes `done.json`.

A crash after 1 leaves files that match either the old or the new version of their path, and the
journal knows both. `recover`, which runs before every plan, therefore knows which changes happened
and corrects the ledger. The next apply plans from there and does what is missing.

A directory that does not exist is created under a temporary name and renamed when it is complete.
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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gascity.files import write_new
from gascity.model.plan import FileChange, PathRecord, Step
from gascity.model.wanted import ABSENT, BLOCKED, DOCUMENT, FILE, Stamp, digest
from gascity.paths import path_key
from gascity.workdir.write.directory import (
    ConcurrentChangeError,
    Directory,
    content,
    make_workdir,
    stamp_of,
)
from gascity.workdir.write.journal import Journal, JournalEntry, PathChange, PathVersion
from gascity.workdir.write.ledger import Ledger, Ledgers

_MAX_IN_MEMORY = 64 * 1024 * 1024  # planned content held in memory until it is written
_SMALL = 256 * 1024

Progress = Callable[[int, int], None]


class ExecuteResult(NamedTuple):
    """Steps done, steps whose path changed meanwhile, and the error that ended it early."""

    done: tuple[Step, ...] = ()
    conflicts: tuple[Step, ...] = ()
    ledger: Ledger | None = None
    error: OSError | None = None


class ApplyState(NamedTuple):
    """The ledgers and the journal of one city."""

    ledgers: Ledgers
    journal: Journal

    @classmethod
    def of(cls, city: str, use: str = "") -> "ApplyState":
        return cls(Ledgers(city, use), Journal(city, use))


def execute(
    state: ApplyState,
    ledger: Ledger,
    steps: Sequence[Step],
    records: Mapping[str, PathRecord],
    run: str,
    progress: Progress,
    *,
    worktree: bool = False,
) -> ExecuteResult:
    """Execute the steps that change something. The caller holds the directory's lock.

    `records` is the ledger after all steps. `worktree`: the directory was created by this apply,
    so that undo removes it too.
    """
    steps = _with_hashes([step for step in steps if step.change is not None])
    if not steps and not worktree:
        return ExecuteResult((), (), ledger._replace(paths=records))
    if not os.path.lexists(ledger.root):
        return _create_directory(state, ledger, steps, records, run, progress)
    with Directory(ledger.root) as directory:
        entry, conflicts = _begin(state, ledger, steps, directory, run, worktree)
        done, error = _apply_changes(directory, steps, conflicts, progress)
        paths = dict(records)
        for step in steps:
            if step.path not in done:
                set_record(paths, step.path, ledger.paths.get(step.path))
            elif step.record is not None:
                paths[step.path] = with_stamp(step, done[step.path])
        directories = _remove_emptied(directory, ledger, steps, done)
    result = ledger._replace(paths=paths, directories=directories).unsynced()
    state.ledgers.write(result)
    if done or worktree:
        state.journal.finish(entry, done)
    else:
        state.journal.forget(entry)
    return ExecuteResult(
        tuple(step for step in steps if step.path in done), tuple(conflicts), result, error
    )


def change_of(step: Step) -> FileChange:
    assert step.change is not None
    return step.change


def set_record(paths: dict[str, PathRecord], path: str, record: PathRecord | None) -> None:
    """Set the record of a path, or remove it."""
    if record is None:
        paths.pop(path, None)
    else:
        paths[path] = record


def _with_hashes(steps: Sequence[Step]) -> list[Step]:
    """Add the hash of what each step writes, and its content if it is small."""
    memory = _MAX_IN_MEMORY
    result = []
    for step in steps:
        change = change_of(step)
        if change.kind == FILE:
            data = change.data if change.data is not None else _read(change.copy_of)
            sha256 = digest(data)
            keep = change.data is not None or (len(data) <= _SMALL and memory > 0)
            memory -= len(data) if keep else 0
            change = change._replace(sha256=sha256, data=data if keep else None)
            record = step.record and step.record._replace(sha256=sha256)
            step = step._replace(change=change, record=record)
        result.append(step)
    return result


def _read(path: str) -> bytes:
    # Unbuffered, without a file object: there may be thousands of small files.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        size = os.fstat(handle).st_size
        data = os.read(handle, size + 1)
        while len(data) < size and (more := os.read(handle, size - len(data))):
            data += more
        return data
    finally:
        os.close(handle)


def _begin(
    state: ApplyState,
    ledger: Ledger,
    steps: Sequence[Step],
    directory: Directory,
    run: str,
    worktree: bool,
) -> tuple[JournalEntry, list[Step]]:
    """Write the journal entry. Also returns the steps whose path has changed already."""
    changes: list[PathChange] = []
    contents: dict[str, bytes] = {}
    conflicts: list[Step] = []
    agents: set[str] = set()
    for step in steps:
        record = ledger.paths.get(step.path)
        agents.update(step.record.agents if step.record else (), record.agents if record else ())
        change = change_of(step)
        expected = change.expected
        before = PathVersion(expected.kind, "", expected.mode, expected.target)
        if expected.kind == FILE:
            try:
                contents[step.path] = directory.read(step.path)
            except ConcurrentChangeError:
                conflicts.append(step)
                continue
            before = before._replace(sha256=digest(contents[step.path]))
        after = PathVersion(change.kind, change.sha256, change.mode, change.target)
        changes.append(PathChange(step.path, before, after, record, step.record))
    removed = {step.path for step in steps if change_of(step).kind == ABSENT}
    entry = JournalEntry(
        "",
        ledger.root,
        run,
        tuple(changes),
        worktree=worktree,
        agents=tuple(sorted(agents)),
        directories=missing_directories(
            directory, [step.path for step in steps if step.path not in removed], removed
        ),
    )
    return state.journal.begin(entry, contents), conflicts


def missing_directories(
    directory: Directory, written: Iterable[str], removed: Collection[str]
) -> tuple[str, ...]:
    """Return the directories to create for the written paths, after the removals."""
    missing: dict[str, None] = {}
    existing: set[str] = {""}
    for path in written:
        parent = path.rpartition("/")[0]
        while parent not in existing and parent not in missing:
            if parent not in removed and directory.state(parent).kind not in (ABSENT, BLOCKED):
                existing.add(parent)
                break
            missing[parent] = None
            parent = parent.rpartition("/")[0]
    return tuple(missing)


def _apply_changes(
    directory: Directory, steps: Sequence[Step], conflicts: list[Step], progress: Progress
) -> tuple[dict[str, Stamp | None], OSError | None]:
    """Apply the changes; return the stamps of what was done, by path. Adds to `conflicts`."""
    done: dict[str, Stamp | None] = {}
    skipped = {step.path for step in conflicts}
    # Removals first: a file may have to go before a directory of its name can be created.
    for step in sorted(steps, key=lambda step: change_of(step).kind != ABSENT):
        if step.path in skipped:
            continue
        try:
            done[step.path] = directory.apply(change_of(step))
        except ConcurrentChangeError:
            conflicts.append(step)
            continue
        except OSError as error:
            return done, error
        progress(len(done), len(steps))
    return done, None


def with_stamp(step: Step, stamp: Stamp | None) -> PathRecord:
    assert step.record is not None
    return step.record._replace(stamp=stamp) if step.record.kind != DOCUMENT else step.record


def _remove_emptied(
    directory: Directory, ledger: Ledger, steps: Sequence[Step], done: Mapping[str, Stamp | None]
) -> tuple[str, ...]:
    """Remove managed directories that became empty; return the managed ones that are left."""
    emptied = set(directory.created)
    for step in steps:
        if step.path in done and change_of(step).kind == ABSENT:
            path = step.path
            while path := path.rpartition("/")[0]:
                emptied.add(path)
    managed = {*ledger.directories, *directory.created}
    for path in sorted(managed & emptied, reverse=True):  # deepest first
        if directory.remove_empty(path):
            managed.remove(path)
    return tuple(sorted(managed))


# New directories


def _create_directory(
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
        make_workdir(staging, exist_ok=False)
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
        result = ledger._replace(paths=paths, directories=("", *created)).unsynced()
        state.ledgers.write_pending(result)
        os.rename(staging, ledger.root)
    except OSError as error:
        discard_staging(state, entry)
        where = error.filename or ledger.root
        return ExecuteResult(ledger=ledger, error=OSError(error.errno, error.strerror, where))
    except BaseException:
        discard_staging(state, entry)
        raise
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
