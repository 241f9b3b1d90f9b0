"""`city skill list [--agent A]`: names, descriptions, origins, and what is covered."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shapes import SKILL_LIST, TEXT, OneOf, fits
from tests.support.command import Command, Ran
from tests.support.trees import build_tree


def test_a_city_without_skills_says_so(run: Command, town: Callable[..., Path]) -> None:
    root = town()
    assert run("skill", "list", cwd=root) == Ran(0, "No skills.\n", "")
    assert run("skill", "list", "--json", cwd=root).json == {"schema": 1, "skills": []}


def test_every_skill_is_listed_with_its_origin_and_what_it_covers(
    in_harbour: Callable[..., Ran],
) -> None:
    assert in_harbour("skill", "list") == Ran(
        0,
        "3 skills:\n"
        "\n"
        "  knots   Tie it our way.\n"
        "          city: skills/knots\n"
        "          overrides packs/crew/skills/knots\n"
        "\n"
        "  tides   Read the tide table.\n"
        "          city: skills/tides\n"
        "\n"
        "  ledger  Write down who came and who left.\n"
        "          agent: agents/mayor/skills/ledger\n",
        "",
    )


@pytest.mark.parametrize(
    ("agent", "names"),
    [
        pytest.param("mayor", ["knots", "ledger", "tides"], id="own-skills-included"),
        pytest.param("clerk", ["knots", "tides"], id="not-another-agents"),
        pytest.param("dock/crew.pilot", ["knots", "tides"], id="imported"),
        pytest.param("shell", ["knots", "tides"], id="implicit"),
    ],
)
def test_an_agent_gets_the_shared_skills_and_its_own(
    in_harbour: Callable[..., Ran], agent: str, names: list[str]
) -> None:
    answer = in_harbour("skill", "list", "--agent", agent, "--json").json
    fits(answer, SKILL_LIST)
    assert [skill["name"] for skill in answer["skills"]] == names
    knots = answer["skills"][0]
    assert (knots["origin"], knots["path"], knots["shadows"]) == (
        "city",
        "skills/knots",
        ["packs/crew/skills/knots"],
    )


def test_origins_are_a_binding_the_city_or_the_agent(in_harbour: Callable[..., Ran]) -> None:
    answer = in_harbour("skill", "list", "--json").json
    fits(answer, SKILL_LIST)
    assert [(s["name"], s["origin"]) for s in answer["skills"]] == [
        ("knots", "city"),
        ("tides", "city"),
        ("ledger", "agent"),
    ]


def test_a_skill_of_a_rigs_import_has_its_binding_as_origin_and_reaches_that_rig_only(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(
        {
            "city.toml": '[[rigs]]\nname = "dock"\n[rigs.imports.crew]\nsource = "packs/crew"\n',
            "city.local.toml": '[[rigs]]\nname = "dock"\npath = "dock"\n',
            "dock/": "",
            "agents/mayor/prompt.md": "Mayor.\n",
            "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
            "packs/crew/skills/knots/SKILL.md": "---\nname: knots\ndescription: K.\n---\n",
        }
    )
    there = run("skill", "list", "--agent", "dock/mayor", "--json", cwd=root).json["skills"]
    assert [(skill["name"], skill["origin"]) for skill in there] == [("knots", "crew")]
    assert run("skill", "list", "--agent", "mayor", "--json", cwd=root).json["skills"] == []
    everything = run("skill", "list", "--json", cwd=root).json["skills"]
    assert [(skill["name"], skill["origin"]) for skill in everything] == [("knots", "crew")]


def test_a_filter_of_an_agent_narrows_its_skills(run: Command, harbour: Path) -> None:
    build_tree(
        harbour,
        {"agents/clerk/agent.toml": 'description = "x"\n[skills_filter]\nallow = ["ti*"]\n'},
    )
    answer = run("skill", "list", "--agent", "clerk", "--json", cwd=harbour).json
    found = {skill["name"]: (skill["status"], skill["reason"]) for skill in answer["skills"]}
    assert found == {
        "knots": ("skipped", "excluded by `skills_filter`"),
        "tides": ("ok", None),
    }


AGENT_SKILL = {**SKILL_LIST["skills"][0], "status": OneOf("ok", "skipped"), "reason": TEXT}


def test_an_agents_skills_have_a_sink_a_status_and_readers(in_harbour: Callable[..., Ran]) -> None:
    answer = in_harbour("skill", "list", "--agent", "clerk", "--json").json
    fits(answer, {"skills": [{**AGENT_SKILL, "readers": [str]}]})
    assert answer["skills"][0] == {
        "name": "knots",
        "description": "Tie it our way.",
        "origin": "city",
        "path": "skills/knots",
        "sink": ".agents/skills",
        "shadows": ["packs/crew/skills/knots"],
        "problems": [],
        "status": "ok",
        "reason": None,
        "readers": [],
    }


def test_a_provider_that_reads_no_skills_has_no_sink(in_harbour: Callable[..., Ran]) -> None:
    answer = in_harbour("skill", "list", "--agent", "shell", "--json").json
    found = {(skill["sink"], skill["status"], skill["reason"]) for skill in answer["skills"]}
    assert found == {(None, "skipped", "provider `shell` does not support skills")}
    assert in_harbour("skill", "list", "--agent", "shell").out.startswith(
        "0 skills, 2 skipped:\n\n  knots  Tie it our way.\n"
    )


SHARED = {
    "city.toml": "implicit_agents = false\n",
    "agents/mayor/prompt.md": "Mayor.\n",
    "agents/mayor/agent.toml": 'provider = "claude"\nwork_dir = "hall"\n',
    "agents/clerk/prompt.md": "Clerk.\n",
    "agents/clerk/agent.toml": 'provider = "opencode"\nwork_dir = "hall"\n',
    "agents/guard/prompt.md": "Guard.\n",
    "agents/guard/agent.toml": 'provider = "claude"\n',
    "skills/knots/SKILL.md": "---\nname: knots\ndescription: Tie.\n---\n",
    "skills/mute/SKILL.md": "---\nname: mute\n---\n",
}


def test_what_an_agent_gets_is_told_with_sink_skipped_ones_and_other_readers(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({**SHARED, "agents/mayor/skills/ledger/SKILL.md": "---\nname: l\n---\n"})
    build_tree(
        root, {"agents/mayor/skills/pen/SKILL.md": "---\nname: pen\ndescription: Write.\n---\n"}
    )
    assert run("skill", "list", "--agent", "mayor", cwd=root) == Ran(
        0,
        "2 skills in .claude/skills, 2 skipped:\n"
        "\n"
        "  knots   Tie.\n"
        "          city: skills/knots\n"
        "\n"
        "  ledger  (no description)\n"
        "          agent: agents/mayor/skills/ledger\n"
        "          skipped: skill `ledger` has no description\n"
        "\n"
        "  mute    (no description)\n"
        "          city: skills/mute\n"
        "          skipped: skill `mute` has no description\n"
        "\n"
        "  pen     Write.\n"
        "          agent: agents/mayor/skills/pen\n"
        "\n"
        "Also read by clerk.\n",
        "city: problems in ledger, mute; run `city skill check` for details\n",
    )
    guard = run("skill", "list", "--agent", "guard", "--json", cwd=root).json["skills"]
    assert [(skill["name"], skill["readers"]) for skill in guard] == [("knots", []), ("mute", [])]


def test_a_name_that_two_agents_of_one_sink_use_differently_is_skipped(
    run: Command, town: Callable[..., Path]
) -> None:
    own = "---\nname: knots\ndescription: Tie mine.\n---\n"
    root = town(
        {
            **SHARED,
            "agents/clerk/agent.toml": 'provider = "claude"\nwork_dir = "hall"\n',
            "agents/clerk/skills/knots/SKILL.md": own,
        }
    )
    for agent in ("mayor", "clerk"):
        answer = run("skill", "list", "--agent", agent, "--json", cwd=root).json
        knots = answer["skills"][0]
        assert (knots["status"], knots["reason"]) == (
            "skipped",
            "skill `knots` in .claude/skills differs between the agents that share it "
            "(`clerk`: agents/clerk/skills/knots; `mayor`: skills/knots)",
        )


def test_a_prompt_lists_only_what_the_agent_gets(run: Command, town: Callable[..., Path]) -> None:
    root = town({**SHARED, "agents/guard/prompt.template.md": '{{ template "skills" . }}\n'})
    (root / "agents/guard/prompt.md").unlink()
    assert run("agent", "emit", "guard", cwd=root).out == "Skills you have:\n- knots: Tie.\n"


def test_a_skill_without_its_file_is_listed_with_the_problem(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"skills/empty/notes.txt": "x\n", "skills/mute/SKILL.md": "No front matter.\n"})
    answer = run("skill", "list", "--json", cwd=root).json
    fits(answer, SKILL_LIST)
    found = {skill["name"]: skill["problems"] for skill in answer["skills"]}
    assert [problem["code"] for problem in found["empty"]] == ["skill-without-file"]
    assert [problem["code"] for problem in found["mute"]] == ["skill-without-description"]
    assert run("skill", "list", cwd=root).code == 0


@pytest.mark.parametrize(
    ("front", "description"),
    [
        ("description: plain words", "plain words"),
        ('description: "quoted: with colon"', "quoted: with colon"),
        ("description: unquoted: with colon", "unquoted: with colon"),
        ("description: 'it''s'", "it's"),
        ("description: >-\n  folded\n  lines", "folded lines"),
        ("description: |\n  several\n  lines", "several lines"),
    ],
    ids=["plain", "quoted", "colon", "single", "folded", "block"],
)
def test_front_matter_as_published_skills_write_it(
    run: Command, town: Callable[..., Path], front: str, description: str
) -> None:
    root = town({"skills/one/SKILL.md": f"---\nname: one\n{front}\n---\nText.\n"})
    (skill,) = run("skill", "list", "--json", cwd=root).json["skills"]
    assert skill["description"] == description


def test_an_unknown_agent_exits_1_with_suggestions(in_harbour: Callable[..., Ran]) -> None:
    assert in_harbour("skill", "list", "--agent", "mayro") == Ran(
        1,
        "",
        "city: error: there is no agent `mayro` [unknown-agent]\n  hint: did you mean `mayor`?\n",
    )
