"""Backups: complete or absent, bounded, private, and never in the way of writers."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from gascity.store import (
    back_up_store,
    is_sound,
    list_backups,
    move_store_away,
    open_store,
    restore_store,
    store_exists,
)
from gascity.store.port import StoreError
from gascity.store.sqlite import schema
from gascity.store.sqlite.backups import backup_directory
from tests.store.records import put

DAY = 86400.0
NOW = 1_800_000_000.0


def city(tmp_path: Path, items: int = 1) -> str:
    with closing(open_store(str(tmp_path), relaxed=True)) as store:
        for _ in range(items):
            put(store)
    return str(tmp_path)


def lose(root: str) -> None:
    for name in ("city.db", "city.db-wal", "city.db-shm"):
        Path(root, ".gc", name).unlink(missing_ok=True)


def test_a_backup_holds_everything_that_was_committed(tmp_path: Path) -> None:
    root = city(tmp_path, 3)
    with closing(open_store(root)) as store:  # its -wal holds what city.db does not
        put(store, title="the last one")
        backup = back_up_store(root, NOW)
        before = store.list_work()
    lose(root)
    restore_store(root, backup)
    with closing(open_store(root)) as store:
        assert store.list_work() == before
        assert store.integrity_errors() == []


def test_a_backup_is_one_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    root = city(tmp_path)
    before = os.umask(0)
    try:
        backup = back_up_store(root, NOW)
    finally:
        os.umask(before)
    directory = Path(backup_directory(root))
    assert [path.name for path in directory.iterdir()] == ["20270115T080000Z.daily.db"]
    assert stat.S_IMODE(os.stat(backup.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700


def test_seven_daily_backups_are_kept(tmp_path: Path) -> None:
    root = city(tmp_path)
    for day in range(10):
        back_up_store(root, NOW + day * DAY)
    kept = [backup.at for backup in list_backups(root)]
    assert kept == [NOW + day * DAY for day in range(9, 2, -1)]


def test_two_backups_of_one_second_are_two_files(tmp_path: Path) -> None:
    root = city(tmp_path)
    assert back_up_store(root, NOW).path != back_up_store(root, NOW).path
    assert len(list_backups(root)) == 2


def test_a_writer_does_not_wait_for_a_backup(tmp_path: Path) -> None:
    root = city(tmp_path, 50)
    with closing(open_store(root)) as store, store.transaction():
        put(store, title="not committed")
        backup = back_up_store(root, NOW)  # while another connection holds the write lock
    lose(root)
    restore_store(root, backup)
    with closing(open_store(root)) as store:
        assert len(store.list_work()) == 50


def test_a_damaged_store_is_not_backed_up_and_replaces_no_backup(tmp_path: Path) -> None:
    root = city(tmp_path, 200)
    good = back_up_store(root, NOW)
    with closing(sqlite3.connect(f"{root}/.gc/city.db")) as base:
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(f"{root}/.gc/city.db", "r+b") as file:
        file.seek(5 * 4096)
        file.write(b"\xff" * 8192)
    for day in range(1, 9):
        with pytest.raises(StoreError) as fault:
            back_up_store(root, NOW + day * DAY)
        assert fault.value.code == "store-broken"
    assert list_backups(root) == [good]
    assert is_sound(good)
    assert os.listdir(backup_directory(root)) == [os.path.basename(good.path)]


def test_a_backup_that_was_damaged_later_is_recognised(tmp_path: Path) -> None:
    backup = back_up_store(city(tmp_path, 100), NOW)
    assert is_sound(backup)
    Path(backup.path).write_bytes(b"not a database, at all")
    assert not is_sound(backup)


def test_an_upgrade_is_preceded_by_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = city(tmp_path)
    newer = (*schema.MIGRATIONS, ("CREATE TABLE later (x INTEGER) STRICT",))
    monkeypatch.setattr("gascity.store.sqlite.connection.MIGRATIONS", newer)
    monkeypatch.setattr("gascity.store.sqlite.connection.VERSION", len(newer))
    with closing(open_store(root)) as store:
        [work] = store.list_work()
    [backup] = list_backups(root)
    assert backup.kind == "upgrade"
    with closing(sqlite3.connect(backup.path)) as old:
        assert old.execute("PRAGMA user_version").fetchall() == [(schema.VERSION,)]
        assert old.execute("SELECT id FROM work").fetchall() == [(work.id,)]
    open_store(root).close()
    assert len(list_backups(root)) == 1, "an upgraded store is not backed up again"


_KILLED = """
import sys
from gascity.store import back_up_store
print("ready", flush=True)
for n in range(100000):
    back_up_store(sys.argv[1], 1_800_000_000.0 + n * 86400)
"""


def test_a_killed_backup_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    root = city(tmp_path, 300)
    for round in range(8):
        command = [sys.executable, "-c", _KILLED, root]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            end = time.monotonic() + 0.004 * round
            while time.monotonic() < end:
                pass
            process.send_signal(signal.SIGKILL)
        assert all(map(is_sound, list_backups(root)))


def test_what_is_left_of_a_store_is_kept_beside_the_restored_one(tmp_path: Path) -> None:
    root = city(tmp_path)
    backup = back_up_store(root, NOW)
    Path(root, ".gc/city.db").write_bytes(b"damaged")
    Path(root, ".gc/city.db-wal").write_bytes(b"old frames")
    kept = move_store_away(root, NOW)
    assert not store_exists(root)
    restore_store(root, backup)
    with closing(open_store(root)) as store:
        assert len(store.list_work()) == 1
    assert Path(kept, "city.db").read_bytes() == b"damaged"
    assert Path(kept, "city.db-wal").read_bytes() == b"old frames"
    assert move_store_away(str(tmp_path / "empty"), NOW) == ""


class TestMissing:
    """A store that was there and is gone is never replaced without being asked to."""

    @pytest.mark.parametrize("also", [(), ("city.lock",), ("city.db.created",)])
    def test_it_is_not_created_again(self, tmp_path: Path, also: tuple[str, ...]) -> None:
        root = city(tmp_path)
        lose(root)
        for name in also:
            Path(root, ".gc", name).unlink()
        with pytest.raises(StoreError) as fault:
            open_store(root)
        assert fault.value.code == "store-missing"
        assert not store_exists(root)

    def test_a_backup_alone_shows_that_there_was_one(self, tmp_path: Path) -> None:
        root = city(tmp_path)
        back_up_store(root, NOW)
        lose(root)
        for name in ("city.lock", "city.db.created"):
            Path(root, ".gc", name).unlink()
        with pytest.raises(StoreError, match=r"20270115T080000Z\.daily\.db is left"):
            open_store(root)

    def test_an_emptied_file_is_not_taken_for_a_new_store(self, tmp_path: Path) -> None:
        root = city(tmp_path)
        lose(root)
        Path(root, ".gc/city.db").touch()
        with pytest.raises(StoreError, match="is empty") as fault:
            open_store(root)
        assert fault.value.code == "store-broken"

    def test_a_creation_that_was_interrupted_is_completed(self, tmp_path: Path) -> None:
        (tmp_path / ".gc").mkdir()
        (tmp_path / ".gc/city.db").touch()
        (tmp_path / ".gc/city.lock").touch()
        with closing(open_store(str(tmp_path))) as store:
            assert store.list_work() == []

    def test_a_new_one_is_created_on_request(self, tmp_path: Path) -> None:
        root = city(tmp_path)
        lose(root)
        with closing(open_store(root, new=True)) as store:
            assert store.list_work() == []
        open_store(root).close()

    def test_a_store_of_an_older_version_gets_a_marker(self, tmp_path: Path) -> None:
        root = city(tmp_path)
        marker = Path(root, ".gc/city.db.created")
        marker.unlink()
        open_store(root).close()
        assert "city doctor" in marker.read_text()

    def test_a_write_to_a_deleted_store_fails_instead_of_being_lost(self, tmp_path: Path) -> None:
        root = city(tmp_path)
        with closing(open_store(root)) as store:
            lose(root)
            with pytest.raises(StoreError) as fault:
                put(store)
            assert fault.value.code == "store-missing"

    def test_a_write_to_a_replaced_store_fails_instead_of_being_lost(self, tmp_path: Path) -> None:
        root = city(tmp_path)
        backup = back_up_store(root, NOW)
        with closing(open_store(root)) as store:
            lose(root)
            restore_store(root, backup)
            with pytest.raises(StoreError, match="was replaced"):
                put(store)

    def test_a_process_that_has_it_open_can_rescue_it(self, tmp_path: Path) -> None:
        root = city(tmp_path, 3)
        with closing(open_store(root)) as store:
            put(store)
            lose(root)
            store.rescue(NOW)
        [backup] = list_backups(root)
        restore_store(root, backup)
        with closing(open_store(root)) as store:
            assert len(store.list_work()) == 4
