"""`city skill check` and `city skill show`: what a skill is, and what is wrong with it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shapes import PROBLEM, OneOf, fits
from tests.support.command import Command, Ran
from tests.support.trees import build_tree

RESULTS = {
    "results": [
        {
            "name": str,
            "path": str,
            "status": OneOf("ok", "warning", "error"),
            "problems": [PROBLEM],
        }
    ]
}

MINE = "---\nname: tides\ndescription: Mine.\n---\nRead.\n"


def test_a_city_whose_skills_are_sound_says_so(in_harbour: Callable[..., Ran]) -> None:
    assert in_harbour("skill", "check") == Ran(0, "4 skills: no problems\n", "")


def test_skills_of_city_imports_and_agents_are_checked_those_that_are_covered_too(
    in_harbour: Callable[..., Ran],
) -> None:
    answer = in_harbour("skill", "check", "--json").json
    fits(answer, RESULTS)
    assert [(one["path"], one["status"]) for one in answer["results"]] == [
        ("packs/crew/skills/knots", "ok"),
        ("skills/knots", "ok"),
        ("skills/tides", "ok"),
        ("agents/mayor/skills/ledger", "ok"),
    ]


@pytest.fixture
def faulty(harbour: Path) -> Path:
    return build_tree(
        harbour,
        {
            "packs/crew/skills/mute/SKILL.md": "---\nname: mute\n---\n",
            "skills/tides/SKILL.md": "---\nname: tides\ndescription: Use when: x\n---\n",
        },
    )


def test_everything_wrong_is_shown_at_its_place_and_an_error_exits_1(
    run: Command, faulty: Path
) -> None:
    assert run("skill", "check", cwd=faulty) == Ran(
        1,
        "5 skills: 1 error, 1 warning\n",
        "packs/crew/skills/mute/SKILL.md:1:1: error: "
        "skill `mute` has no description [skill-without-description]\n"
        "    ---\n"
        "    ^\n"
        "  hint: add `description:` to its front matter\n"
        "skills/tides/SKILL.md:3:1: warning: the front matter is not valid YAML: "
        "unquoted text contains `: `; put the text in quotes [skill-not-yaml]\n"
        "    description: Use when: x\n"
        "    ^\n"
        "  hint: it was read line by line; some providers ignore such a skill\n",
    )
    ran = run("skill", "check", "--json", cwd=faulty)
    assert (ran.code, ran.err) == (1, "")
    fits(ran.json, RESULTS)
    found = {one["path"]: one["status"] for one in ran.json["results"]}
    assert found["packs/crew/skills/mute"] == "error"
    assert found["skills/tides"] == "warning"


def test_skills_can_be_named(run: Command, faulty: Path) -> None:
    assert run("skill", "check", "ledger", "knots", cwd=faulty).out == "3 skills: no problems\n"
    ran = run("skill", "check", "tides", cwd=faulty)
    assert (ran.code, ran.out) == (0, "1 skill: 1 warning\n")


@pytest.mark.parametrize(
    "arguments",
    [("check", "tides", "tidse"), ("show", "tidse"), ("show", "tidse", "--agent", "mayor")],
    ids=" ".join,
)
def test_an_unknown_skill_exits_1_with_suggestions(
    in_harbour: Callable[..., Ran], arguments: tuple[str, ...]
) -> None:
    assert in_harbour("skill", *arguments) == Ran(
        1,
        "",
        "city: error: there is no skill `tidse` [unknown-skill]\n  hint: did you mean `tides`?\n",
    )


def test_a_skill_is_shown_with_its_fields_and_files(run: Command, harbour: Path) -> None:
    build_tree(
        harbour,
        {
            "skills/knots/SKILL.md": (
                "---\nname: knots\ndescription: Tie it our way.\nlicense: MIT\n"
                "metadata:\n  author: me\n---\nTie.\n"
            ),
            "skills/knots/scripts/tie": "#!/bin/sh\n" + "#" * 2000,
        },
    )
    (harbour / "skills/knots/scripts/tie").chmod(0o755)
    assert run("skill", "show", "knots", cwd=harbour) == Ran(
        0,
        "Skill:         knots\n"
        "Description:   Tie it our way.\n"
        "license:       MIT\n"
        "metadata:      author: me\n"
        "Origin:        city\n"
        "Path:          skills/knots\n"
        "Overrides:     packs/crew/skills/knots\n"
        "Files:         2\n"
        "  0644     90  SKILL.md\n"
        "  0755  2,010  scripts/tie\n"
        "── skills/knots/SKILL.md " + "─" * 55 + "\n"
        "---\nname: knots\ndescription: Tie it our way.\nlicense: MIT\n"
        "metadata:\n  author: me\n---\nTie.\n",
        "",
    )
    answer = run("skill", "show", "knots", "--json", cwd=harbour).json
    assert answer == {
        "schema": 1,
        "name": "knots",
        "description": "Tie it our way.",
        "origin": "city",
        "path": "skills/knots",
        "sink": None,
        "shadows": ["packs/crew/skills/knots"],
        "problems": [],
        "fields": {
            "name": "knots",
            "description": "Tie it our way.",
            "license": "MIT",
            "metadata": {"author": "me"},
        },
        "files": [
            {"path": "SKILL.md", "size": 90, "mode": "0644"},
            {"path": "scripts/tie", "size": 2010, "mode": "0755"},
        ],
        "text": (
            "---\nname: knots\ndescription: Tie it our way.\nlicense: MIT\n"
            "metadata:\n  author: me\n---\nTie.\n"
        ),
    }


def test_a_skill_is_shown_as_an_agent_has_it(run: Command, harbour: Path) -> None:
    build_tree(
        harbour,
        {
            "agents/mayor/skills/tides/SKILL.md": MINE,
            "agents/mayor/agent.toml": 'description = "x"\n[skills_filter]\ndeny = ["tides"]\n',
        },
    )
    ran = run("skill", "show", "tides", "--agent", "mayor", cwd=harbour)
    assert ran == Ran(
        0,
        "Skill:         tides\n"
        "Description:   Mine.\n"
        "Origin:        agent\n"
        "Path:          agents/mayor/skills/tides\n"
        "Overrides:     skills/tides\n"
        "Directory:     .claude/skills\n"
        "Skipped:       excluded by `skills_filter`\n"
        "Files:         1\n"
        "  0644  45  SKILL.md\n"
        "── agents/mayor/skills/tides/SKILL.md " + "─" * 42 + "\n" + MINE,
        "",
    )
    answer = run("skill", "show", "tides", "--agent", "mayor", "--json", cwd=harbour).json
    assert (answer["status"], answer["sink"]) == ("skipped", ".claude/skills")
    assert answer["text"] == MINE
    assert run("skill", "show", "tides", "--json", cwd=harbour).json["path"] == "skills/tides"


def test_a_broken_skill_is_shown_with_what_is_wrong_and_exits_1(run: Command, faulty: Path) -> None:
    ran = run("skill", "show", "mute", cwd=faulty)
    assert ran.code == 1
    assert ran.out.startswith("Skill:         mute\nDescription:   (none)\nOrigin:        crew\n")
    assert "[skill-without-description]" in ran.err


def test_a_name_that_only_agents_have_asks_whose(run: Command, harbour: Path) -> None:
    assert run("skill", "show", "ledger", cwd=harbour).code == 0
    text = "---\nname: ledger\ndescription: Mine.\n---\n"
    build_tree(harbour, {"agents/clerk/skills/ledger/SKILL.md": text})
    assert run("skill", "show", "ledger", cwd=harbour) == Ran(
        1,
        "",
        "city: error: `ledger` may mean agents/clerk/skills/ledger, agents/mayor/skills/ledger "
        "[ambiguous-name]\n"
        "  hint: pass --agent to select one\n",
    )
    answer = run("skill", "show", "ledger", "--agent", "clerk", "--json", cwd=harbour).json
    assert answer["path"] == "agents/clerk/skills/ledger"


def test_values_of_other_kinds_reach_json_as_they_are(run: Command, harbour: Path) -> None:
    front = "name: tides\ndescription: D.\ntags: [a, 1]\nx: !y z\nmetadata: {a: {b: true}}"
    build_tree(harbour, {"skills/tides/SKILL.md": f"---\n{front}\n---\n"})
    fields = run("skill", "show", "tides", "--json", cwd=harbour).json["fields"]
    assert (fields["tags"], fields["x"]) == (["a", 1], "!y z")
    assert fields["metadata"] == {"a": {"b": True}}
    out = run("skill", "show", "tides", cwd=harbour).out
    assert "tags:          a, 1\nx:             !y z\nmetadata:      a: b: True\n" in out


def test_what_a_file_holds_cannot_move_the_cursor(run: Command, harbour: Path) -> None:
    text = '---\nname: tides\ndescription: D.\nx: "\\e[2J"\n---\n\x1b[2Jgone\n'
    build_tree(harbour, {"skills/tides/SKILL.md": text})
    assert "\x1b" not in run("skill", "show", "tides", cwd=harbour).out


def test_a_skill_linked_from_outside_shows_nothing_of_it(
    run: Command, harbour: Path, tmp_path: Path
) -> None:
    build_tree(tmp_path, {"guest/SKILL.md": "---\nname: guest\ndescription: outside-words\n---\n"})
    (harbour / "skills/guest").symlink_to(tmp_path / "guest")
    ran = run("skill", "show", "guest", cwd=harbour)
    assert ran.code == 1
    assert "outside-words" not in ran.out
    assert "[link-leaves-pack]" in ran.err


@pytest.mark.parametrize("command", ["list", "show", "check", "promote"])
def test_every_command_explains_itself_in_80_columns(run: Command, command: str) -> None:
    ran = run("skill", command, "--help", env={"COLUMNS": "80"})
    assert (ran.code, ran.err) == (0, "")
    assert max(len(line) for line in ran.out.splitlines()) <= 80


@pytest.mark.parametrize(
    "arguments",
    [("show", "x"), ("check",), ("promote", "x", "--to", "city")],
    ids=" ".join,
)
def test_without_a_city_an_object_with_the_problem_is_printed(
    run: Command, arguments: tuple[str, ...]
) -> None:
    ran = run("skill", *arguments, "--json")
    assert (ran.code, ran.err) == (1, "")
    assert [problem["code"] for problem in ran.json["problems"]] == ["no-city"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("skill", "show", "k"), ["knots"]),
        (("skill", "check", "tides", "le"), ["ledger"]),
        (("skill", "show", ""), ["knots", "ledger", "tides"]),
        (("skill", "promote", "s"), ["splice"]),
        (("skill", "promote", "splice", "--to", "agent", "ma"), ["mayor"]),
    ],
    ids=lambda value: "-".join(value),
)
def test_names_of_skills_are_completed(
    run: Command, harbour: Path, words: tuple[str, ...], offered: list[str]
) -> None:
    build_tree(harbour, {".agents/skills/splice/SKILL.md": "x\n"})
    env = {
        "_CITY_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("city", *words)),
        "COMP_CWORD": str(len(words)),
    }
    ran = run(cwd=harbour, env=env)
    assert ran.err == ""
    assert ran.out.split() == [f"plain,{name}" for name in offered]


@pytest.mark.parametrize("command", ["show", "promote"])
def test_a_broken_city_completes_nothing_without_noise(
    run: Command, town: Callable[..., Path], command: str
) -> None:
    root = town({"city.toml": "oops\n"})
    words = f"city skill {command} k"
    env = {"_CITY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "3"}
    ran = run(cwd=root, env=env)
    assert (ran.out.strip(), ran.err) == ("", "")
