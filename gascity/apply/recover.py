"""Bring the books in line with what an interrupted apply or undo really did."""

import os

from gascity.apply.directory import Directory
from gascity.apply.fresh import give_up, staging_of
from gascity.apply.journal import UNDOING, Deed, Record, Side, is_as
from gascity.apply.ledger import Ledger
from gascity.apply.markers import unsure
from gascity.apply.perform import Workshop
from gascity.model.plan import ABSENT, BLOCKED, DIRECTORY, DOCUMENT, FILE, Held, digest


def recover(shop: Workshop, root: str) -> bool:
    """Record as ours what was done, and leave the rest as it was; False if nothing was interrupted.

    Nothing on disk is changed but scratch files and empty directories of ours; the next plan goes
    on from there. The caller holds the directory's lock.
    """
    records = shop.journal.interrupted(root)
    for record in records:
        if record.new and record.state != UNDOING:
            _recover_new(shop, record)
        else:
            _recover(shop, record)
    return bool(records)


def _recover(shop: Workshop, record: Record) -> None:
    ledger = shop.ledgers.read(record.root)
    undoing = record.state == UNDOING
    paths = dict(ledger.paths)
    done = set()
    with Directory(record.root) as directory:
        came = {path for path in record.directories if directory.found(path).kind == DIRECTORY}
        for deed in everything_in(ledger) if record.new else record.deeds:
            directory.sweep(deed.path)
            # Where a directory of ours stands, what stood there before is gone.
            if deed.path in came or _is_done(directory, deed, undoing):
                done.add(deed.path)
                keep_record(paths, deed.path, deed.held if undoing else deed.holds)
        made = {*ledger.directories, *came}
        for path in sorted(made - {""}, reverse=True):  # the deepest first
            if directory.remove_empty(path):
                made.remove(path)
    shop.ledgers.write(unsure(ledger._replace(paths=paths, directories=tuple(sorted(made)))))
    if undoing:
        shop.journal.finish(record)
    elif done:
        shop.journal.finish(record, done)
    else:
        shop.journal.forget(record)


def _is_done(directory: Directory, deed: Deed, undoing: bool) -> bool:
    then, now = (deed.after, deed.before) if undoing else (deed.before, deed.after)
    # The two may differ in their mode alone.
    return stands(directory, deed.path, now) and not stands(directory, deed.path, then, modes=True)


def keep_record(paths: dict[str, Held], path: str, held: Held | None) -> None:
    if held is None:
        paths.pop(path, None)
    else:
        paths[path] = held


def _recover_new(shop: Workshop, record: Record) -> None:
    if os.path.isdir(staging_of(record.root)) or not os.path.lexists(record.root):
        give_up(shop, record)
    else:
        shop.ledgers.promote(record.root)
        shop.journal.finish(record)


def everything_in(ledger: Ledger) -> tuple[Deed, ...]:
    """All that is ours in a directory, as deeds that put it there."""
    return tuple(
        Deed(
            path,
            Side(ABSENT),
            Side(FILE if held.kind == DOCUMENT else held.kind, held.sha256, held.mode, held.target),
            None,
            held,
        )
        for path, held in ledger.paths.items()
    )


def stands(directory: Directory, path: str, side: Side, *, modes: bool = False) -> bool:
    """Is a path now as one side of a change has it? Modes count if asked for."""
    found = directory.found(path)
    if modes and found.kind == FILE and found.mode != side.mode:
        return False
    hashed = digest(directory.read(path)) if found.kind == FILE == side.kind else ""
    # Below a file there is nothing.
    kind = ABSENT if found.kind == BLOCKED else found.kind
    return is_as(side, kind, hashed, found.target)
