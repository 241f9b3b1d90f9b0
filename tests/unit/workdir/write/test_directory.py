"""A directory is looked at and written to without ever following a link below it."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from threading import Thread

import pytest

from gascity.model.plan import FileChange, PathState
from gascity.model.wanted import ABSENT, BLOCKED, DIRECTORY, FILE, LINK, OTHER
from gascity.workdir.write.directory import ConcurrentChangeError, Directory, temporary_name
from tests.support.snapshots import picture, scratch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    return made


def do(root: Path, change: FileChange) -> None:
    with Directory(str(root)) as directory:
        directory.apply(change)


def written(path: str, text: str = "ours", expected: PathState = PathState(ABSENT)) -> FileChange:  # noqa: B008
    return FileChange(path, FILE, expected, data=text.encode())


def found(root: Path, path: str) -> PathState:
    with Directory(str(root)) as directory:
        return directory.state(path)


class TestLooking:
    def test_everything_is_called_what_it_is(self, root: Path) -> None:
        (root / "file").write_text("x")
        (root / "file").chmod(0o640)
        (root / "link").symlink_to("nowhere")
        (root / "folder").mkdir()
        os.mkfifo(root / "pipe")
        kinds = {name: found(root, name).kind for name in ("file", "link", "folder", "pipe", "no")}
        assert kinds == {
            "file": FILE,
            "link": LINK,
            "folder": DIRECTORY,
            "pipe": OTHER,
            "no": ABSENT,
        }
        assert found(root, "file").mode == 0o640
        assert found(root, "link").target == "nowhere"

    def test_below_a_link_or_a_file_the_way_is_blocked_and_the_blocker_named(
        self, root: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "outside/b").mkdir(parents=True)
        (tmp_path / "outside/b/c").write_text("not ours to see")
        (root / "a").symlink_to(tmp_path / "outside")
        (root / "file").write_text("")
        assert found(root, "a/b/c") == PathState(BLOCKED, target="a")
        assert found(root, "file/x/y") == PathState(BLOCKED, target="file")

    def test_the_root_itself_may_be_a_link(self, root: Path, tmp_path: Path) -> None:
        (root / "file").write_text("x")
        (tmp_path / "alias").symlink_to(root)
        assert found(tmp_path / "alias", "file").kind == FILE

    def test_a_root_that_is_not_there_is_empty_and_one_that_is_a_file_is_blocked(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        assert found(tmp_path / "no", "a/b") == PathState(ABSENT)
        assert found(tmp_path / "file", "a") == PathState(BLOCKED)

    def test_only_regular_files_are_read(self, root: Path) -> None:
        (root / "link").symlink_to("/etc/hostname")
        os.mkfifo(root / "pipe")
        (root / "folder").mkdir()
        with Directory(str(root)) as directory:
            for name in ("link", "pipe", "folder", "no", "link/below"):
                with pytest.raises(ConcurrentChangeError):
                    directory.read(name)

    def test_a_file_is_still_the_same_only_with_its_stamp_and_mode(self, root: Path) -> None:
        (root / "file").write_text("x")
        seen = found(root, "file")
        assert seen.stamp is not None
        with Directory(str(root)) as directory:
            assert directory.matches("file", seen.stamp, seen.mode)
            assert not directory.matches("file", seen.stamp, 0o600)
            assert not directory.matches("no", seen.stamp, seen.mode)
            assert not directory.matches("file", (*seen.stamp[:3], 0), seen.mode)


class TestWriting:
    def test_a_file_gets_its_content_its_mode_and_its_directories(self, root: Path) -> None:
        with Directory(str(root)) as directory:
            stamp = directory.apply(written("a/b/run.sh")._replace(mode=0o750))
            assert directory.created == ["a", "a/b"]
            assert stamp == directory.state("a/b/run.sh").stamp
        assert picture(root) == {
            "a": ("directory", None),
            "a/b": ("directory", None),
            "a/b/run.sh": ("750", b"ours"),
        }

    @pytest.mark.parametrize("umask", [0o000, 0o077], ids=oct)
    def test_the_mode_does_not_depend_on_the_umask(self, root: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            do(root, written("a")._replace(mode=0o664))
        finally:
            os.umask(before)
        assert (root / "a").stat().st_mode & 0o777 == 0o664

    def test_links_are_made_and_replaced(self, root: Path) -> None:
        do(root, FileChange("a", LINK, PathState(ABSENT), target="one"))
        do(root, FileChange("a", LINK, found(root, "a"), target="two"))
        assert picture(root) == {"a": ("link", "two")}

    def test_a_file_takes_the_place_of_what_was_expected(self, root: Path) -> None:
        (root / "a").symlink_to("mine")
        do(root, written("a", expected=found(root, "a")))
        do(root, written("a", "more", expected=found(root, "a")))
        assert picture(root) == {"a": ("644", b"more")}

    def test_what_was_expected_is_removed(self, root: Path) -> None:
        (root / "a").write_text("x")
        do(root, FileChange("a", ABSENT, found(root, "a")))
        assert picture(root) == {}

    def test_a_copy_is_only_made_of_what_was_planned(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "source").write_text("changed since")
        change = FileChange(
            "a", FILE, PathState(ABSENT), copy_of=str(tmp_path / "source"), sha256="0" * 64
        )
        with pytest.raises(ConcurrentChangeError):
            do(root, change)
        assert picture(root) == {}

    def test_the_longest_names_can_be_written(self, root: Path) -> None:
        for name in ("x" * 255, "長" * 85, os.fsdecode(b"\xff" * 255)):
            do(root, written(name))
            assert (root / name).read_text() == "ours"
            assert len(os.fsencode(temporary_name(name))) <= 255

    def test_names_that_are_not_utf8_can_be_written(self, root: Path) -> None:
        name = os.fsdecode(b"\xff\n\x01")
        do(root, written(f"{name}/{name}"))
        assert (root / name / name).read_text() == "ours"

    def test_a_killed_writers_scratch_file_is_taken_away(self, root: Path) -> None:
        (root / temporary_name("a")).write_text("half")
        with Directory(str(root)) as directory:
            directory.remove_temporary("a")
            directory.remove_temporary("not/there")
        assert picture(root) == {}
        (root / temporary_name("a")).write_text("half")
        do(root, written("a"))
        assert picture(root) == {"a": ("644", b"ours")}

    def test_many_directories_need_few_descriptors(self, tmp_path: Path) -> None:
        code = (
            "import resource, sys\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (90, 90))\n"
            "from gascity.workdir.write.directory import Directory\n"
            "from gascity.model.plan import FileChange, PathState\n"
            "from gascity.model.wanted import ABSENT, FILE\n"
            "with Directory(sys.argv[1]) as d:\n"
            "    for n in range(200):\n"
            "        d.apply(FileChange(f'a/b{n}/c/file', FILE, PathState(ABSENT), data=b'x'))\n"
        )
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "root")], check=True)
        assert len(list((tmp_path / "root").glob("a/*/c/file"))) == 200


class TestTooLate:
    """Between plan and apply somebody else was there: nothing of theirs is touched."""

    @pytest.mark.parametrize("expected", [FILE, LINK, ABSENT])
    @pytest.mark.parametrize("kind", [FILE, LINK, ABSENT])
    @pytest.mark.parametrize("now", ["edited", "link", "folder", "pipe", "gone"])
    def test_anything_else_there_stops_the_deed(
        self, root: Path, expected: str, kind: str, now: str
    ) -> None:
        if expected == FILE:
            (root / "a").write_text("as planned")
        elif expected == LINK:
            (root / "a").symlink_to("as-planned")
        seen = found(root, "a")
        if expected != ABSENT:
            (root / "a").unlink()
        elif now == "gone":
            return
        match now:
            case "edited":
                (root / "a").write_text("as planneD")
            case "link":
                (root / "a").symlink_to("mine")
            case "folder":
                (root / "a").mkdir()
            case "pipe":
                os.mkfifo(root / "a")
        before = picture(root)
        with pytest.raises(ConcurrentChangeError):
            do(root, FileChange("a", kind, seen, data=b"ours", target="ours"))
        assert picture(root) == before

    @pytest.mark.parametrize("deep", ["a/file", "a/b/file"])
    def test_a_parent_that_became_a_link_leads_nowhere(
        self, root: Path, tmp_path: Path, deep: str
    ) -> None:
        outside = tmp_path / "outside"
        (outside / "b").mkdir(parents=True)
        (outside / "file").write_text("theirs")
        (root / "a").symlink_to(outside)
        before = picture(outside)
        for change in (written(deep), FileChange(deep, ABSENT, PathState(FILE))):
            with pytest.raises(ConcurrentChangeError):
                do(root, change)
        assert picture(outside) == before

    def test_a_parent_that_became_a_link_after_it_was_opened_leads_nowhere(
        self, root: Path, tmp_path: Path
    ) -> None:
        (root / "a").mkdir()
        (tmp_path / "outside").mkdir()
        with Directory(str(root)) as directory:
            directory.apply(written("a/one"))
            (root / "a").rename(root / "moved")
            (root / "a").symlink_to(tmp_path / "outside")
            directory.apply(written("a/two"))
        assert picture(tmp_path / "outside") == {}

    def test_what_comes_while_we_write_is_not_replaced(self, root: Path, tmp_path: Path) -> None:
        """The source is a pipe: whoever fills it has all the time he needs."""
        (root / "a").write_text("as planned")
        source = tmp_path / "source"
        os.mkfifo(source)
        change = FileChange("a", FILE, found(root, "a"), copy_of=str(source))

        def somebody() -> None:
            with open(source, "wb") as pipe:
                (root / "a").unlink()
                (root / "a").write_text("mine")
                pipe.write(b"ours")

        other = Thread(target=somebody)
        other.start()
        with pytest.raises(ConcurrentChangeError):
            do(root, change._replace(sha256=sha256(b"ours").hexdigest()))
        other.join()
        assert picture(root) == {"a": ("644", b"mine")}

    def test_what_the_machine_refuses_is_named_in_full(self, root: Path) -> None:
        name = "x" * 256
        with pytest.raises(OSError, match="too long") as caught:
            do(root, written(f"a/{name}"))
        assert caught.value.filename == f"{root}/a/{name}"
        assert scratch(root) == []


def test_only_empty_directories_are_removed(root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "full/x").mkdir(parents=True)
    with Directory(str(root)) as directory:
        assert directory.remove_empty("a/b")
        assert directory.remove_empty("a")
        assert not directory.remove_empty("full")
        assert directory.remove_empty("was/never/there")
        directory.apply(written("a/again"))
    assert sorted(picture(root)) == ["a", "a/again", "full", "full/x"]


def test_what_was_just_made_is_found(root: Path) -> None:
    with Directory(str(root)) as directory:
        assert directory.state("a/b").kind == ABSENT
        directory.apply(written("a/b"))
        assert directory.state("a/b").kind == FILE
