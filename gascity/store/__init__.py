"""The store: durable records of work, sessions, mail and events.

Only this package knows that the records are in an SQLite file. Everything else opens the store
here and uses the protocol in `gascity.store.port`.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gascity.store.port import Store, StoreError
    from gascity.store.sqlite.backups import Backup

_DATABASE = ".gc/city.db"


def open_store(root: str, *, relaxed: bool = False, new: bool = False) -> "Store":
    """Open the store of the city at `root`, creating it in a city that never had one.

    `new` creates it also if the city had one, which must not exist any more. `relaxed` skips the
    flush to disk at each commit: a crash of the machine, but not of a process, may then lose the
    last writes. Raises StoreError.
    """
    from gascity.store.sqlite.store import SqliteStore

    return SqliteStore(root, relaxed=relaxed, new=new)


def store_exists(root: str) -> bool:
    """Return whether the city at `root` has a store. Does not create one."""
    return os.path.exists(f"{root}/{_DATABASE}")


def store_engine() -> str:
    """Return the name and version of the library that keeps the store."""
    from sqlite3 import sqlite_version

    return f"SQLite {sqlite_version}"


def store_size(root: str) -> int:
    """Return the size of the store in bytes, with what is not yet in its main file."""
    files = (f"{root}/{_DATABASE}{end}" for end in ("", "-wal"))
    return sum(os.stat(file).st_size for file in files if os.path.exists(file))


def store_trace(root: str) -> str:
    """Return a file that shows that the city had a store before; empty if there is none."""
    from gascity.store.sqlite.connection import traces

    return traces(root)


def missing_store(root: str, trace: str) -> "StoreError":
    """Return the error of a city that had a store, as `trace` shows."""
    from gascity.store.sqlite.connection import missing_store

    return missing_store(root, trace)


def store_created(root: str) -> float | None:
    """Return when the store was created; None if that is not known."""
    from gascity.store.sqlite.connection import marker_file

    try:
        return os.stat(marker_file(root)).st_mtime
    except OSError:
        return None


# Backups


def list_backups(root: str) -> "list[Backup]":
    """Return the backups of the store, newest first."""
    from gascity.store.sqlite.backups import list_backups

    return list_backups(root)


def back_up_store(root: str, now: float) -> "Backup":
    """Make a daily backup, and delete the oldest. Safe in any thread; no writer waits for it.

    Raises StoreError if the store cannot be read or is damaged.
    """
    from gascity.store.sqlite.backups import DAILY, back_up

    return back_up(root, DAILY, now)


def is_sound(backup: "Backup") -> bool:
    """Return whether the store can be restored from a backup."""
    from gascity.store.sqlite.backups import backup_errors

    return not backup_errors(backup)


def move_store_away(root: str, now: float) -> str:
    """Move what is left of a store to a directory of its own; return it, or "" if nothing is left.

    The caller holds the controller lock, and no session may run.
    """
    from gascity.store.sqlite.backups import move_away

    return move_away(root, now)


def restore_store(root: str, backup: "Backup") -> None:
    """Make a backup the city's store. `move_store_away` comes first."""
    from gascity.store.sqlite.backups import install

    install(root, backup)
