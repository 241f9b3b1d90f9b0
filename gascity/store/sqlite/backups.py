"""Backups of the database: made while the city runs, complete or absent, bounded in number.

A backup is a file of its own below `.gc/backup/store/`, written through SQLite's backup API. That
reads one snapshot of the database, as any reader does, so writers never wait for it. The copy is
made under a temporary name, checked, flushed to disk and only then renamed: a file with the name of
a backup is a whole and sound one, whenever the process was killed. A copy of a damaged database is
thrown away, so that damage never pushes the sound backups out.
"""

import os
import sqlite3
import time
from contextlib import closing, suppress
from typing import NamedTuple

from gascity.files import make_private_directory, remove_tree, sync_directory, write_new
from gascity.store.port import StoreError

# By the reason why it was made: how many are kept.
DAILY, UPGRADE, RESCUE = "daily", "upgrade", "rescue"
_KEPT = {DAILY: 7, UPGRADE: 3, RESCUE: 3}
_DAMAGED_KEPT = 3
_FILES = ("city.db", "city.db-wal", "city.db-shm")
_TEMPORARY_AGE = 3600.0  # seconds after which a temporary file was left by a killed process
_TIME = "%Y%m%dT%H%M%SZ"


class Backup(NamedTuple):
    """One backup: its file, why it was made, and when."""

    path: str
    kind: str
    at: float


def backup_directory(root: str) -> str:
    return f"{root}/.gc/backup/store"


def list_backups(root: str) -> list[Backup]:
    """Return all backups, newest first."""
    try:
        names = os.listdir(backup_directory(root))
    except OSError:
        return []
    backups = [backup for name in names if (backup := _parse(root, name)) is not None]
    return sorted(backups, key=lambda backup: (backup.at, backup.path), reverse=True)


def _parse(root: str, name: str) -> Backup | None:
    moment, _, rest = name.partition(".")
    kind, dot, suffix = rest.rpartition(".")
    if not dot or suffix != "db" or kind.partition("-")[0] not in _KEPT:
        return None
    try:
        at = time.strptime(moment, _TIME)
    except ValueError:
        return None
    from calendar import timegm

    return Backup(f"{backup_directory(root)}/{name}", kind.partition("-")[0], float(timegm(at)))


def back_up(root: str, kind: str, now: float) -> Backup:
    """Back up the database of a city. Raise StoreError if it cannot be read or is damaged."""
    try:
        with closing(open_readable(f"{root}/.gc/city.db")) as source:
            return write_backup(source, root, kind, now)
    except sqlite3.Error as error:
        raise StoreError("store-broken", f"cannot back up the store: {error}") from None


def open_readable(path: str) -> sqlite3.Connection:
    """Open an existing database without creating one."""
    return sqlite3.connect(f"{_uri(path)}?mode=rw", uri=True, isolation_level=None)


def _uri(path: str) -> str:
    """Return a path as a URI for SQLite; `urllib` would take longer to import."""
    return "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def write_backup(source: sqlite3.Connection, root: str, kind: str, now: float) -> Backup:
    """Copy an open database into a new backup, and delete the oldest of its kind."""
    directory = backup_directory(root)
    try:
        make_private_directory(os.path.dirname(directory))
        make_private_directory(directory)
        _remove_temporary(directory)
        name = f"{time.strftime(_TIME, time.gmtime(now))}.{kind}.db"
        temporary = f"{directory}/.{name}.{os.getpid()}"
        path = f"{directory}/{name}"
        for number in range(2, 1000):
            if not os.path.exists(path):
                break
            path = f"{directory}/{name.removesuffix('.db')}-{number}.db"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(temporary, flags, 0o600))
        try:
            _copy(source, temporary)
            os.replace(temporary, path)
        finally:
            for suffix in ("", "-journal", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{temporary}{suffix}")
        sync_directory(directory)
    except OSError as error:
        message = f"cannot back up the store: {error.filename or directory}: {error.strerror}"
        raise StoreError("store-denied", message) from None
    except sqlite3.Error as error:
        raise StoreError("store-broken", f"cannot back up the store: {error}") from None
    _delete_surplus(root, kind)
    return Backup(path, kind, now)


def _copy(source: sqlite3.Connection, path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE").fetchall()  # one file, without -wal beside it
        errors = _errors(target)
    if errors:
        raise StoreError("store-broken", f"the store is damaged: {errors[0]}")
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _errors(database: sqlite3.Connection) -> list[str]:
    rows = database.execute("PRAGMA integrity_check").fetchall()
    return [str(row[0]) for row in rows if row[0] != "ok"]


def backup_errors(backup: Backup) -> list[str]:
    """Check a backup; return a message per error, or nothing."""
    try:
        # Immutable: reading a backup must not write anything beside it.
        uri = f"{_uri(backup.path)}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as database:
            return _errors(database)
    except sqlite3.Error as error:
        return [str(error)]


def move_away(root: str, now: float) -> str:
    """Move the database files to a directory of their own; return it, or "" if there are none.

    The caller makes sure that no process uses them.
    """
    files = [name for name in _FILES if os.path.lexists(f"{root}/.gc/{name}")]
    if not files:
        return ""
    home = f"{root}/.gc/backup"
    make_private_directory(home)
    name = f"store-replaced-{time.strftime(_TIME, time.gmtime(now))}"
    directory = f"{home}/{name}"
    for number in range(2, 1000):
        if not os.path.exists(directory):
            break
        directory = f"{home}/{name}-{number}"
    make_private_directory(directory)
    # The database last: without it, the next command still says that the store is missing.
    for name in reversed(files):
        os.replace(f"{root}/.gc/{name}", f"{directory}/{name}")
    sync_directory(f"{root}/.gc")
    _delete_surplus_damaged(home)
    return directory


def install(root: str, backup: Backup) -> None:
    """Make a backup the city's database. No database may exist."""
    state = f"{root}/.gc"
    temporary = f"{state}/.city.db.{os.getpid()}"
    try:
        with open(backup.path, "rb") as source:
            write_new(temporary, iter(lambda: source.read(1 << 20), b""), 0o600)
        os.replace(temporary, f"{state}/city.db")
        sync_directory(state)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _delete_surplus(root: str, kind: str) -> None:
    same = [backup for backup in list_backups(root) if backup.kind == kind]
    for backup in same[_KEPT[kind] :]:
        with suppress(OSError):
            os.unlink(backup.path)


def _delete_surplus_damaged(home: str) -> None:
    names = sorted(name for name in os.listdir(home) if name.startswith("store-replaced-"))
    for name in names[:-_DAMAGED_KEPT]:
        with suppress(OSError):
            remove_tree(f"{home}/{name}")


def _remove_temporary(directory: str) -> None:
    """Delete unfinished backups of killed processes."""
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        with suppress(OSError):
            if name[0] == "." and time.time() - os.stat(path).st_mtime > _TEMPORARY_AGE:
                os.unlink(path)
