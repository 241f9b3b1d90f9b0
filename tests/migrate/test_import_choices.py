"""Names and choices of an import: `--prefer`, `--rename`, `--into`, and the city's own files."""

from pathlib import Path

import pytest

from tests.support.in_process import InProcess
from tests.support.trees import build_tree

REVIEWER = "---\nname: reviewer\ndescription: Reviews\n---\nYou review.\n"
SERVER = '{"mcpServers": {"docs": {"url": "https://docs.example/mcp"}}}'


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "town", {"city.toml": "implicit_agents = false\n"})


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "shop", {".claude/agents/reviewer.md": REVIEWER})


@pytest.mark.parametrize(
    ("file", "text", "lines"),
    [
        (
            "opencode.json",
            '{"agent": {"a/b": {"description": "x"},\n"a--b": {"description": "y"}}}',
            "on lines 1 and 2",
        ),
        (
            ".binnacle/agents/config.kdl",
            'agent "a" { description "x"; }\nagent "a" { description "y"; }\n',
            "on lines 1 and 2",
        ),
    ],
)
def test_a_name_that_one_file_defines_twice_is_an_error_at_the_second(
    run: InProcess, town: Path, tmp_path: Path, file: str, text: str, lines: str
) -> None:
    source = build_tree(tmp_path / "source", {file: text})
    ran = run("import", str(source), "--json", cwd=town)
    assert ran.code == 1
    [problem] = ran.json["problems"]
    assert (problem["code"], problem["line"]) == ("import-conflict", 2)
    assert lines in problem["message"]


def test_a_new_name_that_another_definition_of_the_file_has_is_an_error(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    text = '{"agent": {"a": {"description": "x"}, "b": {"description": "y"}}}'
    source = build_tree(tmp_path / "source", {"opencode.json": text})
    ran = run("import", str(source), "--rename", "a=b", cwd=town)
    assert (ran.code, "defines agent `b` twice" in ran.err) == (1, True)


def test_a_conflict_names_all_files_and_the_line_of_the_first(
    run: InProcess, town: Path, shop: Path
) -> None:
    other = '{"mcpServers":\n{"docs": {"url": "https://other.example/mcp"}}}'
    build_tree(
        shop, {".mcp.json": other, ".cursor/mcp.json": SERVER, ".gemini/settings.json": SERVER}
    )
    ran = run("import", str(shop), "--json", cwd=town)
    [problem] = ran.json["problems"]
    assert problem["line"] == 2
    for file in (".mcp.json, ", ".cursor/mcp.json and ", ".gemini/settings.json define"):
        assert file in problem["message"]


def test_a_preferred_file_of_the_source_needs_no_conflict(
    run: InProcess, town: Path, shop: Path
) -> None:
    build_tree(shop, {".mcp.json": SERVER, ".cursor/mcp.json": SERVER})
    words = ("import", str(shop), "--prefer", ".mcp.json")
    assert run(*words, cwd=town).code == 0
    assert run(*words, "--prefer", ".claude/agents/reviewer.md", cwd=town).code == 0
    ran = run(*words, "--prefer", "other.json", cwd=town)
    assert (ran.code, "[unknown-source]" in ran.err) == (1, True)


def test_files_that_differ_are_called_a_conflict_even_if_one_is_preferred(
    run: InProcess, town: Path, shop: Path
) -> None:
    other = SERVER.replace("docs.", "other.")
    build_tree(shop, {".mcp.json": SERVER, ".cursor/mcp.json": other})
    ran = run("import", str(shop), "--prefer", ".mcp.json", cwd=town)
    assert "1 MCP server in 2 files that conflict" in ran.err


def test_a_name_of_the_city_in_other_case_is_refused_before_anything_is_written(
    run: InProcess, town: Path, shop: Path
) -> None:
    build_tree(town, {"agents/Reviewer/prompt.md": "x\n"})
    ran = run("import", str(shop), "--dry-run", "--json", cwd=town)
    [problem] = ran.json["problems"]
    assert (ran.code, problem["code"]) == (1, "case-clash")
    assert problem["hint"] == "`--rename reviewer=NAME` imports it under another name"
    assert run("import", str(shop), "--rename", "reviewer=critic", cwd=town).code == 0


def test_a_server_with_a_bad_name_can_be_renamed(run: InProcess, town: Path, shop: Path) -> None:
    build_tree(shop, {".mcp.json": SERVER.replace("docs", "Über docs", 1)})
    ran = run("import", str(shop), cwd=town)
    assert (ran.code, "`--rename 'Über docs=uber-docs'`" in ran.err) == (1, True)
    assert run("import", str(shop), "--rename", "Über docs=docs", cwd=town).code == 0
    assert (town / "mcp/docs.toml").read_text().startswith('name = "docs"\n')


def test_one_dialect_takes_the_same_choices(run: InProcess, town: Path, shop: Path) -> None:
    words = ("migrate", "--from", "claude", str(shop))
    assert run(*words, "--rename", "reviewer=critic", "--dry-run", cwd=town).code == 0
    build_tree(shop, {".claude/agents/other.md": REVIEWER.replace("You", "Please")})
    assert run(*words, cwd=town).code == 1
    assert run(*words, "--prefer", "other.md", cwd=town).code == 0
    assert (town / "agents/reviewer/prompt.md").read_text() == "Please review.\n"
    assert run("migrate", "--prefer", "x", cwd=town).code == 2


def test_a_conflict_of_files_offers_no_new_name(run: InProcess, town: Path, tmp_path: Path) -> None:
    files = {".ruler/AGENTS.md": "# A\n", ".rulesync/rules/b.md": "---\nroot: true\n---\n# B\n"}
    ran = run("import", str(build_tree(tmp_path / "source", files)), "--json", cwd=town)
    assert "--rename" not in ran.json["problems"][0]["hint"]


def test_a_pack_must_have_a_name(run: InProcess, town: Path, shop: Path) -> None:
    ran = run("import", str(shop), "--into", "../other", "--json", cwd=town)
    assert (ran.code, ran.json["problems"][0]["code"]) == (2, "usage")
    assert not (town.parent / "other").exists()


def test_a_source_with_nothing_in_it_says_only_that(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    ran = run("import", str(tmp_path / "empty"), cwd=town)
    assert (ran.code, ran.out, ran.err) == (0, "", "Found nothing to import.\n")


def test_what_the_city_wrote_into_the_source_is_not_imported(run: InProcess, shop: Path) -> None:
    town = build_tree(shop, {"city.toml": '[[rigs]]\nname = "shop"\npath = "."\n'})
    assert run("import", "--yes", cwd=town).code == 0
    for words in (("copilot",), ("opencode", "--prefix", "team")):
        assert run("agent", "export", "--format", *words, cwd=town).code == 0
    ran = run("import", "--yes", cwd=town)
    assert ran.code == 0
    assert ran.err == "Found 1 agent.\nSkipped 2 files that this city wrote.\n"
    edited = town / ".opencode/agents/team-reviewer.md"
    edited.write_text(edited.read_text() + "Be brief.\n")
    assert run("import", "--yes", cwd=town).code == 0
    assert (town / "agents/team-reviewer/prompt.md").read_text() == "You review.\nBe brief.\n"


def test_servers_that_the_city_merged_into_a_file_are_not_imported(
    run: InProcess, tmp_path: Path
) -> None:
    server = 'name = "docs"\ndescription = "Docs"\nurl = "https://docs.example/mcp"\n'
    rig = build_tree(tmp_path / "rig", {".mcp.json": SERVER.replace("docs", "own")})
    town = build_tree(
        tmp_path / "town",
        {
            "city.toml": f'[[rigs]]\nname = "rig"\npath = "{rig}"\n',
            "agents/a/agent.toml": 'provider = "claude"\nscope = "rig"\nisolation = "none"\n',
            "agents/a/prompt.md": "x\n",
            "mcp/docs.toml": server,
            "skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Reads PDF\n---\nx\n",
        },
    )
    assert run("apply", "rig/a", cwd=town).code == 0
    assert '"docs"' in (rig / ".mcp.json").read_text()
    ran = run("import", str(rig), "--json", cwd=town)
    assert (ran.code, [change["path"] for change in ran.json["changes"]]) == (0, ["mcp/own.toml"])


def test_projects_inside_the_source_are_named_but_not_imported(
    run: InProcess, town: Path, shop: Path
) -> None:
    build_tree(
        shop,
        {
            "packages/web/.claude/agents/web.md": REVIEWER,
            "packages/web/deeper/.mcp.json": SERVER,
            "packages/api/.cursor/mcp.json": SERVER,
            "node_modules/x/.claude/agents/y.md": REVIEWER,
            ".gc/worktrees/a/.claude/agents/y.md": REVIEWER,
            "packages/lib/.github/workflows/x.yml": "x\n",
        },
    )
    ran = run("import", str(shop), "--json", cwd=town)
    assert [change["path"] for change in ran.json["changes"]] == [
        "agents/reviewer/agent.toml",
        "agents/reviewer/prompt.md",
    ]
    assert [(loss["file"], loss["reason"]) for loss in ran.json["not_carried"]] == [
        (
            f"{shop}/packages/{name}/{file}",
            f"packages/{name} is a project of its own: "
            f"`city import {shop}/packages/{name} --into NAME`",
        )
        for name, file in (("api", ".cursor/mcp.json"), ("web", ".claude/agents"))
    ]
