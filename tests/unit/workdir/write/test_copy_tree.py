"""A directory is taken in whole or not at all, as it is, and over nothing."""

import os
from pathlib import Path

import pytest

from gascity.workdir.write import copy_tree
from gascity.workdir.write.copy_tree import differences, import_tree, scan_tree
from tests.support.trees import build_tree


@pytest.fixture
def made(tmp_path: Path) -> Path:
    build_tree(
        tmp_path / "made",
        {
            "SKILL.md": "---\nname: made\n---\nOne.\nTwo.\n",
            "scripts/run": "#!/bin/sh\n",
            "assets/empty/": "",
            "assets/logo.png": b"\x89PNG\x00\xff",
            ".git/config": "x\n",
        },
    )
    (tmp_path / "made/scripts/run").chmod(0o755)
    (tmp_path / "made/scripts/again").symlink_to("run")
    return tmp_path / "made"


def taken_in(made: Path) -> Path:
    root = made.parent / "city"
    root.mkdir(exist_ok=True)
    import_tree(scan_tree(str(made)), str(root / "skills/made"), str(root))
    return root / "skills/made"


def compared(old: Path, new: Path) -> list[str]:
    return list(differences(scan_tree(str(old)), scan_tree(str(new)), "old", "new"))


def test_files_modes_links_and_directories_are_kept_and_git_is_not(made: Path) -> None:
    (made / "scripts").chmod(0o700)
    usual = os.umask(0o077)
    try:
        target = taken_in(made)
    finally:
        os.umask(usual)
    assert compared(target, made) == []
    assert scan_tree(str(target)).items == scan_tree(str(made)).items
    assert os.stat(target / "scripts/run").st_mode & 0o777 == 0o755
    assert os.readlink(target / "scripts/again") == "run"
    assert (target / "assets/empty").is_dir()
    assert not (target / ".git").exists()
    assert os.listdir(target.parent) == ["made"]


def test_nothing_is_left_when_a_copy_fails_half_way(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = copy_tree._copy_file
    copied = []

    def fail_at_the_second(source: str, target: str, mode: int) -> None:
        copied.append(source)
        if len(copied) == 2:
            raise OSError(28, "No space left on device", target)
        real(source, target, mode)

    monkeypatch.setattr(copy_tree, "_copy_file", fail_at_the_second)
    with pytest.raises(OSError, match="No space left"):
        taken_in(made)
    assert list((made.parent / "city").iterdir()) == []


def test_what_a_killed_process_of_our_number_left_is_no_hindrance(made: Path) -> None:
    build_tree(made.parent, {f"city/skills/.made.city-{os.getpid()}/SKILL.md": "Half.\n"})
    target = taken_in(made)
    assert compared(target, made) == []
    assert os.listdir(target.parent) == ["made"]


def test_a_link_on_the_way_is_refused(made: Path, tmp_path: Path) -> None:
    build_tree(tmp_path, {"city/": "", "elsewhere/": ""})
    (tmp_path / "city/skills").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="a parent directory is a symlink"):
        taken_in(made)
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("target", ["../other", "/etc/passwd", "same/../../../x"])
def test_a_link_that_leads_out_is_a_problem(made: Path, target: str) -> None:
    (made / "same").symlink_to(".")
    (made / "scripts/out").symlink_to(target.replace("../other", "../../other"))
    (problem,) = scan_tree(str(made)).problems[-1:]
    assert problem.code == "link-leaves-skill"
    assert problem.place is not None
    assert problem.place.file == f"{made}/scripts/out"


def test_an_absolute_link_into_itself_would_lead_back_and_is_a_problem(made: Path) -> None:
    (made / "here").symlink_to(made / "SKILL.md")
    assert [p.code for p in scan_tree(str(made)).problems] == ["link-leaves-skill"]


def test_a_pipe_is_a_problem(made: Path) -> None:
    os.mkfifo(made / "pipe")
    assert [p.code for p in scan_tree(str(made)).problems] == ["not-a-file"]


def test_differences_are_a_unified_diff(made: Path) -> None:
    target = taken_in(made)
    build_tree(
        made,
        {
            "SKILL.md": "---\nname: made\n---\nOne.\n2.",
            "new.md": "New.\n",
            "assets/logo.png": b"\0",
        },
    )
    (made / "scripts/run").chmod(0o644)
    (made / "scripts/again").unlink()
    assert compared(target, made) == [
        "--- old/SKILL.md",
        "+++ new/SKILL.md",
        "@@ -2,4 +2,5 @@",
        " name: made",
        " ---",
        " One.",
        "-Two.",
        "+2.",
        "+\\ No newline at end of file",
        "Binary files old/assets/logo.png and new/assets/logo.png differ",
        "--- /dev/null",
        "+++ new/new.md",
        "@@ -0,0 +1 @@",
        "+New.",
        "--- old/scripts/again",
        "+++ /dev/null",
        "@@ -1 +0,0 @@",
        "-link to run",
        "mode of scripts/run: 0755, and 0644 in new",
    ]


def test_a_file_where_a_directory_was_is_said_so(made: Path) -> None:
    target = taken_in(made)
    (made / "assets/empty").rmdir()
    (made / "assets/empty").write_text("x\n")
    assert compared(target, made) == ["assets/empty is a directory in old and a file in new"]


def test_modes_count_only_as_far_as_a_file_can_be_run(made: Path) -> None:
    target = taken_in(made)
    (made / "SKILL.md").chmod(0o600)
    (made / "scripts/run").chmod(0o700)
    (made / "assets/empty").rmdir()
    assert compared(target, made) == []
