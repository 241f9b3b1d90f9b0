import os
from pathlib import Path

import pytest

from gascity.source.disk import MOST_BYTES, Disk, is_below


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (tmp_path / "city").mkdir()
    return Disk(str(tmp_path / "city"))


def write(disk: Disk, name: str, content: bytes = b"x") -> str:
    path = Path(disk.root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def codes(disk: Disk) -> list[str]:
    return [problem.code for problem in disk.problems]


def test_a_file_is_read_and_remembered(disk: Disk) -> None:
    path = write(disk, "a/b", b"\xff\x00")
    assert disk.read(path) == b"\xff\x00"
    assert disk.seen[path] is not None
    assert codes(disk) == []


def test_a_file_that_is_not_there_is_remembered_as_such(disk: Disk) -> None:
    path = f"{disk.root}/gone"
    assert disk.read(path) is None
    assert disk.seen[path] is None
    assert codes(disk) == []


def test_a_changed_file_has_another_stamp(disk: Disk) -> None:
    path = write(disk, "a")
    disk.read(path)
    before = disk.seen[path]
    write(disk, "a", b"longer")
    disk.read(path)
    assert disk.seen[path] != before


def test_content_can_be_tried_before_it_is_written(tmp_path: Path) -> None:
    disk = Disk(str(tmp_path), {f"{tmp_path}/a": b"tried"})
    assert disk.read(f"{tmp_path}/a") == b"tried"
    assert not (tmp_path / "a").exists()


def test_a_pipe_is_refused_and_never_waited_for(disk: Disk) -> None:
    os.mkfifo(f"{disk.root}/agent.toml")
    assert disk.read(f"{disk.root}/agent.toml") is None
    assert codes(disk) == ["not-a-file"]


def test_a_directory_is_no_file(disk: Disk) -> None:
    os.mkdir(f"{disk.root}/agent.toml")
    assert disk.read(f"{disk.root}/agent.toml") is None
    assert codes(disk) == ["not-a-file"]


def test_a_file_of_unreasonable_size_is_refused(disk: Disk) -> None:
    path = write(disk, "big")
    os.truncate(path, MOST_BYTES + 1)
    assert disk.read(path) is None
    assert codes(disk) == ["too-large"]
    os.truncate(path, MOST_BYTES)
    assert disk.read(path) is not None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_reported(disk: Disk) -> None:
    path = write(disk, "secret")
    os.chmod(path, 0)
    assert disk.read(path) is None
    assert codes(disk) == ["unreadable"]


def test_a_link_may_lead_anywhere_inside(disk: Disk) -> None:
    write(disk, "real", b"here")
    os.symlink("real", f"{disk.root}/link")
    assert disk.read(f"{disk.root}/link", within=disk.root) == b"here"
    assert codes(disk) == []


def test_a_link_out_is_refused(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    os.symlink("../secret", f"{disk.root}/link")
    assert disk.read(f"{disk.root}/link", within=disk.root) is None
    assert codes(disk) == ["link-leaves-pack"]


def test_a_link_to_a_link_out_is_refused(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    os.symlink("../secret", f"{disk.root}/second")
    os.symlink("second", f"{disk.root}/first")
    assert disk.read(f"{disk.root}/first", within=disk.root) is None
    assert codes(disk) == ["link-leaves-pack"]


def test_a_link_to_a_neighbour_of_like_name_is_refused(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "city-2").mkdir()
    (tmp_path / "city-2" / "secret").write_text("no")
    os.symlink("../city-2/secret", f"{disk.root}/link")
    assert disk.read(f"{disk.root}/link", within=disk.root) is None


def test_a_dangling_link_is_a_warning(disk: Disk) -> None:
    os.symlink("nowhere", f"{disk.root}/link")
    assert disk.read(f"{disk.root}/link", within=disk.root) is None
    (problem,) = disk.problems
    assert (problem.code, problem.is_error) == ("dangling-link", False)


def test_a_link_to_itself_is_reported_and_not_followed(disk: Disk) -> None:
    os.symlink("loop", f"{disk.root}/loop")
    assert disk.read(f"{disk.root}/loop", within=disk.root) is None
    assert codes(disk) == ["link-loop"]


def test_names_are_sorted(disk: Disk) -> None:
    for name in ("b", "a", "C"):
        write(disk, name)
    assert disk.names(disk.root) == ["C", "a", "b"]


def test_a_directory_that_is_not_there_has_no_names(disk: Disk) -> None:
    assert disk.names(f"{disk.root}/gone") == []
    assert codes(disk) == []


def test_a_file_in_place_of_a_directory_is_reported(disk: Disk) -> None:
    assert disk.names(write(disk, "agents")) == []
    assert codes(disk) == ["not-a-directory"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/c/town/agents/a", "agents/a"),
        ("/c/town", "."),
        ("/c/town-2/x", "/c/town-2/x"),
        ("/etc/x", "/etc/x"),
    ],
    ids=["inside", "the-root", "a-neighbour", "outside"],
)
def test_paths_are_shown_from_the_city(path: str, shown: str) -> None:
    disk = Disk("/c/town")
    assert disk.shown(path) == shown
    assert disk.absolute(shown) == path


def test_below_means_inside_or_the_same() -> None:
    assert is_below("/a/b", "/a/b")
    assert is_below("/a/b/c", "/a/b")
    assert is_below("/a", "/")
    assert not is_below("/a/bc", "/a/b")
    assert not is_below("/a", "/a/b")
