"""The database file: permissions, damage, and opening."""

import os
import sqlite3
import stat
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from gascity.model.work import ClaimToken, StaleTokenError
from gascity.store import open_store
from gascity.store.port import ConflictError, StoreError
from gascity.store.sqlite.schema import MIGRATIONS, VERSION, statements_for_new
from gascity.store.sqlite.store import SqliteStore
from tests.store.records import enter, put


def code_of(root: Path) -> str:
    """Return the error of opening the store."""
    with pytest.raises(StoreError) as fault:
        open_store(str(root)).close()
    assert str(root) in fault.value.message
    return fault.value.code


def database(root: Path) -> Path:
    return root / ".gc" / "city.db"


def test_only_the_owner_can_access_its_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with closing(open_store(str(tmp_path))) as store:
            put(store)
            names = {"city.db", "city.db-wal", "city.db-shm", "city.lock"}
            modes = {name: os.stat(tmp_path / ".gc" / name).st_mode for name in names}
    finally:
        os.umask(before)
    assert {name: stat.S_IMODE(mode) for name, mode in modes.items()} == dict.fromkeys(names, 0o600)
    assert (tmp_path / ".gc" / ".gitignore").read_text() == "*\n"


def test_an_existing_directory_stays_unchanged(tmp_path: Path) -> None:
    (tmp_path / ".gc").mkdir()
    open_store(str(tmp_path)).close()
    assert not (tmp_path / ".gc" / ".gitignore").exists()


def test_writes_are_there_after_reopening(tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path))) as store:
        work = put(store)
    with closing(open_store(str(tmp_path))) as store:
        assert store.list_work() == [work]


def test_an_existing_store_is_opened_without_writing(tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path))) as first:
        put(first)
        first.changed()
        with closing(open_store(str(tmp_path))) as second:
            assert second.work_counts()["open"] == 1
        assert not first.changed()


def test_a_durable_store_syncs_fully_and_a_relaxed_one_less(tmp_path: Path) -> None:
    for relaxed, level in ((False, 2), (True, 1)):
        with closing(open_store(str(tmp_path), relaxed=relaxed)) as store:
            assert store.connection.query("PRAGMA synchronous") == [(level,)]
            assert store.connection.query("PRAGMA journal_mode") == [("wal",)]
            assert store.connection.query("PRAGMA foreign_keys") == [(1,)]


def test_a_copy_without_wal_mode_gets_it_back(tmp_path: Path) -> None:
    open_store(str(tmp_path)).close()
    with closing(sqlite3.connect(database(tmp_path))) as base:
        base.execute("PRAGMA journal_mode=DELETE")
    with closing(open_store(str(tmp_path))) as store:
        assert store.connection.query("PRAGMA journal_mode") == [("wal",)]


def test_a_linked_database_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    (tmp_path / "a" / ".gc").mkdir(parents=True)
    database(tmp_path / "a").symlink_to(target)
    assert code_of(tmp_path / "a") == "store-denied"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".gc").symlink_to(tmp_path / "a")
    assert code_of(tmp_path / "b") == "store-denied"
    assert target.read_text() == "mine"


def test_a_new_store_has_the_tables_that_all_migrations_make(tmp_path: Path) -> None:
    migrated = schema_of(statement for migration in MIGRATIONS for statement in migration)
    assert schema_of(statements_for_new(MIGRATIONS)) == migrated
    open_store(str(tmp_path)).close()
    with closing(sqlite3.connect(database(tmp_path))) as new:
        assert described(new) == migrated


def schema_of(statements: Iterable[str]) -> dict[str, tuple[str, list[object]]]:
    with closing(sqlite3.connect(":memory:")) as made:
        for statement in statements:
            made.execute(statement)
        return described(made)


def described(made: sqlite3.Connection) -> dict[str, tuple[str, list[object]]]:
    """The statement of each table and index without white space, and the columns of the tables."""
    rows = made.execute("SELECT name, coalesce(sql, '') FROM sqlite_schema").fetchall()
    return {
        name: ("".join(sql.split()), made.execute(f"PRAGMA table_info({name})").fetchall())
        for name, sql in rows
    }


def test_work_of_an_older_store_keeps_its_counters(tmp_path: Path) -> None:
    (tmp_path / ".gc").mkdir()
    with closing(sqlite3.connect(database(tmp_path))) as old:
        for statement in (each for migration in MIGRATIONS[:4] for each in migration):
            old.execute(statement)
        old.execute(
            "INSERT INTO work (id, agent, title, status, priority, waiting, attempts, failures,"
            " created, updated, sender, body)"
            " VALUES ('w-1', 'a', 't', 'failed', 2, 0, 2, 1, 1.0, 1.0, 'human', 'b')"
        )
        old.execute("PRAGMA user_version=4")
        old.commit()
    with closing(open_store(str(tmp_path))) as store:
        work = store.work("w-1")
        assert work is not None
        assert (work.attempts, work.failures) == (2, 1)
        assert (work.attempts_since_retry, work.failures_since_retry) == (2, 1)
        work = store.reopen("w-1", 2.0, token=None, reason="again")
        assert (work.attempts, work.attempts_since_retry) == (2, 0)


def test_sessions_of_the_first_store_keep_their_agent_and_their_pin(tmp_path: Path) -> None:
    """S2-67"""
    (tmp_path / ".gc").mkdir()
    with closing(sqlite3.connect(database(tmp_path))) as old:
        for statement in MIGRATIONS[0]:
            old.execute(statement)
        columns = old.execute("PRAGMA table_info(session)").fetchall()
        row = {name: "" if kind == "TEXT" else 0 for _, name, kind, *_ in columns}
        for id, pinned in (("s-1", 3.0), ("s-2", None)):
            values = {**row, "id": id, "agent": "mayor", "state": "stopped", "pinned": pinned}
            values["prints"] = "{}"
            marks = ", ".join("?" * len(values))
            old.execute(f"INSERT INTO session VALUES ({marks})", [*values.values()])
        old.execute("PRAGMA user_version=1")
        old.commit()
    with closing(open_store(str(tmp_path))) as store:
        found = {session.id: session for session in store.sessions_by_id(["s-1", "s-2"])}
    assert {id: (one.agent, one.pinned) for id, one in found.items()} == {
        "s-1": ("mayor", 3.0),
        "s-2": ("mayor", None),
    }


def test_a_store_of_a_newer_version_is_refused_and_untouched(tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path))) as store:
        store.connection.query(f"PRAGMA user_version={VERSION + 1}")
    before = database(tmp_path).read_bytes()
    assert code_of(tmp_path) == "store-newer"
    assert database(tmp_path).read_bytes() == before


def test_a_file_that_is_no_database_is_broken_and_untouched(tmp_path: Path) -> None:
    (tmp_path / ".gc").mkdir()
    database(tmp_path).write_text("not a database, but somebody's text\n" * 100)
    assert code_of(tmp_path) == "store-broken"
    assert database(tmp_path).read_text().startswith("not a database")


def test_the_database_of_another_program_is_broken_and_untouched(tmp_path: Path) -> None:
    (tmp_path / ".gc").mkdir()
    with closing(sqlite3.connect(database(tmp_path))) as base:
        base.execute("CREATE TABLE mine (text)")
    before = database(tmp_path).read_bytes()
    assert code_of(tmp_path) == "store-broken"
    assert database(tmp_path).read_bytes() == before


def test_a_damaged_database_says_what_is_wrong(tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path))) as store, store.transaction():
        for _ in range(300):
            put(store, title="x" * 300)
    whole = database(tmp_path).read_bytes()
    middle = len(whole) // 2
    database(tmp_path).write_bytes(whole[:middle] + b"\xff" * 4096 + whole[middle + 4096 :])
    with closing(open_store(str(tmp_path))) as store:
        assert store.integrity_errors()
        with pytest.raises(StoreError) as fault:
            store.list_work()
        assert fault.value.code == "store-broken"


def fill(store: SqliteStore) -> None:
    with store.transaction():
        for _ in range(100):
            put(store, title="x" * 4000)


def test_a_full_disk_undoes_the_write_and_the_store_stays_usable(store: SqliteStore) -> None:
    put(store)
    ((pages,),) = store.connection.query("PRAGMA page_count")
    store.connection.query(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreError) as fault:
        fill(store)
    assert fault.value.code == "store-full"
    assert store.work_counts()["open"] == 1
    store.connection.query("PRAGMA max_page_count=1000000")
    assert put(store).id == "w-2"


def go_on(store: SqliteStore) -> None:
    """Write again after SQLite has rolled back by itself."""
    with store.transaction():
        put(store)
        with suppress(ValueError):
            store.connection.query("INSERT OR ROLLBACK INTO note (key, value) VALUES ('key', NULL)")
        put(store)


def test_nothing_is_written_after_a_failed_write(store: SqliteStore) -> None:
    with pytest.raises(StoreError, match="rolled back"):
        go_on(store)
    assert store.work_counts()["open"] == 0
    assert put(store).id == "w-1"


def finish_half(store: SqliteStore) -> None:
    """Catch an error between the two writes of a change, and write again."""
    with store.transaction():
        put(store)
        with suppress(RuntimeError):
            store.finish("w-1", "done", None, 1.0, token=None)
        put(store)


def test_half_a_change_is_never_committed(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store)
    append_event = store._append_event

    def broken(type: str, *others: Any) -> None:
        if type == "work.done":
            raise RuntimeError
        append_event(type, *others)

    monkeypatch.setattr(store, "_append_event", broken)
    with pytest.raises(StoreError, match="rolled back"):
        finish_half(store)
    assert [(work.id, work.status) for work in store.list_work()] == [("w-1", "open")]
    assert put(store).id == "w-2"


def test_a_refused_change_does_not_affect_the_other_writes_of_a_transaction(
    store: SqliteStore,
) -> None:
    put(store)
    with store.transaction():
        store.set_note("key", "value")
        for id in ("s1", "s2"):
            enter(store, id, alias=id)
        with pytest.raises(ConflictError):
            store.update_session("s2", {"alias": "s1"}, 1.0, event="session.changed")
        with pytest.raises(StaleTokenError):
            store.claim(ClaimToken("s1", 9), 1.0, work="w-1")
        with pytest.raises(StaleTokenError):
            store.finish("w-1", "done", None, 1.0, token=ClaimToken("s1", 1))
    assert store.get_note("key") == "value"


def test_a_savepoint_needs_no_file(store: SqliteStore) -> None:
    in_memory = 2
    assert store.connection.query("PRAGMA temp_store") == [(in_memory,)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_denied(tmp_path: Path) -> None:
    (tmp_path / ".gc").mkdir(mode=0o500)
    assert code_of(tmp_path) == "store-denied"


def test_a_file_instead_of_the_directory_is_denied(tmp_path: Path) -> None:
    (tmp_path / ".gc").write_text("")
    assert code_of(tmp_path) == "store-denied"


def test_no_exception_of_sqlite_leaves_the_store(store: SqliteStore) -> None:
    for wrong in ("SELECT nothing FROM nowhere", "SELEC", "INSERT INTO event (seq) VALUES ('x')"):
        with pytest.raises((StoreError, ValueError)):
            store.connection.query(wrong)
    store.close()
    with pytest.raises(RuntimeError, match="wrong use of the store"):
        store.work_counts()


def test_lone_surrogates_are_replaced(store: SqliteStore) -> None:
    work = put(store, title="caf\udce9")
    assert work.title == "caf?"
    enter(store, "s1")
    assert store.update_session("s1", {"workdir": "/caf\udce9"}, 2.0).workdir == "/caf?"
