"""`city skill promote`: from a project into the city, over nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import contents
from tests.cli.powerless import powerless
from tests.support.command import Command, Ran
from tests.support.trees import build_tree

SPLICE = "---\nname: splice\ndescription: Join two ropes.\n---\nJoin.\n"


@pytest.fixture
def dock(harbour: Path) -> Path:
    """A rig in which an agent has made a skill."""
    dock = harbour / "rigs/dock"
    build_tree(
        dock,
        {
            ".claude/skills/splice/SKILL.md": SPLICE,
            ".claude/skills/splice/scripts/join": "#!/bin/sh\n",
        },
    )
    (dock / ".claude/skills/splice/scripts/join").chmod(0o755)
    return dock


@pytest.fixture
def outside(dock: Path, tmp_path: Path) -> Path:
    """The same skill in a project that lies elsewhere."""
    (tmp_path / "yard").mkdir()
    (dock / ".claude").rename(tmp_path / "yard/.claude")
    return tmp_path / "yard"


@pytest.fixture
def promote(run: Command, harbour: Path) -> Callable[..., Ran]:
    def call(*arguments: str, cwd: Path = harbour) -> Ran:
        return run("--city", str(harbour), "skill", "promote", *arguments, cwd=cwd)

    return call


def test_a_skill_becomes_the_citys(
    promote: Callable[..., Ran], harbour: Path, outside: Path
) -> None:
    source = outside / ".claude/skills/splice"
    assert promote("splice", "--to", "city", cwd=outside) == Ran(
        0,
        f"skills/splice: 2 files copied from {source}\n"
        f"Next: remove {source}, so that `city apply` can replace it\n",
        "",
    )
    assert contents(harbour / "skills/splice") == contents(source)
    assert contents(harbour / "skills/splice")["scripts/join"] == ("0o755", b"#!/bin/sh\n")


def test_a_skill_becomes_an_agents_own(
    run: Command, promote: Callable[..., Ran], harbour: Path, dock: Path
) -> None:
    ran = promote("splice", "--to", "agent", "clerk", cwd=dock)
    assert ran == Ran(
        0,
        "agents/clerk/skills/splice: 2 files copied from rigs/dock/.claude/skills/splice\n"
        "Next: `city skill list`\n",
        "",
    )
    answer = run("skill", "list", "--agent", "clerk", "--json", cwd=harbour).json
    assert [skill["name"] for skill in answer["skills"]] == ["knots", "splice", "tides"]


def test_what_was_done_is_told_as_json(promote: Callable[..., Ran], dock: Path) -> None:
    assert promote("splice", "--to", "city", "--json", cwd=dock).json == {
        "schema": 1,
        "name": "splice",
        "path": "skills/splice",
        "from": "rigs/dock/.claude/skills/splice",
        "changed": ["skills/splice/SKILL.md", "skills/splice/scripts/join"],
        "problems": [],
    }


@pytest.mark.parametrize(
    "arguments",
    [("--rig", "dock"), ("--from", "rigs/dock"), ("--from", "rigs/dock/.claude/skills")],
    ids=" ".join,
)
@pytest.mark.usefixtures("dock")
def test_it_is_found_in_a_rig_or_a_directory_that_is_named(
    promote: Callable[..., Ran], harbour: Path, arguments: tuple[str, ...]
) -> None:
    assert promote("splice", "--to", "city", *arguments).code == 0
    assert (harbour / "skills/splice/SKILL.md").read_text() == SPLICE


@pytest.mark.parametrize(
    "place", [".agents/skills", ".codex/skills", ".kilocode/skills", ".github/skills", "skills"]
)
def test_it_is_found_wherever_a_provider_looks(
    promote: Callable[..., Ran], harbour: Path, tmp_path: Path, place: str
) -> None:
    build_tree(tmp_path, {f"yard/{place}/splice/SKILL.md": SPLICE})
    assert promote("splice", "--to", "city", cwd=tmp_path / "yard").code == 0
    assert (harbour / "skills/splice/SKILL.md").read_text() == SPLICE


def test_what_is_the_same_is_already_there(
    promote: Callable[..., Ran], harbour: Path, dock: Path
) -> None:
    promote("splice", "--to", "city", cwd=dock)
    before = contents(harbour)
    done = Ran(0, "skills/splice already exists\n", "")
    assert promote("splice", "--to", "city", cwd=dock) == done
    assert promote("splice", "--to", "city", "--rig", "dock") == done
    assert promote("splice", "--to", "city") == done, "the city's own, found in its root"
    assert promote("splice", "--to", "city", "--json", cwd=dock).json["changed"] == []
    assert contents(harbour) == before


def test_what_differs_is_shown_and_kept(
    promote: Callable[..., Ran], harbour: Path, dock: Path
) -> None:
    promote("splice", "--to", "city", cwd=dock)
    build_tree(dock, {".claude/skills/splice/SKILL.md": SPLICE + "More.\n"})
    before = contents(harbour)
    ran = promote("splice", "--to", "city", cwd=dock)
    diff = (
        "--- skills/splice/SKILL.md\n"
        "+++ rigs/dock/.claude/skills/splice/SKILL.md\n"
        "@@ -3,3 +3,4 @@\n"
        " description: Join two ropes.\n"
        " ---\n"
        " Join.\n"
        "+More.\n"
    )
    assert ran == Ran(
        1,
        diff,
        "city: error: skills/splice exists and differs [skill-exists]\n"
        "  hint: merge the differences by hand, or rename one of the skills\n",
    )
    named = promote("splice", "--to", "city", "--rig", "dock")
    assert named == ran, "the city's own, found in its root, is no second one"
    answer = promote("splice", "--to", "city", "--json", cwd=dock)
    assert (answer.code, answer.json["diff"]) == (1, diff)
    assert [problem["code"] for problem in answer.json["problems"]] == ["skill-exists"]
    assert contents(harbour) == before


def test_a_file_in_its_place_is_kept(
    promote: Callable[..., Ran], harbour: Path, dock: Path
) -> None:
    build_tree(harbour, {"skills/splice": "A person's.\n"})
    ran = promote("splice", "--to", "city", cwd=dock)
    assert (ran.code, "[skill-exists]" in ran.err) == (1, True)
    assert (harbour / "skills/splice").read_text() == "A person's.\n"


def test_a_name_that_differs_only_in_case_is_refused(
    promote: Callable[..., Ran], harbour: Path, dock: Path
) -> None:
    build_tree(harbour, {"skills/Splice/SKILL.md": SPLICE})
    ran = promote("splice", "--to", "city", cwd=dock)
    assert (ran.code, "[case-clash]" in ran.err) == (1, True)


def test_a_link_of_ours_is_the_citys_already(
    promote: Callable[..., Ran], harbour: Path, tmp_path: Path
) -> None:
    build_tree(tmp_path, {"yard/.claude/skills/": ""})
    link = tmp_path / "yard/.claude/skills/tides"
    link.symlink_to(harbour / "skills/tides")
    assert promote("tides", "--to", "city", cwd=tmp_path / "yard") == Ran(
        0, "skills/tides already exists\n", ""
    )
    assert promote("tides", "--to", "agent", "mayor", cwd=tmp_path / "yard") == Ran(
        1,
        "",
        f"{link}: error: `tides` is a symlink to skills/tides, a skill of the city "
        "[already-ours]\n"
        "  hint: copy that directory to have it elsewhere too\n",
    )
    assert not (harbour / "agents/mayor/skills/tides").exists()


def test_a_persons_own_version_is_taken_before_a_link_of_ours(
    promote: Callable[..., Ran], harbour: Path, tmp_path: Path
) -> None:
    text = "---\nname: tides\ndescription: Better.\n---\n"
    build_tree(tmp_path, {"yard/.agents/skills/tides/SKILL.md": text, "yard/.claude/skills/": ""})
    (tmp_path / "yard/.claude/skills/tides").symlink_to(harbour / "skills/tides")
    ran = promote("tides", "--to", "agent", "mayor", cwd=tmp_path / "yard")
    assert ran.code == 0
    assert (harbour / "agents/mayor/skills/tides/SKILL.md").read_text() == text


def test_a_link_inside_the_project_is_no_second_skill(
    promote: Callable[..., Ran], harbour: Path, outside: Path
) -> None:
    build_tree(outside, {".agents/": ""})
    (outside / ".agents/skills").symlink_to("../.claude/skills")
    assert promote("splice", "--to", "city", cwd=outside).code == 0
    assert (harbour / "skills/splice/SKILL.md").read_text() == SPLICE


def test_a_link_out_of_the_project_is_refused(
    promote: Callable[..., Ran], harbour: Path, tmp_path: Path
) -> None:
    build_tree(tmp_path, {"store/splice/SKILL.md": SPLICE, "yard/.claude/skills/": ""})
    (tmp_path / "yard/.claude/skills/splice").symlink_to(tmp_path / "store/splice")
    ran = promote("splice", "--to", "city", cwd=tmp_path / "yard")
    assert (ran.code, "[link-leaves-skill]" in ran.err) == (1, True)
    assert f"--from {tmp_path}/store copies it from there" in ran.err
    assert promote("splice", "--to", "city", "--from", str(tmp_path / "store")).code == 0
    assert (harbour / "skills/splice/SKILL.md").read_text() == SPLICE


def test_a_link_in_the_skill_that_leads_out_is_refused(
    promote: Callable[..., Ran], harbour: Path, dock: Path
) -> None:
    link = dock / ".claude/skills/splice/readme.md"
    link.symlink_to("../../../README.md")
    assert promote("splice", "--to", "city", cwd=dock) == Ran(
        1,
        "",
        f"{link}: error: the symlink leaves the skill: ../../../README.md "
        "[link-leaves-skill]\n"
        "  hint: replace it with the file: from the city it would point elsewhere\n",
    )
    assert not (harbour / "skills/splice").exists()


def test_a_skill_that_nobody_would_get_is_refused(
    promote: Callable[..., Ran], harbour: Path, dock: Path
) -> None:
    build_tree(dock, {".claude/skills/splice/SKILL.md": "---\nname: splice\n---\n"})
    ran = promote("splice", "--to", "city", cwd=dock)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("rigs/dock/.claude/skills/splice/SKILL.md:1:1: error: skill `splice`")
    assert not (harbour / "skills/splice").exists()


def test_a_warning_does_not_stop_it(promote: Callable[..., Ran], harbour: Path, dock: Path) -> None:
    text = "---\nname: Splice\ndescription: Join.\n---\n"
    build_tree(dock, {".claude/skills/splice/SKILL.md": text})
    ran = promote("splice", "--to", "city", cwd=dock)
    assert (ran.code, "warning" in ran.err, "[skill-name]" in ran.err) == (0, True, True)
    assert (harbour / "skills/splice/SKILL.md").read_text() == text


def test_two_skills_of_one_name_are_not_chosen_between(
    promote: Callable[..., Ran], harbour: Path, outside: Path
) -> None:
    build_tree(outside, {".agents/skills/splice/SKILL.md": SPLICE + "Other.\n"})
    assert promote("splice", "--to", "city", cwd=outside) == Ran(
        1,
        "",
        f"city: error: `splice` may mean {outside}/.agents/skills/splice, "
        f"{outside}/.claude/skills/splice [ambiguous-name]\n"
        "  hint: pass --from with the directory of one of them\n",
    )
    chosen = promote("splice", "--to", "city", "--from", ".agents/skills", cwd=outside)
    assert chosen.code == 0
    assert (harbour / "skills/splice/SKILL.md").read_text() == SPLICE + "Other.\n"


def test_two_of_one_content_are_one(promote: Callable[..., Ran], outside: Path) -> None:
    build_tree(outside, {".agents/skills/splice/SKILL.md": SPLICE})
    build_tree(outside, {".agents/skills/splice/scripts/join": "#!/bin/sh\n"})
    (outside / ".agents/skills/splice/scripts/join").chmod(0o755)
    assert promote("splice", "--to", "city", cwd=outside).code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("splcie", "--to", "city"),
            "there is no skill `splcie` [unknown-skill]\n  hint: did you mean `splice`?",
        ),
        (
            ("other", "--to", "city"),
            "there is no skill `other` [unknown-skill]\n"
            "  hint: pass --from DIR to search another directory, --rig NAME to search a rig",
        ),
        (
            ("splice", "--to", "agent", "clrek"),
            "there is no agent `clrek` [unknown-agent]\n  hint: did you mean `clerk`?",
        ),
        (
            ("splice", "--to", "agent", "crew.pilot"),
            "`dock/crew.pilot` is not defined by this city but in packs/crew/agents/pilot "
            "[not-your-agent]\n  hint: pass `--to city`; all agents get those skills",
        ),
        (
            ("splice", "--to", "city", "--rig", "dokc"),
            "there is no rig `dokc` [unknown-rig]\n  hint: did you mean `dock`?",
        ),
        (
            ("../splice", "--to", "city"),
            "invalid skill name `../splice` [bad-name]\n"
            "  hint: NAME is the name of the skill's directory",
        ),
    ],
    ids=["skill", "skill-like-none", "agent", "imported-agent", "rig", "path"],
)
def test_what_is_not_there_or_not_ours_is_refused(
    promote: Callable[..., Ran],
    harbour: Path,
    dock: Path,
    arguments: tuple[str, ...],
    problem: str,
) -> None:
    before = contents(harbour)
    assert promote(*arguments, cwd=dock) == Ran(1, "", f"city: error: {problem}\n")
    assert contents(harbour) == before


def test_a_rig_that_is_nowhere_and_a_directory_that_is_not_there_are_problems(
    promote: Callable[..., Ran], harbour: Path
) -> None:
    (harbour / "city.local.toml").unlink()
    assert "[rig-unbound]" in promote("splice", "--to", "city", "--rig", "dock").err
    assert "[not-a-directory]" in promote("splice", "--to", "city", "--from", "nowhere").err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("splice",), "Missing option '--to'"),
        (("splice", "--to", "agent"), "missing AGENT"),
        (("splice", "--to", "city", "clerk"), "`--to city` does not take an agent (`clerk`)"),
        (("splice", "--to", "rig"), "'rig' is not one of"),
        (("splice", "--to", "city", "--force"), "No such option"),
    ],
    ids=["no-target", "no-agent", "agent-too-much", "another-target", "force"],
)
def test_usage(
    promote: Callable[..., Ran], dock: Path, arguments: tuple[str, ...], message: str
) -> None:
    ran = promote(*arguments, cwd=dock)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_a_city_that_cannot_be_written_is_left_as_it_was(harbour: Path, dock: Path) -> None:
    (dock / ".claude/skills/splice/scripts").chmod(0o755)
    before = contents(harbour)
    (harbour / "skills").chmod(0o555)
    try:
        ran = powerless(
            "--city", str(harbour), "skill", "promote", "splice", "--to", "city", cwd=dock
        )
    finally:
        (harbour / "skills").chmod(0o755)
    assert ran.code == 1
    assert "[refused]" in ran.err
    assert contents(harbour) == before


def test_the_copy_keeps_links_that_stay_inside(
    promote: Callable[..., Ran], harbour: Path, dock: Path
) -> None:
    (dock / ".claude/skills/splice/again").symlink_to("scripts/join")
    assert promote("splice", "--to", "city", cwd=dock).code == 0
    assert os.readlink(harbour / "skills/splice/again") == "scripts/join"
