"""agent-queue vaults: profiles, servers, and the pack of a project, which only its rig imports."""

import json
from pathlib import Path

import pytest

from tests.support.in_process import InProcess
from tests.support.trees import build_tree

SERVER = "---\nname: db\ncommand: npx\nargs: [db]\n---\nText\n"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "source", {"vault/projects/shop/mcp-servers/db.md": SERVER})


def test_the_rig_imports_its_servers(run: InProcess, tmp_path: Path, vault: Path) -> None:
    city = 'implicit_agents = false\n\n[[rigs]]\nname = "shop"\n\n[[rigs]]\nname = "web"\n'
    files = {"city.toml": city, "agents/a/prompt.md": "x", "agents/a/agent.toml": 'scope = "rig"\n'}
    town = build_tree(tmp_path / "town", files)
    ran = run("import", str(vault), "--json", cwd=town)
    assert (ran.code, ran.json["not_carried"]) == (0, [])
    assert '[rigs.imports.shop]\nsource = "packs/shop"\n' in (town / "city.toml").read_text()
    assert 'command = "npx"' in (town / "packs/shop/mcp/db.toml").read_text()
    listed = {
        rig: [server["name"] for server in _servers(run, town, f"{rig}/a")]
        for rig in ("shop", "web")
    }
    assert listed == {"shop": ["db"], "web": []}
    assert run("import", str(vault), "--json", cwd=town).json["changes"] == []


def test_without_the_rig_the_pack_waits_for_it(run: InProcess, tmp_path: Path, vault: Path) -> None:
    town = build_tree(tmp_path / "town", {"city.toml": "implicit_agents = false\n"})
    (lost,) = run("import", str(vault), "--json", cwd=town).json["not_carried"]
    assert lost["key"] == "db"
    assert lost["reason"].startswith("no rig `shop` imports packs/shop")
    with (town / "city.toml").open("a") as file:
        file.write('\n[[rigs]]\nname = "shop"\n')
    ran = run("import", str(vault), "--json", cwd=town)
    assert ran.json["not_carried"] == []
    assert "[rigs.imports.shop]" in (town / "city.toml").read_text()


def test_a_project_that_cannot_be_a_pack_is_refused(run: InProcess, tmp_path: Path) -> None:
    town = build_tree(tmp_path / "town", {"city.toml": "implicit_agents = false\n"})
    source = build_tree(tmp_path / "source", {"vault/projects/a b/mcp-servers/db.md": SERVER})
    ran = run("import", str(source), cwd=town)
    assert (ran.code, "[bad-name]" in ran.err) == (1, True)
    assert not (town / "packs").exists()


def test_errors_of_profiles_and_servers_are_reported_at_their_lines(
    run: InProcess, tmp_path: Path
) -> None:
    town = build_tree(tmp_path / "town", {"city.toml": "implicit_agents = false\n"})
    profile = (
        "---\nid: coding\nname: [\n---\n## Role\nx\n## Config\n```json\n"
        '{"steps": "many",\n "bogus": 1}\n```\n## Tools\n```json\n{"allowed": }\n```\n'
    )
    server = '---\nname: db\n---\n```json\n{\n  "command":\n}\n```\n'
    source = build_tree(
        tmp_path / "source",
        {"vault/agent-types/coding/profile.md": profile, "vault/mcp-servers/db.md": server},
    )
    ran = run("import", str(source), "--dry-run", "--json", cwd=town)
    assert ran.code == 1
    assert {
        (Path(each["file"]).name, each["line"], each["code"]) for each in ran.json["problems"]
    } == {
        ("profile.md", 3, "bad-front-matter"),
        ("profile.md", 9, "bad-type"),
        ("profile.md", 10, "unknown-key"),
        ("profile.md", 14, "bad-json"),
        ("db.md", 7, "bad-json"),
    }


def test_the_source_may_be_the_vault_itself(run: InProcess, tmp_path: Path) -> None:
    town = build_tree(tmp_path / "town", {"city.toml": "implicit_agents = false\n"})
    source = build_tree(
        tmp_path / "vault",
        {
            "agent-types/coding/profile.md": "---\nid: coding\n---\n## Role\nYou code.\n",
            "agent-types/coding/memory/a.md": "Note\n",
            "mcp-servers/db.md": SERVER,
            "templates/knowledge/coding/tips.md": "Tip\n",
        },
    )
    ran = run("migrate", "--from", "agent-queue", str(source), "--json", cwd=town)
    assert ran.code == 0
    assert {change["path"] for change in ran.json["changes"]} == {
        "agents/coding/profile.md",
        "agents/coding/memory/a.md",
        "mcp/db.toml",
        "templates/knowledge/coding/tips.md",
    }
    [loss] = ran.json["not_carried"]
    assert loss["key"] == "memory"


def _servers(run: InProcess, town: Path, agent: str) -> list[dict[str, str]]:
    out = run("mcp", "list", "--agent", agent, "--json", cwd=town).out
    return list(json.loads(out)["servers"])
