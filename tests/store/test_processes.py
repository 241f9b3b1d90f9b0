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

from gascity.store.book import Book
from gascity.store.locks import Turn
from gascity.store.port import StoreFault
from gascity.store.sqlite import SqliteStore, open_store
from tests.store.making import enter, put

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start another process on the same store, and wait until it is ready."""
    started: list[subprocess.Popen[str]] = []

    def one(*words: str, ready: bool = True) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.other", words[0], str(tmp_path), *words[1:]],
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
    with store.writing():
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
    assert store.counts()["done"] == 400
    assert len([event for event in store.events(0, 9999) if event.type == "work.claimed"]) == 400
    assert all(shares), "every claimant got something"


def test_a_writer_that_is_killed_leaves_nothing_behind_and_blocks_nobody(
    store: SqliteStore, start: Start
) -> None:
    first = put(store)
    process = start("hold")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert put(store).id == "w-2"
    assert [work.title for work in store.list_work()] == [first.title] * 2
    assert store.faults() == []


def test_a_writer_waits_for_the_one_before_it(store: SqliteStore, start: Start) -> None:
    process = start("hold")
    waiting = start("write")
    go(waiting)
    go(process)
    assert waiting.stdout
    assert waiting.stdout.readline() == "done\n"
    assert [work.title for work in store.list_work()] == ["from outside", "half done"]


def test_readers_do_not_wait_and_see_nothing_half_done(store: SqliteStore, start: Start) -> None:
    put(store)
    start("hold")
    assert [work.title for work in store.list_work()] == ["a title"]


def test_waiting_for_a_turn_has_an_end_and_leaves_the_queue(
    tmp_path: Path, store: SqliteStore, start: Start
) -> None:
    process = start("hold")
    with closing(turn(tmp_path)) as mine:
        with pytest.raises(StoreFault, match="another process") as fault:
            mine.take(patience=0.05)
        assert fault.value.code == "store-busy"
        process.kill()
        process.wait()
        other = start("write")
        go(other)
        assert other.stdout
        assert other.stdout.readline() == "done\n", "the turn that was given up is not kept"
    assert store.counts()["open"] == 1


def turn(root: Path) -> Turn:
    return Turn(str(root / ".gc" / "city.lock"))


def test_a_database_that_somebody_else_locks_is_busy(
    tmp_path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gascity.store.book.BUSY_SECONDS", 0.01)
    with closing(open_store(str(tmp_path))) as second, store.writing():
        with pytest.raises(StoreFault, match="locked") as fault:
            put(second)
        assert fault.value.code == "store-busy"
        put(store)
    assert store.counts()["open"] == 1


def test_a_change_from_outside_is_noticed_once(store: SqliteStore, start: Start) -> None:
    process = start("write")
    put(store)
    assert not store.changed(), "one's own writes are no news"
    go(process)
    assert process.stdout
    assert process.stdout.readline() == "done\n"
    assert store.changed()
    assert not store.changed()


def test_a_new_store_may_be_opened_by_many_at_once(tmp_path: Path, start: Start) -> None:
    crew = [start("create", ready=False) for _ in range(6)]
    for process in crew:
        is_ready(process)
    for process in crew:
        go(process)
    assert [process.wait(timeout=30) for process in crew] == [0] * 6
    with closing(open_store(str(tmp_path))) as store:
        assert sorted(work.id for work in store.list_work()) == [f"w-{n}" for n in range(1, 7)]


def test_a_store_outlives_the_death_of_everybody(tmp_path: Path, start: Start) -> None:
    process = start("write")
    go(process)
    assert process.stdout
    assert process.stdout.readline() == "done\n"
    process.kill()
    process.wait()
    assert os.path.getsize(tmp_path / ".gc" / "city.db-wal")
    with closing(Book(str(tmp_path))) as book:
        assert book.ask("SELECT COUNT(*) FROM work") == [(1,)]
