"""A directory that is not there yet, made beside its place and named when all is in it."""

import os
from collections.abc import Mapping, Sequence

from gascity.apply.directory import ChangedMeanwhile, content, stamp_of
from gascity.apply.journal import Record
from gascity.apply.ledger import Ledger, ledger_key
from gascity.apply.markers import unsure
from gascity.apply.perform import Performed, Progress, Workshop, change_of, stamped
from gascity.model.plan import FILE, Change, Held, Stamp, Step


def make_whole(
    shop: Workshop,
    ledger: Ledger,
    todo: Sequence[Step],
    records: Mapping[str, Held],
    run: str,
    progress: Progress,
) -> Performed:
    """Do all steps of a directory that is not there, or none. The caller holds its lock."""
    agents = sorted({name for step in todo if step.held for name in step.held.agents})
    record = shop.journal.begin(Record("", ledger.root, run, (), True, agents=tuple(agents)), {})
    staging = staging_of(ledger.root)
    paths = dict(records)
    made: dict[str, None] = {}
    done: list[Step] = []
    overtaken: list[Step] = []
    try:
        os.makedirs(staging)
        for step in todo:
            try:
                stamp = _stage(staging, change_of(step), made)
            except ChangedMeanwhile:
                paths.pop(step.path, None)
                overtaken.append(step)
                continue
            if step.held is not None:
                paths[step.path] = stamped(step, stamp)
            done.append(step)
            progress(len(done), len(todo))
        result = unsure(ledger._replace(paths=paths, directories=("", *made)))
        shop.ledgers.write_next(result)
        os.rename(staging, ledger.root)
    except BaseException as error:
        give_up(shop, record)
        if not isinstance(error, OSError):
            raise
        where = error.filename or ledger.root
        return Performed(ledger=ledger, fault=OSError(error.errno, error.strerror, where))
    shop.ledgers.promote(ledger.root)
    shop.journal.finish(record)
    return Performed(tuple(done), tuple(overtaken), result)


def staging_of(root: str) -> str:
    return f"{os.path.dirname(root)}/.city-{ledger_key(root)}"


def give_up(shop: Workshop, record: Record) -> None:
    """Take away half a directory of ours that nobody has seen."""
    import shutil

    shutil.rmtree(staging_of(record.root), ignore_errors=True)
    shop.ledgers.drop_next(record.root)
    shop.journal.forget(record)


def _stage(staging: str, change: Change, made: dict[str, None]) -> Stamp | None:
    """One file or link in a directory that nobody else knows of."""
    head = change.path.rpartition("/")[0]
    if head and head not in made:
        _make_above(staging, head, made)
    target = f"{staging}/{change.path}"
    if change.kind != FILE:
        os.symlink(change.target, target)
        return None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(target, flags, change.mode)
    try:
        for chunk in content(change):
            done = os.write(handle, chunk)
            while done < len(chunk):
                done += os.write(handle, chunk[done:])
        seen = os.fstat(handle)
        if seen.st_mode & 0o777 != change.mode:
            os.fchmod(handle, change.mode)
            seen = os.fstat(handle)
        return stamp_of(seen)
    except ChangedMeanwhile:
        os.unlink(target)
        raise
    finally:
        os.close(handle)


def _make_above(staging: str, path: str, made: dict[str, None]) -> None:
    head = path.rpartition("/")[0]
    if head and head not in made:
        _make_above(staging, head, made)
    os.mkdir(f"{staging}/{path}", 0o755)
    made[path] = None
