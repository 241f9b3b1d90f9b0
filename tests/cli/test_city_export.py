"""`city export`: a whole city as the plain files of one provider."""

import json
from pathlib import Path

import pytest

from tests.cli.shapes import CITY_EXPORT, fits
from tests.support.in_process import InProcess
from tests.support.trees import build_tree

TOWN = {
    "city.toml": 'implicit_agents = false\n[workspace]\nprovider = "codex"\n',
    "agents/clerk/prompt.md": "You file.\n",
    "agents/clerk/skills/stamp/SKILL.md": "---\nname: stamp\ndescription: Own.\n---\nOwn.\n",
    "agents/guard/prompt.md": "You guard.\n",
    "skills/stamp/SKILL.md": "---\nname: stamp\ndescription: Stamps.\n---\nStamp.\n",
    "skills/stamp/bin/run.sh": "#!/bin/sh\n",
    "mcp/docs.toml": 'name = "docs"\ndescription = "Docs"\nurl = "https://docs.example/mcp"\n',
    "mcp/vault.toml": (
        'name = "vault"\ndescription = "Keys"\ncommand = "vault"\n'
        '[env]\nAPI_TOKEN = "s3cr3t-of-the-vault"\n'
    ),
    "overlay/NOTES.md": "Notes.\n",
    "overlay/per-provider/claude/CLAUDE.md": "Rules.\n",
}


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "town", TOWN)


def files(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_agents_skills_servers_and_instructions_are_plain_files(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    ran = run("export", "--to", "../out", "--provider", "claude", "--json", cwd=town)
    assert ran.code == 0
    fits(ran.json, CITY_EXPORT)
    written = files(tmp_path / "out")
    assert set(written) == {
        ".claude/agents/clerk.md",
        ".claude/agents/guard.md",
        ".claude/skills/stamp/SKILL.md",
        ".mcp.json",
        "CLAUDE.md",
        "NOTES.md",
    }
    assert written["CLAUDE.md"] == "Rules.\n"
    assert list(json.loads(written[".mcp.json"])["mcpServers"]) == ["docs"]
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
    lost = {(loss["kind"], loss["name"]) for loss in ran.json["lost"]}
    assert lost == {("server", "vault"), ("skill", "stamp (skills/stamp)")}
    assert "s3cr3t" not in ran.out


def test_a_second_export_changes_nothing_and_follows_the_city(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    command = ("export", "--to", str(tmp_path / "out"), "--provider", "claude")
    assert run(*command, "--check", cwd=town).code == 1
    assert not (tmp_path / "out").exists()
    run(*command, cwd=town)
    assert run(*command, "--check", cwd=town).code == 0
    (town / "mcp/docs.toml").unlink()
    ran = run(*command, "--json", cwd=town)
    assert {row["path"]: row["op"] for row in ran.json["files"]}[".mcp.json"] == "remove"


def test_what_the_provider_has_no_place_for_is_lost(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    ran = run("export", "--to", str(tmp_path / "out"), "--provider", "aider", "--json", cwd=town)
    assert (ran.code, ran.json["problems"][0]["code"]) == (1, "unknown-provider")
    ran = run("export", "--to", str(tmp_path / "out"), "--provider", "amp", cwd=town)
    assert "lost: agent clerk (Amp has no agent files)" in ran.out


def test_an_export_is_imported_again_without_a_conflict(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    run("export", "--to", str(tmp_path / "out"), "--provider", "claude", cwd=town)
    new = build_tree(tmp_path / "new", {"city.toml": "implicit_agents = false\n"})
    assert run("import", str(tmp_path / "out"), "--yes", cwd=new).code == 0
    assert (new / "agents/clerk/prompt.md").read_text() == "You file.\n"
    assert (new / "mcp/docs.toml").exists()
    assert (new / "skills/stamp/SKILL.md").exists()


def test_words_of_an_agents_own_provider_are_translated(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    tools = '[tools]\nallow = ["Read", "Bash(git log:*)", "Glob"]\n'
    build_tree(town, {"agents/clerk/agent.toml": f'provider = "claude"\n{tools}'})
    ran = run("export", "--to", "../out", "--provider", "opencode", "--json", cwd=town)
    text = (tmp_path / "out/.opencode/agents/clerk.md").read_text()
    assert "read: allow" in text
    assert "git log *" in text
    lost = [loss for loss in ran.json["lost"] if loss["name"] == "clerk"]
    assert [(loss["field"], loss["value"]) for loss in lost] == [("tools.allow", "Glob")]
    assert lost[0]["reason"] == "a word of Claude Code without an exact counterpart"
