"""The rules of the Agent Skills format: what makes providers drop a skill is an error."""

import pytest

from gascity.model.problems import Problem
from gascity.model.skills import SkillText, is_skill_name, read_skill_text

FILE = "skills/knots/SKILL.md"


def check(front: str) -> SkillText:
    return read_skill_text("knots", f"---\n{front}\n---\nTie.\n", FILE)


def one_problem(front: str) -> tuple[Problem, tuple[str, str, int | None]]:
    (found,) = check(front).problems
    assert found.place is not None
    assert found.place.file == FILE
    return found, (found.severity, found.code, found.place.line)


SOUND = "name: knots\ndescription: Tie."


@pytest.mark.parametrize(
    "more",
    [
        "",
        "license: MIT",
        f"compatibility: {'x' * 500}",
        "metadata:\n  author: me\n  version: '1.0'",
        "allowed-tools: Bash(git:*) Read",
        "version: 1.0\ntriggers: [a, b]\nargument-hint: x",
        "license:\nmetadata:\nallowed-tools:",
    ],
    ids=["least", "license", "compatibility", "metadata", "tools", "unknown", "left-empty"],
)
def test_a_sound_skill_has_no_problems(more: str) -> None:
    assert check(f"{SOUND}\n{more}").problems == ()


def test_a_description_is_on_one_line_and_every_field_is_kept() -> None:
    found = check("name: knots\ndescription: |\n  Tie\n  it.\nlicense: MIT\n")
    assert found.description == "Tie it."
    assert found.fields == {"name": "knots", "description": "Tie\nit.\n", "license": "MIT"}


@pytest.mark.parametrize(
    ("front", "code", "line", "message"),
    [
        (
            "name: knots",
            "skill-without-description",
            1,
            "skill `knots` has no description",
        ),
        (
            "name: knots\ndescription: ' '",
            "skill-without-description",
            3,
            "skill `knots` has no description",
        ),
        ("description: Tie.", "skill-without-name", 1, "skill `knots` has no `name`"),
        ("name: ''\ndescription: Tie.", "skill-without-name", 2, "skill `knots` has no `name`"),
        (
            f"name: knots\ndescription: {'x' * 1025}",
            "skill-too-long",
            3,
            "`description` has 1,025 characters (limit 1,024)",
        ),
        (
            f"name: {'x' * 65}\ndescription: Tie.",
            "skill-too-long",
            2,
            "`name` has 65 characters (limit 64)",
        ),
        (
            "name: knots\ndescription: 12",
            "skill-field",
            3,
            "`description` should be a string, not a number",
        ),
        (
            "name: knots\ndescription:\n  use when: tying",
            "skill-field",
            3,
            "`description` should be a string, not a map",
        ),
        (
            "name: true\ndescription: T.",
            "skill-field",
            2,
            "`name` should be a string, not true or false",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("skill-") else None,
)
def test_what_makes_providers_drop_a_skill_is_an_error(
    front: str, code: str, line: int, message: str
) -> None:
    problem, found = one_problem(front)
    assert found == ("error", code, line)
    assert problem.message == message
    assert problem.hint


@pytest.mark.parametrize(
    ("front", "code", "line", "message"),
    [
        (
            "name: ties\ndescription: Tie.",
            "skill-name",
            2,
            "`name` is `ties`, but the directory is `knots`",
        ),
        ("name: Knots\ndescription: Tie.", "skill-name", 2, "`Knots` is not a valid skill name"),
        (
            "name: knots\ndescription: Tie: it.",
            "skill-not-yaml",
            3,
            "the front matter is not valid YAML: unquoted text contains `: `; "
            "put the text in quotes",
        ),
        (
            f"{SOUND}\nallowed-tools: [Read, Write]",
            "skill-field",
            4,
            "`allowed-tools` should be a string, not a list",
        ),
        (f"{SOUND}\nlicense: 2.0", "skill-field", 4, "`license` should be a string, not a number"),
        (
            f"{SOUND}\ncompatibility: [a]",
            "skill-field",
            4,
            "`compatibility` should be a string, not a list",
        ),
        (
            f"{SOUND}\ncompatibility: {'x' * 501}",
            "skill-too-long",
            4,
            "`compatibility` has 501 characters (limit 500)",
        ),
        (
            f"{SOUND}\nmetadata:\n  version: 1.0\n  author: me\n  tags: [a]",
            "skill-field",
            4,
            "`metadata` should contain only strings: `version`, `tags`",
        ),
        (
            f"{SOUND}\nmetadata: text",
            "skill-field",
            4,
            "`metadata` should be a map of strings, not a string",
        ),
        (
            f"{SOUND}\nlicense: !x MIT",
            "skill-field",
            4,
            "`license` should be a string, not a tagged or anchored value",
        ),
    ],
    ids=[
        "another-name",
        "upper-case",
        "not-yaml",
        "tools",
        "license",
        "compatibility",
        "too-long",
        "metadata-values",
        "metadata",
        "tag",
    ],
)
def test_anything_less_is_a_warning(front: str, code: str, line: int, message: str) -> None:
    problem, found = one_problem(front)
    assert found == ("warning", code, line)
    assert problem.message == message


def test_front_matter_read_by_line_is_not_checked_for_yaml_types() -> None:
    found = check(
        "name: knots\ndescription: Tie: it.\nmetadata:\n  version: 1\nallowed-tools:\n- a"
    )
    assert [problem.code for problem in found.problems] == ["skill-not-yaml"]
    assert found.description == "Tie: it."


def test_without_front_matter_there_is_one_error() -> None:
    found = read_skill_text("knots", "# Knots\n", FILE)
    assert (found.description, found.fields) == ("", {})
    (problem,) = found.problems
    assert (problem.severity, problem.code) == ("error", "skill-without-description")
    assert problem.message == "skill `knots` has no front matter and therefore no description"


def test_front_matter_that_is_not_closed_is_called_that() -> None:
    (problem,) = read_skill_text("knots", "---\nname: knots\n\nText.\n", FILE).problems
    assert problem.code == "skill-without-description"
    assert problem.message.startswith("the front matter of skill `knots` is not closed")
    assert problem.hint == "add a line `---` after its last field"


@pytest.mark.parametrize("name", ["a", "a-b", "7", "a1-b2", "x" * 64])
def test_names_of_skills(name: str) -> None:
    assert is_skill_name(name)


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "a--b", "A", "a_b", "a b", "a.b", "é", "crew.a", "x" * 65]
)
def test_what_is_no_name_of_a_skill(name: str) -> None:
    assert not is_skill_name(name)
