"""Undo goes back to before an apply, to the byte, and keeps what changed since."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.disk_state import document, file, link
from tests.support.snapshots import picture
from tests.support.workdir_bench import Bench

SERVER = {"command": "npx"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "work").mkdir()
    return Bench(tmp_path)


def test_each_undo_goes_one_further(bench: Bench) -> None:
    (bench.root / ".mcp.json").write_text('{"a": 1}')
    (bench.root / ".mcp.json").chmod(0o640)
    pictures = [picture(bench.root)]
    for n, wanted in enumerate(
        (
            [file("a", "1"), link("b", "/1"), document(".mcp.json", servers={"x": SERVER})],
            [file("a", "2", mode=0o755), link("b", "/2"), file("d/e/f", "1")],
            [file("b/now/below", "1"), file("d/e", "a file now")],
        )
    ):
        bench.apply(*wanted)
        bench.apply(*wanted)  # what made way for it is gone now
        pictures.append(picture(bench.root))
        assert len(set(map(str, pictures))) == n + 2
    seen = []
    while bench.undo() is not None:
        seen.append(picture(bench.root))
    for one in reversed(pictures[:-1]):
        assert one in seen
    assert seen[-1] == pictures[0]
    assert bench.ledger.paths == {}
    assert bench.ledger.directories == ()


def test_no_more_than_ten_can_be_undone(bench: Bench) -> None:
    for n in range(13):
        bench.apply(file("a", str(n)))
    count = 0
    while bench.undo() is not None:
        count += 1
    assert count == 10
    assert (bench.root / "a").read_text() == "2"


def test_what_was_forced_away_comes_back(bench: Bench) -> None:
    (bench.root / "a").write_text("mine")
    (bench.root / "a").chmod(0o600)
    (bench.root / "b").symlink_to("mine")
    before = picture(bench.root)
    bench.apply(file("a", "ours"), file("b", "ours"), force=True)
    bench.undo()
    assert picture(bench.root) == before
    assert bench.ledger.paths == {}


def test_what_was_removed_comes_back_with_its_directories_which_are_ours_again(
    bench: Bench,
) -> None:
    bench.apply(file("d/e/a", "1"))
    bench.apply()
    assert picture(bench.root) == {}
    bench.undo()
    assert (bench.root / "d/e/a").read_text() == "1"
    bench.undo()
    assert picture(bench.root) == {}


def test_a_directory_that_was_not_there_is_not_there_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.apply(file("a/b", "1"))
    bench.apply(file("a/b", "2"), file("c", "3"))
    bench.undo()
    bench.undo()
    assert not bench.root.exists()
    bench.apply_state.ledgers.write(
        bench.ledger._replace(synced=bench.ledger.synced._replace(excluded=""))
    )
    assert bench.apply_state.ledgers.roots() == []


def test_what_an_agent_left_in_a_new_directory_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.apply(file("a/b", "1"))
    (bench.root / "a/result").write_text("work")
    bench.undo()
    assert sorted(picture(bench.root)) == ["a", "a/result"]


class TestChangedSince:
    def test_it_stays_is_named_and_is_still_ours_on_record(self, bench: Bench) -> None:
        bench.apply(file("a", "1"), file("b", "1"))
        (bench.root / "a").write_text("mine")
        done = bench.undo()
        assert done is not None
        assert [deed.path for deed in done.kept] == ["a"]
        assert [deed.path for deed in done.restored] == ["b"]
        assert picture(bench.root) == {"a": ("644", b"mine")}
        (step,) = bench.plan(file("a", "2")).steps
        assert (step.op, step.reason) == ("keep", "modified locally")

    def test_what_it_replaced_can_still_be_found(self, bench: Bench, tmp_path: Path) -> None:
        (bench.root / "a").write_text("the only copy")
        bench.apply(file("a", "ours"), force=True)
        (bench.root / "a").write_text("ours, edited")
        bench.undo()
        assert (bench.root / "a").read_text() == "ours, edited"
        kept = [value for _, value in picture(tmp_path / ".gc/undo").values()]
        assert b"the only copy" in kept
        assert bench.undo() is None

    def test_servers_in_a_file_that_changed_since_can_still_be_taken_out(
        self, bench: Bench
    ) -> None:
        bench.apply(document(".mcp.json", servers={"x": SERVER}))
        text = (bench.root / ".mcp.json").read_text()
        (bench.root / ".mcp.json").write_text(text.replace("{\n", '{\n  "mine": 1,\n', 1))
        bench.undo()
        bench.apply()
        assert (bench.root / ".mcp.json").read_text().split() == ["{", '"mine":', "1", "}"]

    def test_what_was_put_in_the_place_of_something_removed_stays(self, bench: Bench) -> None:
        bench.apply(file("a", "1"), file("b", "1"))
        bench.apply()
        (bench.root / "a").write_text("mine")
        (bench.root / "b").mkdir()
        done = bench.undo()
        assert done is not None
        assert [deed.path for deed in done.kept] == ["a", "b"]
        assert picture(bench.root) == {"a": ("644", b"mine"), "b": ("directory", None)}

    def test_a_linked_parent_leads_nothing_outside(self, bench: Bench, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside/a").write_text("1")
        bench.apply(file("d/a", "1"))
        bench.apply(file("d/a", "2"))
        shutil.rmtree(bench.root / "d")
        (bench.root / "d").symlink_to(tmp_path / "outside")
        while bench.undo() is not None:
            pass
        assert picture(tmp_path / "outside") == {"a": ("644", b"1")}
        assert os.readlink(bench.root / "d") == str(tmp_path / "outside")

    def test_a_directory_that_is_gone_is_not_made_again(self, bench: Bench) -> None:
        bench.apply(file("a", "1"))
        bench.apply(file("a", "2"))
        shutil.rmtree(bench.root)
        bench.undo()
        bench.undo()
        assert not bench.root.exists()


def test_an_adopted_file_stays(bench: Bench) -> None:
    (bench.root / "a").write_text("mine")
    bench.apply(file("a", "ours"), file("b", "ours"), adopt=True)
    bench.undo()
    assert picture(bench.root) == {"a": ("644", b"mine")}


def test_an_undone_apply_can_be_applied_again(bench: Bench) -> None:
    wanted = [file("a", "1"), document(".mcp.json", servers={"x": SERVER})]
    bench.apply(*wanted)
    first = picture(bench.root)
    bench.undo()
    bench.apply(*wanted)
    assert picture(bench.root) == first
    assert bench.plan(*wanted).steps == []
