"""Writes happen whole or not at all."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gascity import files
from gascity.files import (
    create_directory,
    create_file,
    locked,
    replace_file,
    replace_files,
    reuse_file,
)
from tests.support.trees import build_tree


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_new_file_is_made_with_its_directories(tmp_path: Path) -> None:
    path = tmp_path / "a/b/c.toml"
    assert create_file(str(path), b"new\n") is True
    assert path.read_bytes() == b"new\n"
    assert names(path.parent) == ["c.toml"]


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600], ids=oct)
def test_a_new_file_has_the_mode_that_was_asked_for(tmp_path: Path, mode: int) -> None:
    create_file(str(tmp_path / "x"), b"", mode)
    assert (tmp_path / "x").stat().st_mode & 0o777 == mode


def test_what_is_there_is_never_created_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine\n")
    (tmp_path / "directory").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("file", "directory", "dangling"):
        assert create_file(str(tmp_path / name), b"ours\n") is False
    assert (tmp_path / "file").read_text() == "mine\n"
    assert not (tmp_path / "nowhere").exists()
    assert names(tmp_path) == ["dangling", "directory", "file"]


def test_a_directory_is_created_with_all_its_files_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, data: bytes) -> bool:
        if path.endswith("/b"):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return create_file(path, data)

    path = tmp_path / "x"
    left = build_tree(tmp_path / ".x.city-new", {"old": "left by a killed process\n"})
    with monkeypatch.context() as patch:
        patch.setattr(files, "create_file", full)
        with pytest.raises(OSError, match="No space left") as error:
            create_directory(str(path), {"a": b"1", "b": b"2"})
    assert error.value.filename == str(path)
    assert names(tmp_path) == []
    build_tree(left, {"old": "left by a killed process\n"})
    create_directory(str(path), {"a": b"1", "b": b"2"})
    assert (names(tmp_path), names(path)) == (["x"], ["a", "b"])
    assert (path / "b").read_bytes() == b"2"


def test_a_directory_with_files_is_never_created_over(tmp_path: Path) -> None:
    build_tree(tmp_path / "x", {"mine": "mine\n"})
    with pytest.raises(OSError, match="not empty"):
        create_directory(str(tmp_path / "x"), {"a": b"1"})
    assert (names(tmp_path), names(tmp_path / "x")) == (["x"], ["mine"])


def test_replacing_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old\n")
    path.chmod(0o640)
    replace_file(str(path), b"new\n")
    assert path.read_bytes() == b"new\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["x"]


def test_replacing_through_a_link_changes_its_target_and_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old\n")
    (tmp_path / "link").symlink_to("real")
    replace_file(str(tmp_path / "link"), b"new\n")
    assert os.readlink(tmp_path / "link") == "real"
    assert (tmp_path / "real").read_bytes() == b"new\n"


def test_a_reader_sees_the_old_content_or_the_new_never_half(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old" * 1000)
    with path.open("rb") as reader:
        replace_file(str(path), b"new" * 1000)
        assert reader.read() == b"old" * 1000
    assert path.read_bytes() == b"new" * 1000


def test_several_files_are_replaced_together(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old a\n")
    replace_files({str(tmp_path / "a"): b"new a\n", str(tmp_path / "b"): b"new b\n"})
    assert {name: (tmp_path / name).read_text() for name in "ab"} == {
        "a": "new a\n",
        "b": "new b\n",
    }


def test_if_one_cannot_be_replaced_none_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old a\n")
    (tmp_path / "file").write_text("in the way\n")
    files = {
        str(tmp_path / "a"): b"new a\n",
        str(tmp_path / "fresh"): b"fresh\n",
        str(tmp_path / "file/below"): b"cannot be\n",
    }
    with pytest.raises(OSError):  # noqa: PT011
        replace_files(files)
    assert (tmp_path / "a").read_text() == "old a\n"
    assert names(tmp_path) == ["a", "file"]


def test_a_lock_is_waited_for_and_leaves_nothing_behind(tmp_path: Path) -> None:
    code = (
        "import fcntl, os, sys\n"
        "handle = os.open(sys.argv[1], os.O_RDONLY)\n"
        "fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with locked(str(tmp_path)):
        assert b"BlockingIOError" in subprocess.run(command, capture_output=True).stderr
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert names(tmp_path) == []


def test_a_lock_is_let_go_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), locked(str(tmp_path)):
        raise RuntimeError
    with locked(str(tmp_path)):
        assert names(tmp_path) == []


@pytest.mark.parametrize("before", [b"", b"short", b"longer than what comes after"])
def test_a_reused_file_has_only_its_new_name_and_content(tmp_path: Path, before: bytes) -> None:
    create_file(str(tmp_path / "old"), before, 0o600)
    inode = (tmp_path / "old").stat().st_ino
    file = reuse_file(str(tmp_path / "old"), str(tmp_path / "new"), b"of the new")
    assert file is not None
    assert os.read(file, 100) == b"of the new"
    os.close(file)
    assert names(tmp_path) == ["new"]
    assert (tmp_path / "new").read_bytes() == b"of the new"
    assert (tmp_path / "new").stat().st_ino == inode


def hard_link(path: Path) -> None:
    create_file(str(path), b"mine", 0o600)
    os.link(path, path.with_name("kept"))


def symlink(path: Path) -> None:
    create_file(str(path.with_name("kept")), b"mine", 0o600)
    path.symlink_to("kept")


def public(path: Path) -> None:
    create_file(str(path), b"mine", 0o644)


def pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def missing(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize("make", [hard_link, symlink, public, pipe, missing])
def test_only_a_private_file_without_another_name_is_reused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "old")
    before = names(tmp_path)
    assert reuse_file(str(tmp_path / "old"), str(tmp_path / "new"), b"of the new") is None
    assert names(tmp_path) == before
    assert "kept" not in before or (tmp_path / "kept").read_bytes() == b"mine"
