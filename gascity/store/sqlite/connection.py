"""The connection to the database file: opening, queries, transactions, and error translation.

A missing database is created only in a city that never had one, or on request. Beside the database
is a marker, written once the tables exist. If the marker, the lock file, a write-ahead log or a
backup is there and the database is not, it was deleted or moved, and a new one would hide that: the
work would be gone, and new work would get the ids of old work. For the same reason every write
checks that the open file is still the one at its path.
"""

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import chain

from gascity.files import write_file
from gascity.host import is_portable
from gascity.paths import make_state
from gascity.store.port import ConflictError, StoreError
from gascity.store.sqlite.rows import Row
from gascity.store.sqlite.schema import MIGRATIONS, VERSION, statements_for_new
from gascity.store.sqlite.wakeups import send_messages
from gascity.store.sqlite.write_lock import WriteLock

BUSY_SECONDS = 5.0

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_SCHEMA,
)
_DISK_FULL = (
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
)


class Connection:
    """One open database. Do not use it after a fork or from a second thread."""

    def __init__(self, root: str, *, relaxed: bool = False, new: bool = False) -> None:
        self.root = root
        self.path = _prepare_file(root, new)
        self._in_transaction = False
        self._lock: WriteLock | None = None
        self.subscriber = ""  # the name of this connection's own wake-ups
        try:
            self.database = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise _store_error(error, self.path) from None
        try:
            self._execute = self.database.execute
            self._inode = _inode(self.path)
            self._set_up(relaxed, new)
            _mark(root)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the database; an open transaction is rolled back."""
        try:
            self.database.close()
        except sqlite3.Error as error:
            raise _store_error(error, self.path) from None
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def _set_up(self, relaxed: bool, new: bool) -> None:
        version = self._version()
        if version == 0 and not new and os.path.exists(marker_file(self.root)):
            message = f"{self.path} is empty, but this city had a store before"
            raise StoreError("store-broken", message)
        if version > VERSION:
            message = (
                f"{self.path} was written by a newer version of city (schema {version}; this"
                f" version supports {VERSION}): upgrade city"
            )
            raise StoreError("store-newer", message)
        if version < VERSION or self.query("PRAGMA journal_mode") != [("wal",)]:
            self._migrate()
        self.query(f"PRAGMA synchronous={'NORMAL' if relaxed else 'FULL'}")
        self.query("PRAGMA foreign_keys=ON")
        # In a file, what a savepoint may have to undo costs a new inode in every transaction.
        self.query("PRAGMA temp_store=MEMORY")
        self._seen = self._data_version()

    def _version(self) -> int:
        return int(self.query("PRAGMA user_version")[0][0])

    def _migrate(self) -> None:
        self._acquire_lock()
        try:
            if self._version() == 0 and self.query("SELECT 1 FROM sqlite_master LIMIT 1"):
                message = f"{self.path} is the database of another program: move it away"
                raise StoreError("store-broken", message)
            if 0 < self._version() < VERSION:
                from gascity.store.sqlite.backups import UPGRADE, write_backup

                write_backup(self.database, self.root, UPGRADE, time.time())
            self.query("PRAGMA journal_mode=WAL")  # not possible inside a transaction
        finally:
            self._release_lock()
        with self.transaction():
            version = self._version()  # again: another process may have migrated meanwhile
            later = chain.from_iterable(MIGRATIONS[version:])
            for statement in later if version else statements_for_new(MIGRATIONS):
                self.query(statement)
            self.query(f"PRAGMA user_version={max(version, VERSION)}")

    def _data_version(self) -> int:
        return int(self.query("PRAGMA data_version")[0][0])

    def changed(self) -> bool:
        """Return whether another connection has committed since the last call. Reads no table."""
        before, self._seen = self._seen, self._data_version()
        return before != self._seen

    def deleted(self) -> bool:
        return _inode(self.path) != self._inode

    def rescue(self, now: float) -> str:
        """Back up the open database, also if its file was deleted; return the backup's path."""
        from gascity.store.sqlite.backups import RESCUE, write_backup

        return write_backup(self.database, self.root, RESCUE, now).path

    def integrity_errors(self) -> list[str]:
        """Check the whole database; return a message per error, or nothing."""
        try:
            messages = [str(row[0]) for row in self.query("PRAGMA integrity_check")]
            broken_references = self.query("PRAGMA foreign_key_check")
        except StoreError as error:
            return [error.message]
        return [
            *(message for message in messages if message != "ok"),
            *(
                f"a row of {table} refers to a missing {parent}"
                for table, _, parent, _ in broken_references
            ),
        ]

    def query(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement and return all its rows."""
        try:
            return self._execute(sql, values).fetchall()
        except UnicodeEncodeError:
            # A lone surrogate, from a file name or an argument that is not UTF-8. Replacing it
            # keeps the work; refusing it would lose the work.
            return self.query(sql, [_encodable(value) for value in values])
        except sqlite3.IntegrityError as error:
            raise ConflictError(str(error)) from None
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
            raise RuntimeError(f"wrong use of the store: {error}") from None
        except sqlite3.Error as error:
            raise _store_error(error, self.path) from None

    def transaction(self) -> AbstractContextManager[None]:
        """Commit all writes inside at the end, or none. A nested transaction is a savepoint."""
        return Savepoint(self) if self._in_transaction else self._transaction()

    def one_write(self) -> AbstractContextManager[None]:
        """Return a transaction for a single statement, which undoes itself if it fails."""
        if not self._in_transaction:
            return self._transaction()
        self.require_transaction()
        return nullcontext()

    def writes(self) -> AbstractContextManager[None]:
        """Return a transaction for statements of which only the first is ever refused.

        A savepoint per change of a record would take a third of the time of the controller's
        queries, and copy every page.
        """
        return Writes(self) if self._in_transaction else self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._acquire_lock()
        before = self.database.total_changes
        try:
            if self.deleted():
                raise missing_store(self.root)
            self.query("BEGIN IMMEDIATE")
            self._in_transaction = True
            try:
                yield
                self.require_transaction()
                self.query("COMMIT")
            except BaseException:
                if self.database.in_transaction:
                    self.query("ROLLBACK")
                raise
        finally:
            self._in_transaction = False
            self._release_lock()
        if is_portable() and self.database.total_changes != before:
            send_messages(self.root, but=self.subscriber)

    def require_transaction(self) -> None:
        """Raise StoreError if SQLite has ended the transaction by itself.

        It rolls everything back when the disk is full. A write after that would be committed on its
        own, without the writes that it belongs to.
        """
        if not self.database.in_transaction:
            message = f"{self.path}: a write failed, and its transaction was rolled back"
            raise StoreError("store-full", message)

    def _acquire_lock(self) -> None:
        path = f"{self.path.removesuffix('.db')}.lock"
        try:
            if self._lock is None:
                self._lock = WriteLock(path)
            self._lock.acquire()
        except OSError as error:
            raise _file_error(error, path) from None

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()


class Savepoint:
    """Undoes only the writes inside if they fail; the outer transaction may continue."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.require_transaction()
        self._connection.query("SAVEPOINT part")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        connection = self._connection
        if kind is None:
            connection.query("RELEASE part")
        elif connection.database.in_transaction:
            connection.query("ROLLBACK TO part")
            connection.query("RELEASE part")


class Writes:
    """Statements inside a transaction; if a later one fails, all of the transaction is undone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._before = 0

    def __enter__(self) -> None:
        self._connection.require_transaction()
        self._before = self._connection.database.total_changes

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        database = self._connection.database
        if kind is not None and database.in_transaction and database.total_changes != self._before:
            self._connection.query("ROLLBACK")  # `require_transaction` raises from now on


def _encodable(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def marker_file(root: str) -> str:
    """Return the file that says that the city has a store."""
    return f"{root}/.gc/city.db.created"


def _mark(root: str) -> None:
    """Write the marker if it is missing; not being able to must not stop a command that reads."""
    path = marker_file(root)
    if os.path.exists(path):
        return
    text = (
        "This city has a store, city.db, with its work, sessions and mail. If city.db is missing,\n"
        "run `city doctor`.\n"
    )
    with suppress(OSError):  # lost in a power cut, it is written again
        write_file(path, text.encode(), durable=False)


def traces(root: str) -> str:
    """Return a file that shows that the city had a store; empty if there is none."""
    names = (marker_file(root), *(f"{root}/.gc/{name}" for name in ("city.lock", "city.db-wal")))
    path = next((path for path in names if os.path.lexists(path)), "")
    if not path:
        from gascity.store.sqlite.backups import list_backups

        path = next((backup.path for backup in list_backups(root)), "")
    return path.removeprefix(f"{root}/")


def missing_store(root: str, trace: str = "") -> StoreError:
    """Return the error of a city whose database was deleted or moved."""
    path = f"{root}/.gc/city.db"
    because = f" ({trace} is left)" if trace else ""
    message = f"{path} is missing, but this city had a store{because}"
    if not trace and os.path.exists(path):
        message = f"{path} was replaced by another file while it was in use"
    return StoreError("store-missing", message)


def _inode(path: str) -> int:
    """Return the file's inode number, which tells it from a later file of that name; 0: no file."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _prepare_file(root: str, new: bool) -> str:
    """Return the path of the database; create it, readable only by its owner, if it is missing.

    Raise StoreError if the city had a database before, unless a new one is wanted.

    An existing file is not opened here: closing that descriptor would drop the locks that SQLite
    holds on the file for another connection of this process.
    """
    directory = os.path.join(root, ".gc")
    path = os.path.join(directory, "city.db")
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode) or os.path.islink(directory):
            raise StoreError("store-denied", f"{path} is not a regular file: move it away")
    except FileNotFoundError:
        if not new and (trace := traces(root)) and not os.path.exists(path):
            raise missing_store(root, trace) from None
        _create_file(directory, path)
    except OSError as error:
        raise _file_error(error, path) from None
    return path


def _create_file(directory: str, path: str) -> None:
    try:
        if os.path.islink(directory):
            raise StoreError("store-denied", f"{directory} is a symbolic link: move it away")
        make_state(os.path.dirname(directory))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise _file_error(error, path) from None


def _store_error(error: sqlite3.Error, path: str) -> StoreError:
    """Return the port's error for one of SQLite's, with what the user can do about it."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind = code & 0xFF
    if kind in _BUSY:
        message = f"another process has locked {path} for more than {BUSY_SECONDS:g} seconds"
        return StoreError("store-busy", message)
    if kind == sqlite3.SQLITE_FULL or code in _DISK_FULL:
        return StoreError("store-full", f"cannot write {path}: the disk is full")
    if kind not in _DAMAGED:
        return StoreError("store-denied", f"cannot read or write {path}: {error}")
    message = f"{path} is damaged or not a city database ({error})"
    return StoreError("store-broken", message)


def _file_error(error: OSError, path: str) -> StoreError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StoreError("store-full" if full else "store-denied", f"{path}: {error.strerror}")
