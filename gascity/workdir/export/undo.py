"""Undoes an export: removes what it created and restores what it replaced."""

import os
from typing import NamedTuple

from gascity.workdir.write.execute import ApplyState
from gascity.workdir.write.journal import Journal, JournalEntry
from gascity.workdir.write.ledger import SyncState
from gascity.workdir.write.recover import recover
from gascity.workdir.write.undo import UndoResult, undo

_PREFIX = "export-"


class LastExport(NamedTuple):
    """An export that can be undone, and the name of its ledger."""

    use: str
    entry: JournalEntry


def export_uses(city: str) -> list[str]:
    """Return the names of the ledgers of exports that were written."""
    top = f"{city}/.gc/undo"
    names = os.listdir(top) if os.path.isdir(top) else ()
    return sorted(name for name in names if name.startswith(_PREFIX))


def last_export(city: str) -> LastExport | None:
    """Return the latest export that was not undone."""
    found = []
    for use in export_uses(city):
        journal = Journal(city, use)
        entries = (journal.last(root) for root in journal.roots())
        found += [LastExport(use, entry) for entry in entries if entry is not None]
    return max(found, key=lambda export: export.entry.run, default=None)


def undo_export(city: str, export: LastExport) -> tuple[UndoResult, tuple[str, ...]]:
    """Undo an export; return the agents of its files, too. Files modified since are kept."""
    state = ApplyState.of(city, export.use)
    root = export.entry.root
    with state.ledgers.locked(root):
        recover(state, root)
        entry = state.journal.last(root)
        if entry is None or entry.run != export.entry.run:  # another process was faster
            return UndoResult(), ()
        paths = state.ledgers.read(root).paths
        agents = {agent for record in paths.values() for agent in record.agents}
        result, _ = undo(state, entry, lambda ledger: ledger._replace(synced=SyncState()))
    return result, tuple(sorted(agents)) or (export.use,)
