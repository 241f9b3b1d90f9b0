"""The ledger records every written path, and reads its records back unchanged."""

import datetime
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gascity.model.plan import PathRecord
from gascity.model.problems import CityError
from gascity.model.wanted import DOCUMENT, FILE, LINK, Shape
from gascity.workdir.write.ledger import (
    Ledger,
    Ledgers,
    SyncState,
    record_from_json,
    record_to_json,
)

STAMP = (1_700_000_000_123_456_789, 1_700_000_000_000_000_001, 12, 34)
PLAIN = PathRecord(FILE, "overlay/a/b.md", "city", ("x",), 0o644, "ab" * 32, STAMP, STAMP)
BYTES = os.fsdecode(b"\xff\xfe/\n.md")

RECORDS = {
    "plain": ("a/b.md", PLAIN),
    "from a template": ("a/b.md", PLAIN._replace(source="overlay/a/b.template.md", copied=None)),
    "from a source named like it": ("b.md", PLAIN._replace(source="b.md")),
    "from a source whose name only ends like it": ("b.md", PLAIN._replace(source="overlay/ab.md")),
    "from an absolute source": ("b.md", PLAIN._replace(source="/pack/overlay/b.md")),
    "of several agents": ("b.md", PLAIN._replace(agents=("rig/a", "b"))),
    "not UTF-8": (BYTES, PLAIN._replace(source=f"overlay/{BYTES}")),
    "executable": ("run", PLAIN._replace(mode=0o755)),
    "covering": ("b.md", PLAIN._replace(covers=True)),
    "in a forced-away file's place": ("b.md", PLAIN._replace(original=(0o600, "\xff\n"))),
    "adopted": ("b.md", PathRecord(FILE, "s", "city", ("x",), adopted="cd" * 32)),
    "a link": ("skill", PathRecord(LINK, "skills/x", "agent", ("x",), target="/elsewhere")),
    "with servers": (
        ".codex/config.toml",
        PLAIN._replace(shape=Shape("codex", "toml", ("mcp_servers",)), entries={"fs": {}}),
    ),
    "a document": (
        ".mcp.json",
        PathRecord(
            DOCUMENT,
            "mcp/fs.toml",
            "city",
            ("x",),
            0o600,
            "ab" * 32,
            settings={"env": {"A": [1, None, True]}},
            shape=Shape("x", "json", ("a", "b"), "name"),
            entries={"fs": {"command": "ef" * 32}},
            replaced={"fs": {"command": "mine"}},
            made=True,
            original=(0o644, '{"a": "ü"}'),
        ),
    ),
    "a document with times": (
        ".codex/config.toml",
        PathRecord(
            DOCUMENT,
            "",
            "",
            (),
            replaced={
                "x": {
                    "day": datetime.date(2020, 1, 2),
                    "at": datetime.time(3, 4),
                    "then": datetime.datetime(2020, 1, 2, 3, 4, tzinfo=datetime.UTC),
                    "much": float("inf"),
                }
            },
        ),
    ),
}


@pytest.fixture
def ledgers(tmp_path: Path) -> Ledgers:
    return Ledgers(str(tmp_path))


@pytest.mark.parametrize(("path", "held"), RECORDS.values(), ids=RECORDS)
def test_every_record_comes_back_as_it_was(ledgers: Ledgers, path: str, held: PathRecord) -> None:
    before = Ledger("/work", {path: held}, ("", "a", BYTES), {"x": {"prompt": "12"}})
    ledgers.write(before)
    after = Ledgers(ledgers.home.removesuffix("/.gc/ledger")).read("/work")
    assert after._replace(written=0) == before
    assert isinstance(after.paths[path], PathRecord)
    assert record_from_json(json.loads(json.dumps(record_to_json(PLAIN)))) == PLAIN


def test_everything_else_of_a_directory_comes_back_too(ledgers: Ledgers) -> None:
    sync_state = SyncState(None, ("a", BYTES), ("claude-1.json",))
    before = Ledger("/work", {}, (), {}, "/rig", "city/x/prepared", sync_state)
    ledgers.write(before)
    after = ledgers.read("/work")
    assert after._replace(written=0) == before
    assert after.written > 0


def test_ten_thousand_records_come_back(ledgers: Ledgers) -> None:
    paths = {
        f"d{n % 97}/f{n}": PLAIN._replace(source=f"overlay/d{n % 97}/f{n}", sha256=f"{n:064x}")
        for n in range(10_000)
    }
    ledgers.write(Ledger("/work", paths))
    assert ledgers.read("/work").paths == paths
    assert os.path.getsize(ledgers.file("/work")) < 10_000 * 220


def test_a_directory_we_never_heard_of_has_an_empty_ledger(ledgers: Ledgers) -> None:
    assert ledgers.read("/nowhere") == Ledger("/nowhere")
    assert ledgers.roots() == []


def test_roots_are_those_that_have_something(ledgers: Ledgers) -> None:
    ledgers.write(Ledger("/one", {"a": PLAIN}))
    ledgers.write(Ledger("/two", directories=("",)))
    ledgers.write(Ledger("/three", rig="/rig"))
    ledgers.write(Ledger("/four", synced=SyncState(None)))
    ledgers.write(Ledger("/five", agents={"x": {}}))
    ledgers.write(Ledger("/six", branch="city/x/prepared", written=1))
    assert sorted(ledgers.roots()) == ["/five", "/four", "/one", "/three", "/two"]
    for root in ledgers.roots():
        ledgers.write(Ledger(root))
    assert ledgers.roots() == []


def test_what_was_written_in_between_is_read(ledgers: Ledgers) -> None:
    for n in range(50):
        ledgers.write(Ledger("/work", {"a": PLAIN._replace(sha256=f"{n:064x}")}))
        assert ledgers.read("/work").paths["a"].sha256 == f"{n:064x}"


def test_claimants_are_all_who_have_something(ledgers: Ledgers) -> None:
    ledger = Ledger("/work", {"a": PLAIN, "b": PLAIN._replace(agents=("y", "z"))})
    assert ledger.claimants == {"x", "y", "z"}
    del ledgers


def test_nobody_else_may_read_it(ledgers: Ledgers) -> None:
    before = os.umask(0)
    try:
        with ledgers.locked("/work"):
            ledgers.write(Ledger("/work", {"a": PLAIN}))
            ledgers.write_pending(Ledger("/next", {"a": PLAIN}))
    finally:
        os.umask(before)
    assert os.stat(ledgers.home).st_mode & 0o777 == 0o700
    for name in os.listdir(ledgers.home):
        assert os.stat(f"{ledgers.home}/{name}").st_mode & 0o777 == 0o600, name


def test_records_that_wait_are_not_the_ledgers_until_they_are_promoted(ledgers: Ledgers) -> None:
    ledgers.write_pending(Ledger("/work", {"a": PLAIN}))
    assert ledgers.read("/work").paths == {}
    assert ledgers.roots() == []
    assert ledgers.commit_pending("/work")
    assert ledgers.read("/work").paths == {"a": PLAIN}
    assert not ledgers.commit_pending("/work")
    ledgers.write_pending(Ledger("/work"))
    ledgers.drop_pending("/work")
    ledgers.drop_pending("/work")
    assert ledgers.read("/work").paths == {"a": PLAIN}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"schema": 1}',
        b'{"schema": 2}',
        b"\xff",
        b'{"schema":1,"root":5}',
    ],
    ids=repr,
)
def test_a_damaged_ledger_is_an_error_that_says_what_to_do(ledgers: Ledgers, data: bytes) -> None:
    ledgers.write(Ledger("/work", {"a": PLAIN}))
    Path(ledgers.file("/work")).write_bytes(data)
    for read in (lambda: ledgers.read("/work"), ledgers.roots):
        with pytest.raises(CityError) as caught:
            read()
        (problem,) = caught.value.problems
        assert problem.code == "damaged-state"
        assert ledgers.file("/work") in problem.message
        assert problem.hint is not None
        assert "move it away" in problem.hint
    assert Path(ledgers.file("/work")).read_bytes() == data


def test_a_city_that_was_moved_knows_its_own_and_a_copy_keeps_its_hands_off(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    ledgers = Ledgers(str(old))
    inside = Ledger(f"{old}/.gc/work/x", {"a": PLAIN}, rig=f"{old}/rigs/dock")
    ledgers.write(inside)
    ledgers.write(Ledger(str(old), {"a": PLAIN}))
    ledgers.write(Ledger("/outside", {"a": PLAIN}))
    shutil.copytree(old, new)
    copied = Ledgers(str(new))
    assert sorted(copied.roots()) == sorted(["/outside", str(new), f"{new}/.gc/work/x"])
    assert copied.read(f"{new}/.gc/work/x").rig == f"{new}/rigs/dock"
    assert copied.read(f"{old}/.gc/work/x").paths == {}


def test_only_one_process_has_the_lock_and_it_goes_with_the_process(tmp_path: Path) -> None:
    code = (
        "import sys; from gascity.workdir.write.ledger import Ledgers\n"
        "with Ledgers(sys.argv[1]).locked('/work'):\n"
        "    print('locked', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        try_it = (
            "import fcntl, sys\nfcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        )
        (lock,) = (tmp_path / ".gc/ledger").glob("*.lock")
        tried = subprocess.run([sys.executable, "-c", try_it, str(lock)], capture_output=True)
        assert b"BlockingIOError" in tried.stderr
        other.kill()
    with Ledgers(str(tmp_path)).locked("/work"):
        pass


def test_what_a_killed_writer_left_goes_with_the_next_lock(ledgers: Ledgers) -> None:
    ledgers.write(Ledger("/work", {"a": PLAIN}))
    for ending in (".city-new", ".next.city-new"):
        Path(ledgers.file("/work") + ending).write_text("half")
    with ledgers.locked("/work"):
        pass
    assert [name for name in os.listdir(ledgers.home) if "city-new" in name] == []
