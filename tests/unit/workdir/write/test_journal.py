"""The journal has what a change replaces, before the change happens."""

import os
from pathlib import Path

import pytest

from gascity.model.plan import PathRecord
from gascity.model.problems import CityError
from gascity.model.wanted import ABSENT, DIRECTORY, FILE, LINK
from gascity.workdir.write.journal import (
    KEPT,
    UNDOING,
    Journal,
    JournalEntry,
    PathChange,
    PathVersion,
)
from tests.support.snapshots import picture

HELD = PathRecord(FILE, "overlay/a", "city", ("x",), sha256="ab" * 32)
BYTES = os.fsdecode(b"\xff\n")
DEEDS = (
    PathChange(
        "a", PathVersion(FILE, "1" * 64, 0o640), PathVersion(FILE, "2" * 64, 0o644), None, HELD
    ),
    PathChange(f"{BYTES}/b", PathVersion(LINK, target=BYTES), PathVersion(ABSENT), HELD, None),
    PathChange("c", PathVersion(ABSENT), PathVersion(LINK, target="x"), None, HELD),
)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(str(tmp_path))


def record(run: str = "now", root: str = "/work") -> JournalEntry:
    return JournalEntry("", root, run, DEEDS, agents=("x", "y"), directories=("d",))


def test_a_record_comes_back_with_all_that_is_in_it(journal: Journal) -> None:
    begun = journal.begin(record(), {"a": b"before\n"})
    (back,) = journal.interrupted("/work")
    assert back == begun
    assert back.changes[1:] == DEEDS[1:]
    assert back.blob(back.changes[0].before.blob) == b"before\n"
    assert journal.last("/work") is None
    journal.finish(begun)
    assert journal.interrupted("/work") == []
    done = journal.last("/work")
    assert done is not None
    assert done.changes == begun.changes
    assert journal.roots() == ["/work"]


def test_changes_that_did_not_happen_are_not_recorded(journal: Journal) -> None:
    begun = journal.begin(record(), {"a": b""})
    journal.finish(begun, {"a", "c"})
    done = journal.last("/work")
    assert done is not None
    assert [deed.path for deed in done.changes] == ["a", "c"]
    assert journal.interrupted("/work") == []


def test_ten_are_kept_of_every_directory(journal: Journal) -> None:
    for n in range(KEPT + 5):
        journal.finish(journal.begin(record(f"{n:03d}"), {"a": b""}))
    journal.finish(journal.begin(record("other", "/other"), {}))
    runs = []
    while (last := journal.last("/work")) is not None:
        runs.append(last.run)
        journal.forget(last)
    assert runs == [f"{n:03d}" for n in range(KEPT + 4, 4, -1)]
    assert len(runs) == KEPT == 10
    assert journal.roots() == ["/other"]


def test_each_undo_goes_one_further_and_a_half_one_is_interrupted(journal: Journal) -> None:
    for run in ("one", "two"):
        journal.finish(journal.begin(record(run), {"a": b""}))
    last = journal.last("/work")
    assert last is not None
    undoing = journal.undoing(last, ("made",))
    (interrupted,) = journal.interrupted("/work")
    assert (interrupted.state, interrupted.directories) == (UNDOING, ("made",))
    assert journal.last("/work") == interrupted
    journal.undone(undoing, complete=True)
    last = journal.last("/work")
    assert last is not None
    assert last.run == "one"


def test_copies_of_paths_that_could_not_be_restored_are_kept(
    journal: Journal, tmp_path: Path
) -> None:
    journal.finish(journal.begin(record(), {"a": b"a person's own\n"}))
    last = journal.last("/work")
    assert last is not None
    journal.undone(journal.undoing(last, ()), complete=False)
    assert journal.last("/work") is None
    assert journal.interrupted("/work") == []
    assert b"a person's own\n" in [value for _, value in picture(tmp_path).values()]


def test_files_left_by_a_killed_process_are_removed(journal: Journal) -> None:
    home = Path(journal.home("/work"))
    begun = journal.begin(record("one"), {"a": b""})
    journal.finish(begun)
    half = home / "000002"
    half.mkdir()
    (half / "0").write_text("a blob without a record")
    Path(begun.home, "undoing.json.city-new").write_text("{")
    assert journal.interrupted("/work") == []
    journal.finish(journal.begin(record("two"), {}))
    assert sorted(path.name for path in home.iterdir()) == ["000001", "000003"]
    assert sorted(path.name for path in home.rglob("*city-new*")) == []


def test_only_the_owner_may_read_it(journal: Journal, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        (tmp_path / ".gc").mkdir(0o755)
        journal.finish(journal.begin(record(), {"a": b"secret"}), {"a"})
    finally:
        os.umask(before)
    for path in (tmp_path / ".gc/undo", *(tmp_path / ".gc/undo").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_begin_that_fails_leaves_nothing(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace

    def full(source: str, target: str) -> None:
        if target.endswith("begun.json"):
            raise OSError(28, "No space left on device", target)
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        journal.begin(record(), {"a": b"x"})
    assert list(Path(journal.home("/work")).iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"{}", b"[", b'{"deeds": [1]}'], ids=repr)
def test_a_damaged_ledger_is_an_error_with_a_hint(journal: Journal, data: bytes) -> None:
    begun = journal.begin(record(), {"a": b""})
    journal.finish(begun)
    Path(begun.home, "done.json").write_bytes(data)
    for read in (lambda: journal.last("/work"), journal.roots):
        with pytest.raises(CityError) as caught:
            read()
        (problem,) = caught.value.problems
        assert problem.code == "damaged-state"
        assert f"{begun.home}/done.json" in problem.message


@pytest.mark.parametrize(
    ("side", "now", "same"),
    [
        (PathVersion(ABSENT), (ABSENT, "", ""), True),
        (PathVersion(ABSENT), (DIRECTORY, "", ""), False),
        (PathVersion(FILE, "1"), (FILE, "1", ""), True),
        (PathVersion(FILE, "1"), (FILE, "2", ""), False),
        (PathVersion(LINK, target="x"), (LINK, "", "x"), True),
        (PathVersion(LINK, target="x"), (LINK, "", "y"), False),
        (PathVersion(LINK, target="x"), (FILE, "", "x"), False),
    ],
)
def test_a_side_is_known_by_content_or_target(
    side: PathVersion, now: tuple[str, str, str], same: bool
) -> None:
    assert side.is_like(*now) is same
