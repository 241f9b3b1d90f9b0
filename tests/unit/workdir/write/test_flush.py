"""Files of a tree are flushed to disk, many at once; an error names its file."""

import errno
import os
import threading
from pathlib import Path

import pytest

from gascity.workdir.write.flush import sync_paths, sync_tree


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The inodes that were flushed."""
    inodes: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda handle: inodes.add(os.fstat(handle).st_ino))
    return inodes


def _tree(top: Path, count: int) -> set[int]:
    """Write a directory with this many files; return all inodes."""
    (top / "below").mkdir(parents=True)
    files = [top / "below" / f"{number}" for number in range(count)]
    for file in files:
        file.write_text("text")
    (top / "link").symlink_to("absent")
    return {path.stat().st_ino for path in (top, top / "below", *files)}


@pytest.mark.parametrize("count", [1, 7, 8, 100])
def test_every_file_and_directory_is_flushed(tmp_path: Path, flushed: set[int], count: int) -> None:
    assert _tree(tmp_path / "tree", count) == (sync_tree(str(tmp_path / "tree")), flushed)[1]


@pytest.mark.parametrize("count", [3, 100])
def test_an_error_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    _tree(tmp_path / "tree", count)
    bad = tmp_path / "tree/below/2"

    def full(handle: int) -> None:
        if os.fstat(handle).st_ino == bad.stat().st_ino:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    running = threading.active_count()
    with pytest.raises(OSError, match="No space left") as raised:
        sync_tree(str(tmp_path / "tree"))
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(bad))
    assert threading.active_count() == running


def test_without_more_threads_everything_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[str] = []
    sync_paths(done.append, [str(number) for number in range(50)])
    assert len(done) == 50
