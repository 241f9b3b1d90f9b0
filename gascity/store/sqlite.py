"""The store in SQLite: `.gc/city.db` of a city, shared by every process that works on it."""

from typing import TYPE_CHECKING

from gascity.store.retention import Retention

if TYPE_CHECKING:
    from gascity.store.port import Store


class SqliteStore(Retention):
    """`Store` on one file. Its parts, from the file up: Book, Happenings, Post, Sessions, Queue,
    Claims, Retention; each adds one noun and uses only those below it."""


def open_store(root: str, *, relaxed: bool = False) -> SqliteStore:
    """The city's store, made if need be. StoreFault if it cannot be used.

    `relaxed` may lose the last writes when the machine, not just a program, goes down.
    """
    return SqliteStore(root, relaxed=relaxed)


if TYPE_CHECKING:

    def _meets_the_port(store: SqliteStore) -> Store:
        return store
