"""Agent files in working directories: a session's own agent, and native subagents."""

import json
from pathlib import Path

import pytest

from tests.cli.shapes import AGENT_SHOW, fits
from tests.support.planned_city import Town

COP = ".github/agents/cop.agent.md"


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path / "town")


def cop(town: Town, settings: str = "") -> Path:
    """Add the agent `cop` of Copilot; return the place of its file."""
    town.agent("cop", f'provider = "copilot"\n{settings}')
    return town.root / ".gc/work/cop" / COP


# A session's own agent


def test_an_own_agent_file_is_planned_applied_and_undone(town: Town) -> None:
    file = cop(town, '[tools]\nallow = ["read"]')
    plan = town.run("plan", "cop")
    assert f"write    {COP}  (generated)" in plan.out
    town.fine("apply", "cop")
    assert file.read_text() == (
        "---\nname: Cop\ndescription: Cop\ntools: ['read']\n---\nYou are cop.\n"
    )
    assert town.steps("cop") == []
    town.fine("undo", "cop")
    assert not file.exists()


def test_an_edited_own_agent_file_is_kept(town: Town) -> None:
    file = cop(town)
    town.fine("apply", "cop")
    file.write_text("mine\n")
    town.agent("cop", 'provider = "copilot"\ndescription = "new"')
    assert town.steps("cop") == [f"keep {COP}"]


def test_two_agents_of_one_directory_have_two_files(town: Town) -> None:
    for name in ("cop", "dog"):
        town.agent(name, 'provider = "copilot"\nwork_dir = "desk"')
    town.fine("apply")
    files = sorted(path.name for path in (town.root / "desk/.github/agents").iterdir())
    assert files == ["cop.agent.md", "dog.agent.md"]


def test_an_editor_gets_the_agent_file_too(town: Town) -> None:
    town.agent("cop", 'provider = "vscode"\n[tools]\nallow = ["read", "shell"]')
    town.fine("apply", "cop")
    assert "tools: ['read', 'execute']" in (town.root / ".gc/work/cop" / COP).read_text()


# Native subagents


def team(town: Town, provider: str = "claude", more: str = "") -> None:
    """Add a lead with two reviewers as its subagents."""
    town.agent("lead", f'provider = "{provider}"\nnative_subagents = ["review*"]\n{more}')
    town.agent("reviewer", 'provider = "codex"\nmodel = "gpt-5.5"\ndescription = "Reviews."')
    town.agent("review-all", 'description = "Reviews all."\n[tools]\nallow = ["read"]')


def test_subagents_are_written_next_to_their_caller(town: Town) -> None:
    team(town)
    town.fine("apply", "lead")
    home = town.root / ".gc/work/lead/.claude/agents"
    assert sorted(path.name for path in home.iterdir()) == ["review-all.md", "reviewer.md"]
    assert "tools: Read\n" in (home / "review-all.md").read_text()
    assert "model: inherit\n" in (home / "reviewer.md").read_text()
    assert "model: gpt" not in (home / "reviewer.md").read_text()


def test_a_subagent_has_the_tools_of_its_own_provider_in_the_words_of_its_caller(
    town: Town,
) -> None:
    town.agent("lead", 'provider = "copilot"\nnative_subagents = ["scout"]')
    town.agent("scout", 'provider = "claude"\n[tools]\nallow = ["Read", "Grep"]')
    town.fine("apply", "lead")
    file = town.root / ".gc/work/lead/.github/agents/scout.agent.md"
    assert "tools: ['read', 'search']\n" in file.read_text()


def test_show_lists_subagents_and_what_their_files_leave_out(town: Town) -> None:
    team(town)
    done = town.run("agent", "show", "lead", "--json")
    fits(done.json, AGENT_SHOW)
    assert done.json["subagents"] == [
        {"name": "review-all", "file": ".claude/agents/review-all.md", "left_out": []},
        {
            "name": "reviewer",
            "file": ".claude/agents/reviewer.md",
            "left_out": [{"key": "model", "reason": "Claude Code does not know the model"}],
        },
    ]
    text = town.run("agent", "show", "lead").out
    assert "Subagents:\n  review-all  .claude/agents/review-all.md\n" in text
    assert "    left out: model gpt-5.5 (Claude Code does not know the model)" in text
    assert town.run("agent", "show", "reviewer", "--json").json["subagents"] == []


def test_hidden_primary_container_and_broken_agents_are_no_subagents(town: Town) -> None:
    town.agent("lead", 'native_subagents = ["x-*"]')
    town.agent("x-hidden", "hidden = true")
    town.agent("x-primary", 'mode = "primary"')
    town.agent("x-box", 'execution = "container"')
    town.agent("x-broken", **{"prompt.template.md": "{{ .Nothing }}\n"})
    (town.root / "agents/x-broken/prompt.md").unlink()
    town.agent("x-denied")
    town.agent("lead", 'native_subagents = ["x-*"]\n[agents_filter]\ndeny = ["x-denied"]')
    rows = town.run("agent", "show", "lead", "--json").json["subagents"]
    assert [(row["name"], row["file"], row["left_out"][0]["reason"]) for row in rows] == [
        ("x-box", None, "it runs in a container"),
        ("x-broken", None, "its prompt cannot be rendered"),
    ]


def test_a_changed_subagent_is_drift_of_its_caller(town: Town) -> None:
    team(town)
    town.fine("apply", "lead")
    assert town.steps("lead") == []
    town.write({"agents/reviewer/prompt.md": "Review twice.\n"})
    assert town.steps("lead") == ["write .claude/agents/reviewer.md"]
    town.fine("apply", "lead")
    town.write({"agents/lead/agent.toml": 'provider = "claude"\n'})
    assert town.steps("lead") == [
        "remove .claude/agents/review-all.md",
        "remove .claude/agents/reviewer.md",
    ]


def test_two_agents_with_one_file_name_are_an_error(town: Town) -> None:
    town.agent("lead", 'native_subagents = ["*"]')
    town.agent("a--b")
    with (town.root / "city.toml").open("a") as file:
        file.write('[imports.a]\nsource = "packs/a"\n')
    town.write({"packs/a/pack.toml": '[pack]\nname = "a"\n', "packs/a/agents/b/prompt.md": "B.\n"})
    done = town.run("plan", "lead", "--json")
    assert done.code == 1
    (problem,) = [p for row in done.json["agents"] for p in row["problems"]]
    assert problem["code"] == "name-clash"
    assert "`a--b` and `a.b`" in problem["message"] or "`a.b` and `a--b`" in problem["message"]


def test_a_limit_that_a_subagent_file_cannot_carry_is_reported(town: Town) -> None:
    team(town, "codex")
    (problem,) = town.rows("plan", "lead", "--json")["lead"]["problems"]
    assert (problem["code"], problem["severity"]) == ("unenforceable-scope", "warning")
    with (town.root / "city.toml").open("a") as file:
        file.write("[security]\nrequire_enforcement = true\n")
    assert town.run("plan", "lead", "--json").code == 1


def test_a_pattern_that_matches_no_agent_is_reported(town: Town) -> None:
    team(town, more="")
    town.agent("lead", 'native_subagents = ["reviewr"]')
    done = town.run("check", "--json")
    (problem,) = [p for p in done.json["problems"] if p["code"] == "dead-pattern"]
    assert problem["message"] == "`reviewr` matches no agent"
    assert problem["hint"] == "did you mean `reviewer`?"


# Settings that a provider does not take


@pytest.mark.parametrize(
    ("provider", "settings", "ignored"),
    [
        ("claude", "temperature = 1\nsteps = 2", ["temperature"]),
        ("opencode", "temperature = 1\ntop_p = 1\nsteps = 2\noptions = { x = 1 }", []),
        ("gemini", 'steps = 2\nvariant = "high"', ["steps", "variant"]),
        ("claude", 'variant = "high"\ncolor = "red"', []),
        ("claude", "options = { x = 1 }", ["options"]),
        ("amp", 'native_subagents = ["lead"]', ["native_subagents"]),
        ("gemini", 'native_subagents = ["lead"]', ["native_subagents"]),  # until they are approved
        ("claude", 'native_subagents = ["lead"]', []),
    ],
)
def test_a_setting_without_effect_is_reported(
    town: Town, provider: str, settings: str, ignored: list[str]
) -> None:
    town.agent("lead")
    town.agent("cop", f'provider = "{provider}"\n{settings}')
    problems = town.run("check", "--json").json["problems"]
    found = [p["message"].split("`")[1] for p in problems if p["code"] == "not-acted-on"]
    assert found == ignored


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("temperature = 2.5", "should be at most 2, not 2.5"),
        ("top_p = 1.1", "should be at most 1, not 1.1"),
        ("steps = 0", "should be at least 1, not 0"),
        ('color = "#12"', 'should be "#rrggbb" or a word, not "#12"'),
        ('color = "light red"', 'should be "#rrggbb" or a word, not "light red"'),
        ('native_subagents = "x"', "should be a list of strings"),
    ],
)
def test_values_out_of_range_are_errors(town: Town, line: str, message: str) -> None:
    town.agent("cop", line)
    done = town.run("check", "--json")
    assert done.code == 1
    assert any(message in problem["message"] for problem in done.json["problems"]), json.dumps(
        done.json["problems"]
    )
