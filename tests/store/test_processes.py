"""One store, many processes, some of which die."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gascity.store import open_store
from gascity.store.port import StoreError
from gascity.store.sqlite.connection import Connection
from gascity.store.sqlite.store import SqliteStore
from gascity.store.sqlite.write_lock import WriteLock
from tests.store.records import enter, put

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start another process on the same store, and wait until it is ready."""
    started: list[subprocess.Popen[str]] = []

    def one(*words: str, ready: bool = True) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.store.second_process",
                words[0],
                str(tmp_path),
                *words[1:],
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        started.append(process)
        if ready:
            is_ready(process)
        return process

    yield one
    for process in started:
        process.kill()
        process.communicate()


def is_ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout
    assert process.stdout.readline() == "ready\n"


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def test_no_item_is_claimed_twice_and_none_is_lost(store: SqliteStore, start: Start) -> None:
    with store.transaction():
        ids = {put(store).id for _ in range(400)}
        names = [enter(store, f"s{number}").session for number in range(8)]
    crew = [start("claim", name, ready=False) for name in names]
    for process in crew:
        is_ready(process)
    for process in crew:
        go(process)
    shares = [json.loads(process.communicate(timeout=60)[0]) for process in crew]
    got = [id for share in shares for id in share]
    assert len(got) == 400
    assert set(got) == ids
    assert store.work_counts()["done"] == 400
    assert len([event for event in store.events(0, 9999) if event.type == "work.claimed"]) == 400
    assert all(shares), "every claimant got something"


def test_a_killed_writer_leaves_nothing_behind_and_blocks_no_other(
    store: SqliteStore, start: Start
) -> None:
    first = put(store)
    process = start("hold")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert put(store).id == "w-2"
    assert [work.title for work in store.list_work()] == [first.title] * 2
    assert store.integrity_errors() == []


def test_a_writer_waits_for_the_previous_one(store: SqliteStore, start: Start) -> None:
    process = start("hold")
    waiting = start("write")
    go(waiting)
    go(process)
    assert waiting.stdout
    assert waiting.stdout.readline() == "done\n"
    assert [work.title for work in store.list_work()] == ["from outside", "half done"]


def test_readers_do_not_wait_and_see_only_committed_writes(
    store: SqliteStore, start: Start
) -> None:
    put(store)
    start("hold")
    assert [work.title for work in store.list_work()] == ["a title"]


def test_waiting_for_the_write_lock_times_out_and_leaves_the_queue(
    tmp_path: Path, store: SqliteStore, start: Start
) -> None:
    process = start("hold")
    with closing(write_lock(tmp_path)) as mine:
        with pytest.raises(StoreError, match="another process") as fault:
            mine.acquire(timeout=0.05)
        assert fault.value.code == "store-busy"
        process.kill()
        process.wait()
        other = start("write")
        go(other)
        assert other.stdout
        assert other.stdout.readline() == "done\n", "the turn that was given up is not kept"
    assert store.work_counts()["open"] == 1


def write_lock(root: Path) -> WriteLock:
    return WriteLock(str(root / ".gc" / "city.lock"))


def test_a_database_locked_by_another_program_is_busy(
    tmp_path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gascity.store.sqlite.connection.BUSY_SECONDS", 0.01)
    with closing(open_store(str(tmp_path))) as second, store.transaction():
        with pytest.raises(StoreError, match="locked") as fault:
            put(second)
        assert fault.value.code == "store-busy"
        put(store)
    assert store.work_counts()["open"] == 1


def test_a_write_of_another_process_is_reported_once(store: SqliteStore, start: Start) -> None:
    process = start("write")
    put(store)
    assert not store.changed(), "one's own writes are no news"
    go(process)
    assert process.stdout
    assert process.stdout.readline() == "done\n"
    assert store.changed()
    assert not store.changed()


def test_many_processes_can_create_a_store_at_once(tmp_path: Path, start: Start) -> None:
    crew = [start("create", ready=False) for _ in range(6)]
    for process in crew:
        is_ready(process)
    for process in crew:
        go(process)
    assert [process.wait(timeout=30) for process in crew] == [0] * 6
    with closing(open_store(str(tmp_path))) as store:
        assert sorted(work.id for work in store.list_work()) == [f"w-{n}" for n in range(1, 7)]


def test_a_store_survives_the_death_of_all_processes(tmp_path: Path, start: Start) -> None:
    process = start("write")
    go(process)
    assert process.stdout
    assert process.stdout.readline() == "done\n"
    process.kill()
    process.wait()
    assert os.path.getsize(tmp_path / ".gc" / "city.db-wal")
    with closing(Connection(str(tmp_path))) as connection:
        assert connection.query("SELECT COUNT(*) FROM work") == [(1,)]
