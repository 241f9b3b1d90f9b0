"""Commands list what an agent's project provides by itself, and what it hides or is hidden by."""

import sys
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.shapes import (
    AGENT_SHOW,
    AGENT_SKILLS,
    MCP_LIST,
    OVERLAY_LIST,
    PLAN,
    PROJECT_ITEM,
    fits,
)
from tests.support.git import commit, repository
from tests.support.planned_city import Town, server
from tests.support.projects import JSON_SERVER, SKILL, TYPICAL

TRACKER = 'name = "tracker"\ndescription = "Tickets."\ncommand = "tracker"\nargs = ["serve"]\n'
COMMANDS = {
    "agent show": (("agent", "show", "dock/dev"), AGENT_SHOW),
    "mcp list": (("mcp", "list", "--agent", "dock/dev"), MCP_LIST),
    "skill list": (("skill", "list", "--agent", "dock/dev"), AGENT_SKILLS),
    "overlay list": (("overlay", "list", "--agent", "dock/dev"), OVERLAY_LIST),
    "plan": (("plan", "dock/dev"), PLAN),
}


@pytest.fixture
def town(tmp_path: Path, git_here: None) -> Town:
    del git_here
    town = Town(tmp_path / "town")
    town.agent("dev", 'scope = "rig"')
    town.rig()
    return town


def typical(town: Town, **more: str) -> Path:
    return repository(town.root / "rigs/dock", {**TYPICAL, **more})


def items(town: Town, command: str = "agent show") -> dict[tuple[str, str], dict[str, Any]]:
    """Return what a command lists of the project, by kind and name."""
    answer = town.run(*COMMANDS[command][0], "--json").json
    rows = answer["agents"][0]["project"] if command == "plan" else answer["project"]
    return {(row["kind"], row["name"]): row for row in rows}


def codes(town: Town, *arguments: str) -> list[str]:
    return [problem["code"] for problem in town.run(*arguments, "--json").json["problems"]]


def kept(town: Town) -> list[str]:
    """Return the paths that `apply` kept, with the reasons."""
    (row,) = town.run("apply", "dock/dev", "--json").json["agents"]
    return [f"{step['path']}: {step['reason']}" for step in row["kept"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_json_of_a_command_has_the_projects_items(town: Town, command: str) -> None:
    typical(town)
    arguments, shape = COMMANDS[command]
    answer = town.run(*arguments, "--json").json
    fits(answer, shape)
    rows = answer["agents"][0]["project"] if command == "plan" else answer["project"]
    assert rows
    fits(rows, [PROJECT_ITEM])
    kinds = {row["kind"] for row in rows}
    everything = {"instructions", "server", "skill", "agent", "command", "settings"}
    assert kinds == {
        "mcp list": {"server"},
        "skill list": {"skill"},
        "overlay list": everything - {"server", "skill"},
    }.get(command, everything)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_agent_of_the_city_has_no_project(
    town: Town, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    typical(town)
    town.agent("mayor")
    arguments = [word.replace("dock/dev", "mayor") for word in COMMANDS[command][0]]
    monkeypatch.setitem(sys.modules, "gascity.workdir.project", None)  # cannot be imported
    answer = town.run(*arguments, "--json").json
    assert (answer["agents"][0] if command == "plan" else answer)["project"] == []


@pytest.mark.parametrize(
    "provider", ["claude", "codex", "copilot", "cursor", "gemini", "opencode", "qwen", "kilo"]
)
def test_a_typical_repository_comes_to_its_golden(
    town: Town, provider: str, snapshot: SnapshotAssertion
) -> None:
    typical(town)
    town.agent("dev", f'scope = "rig"\nprovider = "{provider}"')
    out = town.fine("agent", "show", "dock/dev").out
    assert out[out.index("From the project") : out.index("\nPrompt")] == snapshot


def test_a_project_without_such_files_is_not_mentioned(town: Town) -> None:
    repository(town.root / "rigs/dock")
    for arguments, _ in COMMANDS.values():
        assert "From the project" not in town.fine(*arguments).out


def test_untracked_files_are_not_in_a_worktree(town: Town) -> None:
    rig = repository(town.root / "rigs/dock", {"AGENTS.md": "x\n"})
    (rig / "CLAUDE.md").write_text("mine\n")
    assert list(items(town)) == [("instructions", "AGENTS.md")]
    town.agent("dev", 'scope = "rig"\nisolation = "none"')
    assert items(town)["instructions", "AGENTS.md"]["shadowed_by"] == "rigs/dock/CLAUDE.md"


def test_in_a_checkout_what_apply_wrote_is_not_the_projects(town: Town) -> None:
    typical(town)
    town.agent("dev", 'scope = "rig"\nisolation = "none"', **{"overlay/.claude/agents/own.md": "x"})
    town.write({"mcp/more.toml": server("more"), "skills/more/SKILL.md": SKILL.format("more")})
    before = items(town)
    town.fine("apply")
    assert items(town) == before


class TestSame:
    """What equals the project's own is not written."""

    def test_skills_servers_and_agent_files(self, town: Town) -> None:
        path = ".claude/agents/review.md"
        rig = typical(town)
        town.agent("dev", 'scope = "rig"', **{f"overlay/{path}": TYPICAL[path]})
        town.write({"skills/notes/SKILL.md": SKILL.format("notes"), "mcp/tracker.toml": TRACKER})
        rows = items(town, "plan")
        assert rows["skill", "notes"]["same_as"] == "skills/notes"
        assert rows["server", "tracker"]["same_as"] == "mcp/tracker.toml"
        assert rows["agent", "reviewer"]["same_as"] == f"agents/dev/overlay/{path}"
        expected = [
            ".claude/agents/review.md: same as the project's own",
            ".claude/skills/notes: same as the project's own",
            ".mcp.json: server `tracker`: same as the project's own",
        ]
        (row,) = town.rows("plan").values()
        steps = [f"{s['path']}: {s['reason']}" for s in row["steps"] if s["op"] == "keep"]
        assert steps == expected  # before the worktree exists, and after
        assert kept(town) == expected
        assert kept(town) == expected
        work = town.root / ".gc/worktrees/dock/dev"
        assert (work / ".mcp.json").read_text() == JSON_SERVER
        assert not (work / ".claude/skills/notes").is_symlink()
        assert codes(town, "check") == []
        (rig / ".claude/skills/notes/SKILL.md").write_text("changed in the checkout\n")
        assert kept(town) == expected  # the worktree is as it was

    def test_in_another_directory_that_the_provider_reads(self, town: Town) -> None:
        typical(town)
        town.agent("dev", 'scope = "rig"\nprovider = "copilot"')
        town.write({"skills/tides/SKILL.md": SKILL.format("tides"), "mcp/tracker.toml": TRACKER})
        assert items(town)["skill", "tides"]["same_as"] == "skills/tides"
        assert ".github/skills/tides: same as the project's own (.agents/skills/tides)" in kept(
            town
        )
        assert not (town.root / ".gc/worktrees/dock/dev/.github/skills/tides").exists()

    def test_a_skill_that_the_project_adds_later_replaces_the_link(self, town: Town) -> None:
        rig = repository(town.root / "rigs/dock")
        town.agent("dev", 'scope = "rig"\nprovider = "opencode"\nisolation = "none"')
        town.write({"skills/notes/SKILL.md": SKILL.format("notes")})
        town.fine("apply")
        assert (rig / ".opencode/skills/notes").is_symlink()
        commit(rig, {".claude/skills/notes/SKILL.md": SKILL.format("notes")})
        town.fine("apply")
        assert not (rig / ".opencode/skills/notes").exists()

    def test_what_was_imported_from_the_rig_is_not_written_into_it(self, town: Town) -> None:
        files = {path: TYPICAL[path] for path in (".mcp.json", ".claude/skills/notes/SKILL.md")}
        repository(town.root / "rigs/dock", {**files, "CLAUDE.md": "Careful.\n"})
        done = town.run("import", "rigs/dock", "--yes", "--json")
        assert (done.code, done.json["project"]) == (0, ["rigs/dock/CLAUDE.md"])
        assert kept(town) == [
            ".claude/skills/notes: same as the project's own",
            ".mcp.json: server `tracker`: same as the project's own",
        ]


class TestDifferent:
    """Equal names with different content: one of them hides the other."""

    def test_a_skill_of_the_city_is_hidden_which_is_a_warning(self, town: Town) -> None:
        typical(town)
        town.write({"skills/notes/SKILL.md": SKILL.format("notes") + "Otherwise.\n"})
        row = items(town)["skill", "notes"]
        assert row["shadows"] == ["skills/notes"]
        (problem,) = town.run("check", "--json").json["problems"]
        assert problem["severity"] == "warning"
        assert (problem["code"], problem["file"]) == ("hidden-by-project", "skills/notes")
        assert "rigs/dock/.claude/skills/notes/SKILL.md:1" in problem["message"]
        (planned,) = town.rows("plan").values()
        assert [p["code"] for p in planned["problems"]] == ["hidden-by-project"]
        assert "[hidden-by-project]" in town.fine("plan", "dock/dev").err

    def test_an_untracked_skill_hides_nothing(self, town: Town) -> None:
        rig = repository(town.root / "rigs/dock")
        (rig / ".claude/skills/notes").mkdir(parents=True)
        (rig / ".claude/skills/notes/SKILL.md").write_text(SKILL.format("notes") + "Mine.\n")
        town.write({"skills/notes/SKILL.md": SKILL.format("notes")})
        assert codes(town, "check") == []

    def test_a_server_of_the_city_replaces_the_projects(self, town: Town) -> None:
        typical(town)
        town.write({"mcp/tracker.toml": TRACKER.replace("serve", "other")})
        assert items(town)["server", "tracker"]["shadowed_by"] == "mcp/tracker.toml"
        assert codes(town, "check") == []

    def test_a_file_that_wins_hides_the_citys_server(self, town: Town) -> None:
        typical(town)
        town.agent("dev", 'scope = "rig"\nprovider = "copilot"')
        town.write({"mcp/tracker.toml": TRACKER.replace("serve", "other")})
        rows = town.run("mcp", "list", "--agent", "dock/dev", "--json").json["project"]
        assert {row["path"]: row["shadows"] for row in rows}["rigs/dock/.mcp.json"] == [
            "rigs/dock/.github/mcp.json",
            "mcp/tracker.toml",
        ]
        assert "hidden-by-project" in codes(town, "mcp", "list", "--agent", "dock/dev")

    def test_servers_at_launch_replace_all_of_the_project(self, town: Town) -> None:
        typical(town)
        town.agent("dev", 'scope = "rig"\nenv = { TOKEN = "s3cret" }')
        town.write({"mcp/web.template.toml": server("web", API_TOKEN="{{ .TOKEN }}")})
        answer = town.run("mcp", "list", "--agent", "dock/dev", "--json").json
        assert answer["delivery"] == "launch"
        (row,) = answer["project"]
        assert row["shadowed_by"] == ".gc/launch/dock/dev/mcp.json"
        assert "s3cret" not in str(answer)

    def test_an_overlay_covers_the_projects_file_in_a_worktree_only(self, town: Town) -> None:
        typical(town)
        files = {"overlay/CLAUDE.md": "ours\n"}
        town.agent("dev", 'scope = "rig"', **files)
        row = items(town, "overlay list")["instructions", "CLAUDE.md"]
        assert row["shadowed_by"] == "agents/dev/overlay/CLAUDE.md"
        town.agent("dev", 'scope = "rig"\nisolation = "none"', **files)
        row = items(town, "overlay list")["instructions", "CLAUDE.md"]
        assert "agents/dev/overlay/CLAUDE.md" in row["shadows"]

    def test_a_file_that_the_city_adds_may_be_read_instead(self, town: Town) -> None:
        repository(town.root / "rigs/dock", {"AGENTS.md": "x\n"})
        town.agent("dev", 'scope = "rig"', **{"overlay/CLAUDE.md": "ours\n"})
        row = items(town)["instructions", "AGENTS.md"]
        assert row["shadowed_by"] == "agents/dev/overlay/CLAUDE.md"


class TestBadProjects:
    def test_an_invalid_file_is_a_warning_in_check_and_breaks_no_agent(self, town: Town) -> None:
        repository(town.root / "rigs/dock", {".mcp.json": "{\n", "CLAUDE.md": "x\n"})
        done = town.run("check", "--json")
        (problem,) = done.json["problems"]
        assert (done.code, problem["code"]) == (0, "bad-project-file")
        assert (problem["file"], problem["line"]) == ("rigs/dock/.mcp.json", 1)
        for arguments, _ in COMMANDS.values():
            assert town.run(*arguments).code == 0

    def test_check_notices_when_the_project_changes(self, town: Town) -> None:
        rig = repository(town.root / "rigs/dock", {".mcp.json": "{}\n"})
        assert codes(town, "check") == []
        (rig / ".mcp.json").write_text("{")
        assert codes(town, "check") == ["bad-project-file"]

    def test_a_rig_without_a_directory_has_no_project(self, town: Town) -> None:
        assert items(town) == {}

    def test_a_control_character_in_a_name_is_not_printed(self, town: Town) -> None:
        name = '{"mcpServers": {"a\\u001b[31m": {"command": "x"}}}'
        repository(town.root / "rigs/dock", {".mcp.json": name})
        assert "\x1b" not in town.fine("agent", "show", "dock/dev").out


@pytest.mark.parametrize(
    ("provider", "path", "text"),
    [
        (
            "claude",
            ".claude/agents/rev.md",
            "---\nname: rev\ndescription: d\ntools: [Read]\n---\n\nYou review.\n",
        ),
        (
            "copilot",
            ".github/agents/rev.agent.md",
            "---\nname: Rev\ndescription: d\ntools: [read]\n---\nYou review.",
        ),
    ],
)
def test_an_imported_agent_that_means_the_same_as_the_projects_is_not_written(
    town: Town, provider: str, path: str, text: str
) -> None:
    repository(town.root / "rigs/dock", {path: text})
    town.fine("import", str(town.root / "rigs/dock"))
    town.agent("dev", f'scope = "rig"\nprovider = "{provider}"\nnative_subagents = ["rev"]')
    assert f"{path}: same as the project's own" in kept(town)
    assert items(town)["agent", "rev"]["same_as"] == "agents/rev"
