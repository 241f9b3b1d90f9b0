"""A plan is made true whole, recorded, and stopped by nothing that came in between."""

import os
from pathlib import Path

import pytest

from gascity.model.wanted import FILE, WantedPath
from gascity.workdir.write.directory import stamp_of
from gascity.workdir.write.execute import execute
from tests.support.disk_state import document, file, link
from tests.support.snapshots import picture, scratch
from tests.support.workdir_bench import Bench

SERVER = {"command": "npx"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A directory that is there already."""
    (tmp_path / "work").mkdir()
    return Bench(tmp_path)


def copy(path: str, source: Path) -> WantedPath:
    stamp = stamp_of(source.stat())
    return WantedPath(path, FILE, str(source), "city", ("a",), copy_of=str(source), stamp=stamp)


def test_everything_is_done_and_on_record(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"\0binary")
    wanted = (
        file("a", "1", mode=0o755),
        copy("deep/b", tmp_path / "source"),
        link("c", "/x"),
        document(".mcp.json", servers={"fs": SERVER}),
    )
    done = bench.apply(*wanted)
    assert sorted(step.path for step in done.done) == [".mcp.json", "a", "c", "deep/b"]
    found = picture(bench.root)
    assert found["a"] == ("755", b"1")
    assert found["deep/b"] == ("644", b"\0binary")
    assert found["c"] == ("link", "/x")
    assert sorted(bench.ledger.paths) == [".mcp.json", "a", "c", "deep/b"]
    assert bench.ledger.directories == ("deep",)
    assert bench.plan(*wanted).steps == []
    assert scratch(tmp_path) == []


def test_nothing_to_do_touches_nothing(bench: Bench) -> None:
    bench.apply(file("a", "1"))
    before = stamp_of(os.stat(bench.root / "a"))
    assert bench.apply(file("a", "1")).done == ()
    assert stamp_of(os.stat(bench.root / "a")) == before
    assert bench.undo() is not None
    assert bench.undo() is None


def test_a_directory_that_is_not_there_appears_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tmp_path / "not/yet/there")
    bench.apply(file("a", "1", mode=0o600), file("b/c", "2"), link("b/d", "/x"))
    assert picture(bench.root) == {
        "a": ("600", b"1"),
        "b": ("directory", None),
        "b/c": ("644", b"2"),
        "b/d": ("link", "/x"),
    }
    assert bench.ledger.directories == ("", "b")
    assert scratch(tmp_path) == []
    assert bench.plan(file("a", "1", mode=0o600), file("b/c", "2"), link("b/d", "/x")).steps == []


def test_a_new_directory_that_somebody_else_makes_meanwhile_is_theirs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    def somebody() -> None:
        bench.root.mkdir()
        (bench.root / "a").write_text("mine")

    done = bench.apply(file("a", "ours"), file("b", "ours"), meanwhile=somebody)
    assert [step.path for step in done.done] == ["b"]
    assert [step.path for step in done.conflicts] == ["a"]
    assert (bench.root / "a").read_text() == "mine"
    assert "a" not in bench.ledger.paths


def test_what_goes_makes_way_for_what_comes_in_whatever_order_it_was_planned(bench: Bench) -> None:
    bench.apply(link("a", "/x"))
    decision = bench.plan(file("a/b", "1"))
    steps = sorted(decision.steps, key=lambda step: step.path, reverse=True)
    assert [step.op for step in steps] == ["write", "remove"]
    done = execute(
        bench.apply_state, bench.ledger, steps, decision.records, "run", progress=lambda *_: None
    )
    assert done.conflicts == ()
    assert sorted(picture(bench.root)) == ["a", "a/b"]


def test_directories_of_ours_go_with_the_last_file_in_them(bench: Bench) -> None:
    (bench.root / "theirs").mkdir()
    bench.apply(file("x/y/a", "1"), file("x/b", "1"), file("theirs/c", "1"))
    bench.apply(file("x/b", "1"))
    assert sorted(picture(bench.root)) == ["theirs", "x", "x/b"]
    bench.apply()
    assert sorted(picture(bench.root)) == ["theirs"]
    assert bench.ledger.directories == ()
    assert bench.apply_state.ledgers.roots() == [str(bench.root)]  # git may have to be told


def test_a_directory_of_ours_with_something_of_a_persons_in_it_stays(bench: Bench) -> None:
    bench.apply(file("x/a", "1"))
    (bench.root / "x/mine").write_text("")
    bench.apply()
    assert sorted(picture(bench.root)) == ["x", "x/mine"]


class TestOvertaken:
    def test_one_step_that_comes_too_late_does_not_stop_the_others(self, bench: Bench) -> None:
        bench.apply(file("a", "1"), file("b", "1"))
        done = bench.apply(
            file("a", "2"),
            file("b", "2"),
            file("c", "2"),
            meanwhile=lambda: (bench.root / "a").write_text("mine"),
        )
        assert [step.path for step in done.conflicts] == ["a"]
        assert sorted(step.path for step in done.done) == ["b", "c"]
        assert (bench.root / "a").read_text() == "mine"
        assert [step.op for step in bench.plan(*(file(n, "2") for n in "abc")).steps] == ["keep"]

    @pytest.mark.parametrize("now", ["link", "folder", "pipe", "gone"])
    def test_a_target_that_became_something_else_is_left(
        self, bench: Bench, tmp_path: Path, now: str
    ) -> None:
        (tmp_path / "outside").write_text("theirs")
        bench.apply(file("a", "1"))

        def somebody() -> None:
            (bench.root / "a").unlink()
            if now == "link":
                (bench.root / "a").symlink_to(tmp_path / "outside")
            elif now == "folder":
                (bench.root / "a").mkdir()
            elif now == "pipe":
                os.mkfifo(bench.root / "a")

        done = bench.apply(file("a", "2"), meanwhile=somebody)
        assert [step.path for step in done.conflicts] == ["a"]
        assert (tmp_path / "outside").read_text() == "theirs"
        assert bench.undo() is not None

    def test_a_parent_that_became_a_link_leads_nothing_outside(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "old").write_text("theirs")
        bench.apply(file("d/old", "1"))

        def somebody() -> None:
            (bench.root / "d").rename(tmp_path / "moved")
            (bench.root / "d").symlink_to(outside)

        done = bench.apply(file("d/new", "2"), meanwhile=somebody)
        assert {step.path for step in done.conflicts} == {"d/old", "d/new"}
        assert picture(outside) == {"old": ("644", b"theirs")}

    def test_when_all_came_too_late_there_is_nothing_to_undo(self, bench: Bench) -> None:
        bench.apply(file("a", "1"), meanwhile=lambda: (bench.root / "a").write_text("1"))
        assert bench.undo() is None
        assert (bench.root / "a").read_text() == "1"

    @pytest.mark.parametrize("size", [10, 400_000], ids=["small", "large"])
    @pytest.mark.parametrize("fresh", [True, False], ids=["new directory", "old directory"])
    def test_a_source_that_changes_meanwhile_leaves_no_mixture(
        self, tmp_path: Path, size: int, fresh: bool
    ) -> None:
        bench = Bench(tmp_path)
        if not fresh:
            bench.root.mkdir()
        source = tmp_path / "source"
        source.write_bytes(b"1" * size)
        one = copy("a", source)
        bench.apply(one, meanwhile=lambda: source.write_bytes(b"2" * size))
        bench.apply(copy("a", source))
        assert (bench.root / "a").read_bytes() == b"2" * size
        assert bench.plan(copy("a", source)).steps == []

    @pytest.mark.parametrize("fresh", [True, False], ids=["new directory", "old directory"])
    def test_a_source_that_changes_while_it_is_copied_is_not_copied(
        self, tmp_path: Path, fresh: bool
    ) -> None:
        bench = Bench(tmp_path)
        if not fresh:
            bench.root.mkdir()
        source = tmp_path / "source"
        source.write_bytes(b"1" * 400_000)  # more than is kept in memory
        wanted = [file("0", "first"), copy("a", source)]
        decision = bench.plan(*wanted)

        def somebody(done: int, _: int) -> None:
            source.write_bytes(b"2" * 100_000 + b"3" * 300_000 if done == 1 else b"4")

        done = execute(
            bench.apply_state,
            bench.ledger,
            decision.steps,
            decision.records,
            "run",
            progress=somebody,
        )
        assert [step.path for step in done.conflicts] == ["a"]
        assert picture(bench.root) == {"0": ("644", b"first")}
        assert sorted(bench.ledger.paths) == ["0"]
        bench.apply(file("0", "first"), copy("a", source))
        assert (bench.root / "a").read_bytes() == source.read_bytes()


class TestStamps:
    def test_an_edit_of_the_same_size_right_after_an_apply_is_seen(self, bench: Bench) -> None:
        for n in range(20):
            bench.apply(file(f"f{n}", "abc"))
            (bench.root / f"f{n}").write_text("abd")
            wanted = [file(f"f{m}", "abc") for m in range(n + 1)]
            assert len(bench.plan(*wanted).steps) == n + 1

    def test_a_source_that_changes_right_after_an_apply_is_seen(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        source = tmp_path / "source"
        for n in range(20):
            source.write_text(f"{n:03d}")
            bench.apply(copy("a", source))
            assert (bench.root / "a").read_text() == f"{n:03d}"

    def test_what_has_settled_is_not_read_again(
        self, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = tmp_path / "source"
        source.write_text("x")
        for path in (source,):
            os.utime(path, ns=(1, 1))
        bench.apply(copy("a", source))
        ledger = Path(bench.apply_state.ledgers.file(str(bench.root)))
        later = ledger.stat().st_mtime_ns + 10**9
        os.utime(ledger, ns=(later, later))

        def never(_: object, path: str) -> bytes:
            raise AssertionError(f"{path} was read")

        monkeypatch.setattr("gascity.workdir.write.directory.Directory.read", never)
        assert bench.plan(copy("a", source)).steps == []
