"""Changes in directories, reported by inotify and by polling."""

import os
import select
from pathlib import Path

import pytest

from gascity.watch import WRITES, InotifyWatch, Watch, open_watch
from tests.support.without_linux import ADAPTERS


@pytest.fixture(params=ADAPTERS, autouse=True)
def adapter(request: pytest.FixtureRequest) -> None:
    assert isinstance(open_watch(), InotifyWatch) == (request.param == "linux")


def changed_paths(watch: Watch) -> set[str]:
    """Wait for a change and return the changed paths."""
    watch.look()
    assert select.select([watch.fd], [], [], 5)[0]
    return watch.read()


def test_creation_change_and_deletion_of_a_file_are_reported(tmp_path: Path) -> None:
    watch = open_watch()
    watch.add(str(tmp_path))
    file = tmp_path / "a"
    for deed in (file.touch, lambda: file.write_text("x"), file.unlink):
        deed()
        assert changed_paths(watch) == {str(file)}
    watch.close()


def test_only_watched_directories_are_reported(tmp_path: Path) -> None:
    watch = open_watch()
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    watch.add(str(one))
    watch.set_directories([str(two)])
    (one / "a").touch()
    (two / "b").touch()
    assert changed_paths(watch) == {str(two / "b")}
    watch.close()


def test_a_missing_directory_is_ignored(tmp_path: Path) -> None:
    watch = open_watch()
    watch.add(str(tmp_path / "nowhere"))
    watch.add(os.fsdecode(b"/tmp/\xff-not-text"))
    assert watch.read() == set()
    watch.close()


def test_a_recreated_directory_can_be_watched_again(tmp_path: Path) -> None:
    watch = open_watch()
    place = tmp_path / "place"
    place.mkdir()
    watch.add(str(place))
    place.rmdir()
    changed_paths(watch)
    place.mkdir()
    watch.set_directories([str(place)])
    (place / "a").touch()
    assert str(place / "a") in changed_paths(watch)
    watch.close()


def test_a_watch_can_be_limited_to_writes(tmp_path: Path) -> None:
    watch = open_watch()
    watch.add(str(tmp_path), WRITES)
    (tmp_path / "a").touch()
    assert watch.read() == set()
    (tmp_path / "a").write_text("x")
    assert changed_paths(watch) == {str(tmp_path / "a")}
    watch.close()
