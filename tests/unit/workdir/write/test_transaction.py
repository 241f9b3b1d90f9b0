"""Several files of a city change together or not at all, and nothing a person wrote is lost."""

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from gascity.model.problems import CityError
from gascity.workdir.write import UNFINISHED, transaction
from gascity.workdir.write.directory import ConcurrentChangeError
from gascity.workdir.write.transaction import (
    PathEdit,
    city_lock,
    recover,
    replace_city_files,
    run_transaction,
)
from tests.support.snapshots import Picture, picture
from tests.support.trees import build_tree

_CALLS = "open write rename replace link symlink unlink mkdir rmdir chmod fchmod utime".split()


class Killed(BaseException):
    """As if the process had ended: nothing that changes the disk happens after it."""


@contextmanager
def killed_at(number: int) -> Iterator[list[int]]:
    """From its n-th call on, whatever would change the disk raises."""
    done = [0]
    real = {name: getattr(os, name) for name in _CALLS}

    def counted(name: str) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            reading = name == "open" and not int(str(arguments[1])) & (os.O_WRONLY | os.O_RDWR)
            if not reading:
                done[0] += 1
                if done[0] >= number:
                    raise Killed
            return real[name](*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in _CALLS:
            patch.setattr(os, name, counted(name))
        yield done


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the machine does not die here, only we
    home = build_tree(
        tmp_path / "town",
        {
            "city.toml": "[[agent]]\n",
            "prompts/mayor.md": "You are.\n",
            "prompts/shared/tone.md": "Be kind.\n",
            "overlays/all/run.sh": "#!/bin/sh\n",
            "overlays/all/empty/": "",
            "packs/x/pack.toml": "old\n",
            "packs/x/notes.txt": "not touched\n",
            "plain": "a file that becomes a directory\n",
        },
    )
    (home / "overlays/all/run.sh").chmod(0o750)
    (home / "overlays/all/link").symlink_to("run.sh")
    (home / "overlays/all/dangling").symlink_to("nowhere")
    (home / "prompts/shared").chmod(0o750)
    os.utime(home / "overlays/all/run.sh", ns=(10**18, 10**18))
    return home


def pieces() -> list[PathEdit]:
    return [
        PathEdit("city.toml", b"# nothing\n", mode=0o640),
        PathEdit("agents/mayor/prompt.md", copy_of="prompts/mayor.md"),
        PathEdit("agents/mayor/overlay", copy_of="overlays/all"),
        PathEdit("agents/mayor/agent.toml", b"x = 1\n"),
        PathEdit("template-fragments", copy_of="prompts/shared"),
        PathEdit("prompts"),
        PathEdit("overlays"),
        PathEdit("packs/x/pack.toml", b"new\n"),
        PathEdit("packs/x/agents/a/prompt.md", b"hi\n"),
        PathEdit("plain"),
        PathEdit("plain/inner", b"inside\n"),
    ]


def make(
    root: Path,
    wanted: Sequence[PathEdit] | None = None,
    check: Callable[[], None] = lambda: None,
) -> str:
    return run_transaction(str(root), "step-1", wanted or pieces(), lambda: True, check)


def town(root: Path) -> Picture:
    return picture(root, but=(".gc",))


def refuse() -> None:
    raise ValueError("no")


def test_everything_changes_and_what_was_is_the_backup(root: Path) -> None:
    before = town(root)
    backup = make(root)
    after = town(root)
    assert backup == f"{root}/.gc/backup/step-1"
    assert after["city.toml"] == ("640", b"# nothing\n")
    assert after["agents/mayor/overlay/run.sh"] == ("750", b"#!/bin/sh\n")
    assert after["agents/mayor/overlay/link"] == ("link", "run.sh")
    assert after["agents/mayor/overlay/dangling"] == ("link", "nowhere")
    assert after["agents/mayor/overlay/empty"] == ("directory", None)
    assert after["template-fragments/tone.md"] == ("644", b"Be kind.\n")
    assert after["plain/inner"] == ("644", b"inside\n")
    assert after["packs/x/notes.txt"] == before["packs/x/notes.txt"]
    assert not {"prompts", "overlays"} & after.keys()
    assert (root / "agents/mayor/overlay/run.sh").stat().st_mtime_ns == 10**18
    assert (root / "template-fragments").stat().st_mode & 0o777 == 0o750
    saved = town(Path(backup, "old"))
    assert saved == {path: one for path, one in before.items() if path != "packs/x/notes.txt"}
    assert sorted(os.listdir(backup)) == ["made", "old"]
    assert recover(str(root)) is None


def test_the_way_back_takes_away_what_was_made_and_nothing_that_came_since(root: Path) -> None:
    before = town(root)
    backup = make(root)
    made = Path(backup, "made").read_text().split("\0")[:-1]
    assert {"agents/mayor/overlay/dangling", "plain/inner", "plain"} <= {*made}
    assert not {"city.toml", "packs/x"} & {*made}
    (root / "agents/clerk.md").write_text("mine\n")
    back = f"xargs -0 rm -d < {backup}/made; cp -a {backup}/old/. ."
    subprocess.run(["sh", "-c", back], cwd=root, capture_output=True, check=True)
    assert (root / "agents/clerk.md").read_text() == "mine\n"
    shutil.rmtree(root / "agents")
    assert town(root) == before


def test_what_the_check_refuses_never_happened(root: Path) -> None:
    before = town(root)
    with pytest.raises(ValueError, match="no"):
        make(root, check=refuse)
    assert town(root) == before
    assert (root / "prompts/shared").stat().st_mode & 0o777 == 0o750
    assert os.listdir(root / ".gc/backup") == []


def test_killed_at_any_moment_it_is_taken_back_or_done(root: Path) -> None:
    before = town(root)
    for at in count(1):
        with killed_at(at) as done:
            try:
                make(root)
                killed = False
            except Killed:
                killed = True
        if not killed:
            break
        assert (root / "city.toml").exists(), at
        begun = (root / UNFINISHED).exists()
        found = recover(str(root))
        assert (found is not None) == begun, at
        assert found is None or found.kept == (), at
        if town(root) != before:
            break
        assert not begun or os.listdir(root / ".gc/backup") == [], at
    assert done[0] > 60
    assert "agents/mayor/agent.toml" in town(root)
    assert recover(str(root)) is None


def test_taking_back_may_itself_be_killed_at_any_moment(root: Path) -> None:
    before = town(root)
    for at in count(1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transaction, "_undo_swaps", lambda *_: ())
            with pytest.raises(ValueError, match="no"):
                make(root, check=refuse)
        assert town(root) != before
        with killed_at(at):
            try:
                recover(str(root))
                killed = False
            except Killed:
                killed = True
        assert (root / "city.toml").exists(), at
        recover(str(root))
        assert town(root) == before, at
        if not killed:
            break
    assert at > 15


def test_a_change_after_one_that_was_killed_leaves_nothing_of_it(root: Path) -> None:
    with killed_at(30), pytest.raises(Killed):
        make(root)
    run_transaction(str(root), "step-2", pieces(), lambda: True, lambda: None)
    assert sorted(os.listdir(root / ".gc/backup")) == ["step-2"]


class TestAPersonWrites:
    def test_between_deciding_and_preparing(self, root: Path) -> None:
        before = town(root)
        with pytest.raises(ConcurrentChangeError):
            run_transaction(str(root), "step-1", pieces(), lambda: False, lambda: None)
        assert town(root) == before

    def test_while_it_is_prepared(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = transaction._write_journal

        def write(*arguments: object) -> None:
            (root / "prompts/mayor.md").write_text("Mine.\n")
            (root / "city.toml").write_text("# mine\n")
            real(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(transaction, "_write_journal", write)
        before = town(root)
        with pytest.raises(ConcurrentChangeError):
            make(root)
        mine = {"prompts/mayor.md": ("644", b"Mine.\n"), "city.toml": ("644", b"# mine\n")}
        assert town(root) == {**before, **mine}

    def test_after_it_happened_and_before_it_is_taken_back(self, root: Path) -> None:
        before = town(root)

        def meanwhile() -> None:
            (root / "agents/mayor/agent.toml").write_text("mine = 1\n")
            (root / "agents/mayor/new.txt").write_text("mine too\n")
            (root / "city.toml").write_text("# mine\n")
            (root / "prompts").mkdir()
            refuse()

        with pytest.raises(ValueError, match="no") as caught:
            make(root, check=meanwhile)
        assert town(root) == before
        home = ".gc/backup/step-1/aside/0"
        names = ("agents/mayor/agent.toml", "agents/mayor/new.txt", "city.toml")
        kept = ", ".join(f"{home}/{name}" for name in names)
        assert caught.value.__notes__ == [f"written since, and kept: {kept}"]
        assert (root / home / "agents/mayor/new.txt").read_text() == "mine too\n"
        assert town(root / ".gc/backup").keys() == {
            *(f"step-1/aside/0/{name}" for name in names),
            *("step-1", "step-1/aside", "step-1/aside/0"),
            *("step-1/aside/0/agents", "step-1/aside/0/agents/mayor"),
        }

    def test_at_a_place_that_was_free(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = transaction._write_journal

        def write(*arguments: object) -> None:
            build_tree(root, {"agents/mine/prompt.md": "mine\n"})
            real(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(transaction, "_write_journal", write)
        with pytest.raises(ConcurrentChangeError):
            make(root)
        assert (root / "agents/mine/prompt.md").read_text() == "mine\n"
        assert (root / "prompts/mayor.md").exists()
        assert os.listdir(root / ".gc/backup") == []


def test_a_later_piece_counts_and_two_files_may_swap_places(root: Path) -> None:
    wanted = [
        PathEdit("a/run", copy_of="overlays/all"),
        PathEdit("overlays"),
        PathEdit("a/run/run.sh", b"edited\n"),
        PathEdit("a/run/link", link="../elsewhere"),
        PathEdit("plain", copy_of="city.toml"),
        PathEdit("plain"),
        PathEdit("city.toml", copy_of="plain"),
        PathEdit("packs/x"),
        PathEdit("packs/x/new", b"alone\n"),
    ]
    make(root, wanted)
    after = town(root)
    assert after["a/run/run.sh"] == ("750", b"edited\n")
    assert after["a/run/link"] == ("link", "../elsewhere")
    assert after["plain"] == ("644", b"[[agent]]\n")
    assert after["city.toml"] == ("644", b"a file that becomes a directory\n")
    assert "overlays" not in after
    assert [path for path in after if path.startswith("packs/x/")] == ["packs/x/new"]


def test_where_files_cannot_have_two_names_it_works_all_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no")

    monkeypatch.setattr(os, "link", no_link)
    before = town(root)
    with pytest.raises(ValueError, match="no"):
        make(root, check=refuse)
    assert town(root) == before
    backup = make(root)
    assert town(root)["city.toml"] == ("640", b"# nothing\n")
    assert town(Path(backup, "old"))["city.toml"] == before["city.toml"]


@pytest.mark.parametrize("path", ["", "../x", "a/../b", ".gc/x", "a/.git/x", "/etc/x", "a//b"])
def test_odd_paths_are_refused(root: Path, path: str) -> None:
    before = town(root)
    with pytest.raises(OSError, match="this path cannot be changed"):
        make(root, [PathEdit(path, b"x")])
    assert town(root) == before


def test_no_link_is_followed(root: Path, tmp_path: Path) -> None:
    build_tree(tmp_path / "outside", {"x": "theirs\n"})
    (root / "agents").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="a parent directory is a symlink"):
        make(root)
    assert picture(tmp_path / "outside") == {"x": ("644", b"theirs\n")}


def test_a_directory_is_not_replaced_by_a_file_unasked(root: Path) -> None:
    with pytest.raises(IsADirectoryError):
        make(root, [PathEdit("prompts", b"x")])


def test_only_one_changes_a_city_at_a_time(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "_LOCK_TIMEOUT", 0.0)
    with city_lock(str(root)), pytest.raises(CityError) as caught:
        make(root)
    assert caught.value.problems[0].code == "city-busy"
    with monkeypatch.context() as patch:
        patch.setattr(transaction, "_undo_swaps", lambda *_: ())
        with pytest.raises(ValueError, match="no"):
            make(root, check=refuse)
    with city_lock(str(root)), pytest.raises(CityError):
        recover(str(root))
    assert recover(str(root)) is not None


def test_a_journal_that_is_none_is_named_and_nothing_is_touched(root: Path) -> None:
    build_tree(root, {UNFINISHED: "{}"})
    before = town(root)
    with pytest.raises(CityError) as caught:
        recover(str(root))
    assert caught.value.problems[0].code == "damaged-state"
    assert town(root) == before


def test_state_on_another_file_system_is_named(root: Path) -> None:
    places = [place for place in ("/dev/shm", "/tmp", "/var/tmp") if os.access(place, os.W_OK)]
    others = [place for place in places if os.stat(place).st_dev != root.stat().st_dev]
    if not others:
        pytest.skip("there is no second file system")
    with tempfile.TemporaryDirectory(dir=others[0]) as elsewhere:
        (root / ".gc").symlink_to(elsewhere)
        before = town(root)
        with pytest.raises(CityError) as caught:
            make(root)
    assert caught.value.problems[0].code == "other-file-system"
    assert town(root) == before


def test_a_pipe_is_not_copied(root: Path) -> None:
    os.mkfifo(root / "overlays/all/pipe")
    before = town(root)
    with pytest.raises(OSError, match="not a file, directory or symlink"):
        make(root)
    assert town(root) == before


class TestReplaceCityFiles:
    """The edits of commands: `agent rename`, `pack add`, `rig add`, `rig remove`."""

    def edit(self, root: Path, check: Callable[[], None] = lambda: None) -> None:
        contents = {str(root / "city.toml"): b"new\n", str(root / "packs/x/pack.toml"): b"new\n"}
        move = (str(root / "packs/x"), str(root / "packs/y"))
        replace_city_files(str(root), "rename", contents, move=move, check=check)

    def test_files_are_replaced_and_the_directory_is_moved(self, root: Path) -> None:
        self.edit(root)
        assert (root / "city.toml").read_text() == "new\n"
        assert not (root / "packs/x").exists()
        assert (root / "packs/y/pack.toml").read_text() == "new\n"
        assert (root / "packs/y/notes.txt").read_text() == "not touched\n"

    def test_no_backup_is_kept(self, root: Path) -> None:
        self.edit(root)
        assert list((root / ".gc/backup").iterdir()) == []

    def test_a_failed_check_restores_everything(self, root: Path) -> None:
        before = town(root)
        with pytest.raises(ValueError, match="no"):
            self.edit(root, refuse)
        assert town(root) == before
        assert recover(str(root)) is None

    def test_killed_at_any_moment_all_or_nothing_remains(self, root: Path) -> None:
        before = town(root)
        self.edit(root)
        after = town(root)
        for at in count(1):
            shutil.rmtree(root / ".gc", ignore_errors=True)
            for path in ("packs/y", "packs/x"):
                shutil.rmtree(root / path, ignore_errors=True)
            build_tree(
                root,
                {
                    "city.toml": "[[agent]]\n",
                    "packs/x/pack.toml": "old\n",
                    "packs/x/notes.txt": "not touched\n",
                },
            )
            assert town(root) == before
            try:
                with killed_at(at):
                    self.edit(root)
                break
            except Killed:
                recover(str(root))
            assert town(root) in (before, after), at
        assert at > 20  # it was killed at many points

    def test_a_symlink_stays_one_and_its_target_is_replaced(self, root: Path) -> None:
        outside = root.parent / "dotfiles.toml"
        outside.write_text("old\n")
        (root / "city.toml").unlink()
        (root / "city.toml").symlink_to(outside)
        self.edit(root)
        assert (root / "city.toml").is_symlink()
        assert outside.read_text() == "new\n"

    def test_a_failed_check_restores_a_file_outside_the_city(self, root: Path) -> None:
        outside = root.parent / "dotfiles.toml"
        outside.write_text("old\n")
        (root / "city.toml").unlink()
        (root / "city.toml").symlink_to(outside)
        with pytest.raises(ValueError, match="no"):
            self.edit(root, refuse)
        assert outside.read_text() == "old\n"
        assert (root / "packs/x/pack.toml").read_text() == "old\n"
