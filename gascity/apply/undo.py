"""Go back to before an apply; what changed since stays, and is named."""

import os
from collections.abc import Callable
from contextlib import suppress

from gascity.apply.directory import ChangedMeanwhile, Directory
from gascity.apply.journal import Deed, Record
from gascity.apply.ledger import Ledger
from gascity.apply.markers import unsure
from gascity.apply.perform import Workshop, missing
from gascity.apply.recover import everything_in, keep_record, stands
from gascity.model.plan import ABSENT, Change
from gascity.model.records import NamedTuple


class Undone(NamedTuple):
    """Paths put back as they were, and paths that changed since and stay."""

    back: tuple[Deed, ...] = ()
    kept: tuple[Deed, ...] = ()


def undo(shop: Workshop, record: Record, tell: Callable[[Ledger], Ledger]) -> tuple[Undone, Ledger]:
    """Go back to before one apply. The caller holds the directory's lock.

    What stays because it changed is still ours on record. `tell` is called with the new records
    before the apply is forgotten: whoever else has to know of them, is told then.
    """
    ledger = shop.ledgers.read(record.root)
    deeds = everything_in(ledger) if record.new else record.deeds
    coming = [deed for deed in deeds if deed.before.kind != ABSENT]
    going = [deed for deed in deeds if deed.before.kind == ABSENT]
    back: list[Deed] = []
    kept: list[Deed] = []
    with Directory(record.root) as directory:
        gone = {deed.path for deed in going}
        made = missing(directory, [deed.path for deed in coming], gone)
        record = shop.journal.undoing(record, made)
        # What came goes first, and its directories: something else may have stood in their place.
        for deed in going:
            (back if _put_back(record, deed, directory) else kept).append(deed)
        directories = {  # the deepest first
            one
            for one in sorted(ledger.directories, reverse=True)
            if not one or not directory.remove_empty(one)
        }
        for deed in coming:
            (back if _put_back(record, deed, directory) else kept).append(deed)
        directories.update(directory.made)
    if record.new:
        directories -= _gone(record.root)
    paths = dict(ledger.paths)
    for deed in back:
        keep_record(paths, deed.path, deed.held)
    result = unsure(ledger._replace(paths=paths, directories=tuple(sorted(directories))))
    shop.ledgers.write(result)
    result = tell(result)
    shop.ledgers.write(result)
    shop.journal.undone(record, whole=not kept)
    return Undone(tuple(sorted(back)), tuple(sorted(kept))), result


def _gone(root: str) -> set[str]:
    """Remove the directory itself, unless somebody left something of their own there."""
    with suppress(OSError):
        os.rmdir(root)
    return set() if os.path.lexists(root) else {""}


def _put_back(record: Record, deed: Deed, directory: Directory) -> bool:
    """Have one path as it was before; False if it is no longer as the apply left it."""
    try:
        if stands(directory, deed.path, deed.before, modes=True):
            return True
        if not stands(directory, deed.path, deed.after):
            return False
        directory.do(_restoring(record, deed, directory))
    except ChangedMeanwhile:
        return False
    return True


def _restoring(record: Record, deed: Deed, directory: Directory) -> Change:
    before = deed.before
    data = record.blob(before.blob) if before.blob else None
    found = directory.found(deed.path)
    return Change(
        deed.path,
        before.kind,
        found,
        data=data,
        mode=before.mode,
        target=before.target,
        lasting=data is not None,
    )
