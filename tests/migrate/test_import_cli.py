"""`city import` and `city migrate --from`: plan, conflicts, limits, and all or nothing."""

import json
import os
from pathlib import Path

import pytest

from gascity_migrate import import_cli
from gascity_migrate.importers import source
from tests.cli.terminal import on_terminal
from tests.support.in_process import InProcess
from tests.support.snapshots import picture
from tests.support.trees import build_tree

REVIEWER = "---\nname: reviewer\ndescription: Reviews\n---\nYou review.\n"
SERVER = '{"mcpServers": {"docs": {"url": "https://docs.example/mcp"}}}'


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "town", {"city.toml": "implicit_agents = false\n"})


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return build_tree(
        tmp_path / "shop",
        {
            ".claude/agents/reviewer.md": REVIEWER,
            ".claude/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Reads PDF\n---\nx\n",
            ".mcp.json": SERVER,
            ".cursor/mcp.json": SERVER,
            "AGENTS.md": "# Rules\n",
        },
    )


def written(town: Path) -> set[str]:
    return {
        os.path.relpath(path, town)
        for path in town.rglob("*")
        if path.is_file() and ".gc" not in path.parts
    }


def test_an_import_writes_everything_that_was_found_once(
    run: InProcess, town: Path, shop: Path
) -> None:
    ran = run("import", str(shop), "--json", cwd=town)
    assert ran.code == 0
    assert ran.json["verified"] is True
    assert written(town) == {
        "city.toml",
        "agents/reviewer/agent.toml",
        "agents/reviewer/prompt.md",
        "skills/pdf/SKILL.md",
        "mcp/docs.toml",
        "overlay/AGENTS.md",
    }
    found = {(row["dialect"], row["kind"]): row["count"] for row in ran.json["found"]}
    assert found["claude", "agents"] == 1
    assert found["cursor", "servers"] == 1


def test_what_was_found_is_said_in_one_sentence(run: InProcess, town: Path, shop: Path) -> None:
    ran = run("import", str(shop), "--dry-run", cwd=town)
    sentence = "Found 1 agent, 1 MCP server in 2 files that agree, 1 skill"
    assert sentence in ran.err
    assert written(town) == {"city.toml"}


def test_a_second_import_changes_nothing(run: InProcess, town: Path, shop: Path) -> None:
    run("import", str(shop), cwd=town)
    before = picture(town, but=(".gc",))
    ran = run("import", str(shop), cwd=town)
    assert ran.code == 0
    assert "already has everything" in ran.out
    assert picture(town, but=(".gc",)) == before


def test_an_agent_that_differs_from_the_city_is_refused(
    run: InProcess, town: Path, shop: Path
) -> None:
    build_tree(town, {"agents/reviewer/prompt.md": "Mine.\n"})
    ran = run("import", str(shop), cwd=town)
    assert ran.code == 1
    assert "[already-there]" in ran.err
    assert written(town) == {"city.toml", "agents/reviewer/prompt.md"}
    renamed = run("import", str(shop), "--rename", "reviewer=critic", cwd=town)
    assert renamed.code == 0
    assert (town / "agents/critic/prompt.md").read_text() == "You review.\n"


def changed(run: InProcess, town: Path, shop: Path) -> Path:
    """Import a repository, edit the agent in the city, and change all of it in the repository."""
    assert run("import", str(shop), cwd=town).code == 0
    (town / "agents/reviewer/prompt.md").write_text("You review, as I like it.\n")
    edited = REVIEWER.replace("You review.", "You review twice.")
    (shop / ".claude/agents/reviewer.md").write_text(edited)
    (shop / ".claude/agents/scribe.md").write_text(REVIEWER.replace("reviewer", "scribe"))
    return town / "agents/reviewer/prompt.md"


def test_a_definition_that_differs_from_the_citys_names_every_way_on(
    run: InProcess, town: Path, shop: Path
) -> None:
    changed(run, town, shop)
    ran = run("import", str(shop), "--json", cwd=town)
    (problem,) = ran.json["problems"]
    assert (ran.code, problem["code"]) == (1, "already-there")
    assert problem["hint"] == (
        f"`--prefer agents/reviewer` keeps the city's; `--prefer {shop}/.claude/agents/reviewer.md`"
        " replaces it; `--rename reviewer=NAME` imports it under another name"
    )
    assert not (town / "agents/scribe").exists()


def test_the_citys_definition_is_kept_and_the_rest_imported(
    run: InProcess, town: Path, shop: Path
) -> None:
    prompt = changed(run, town, shop)
    ran = run("import", str(shop), "--prefer", "agents/reviewer", cwd=town)
    assert ran.code == 0, ran.err
    assert "Kept as in the city\n  agents/reviewer\n" in ran.out
    assert "Imported 2 agents" not in ran.out
    assert prompt.read_text() == "You review, as I like it.\n"
    assert (town / "agents/scribe/prompt.md").read_text() == "You review.\n"


def test_the_changed_definition_replaces_the_citys_and_its_other_files_stay(
    run: InProcess, town: Path, shop: Path
) -> None:
    prompt = changed(run, town, shop)
    build_tree(town, {"agents/reviewer/memory/note.md": "Mind the tide.\n"})
    ran = run("import", str(shop), "--prefer", ".claude/agents/reviewer.md", cwd=town)
    assert ran.code == 0, ran.err
    assert "+You review twice." in ran.out
    assert "-You review, as I like it." in ran.out
    assert prompt.read_text() == "You review twice.\n"
    assert (town / "agents/reviewer/memory/note.md").read_text() == "Mind the tide.\n"
    (backup,) = (town / ".gc/backup").glob("import-*/old/agents/reviewer/prompt.md")
    assert backup.read_text() == "You review, as I like it.\n"


def test_an_agent_that_is_replaced_keeps_no_second_definition(
    run: InProcess, town: Path, shop: Path
) -> None:
    profile = "# Reviewer\n\n## Role\nYou review alone.\n"
    build_tree(town, {"agents/reviewer/profile.md": profile})
    ran = run("import", str(shop), "--prefer", ".claude/agents/reviewer.md", cwd=town)
    assert ran.code == 0, ran.err
    assert "agents/reviewer/profile.md is removed" in ran.out
    assert not (town / "agents/reviewer/profile.md").exists()
    assert (town / "agents/reviewer/prompt.md").read_text() == "You review.\n"


def test_a_terminal_asks_whether_the_citys_definition_stays(
    run: InProcess, town: Path, shop: Path
) -> None:
    prompt = changed(run, town, shop)
    code, screen = on_terminal("import", str(shop), cwd=town, typed=b"\ny\n")
    assert code == 0
    assert "1. agents/reviewer (in the city)" in screen
    assert prompt.read_text() == "You review, as I like it.\n"
    assert (town / "agents/scribe").exists()


def test_a_preferred_file_that_is_nowhere_is_an_error(
    run: InProcess, town: Path, shop: Path
) -> None:
    ran = run("import", str(shop), "--prefer", "agents/nobody", cwd=town)
    assert (ran.code, written(town)) == (1, {"city.toml"})
    assert "[unknown-source]" in ran.err


def test_files_that_conflict_need_a_choice_in_a_pipe(
    run: InProcess, town: Path, shop: Path
) -> None:
    other = '{"mcpServers": {"docs": {"url": "https://other.example/mcp"}}}'
    (shop / ".cursor/mcp.json").write_text(other)
    ran = run("import", str(shop), cwd=town)
    assert ran.code == 1
    assert "[import-conflict]" in ran.err
    assert written(town) == {"city.toml"}
    assert run("import", str(shop), "--prefer", ".cursor/mcp.json", cwd=town).code == 0
    assert "other.example" in (town / "mcp/docs.toml").read_text()


def test_a_terminal_asks_which_file_to_use(town: Path, shop: Path) -> None:
    other = '{"mcpServers": {"docs": {"url": "https://other.example/mcp"}}}'
    (shop / ".cursor/mcp.json").write_text(other)
    code, screen = on_terminal("import", str(shop), cwd=town, typed=b"2\ny\n")
    assert code == 0
    assert "Which one?" in screen
    assert "other.example" in (town / "mcp/docs.toml").read_text()


def test_a_choice_that_fits_nothing_is_an_error(run: InProcess, town: Path, shop: Path) -> None:
    ran = run("import", str(shop), "--rename", "reviwer=critic", cwd=town)
    assert ran.code == 1
    assert "[unknown-source]" in ran.err


def test_a_name_that_cannot_be_a_directory_names_the_option_that_helps(
    run: InProcess, town: Path, shop: Path
) -> None:
    build_tree(shop, {".claude/agents/b.md": "---\nname: Code Critic!\ndescription: d\n---\nx"})
    ran = run("import", str(shop), cwd=town)
    assert ran.code == 1
    assert "--rename 'Code Critic!=code-critic'" in ran.err
    assert run("import", str(shop), "--rename", "Code Critic!=critic", cwd=town).code == 0


def test_names_that_differ_only_in_case_are_refused(run: InProcess, town: Path, shop: Path) -> None:
    build_tree(shop, {".claude/agents/b.md": "---\nname: Reviewer\ndescription: d\n---\nx"})
    ran = run("import", str(shop), cwd=town)
    assert ran.code == 1
    assert "[case-clash]" in ran.err


def test_all_errors_of_the_source_are_shown_and_nothing_is_written(
    run: InProcess, town: Path, shop: Path
) -> None:
    build_tree(shop, {".claude/agents/b.md": "---\nname: x\n", ".gemini/settings.json": "{"})
    ran = run("import", str(shop), cwd=town)
    assert ran.code == 1
    assert f"{shop}/.claude/agents/b.md:1:1: error:" in ran.err
    assert f"{shop}/.gemini/settings.json:1:1: error:" in ran.err
    assert written(town) == {"city.toml"}


def test_a_link_out_of_the_source_is_refused(run: InProcess, town: Path, shop: Path) -> None:
    (shop.parent / "secret.md").write_text(REVIEWER)
    (shop / ".claude/agents/b.md").symlink_to("../../../secret.md")
    ran = run("import", str(shop), cwd=town)
    assert ran.code == 1
    assert "[leaves-source]" in ran.err


def test_a_source_that_is_too_large_is_refused(
    run: InProcess, town: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MOST_FILES", 2)
    build_tree(shop, {f".claude/agents/{number}.md": REVIEWER for number in range(3)})
    ran = run("import", str(shop), cwd=town)
    assert ran.code == 1
    assert "[source-too-large]" in ran.err


def test_instructions_of_a_rig_stay_where_they_are(run: InProcess, town: Path, shop: Path) -> None:
    text = f'implicit_agents = false\n[[rigs]]\nname = "shop"\npath = "{shop}"\n'
    (town / "city.toml").write_text(text)
    ran = run("import", str(shop), "--json", cwd=town)
    assert ran.json["project"] == [f"{shop}/AGENTS.md"]
    assert "overlay/AGENTS.md" not in written(town)
    assert run("import", str(shop), "--instructions", cwd=town).code == 0
    assert "overlay/AGENTS.md" in written(town)


def test_an_import_can_go_into_a_pack_of_its_own(run: InProcess, town: Path, shop: Path) -> None:
    assert run("import", str(shop), "--into", "shop", cwd=town).code == 0
    assert "packs/shop/agents/reviewer/prompt.md" in written(town)
    listed = run("agent", "list", "--json", cwd=town).json["agents"]
    assert [agent["name"] for agent in listed] == ["shop.reviewer"]


def test_an_import_that_would_not_load_is_taken_back(
    run: InProcess, town: Path, shop: Path
) -> None:
    city = (town / "city.toml").read_text()
    (town / "city.toml").write_text(f'{city}\n[imports.other]\nsource = "builtin:roles"\n')
    ran = run("import", str(shop), "--into", "other", "--json", cwd=town)
    assert ran.code == 1
    assert ran.json["verified"] is False
    assert {problem["code"] for problem in ran.json["problems"]} == {"import-differs"}
    assert written(town) == {"city.toml"}


def test_a_city_that_changed_since_the_plan_is_not_overwritten(
    run: InProcess, town: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = "# mine\nimplicit_agents = false\n"

    def edit_meanwhile(*_: object) -> bool:
        (town / "city.toml").write_text(edited)
        return True

    monkeypatch.setattr(import_cli, "is_confirmed", edit_meanwhile)
    ran = run("import", str(shop), "--into", "shop", cwd=town)
    assert ran.code == 1
    assert (town / "city.toml").read_text() == edited
    assert written(town) == {"city.toml"}


def test_one_dialect_can_be_imported_by_name(run: InProcess, town: Path, shop: Path) -> None:
    assert run("migrate", "--from", "cursor", str(shop), cwd=town).code == 0
    assert written(town) == {"city.toml", "mcp/docs.toml"}


def test_an_unknown_dialect_lists_the_known_ones(run: InProcess, town: Path) -> None:
    ran = run("migrate", "--from", "opencde", cwd=town)
    assert ran.code == 1
    assert "[unknown-dialect]" in ran.err
    assert "did you mean opencode?" in ran.err


def test_a_role_of_binnacle_becomes_a_patch_of_the_built_in_pack(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.kdl"
    role = 'agent "do" {\n  tools {\n    allow "shell(cargo:*)"\n  }\n}\n'
    config.write_text(f'{role}agent "scribe" {{\n  prompt-file "scribe.md"\n}}\n')
    (tmp_path / "scribe.md").write_text("You write.\n")
    assert run("migrate", "--from", "binnacle", str(config), cwd=town).code == 0
    assert (town / "agents/scribe/prompt.md").read_text() == "You write.\n"
    shown = json.loads(run("agent", "show", "do", "--json", cwd=town).out)
    assert "shell(cargo:*)" in shown["tools"]["allow"]


def test_bad_names_and_conflicts_are_reported_together_with_free_names(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    source = build_tree(
        tmp_path / "src",
        {
            ".claude/agents/a.md": "---\nname: Code Reviewer\ndescription: d\n---\nx\n",
            ".claude/agents/b.md": "---\nname: code-reviewer\ndescription: d\n---\nx\n",
            ".claude/agents/c.md": "---\nname: Tester\ndescription: d\n---\nx\n",
            ".claude/agents/d.md": "---\nname: tester\ndescription: d\n---\nx\n",
            ".opencode/agents/tester.md": "---\ndescription: other\n---\ny\n",
        },
    )
    before = picture(town)
    ran = run("import", str(source), "--yes", "--json", cwd=town)
    assert ran.code == 1
    hints = {p["code"]: p["hint"] for p in ran.json["problems"]}
    assert set(hints) == {"bad-name", "case-clash", "import-conflict"}
    assert "--rename 'Code Reviewer=code-reviewer-2'" in hints["bad-name"]
    assert "--rename tester=tester-2" in hints["case-clash"]
    assert picture(town) == before


def test_every_file_that_cannot_be_parsed_is_reported_at_once(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    source = build_tree(
        tmp_path / "src",
        {
            ".claude/agents/a.md": "---\nname: [a\n---\nx\n",
            ".mcp.json": '{"mcpServers": {\n "x": }',
            ".codex/agents/q.toml": "name = \n",
            ".binnacle/agents/config.kdl": 'agent "a" {\n  description "x\n',
        },
    )
    ran = run("import", str(source), "--yes", "--json", cwd=town)
    places = {(p["code"], p["line"]) for p in ran.json["problems"]}
    expected = {("bad-front-matter", 2), ("bad-json", 2), ("bad-toml", 1), ("bad-kdl", 2)}
    assert (ran.code, places) == (1, expected)
