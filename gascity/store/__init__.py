"""The store: durable records of work, sessions, mail and events.

Only this package knows that the records are in an SQLite file. Everything else opens the store
here and uses the protocol in `gascity.store.port`.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gascity.store.port import Store

_DATABASE = ".gc/city.db"


def open_store(root: str, *, relaxed: bool = False) -> "Store":
    """Open the store of the city at `root`, creating it if needed. Raise StoreError if it fails.

    `relaxed` skips the flush to disk at each commit: a crash of the machine, but not of a process,
    may then lose the last writes.
    """
    from gascity.store.sqlite.store import SqliteStore

    return SqliteStore(root, relaxed=relaxed)


def store_exists(root: str) -> bool:
    """Return whether the city at `root` has a store. Does not create one."""
    return os.path.exists(f"{root}/{_DATABASE}")
