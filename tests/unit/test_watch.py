"""Being told of changes by the kernel."""

import os
import select
from pathlib import Path

from gascity.watch import WRITES, Watch


def told(watch: Watch) -> set[str]:
    """What is heard once there is something to hear."""
    assert select.select([watch.fd], [], [], 5)[0]
    return watch.read()


def test_a_file_that_comes_changes_and_goes_is_told(tmp_path: Path) -> None:
    watch = Watch()
    watch.add(str(tmp_path))
    file = tmp_path / "a"
    for deed in (file.touch, lambda: file.write_text("x"), file.unlink):
        deed()
        assert told(watch) == {str(file)}
    watch.close()


def test_only_what_is_watched_is_told(tmp_path: Path) -> None:
    watch = Watch()
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    watch.add(str(one))
    watch.only([str(two)])
    (one / "a").touch()
    (two / "b").touch()
    assert told(watch) == {str(two / "b")}
    watch.close()


def test_a_directory_that_is_not_there_is_let_pass(tmp_path: Path) -> None:
    watch = Watch()
    watch.add(str(tmp_path / "nowhere"))
    watch.add(os.fsdecode(b"/tmp/\xff-not-text"))
    assert watch.read() == set()
    watch.close()


def test_a_directory_that_was_made_anew_can_be_watched_again(tmp_path: Path) -> None:
    watch = Watch()
    place = tmp_path / "place"
    place.mkdir()
    watch.add(str(place))
    place.rmdir()
    told(watch)
    place.mkdir()
    watch.only([str(place)])
    (place / "a").touch()
    assert str(place / "a") in told(watch)
    watch.close()


def test_writes_alone_can_be_asked_for(tmp_path: Path) -> None:
    watch = Watch()
    watch.add(str(tmp_path), WRITES)
    (tmp_path / "a").touch()
    assert watch.read() == set()
    (tmp_path / "a").write_text("x")
    assert told(watch) == {str(tmp_path / "a")}
    watch.close()
