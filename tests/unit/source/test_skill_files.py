"""The files of a skill's directory, and skills as found on disk."""

import os
from pathlib import Path

import pytest

from gascity.source.catalogues import Skill, files_of, read_files, read_skill, read_skills
from gascity.source.disk import Disk
from tests.support.trees import build_tree

SOUND = "---\nname: knots\ndescription: Tie.\n---\n"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    build_tree(
        tmp_path,
        {
            "pack/skills/knots/SKILL.md": SOUND,
            "pack/skills/knots/scripts/run": "#!/bin/sh\n",
            "pack/skills/knots/.git/config": "x\n",
            "pack/skills/knots/.hidden": "x\n",
            "pack/shared/words.md": "Words.\n",
            "outside/secret": "x\n",
        },
    )
    (tmp_path / "pack/skills/knots/scripts/run").chmod(0o755)
    return tmp_path / "pack"


def knots(pack: Path) -> Skill:
    return read_skill(Disk(str(pack)), "knots", "skills/knots", ".")


def listed(pack: Path) -> dict[str, str]:
    files, _ = read_files(Disk(str(pack)), f"{pack}/skills/knots", str(pack))
    return {file.path: file.absolute.removeprefix(f"{pack}/") for file in files}


def codes(pack: Path) -> list[tuple[str, str]]:
    return [(problem.severity, problem.code) for problem in knots(pack).problems]


def test_files_have_their_mode_and_stamp_and_git_is_left_out(pack: Path) -> None:
    files, problems = read_files(Disk(str(pack)), f"{pack}/skills/knots", str(pack))
    assert [(file.path, file.mode) for file in files] == [
        (".hidden", 0o644),
        ("SKILL.md", 0o644),
        ("scripts/run", 0o755),
    ]
    found = os.stat(pack / "skills/knots/SKILL.md")
    stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
    assert files[1].stamp == stamp
    assert problems == ()


def test_the_lister_of_a_plan_knows_the_pack_of_each_skill(pack: Path) -> None:
    home = f"{pack}/skills/knots"
    lister = files_of(Disk(str(pack)), [(home, str(pack))])
    assert [file.path for file in lister(home)] == [".hidden", "SKILL.md", "scripts/run"]


def test_links_inside_the_pack_are_followed_to_where_they_lead(pack: Path) -> None:
    (pack / "skills/knots/words.md").symlink_to("../../shared/words.md")
    (pack / "skills/knots/all").symlink_to(pack / "shared")
    found = listed(pack)
    assert found["words.md"] == "shared/words.md"
    assert found["all/words.md"] == "shared/words.md"
    assert codes(pack) == []


@pytest.mark.parametrize("target", ["../../../outside/secret", "../../../outside"])
def test_a_link_out_of_the_pack_is_an_error_and_is_not_listed(pack: Path, target: str) -> None:
    (pack / "skills/knots/more").symlink_to(target)
    assert [path for path in listed(pack) if path.startswith("more")] == []
    skill = knots(pack)
    assert codes(pack) == [("error", "link-leaves-pack")]
    assert skill.broken
    assert skill.description == "Tie."


def test_a_link_in_a_circle_ends(pack: Path) -> None:
    (pack / "skills/knots/loop").symlink_to(".")
    assert codes(pack) == [("error", "link-loop")]


def test_a_link_to_nothing_and_a_pipe_are_warnings(pack: Path) -> None:
    (pack / "skills/knots/gone").symlink_to("nowhere")
    os.mkfifo(pack / "skills/knots/pipe")
    assert codes(pack) == [("warning", "dangling-link"), ("warning", "not-a-file")]
    assert {"gone", "pipe"}.isdisjoint(listed(pack))


def test_a_link_to_nothing_among_the_skills_is_a_warning(pack: Path) -> None:
    (pack / "skills/gone").symlink_to("nowhere")
    disk = Disk(str(pack))
    assert "gone" not in [skill.name for skill in read_skills(disk, "skills", "")]
    assert [(p.code, p.place and p.place.file) for p in disk.problems] == [
        ("dangling-link", "skills/gone")
    ]


def test_a_template_in_a_skill_is_a_warning_at_its_file(pack: Path) -> None:
    build_tree(pack, {"skills/knots/references/words.template.md": "{{ .X }}\n"})
    (problem,) = knots(pack).problems
    assert (problem.severity, problem.code) == ("warning", "skill-template")
    assert problem.place is not None
    assert problem.place.file == "skills/knots/references/words.template.md"


@pytest.mark.parametrize("spelling", ["skill.md", "Skill.md", "SKILL.MD"])
def test_only_one_spelling_of_the_file_is_read(pack: Path, spelling: str) -> None:
    (pack / "skills/knots/SKILL.md").rename(pack / "skills/knots" / spelling)
    (problem,) = knots(pack).problems
    assert (problem.severity, problem.code) == ("error", "skill-without-file")
    assert problem.message == f"skill `knots` has no SKILL.md: `{spelling}` is not read"
    assert problem.hint == f"rename skills/knots/{spelling}"


def test_a_file_that_is_a_link_to_nothing_is_no_file(pack: Path) -> None:
    (pack / "skills/knots/SKILL.md").unlink()
    (pack / "skills/knots/SKILL.md").symlink_to("nowhere")
    assert ("error", "skill-without-file") in codes(pack)


def test_problems_of_a_skill_do_not_stay_with_the_disk(pack: Path) -> None:
    (pack / "skills/knots/more").symlink_to("../../../outside")
    disk = Disk(str(pack))
    read_skill(disk, "knots", "skills/knots", ".")
    assert disk.problems == []


def test_every_directory_that_was_looked_at_is_remembered(pack: Path) -> None:
    disk = Disk(str(pack))
    read_skill(disk, "knots", "skills/knots", ".")
    assert {f"{pack}/skills/knots", f"{pack}/skills/knots/scripts"} <= set(disk.seen)
