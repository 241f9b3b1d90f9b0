"""The file behind the store: opened, asked, written to in turn, and its faults put into words."""

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gascity.places import make_state
from gascity.store.locks import Turn
from gascity.store.port import StoreFault
from gascity.store.schema import STEPS, VERSION

BUSY_SECONDS = 5.0
Row = tuple[Any, ...]

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_SCHEMA,
)
_NO_ROOM = (sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE)


class Conflict(ValueError):
    """Something of the kind is there already, or what it belongs to is not."""


class Book:
    """One connection. Not to be carried over a fork, nor from one thread to another."""

    def __init__(self, root: str, *, relaxed: bool = False) -> None:
        self.path = _prepare(root)
        self._depth = 0
        self._turn: Turn | None = None
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None
            )
        except sqlite3.Error as error:
            raise _fault(error, self.path) from None
        try:
            self._execute = self._connection.execute
            self._set_up(relaxed)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """What is not committed is gone. The last one to leave tidies the file up."""
        try:
            self._connection.close()
        except sqlite3.Error as error:
            raise _fault(error, self.path) from None
        finally:
            if self._turn is not None:
                self._turn.close()
                self._turn = None

    def _set_up(self, relaxed: bool) -> None:
        version = self._version()
        if version > VERSION:
            words = f"{self.path} was written by a newer version of city (its form is {version}, "
            raise StoreFault("store-newer", f"{words}this one knows {VERSION}): upgrade city")
        if version < VERSION or self.ask("PRAGMA journal_mode") != [("wal",)]:
            self._migrate()
        self.ask(f"PRAGMA synchronous={'NORMAL' if relaxed else 'FULL'}")
        self.ask("PRAGMA foreign_keys=ON")
        self._seen = self._data_version()

    def _version(self) -> int:
        return int(self.ask("PRAGMA user_version")[0][0])

    def _migrate(self) -> None:
        self._take_turn()
        try:
            if self._version() == 0 and self.ask("SELECT 1 FROM sqlite_master LIMIT 1"):
                words = f"{self.path} is a database of something else: move it away"
                raise StoreFault("store-broken", words)
            self.ask("PRAGMA journal_mode=WAL")
        finally:
            self._give_turn()
        with self.writing():
            version = self._version()
            for step in STEPS[version:]:
                for statement in step:
                    self.ask(statement)
            self.ask(f"PRAGMA user_version={max(version, VERSION)}")

    def _data_version(self) -> int:
        return int(self.ask("PRAGMA data_version")[0][0])

    def changed(self) -> bool:
        """Has anybody else written since this was asked last? Cheap: reads no table."""
        before, self._seen = self._seen, self._data_version()
        return before != self._seen

    def faults(self) -> list[str]:
        """What an integrity check finds; nothing if it is sound."""
        try:
            found = [str(row[0]) for row in self.ask("PRAGMA integrity_check")]
            strays = self.ask("PRAGMA foreign_key_check")
        except StoreFault as fault:
            return [fault.message]
        lost = [f"{table} has a row whose {parent} is not there" for table, _, parent, _ in strays]
        return [words for words in found if words != "ok"] + lost

    def ask(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement to its end and give its rows."""
        try:
            return self._execute(sql, values).fetchall()
        except UnicodeEncodeError:
            # Half a letter, out of a file name or an argument: better a sign for it than no work.
            return self.ask(sql, [_whole(value) for value in values])
        except sqlite3.IntegrityError as error:
            raise Conflict(str(error)) from None
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
            raise RuntimeError(f"the store is used wrongly: {error}") from None
        except sqlite3.Error as error:
            raise _fault(error, self.path) from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Several writes as one: all are there, or none. May be nested; the outermost commits."""
        if self._depth:
            with self._part():
                yield
            return
        self._take_turn()
        try:
            self.ask("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield
                self._still_open()
                self.ask("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self.ask("ROLLBACK")
                raise
        finally:
            self._depth = 0
            self._give_turn()

    @contextmanager
    def _part(self) -> Iterator[None]:
        """What fails inside is undone by itself, for whoever goes on with the rest."""
        self._still_open()
        self.ask("SAVEPOINT part")
        self._depth += 1
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self.ask("ROLLBACK TO part")
                self.ask("RELEASE part")
            raise
        else:
            self.ask("RELEASE part")
        finally:
            self._depth -= 1

    def _still_open(self) -> None:
        """Where there is no room SQLite undoes all by itself; what came after would stand alone."""
        if not self._connection.in_transaction:
            words = f"{self.path}: a write failed, and all that belonged to it was undone"
            raise StoreFault("store-full", words)

    def _take_turn(self) -> None:
        path = f"{self.path.removesuffix('.db')}.lock"
        try:
            if self._turn is None:
                self._turn = Turn(path)
            self._turn.take()
        except OSError as error:
            raise _refused(error, path) from None

    def _give_turn(self) -> None:
        if self._turn is not None:
            self._turn.give()


def _whole(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _prepare(root: str) -> str:
    """The path of the database, made if need be, for the owner's eyes only.

    One that is there is not opened here: closing it would drop the locks that SQLite holds on it
    for another connection of this process.
    """
    home = os.path.join(root, ".gc")
    path = os.path.join(home, "city.db")
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode) or os.path.islink(home):
            raise StoreFault("store-denied", f"{path} is not a file of its own: move it away")
    except FileNotFoundError:
        _make(home, path)
    except OSError as error:
        raise _refused(error, path) from None
    return path


def _make(home: str, path: str) -> None:
    try:
        if os.path.islink(home):
            raise StoreFault("store-denied", f"{home} is a symbolic link: move it away")
        make_state(os.path.dirname(home))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise _refused(error, path) from None


def _fault(error: sqlite3.Error, path: str) -> StoreFault:
    """What SQLite complains of, as something that a person can act on."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind = code & 0xFF
    if kind in _BUSY:
        return StoreFault("store-busy", f"{path} has been locked by another process for too long")
    if kind == sqlite3.SQLITE_FULL or code in _NO_ROOM:
        return StoreFault("store-full", f"{path} cannot be written: the disk is full")
    if kind not in _DAMAGED:
        return StoreFault("store-denied", f"{path} cannot be read or written: {error}")
    words = f"{path} is damaged or not ours ({error}): move it away, with its -wal and -shm, "
    return StoreFault("store-broken", f"{words}or put a backup in its place")


def _refused(error: OSError, path: str) -> StoreFault:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StoreFault("store-full" if full else "store-denied", f"{path}: {error.strerror}")
