"""One definition behind every file and text of an agent; ids are requirements of the first seed."""

import ast
import json
from pathlib import Path

import pytest

import gascity
from gascity.resources import data_dir
from tests.support.planned_city import Town, server

REPOSITORY = Path(__file__).parents[2]
TOOLS = '[tools]\nallow = ["read", "search", "shell"]\n'


@pytest.fixture
def town(tmp_path: Path) -> Town:
    town = Town(tmp_path / "town")
    town.write({"mcp/docs.toml": server("docs"), "mcp/web.toml": server("web")})
    return town


@pytest.mark.parametrize(
    ("version", "status"),
    [("0.0.397", "warning"), ("0.0.398", "ok"), ("0.1.0", "ok"), ("1.0.102", "ok")],
)
def test_a_copilot_without_agents_is_reported(
    town: Town, tmp_path: Path, version: str, status: str
) -> None:
    """S0-35: `--agent` needs 0.0.398."""
    program = tmp_path / "copilot"
    program.write_text(f"#!/bin/sh\necho 'GitHub Copilot CLI {version}.'\n")
    program.chmod(0o755)
    town.write({"city.toml": f'[providers.copilot]\ncommand = "{program}"\n'})
    rows = town.run("provider", "check", "copilot", "--json").json["results"]
    (row,) = [row for row in rows if row["name"] == "version"]
    assert (row["status"], [problem["code"] for problem in row["problems"]]) == (
        status,
        ["program-outdated"] if status == "warning" else [],
    )


@pytest.mark.parametrize("provider", ["vscode", "copilot"])
def test_the_editor_gets_the_servers_and_tools_of_the_command_line(
    town: Town, provider: str
) -> None:
    """S0-45: what the editor reads is written from the same definition, with its filters."""
    filters = f'[mcp_filter]\ndeny = ["web"]\n{TOOLS}'
    town.agent("cop", f'provider = "{provider}"\n{filters}')
    town.fine("apply", "cop")
    workdir = town.root / ".gc/work/cop"
    editor = json.loads((workdir / ".vscode/mcp.json").read_text())["servers"]
    assert (set(editor), editor["docs"]["args"]) == ({"docs"}, ["docs"])
    if provider == "copilot":
        own = json.loads((workdir / ".github/mcp.json").read_text())["mcpServers"]
        assert {name: one["args"] for name, one in own.items()} == {"docs": ["docs"]}
    file = (workdir / ".github/agents/cop.agent.md").read_text()
    assert "tools: ['read', 'search', 'execute']\n" in file
    assert file.endswith("\n---\nYou are cop.\n")


def test_every_text_of_an_agent_is_the_prompt_that_is_resolved_once(town: Town) -> None:
    """S0-46: printed, exported, planned and shown, with the same layers applied."""
    town.write(
        {
            "agents/cop/prompt.template.md": 'Watch {{ .AgentName }}.\n{{ template "rules" . }}\n',
            "agents/cop/agent.toml": 'provider = "copilot"\ndescription = "Watches."\n',
            "template-fragments/rules.template.md": '{{ define "rules" }}Be brief.{{ end }}',
        }
    )
    town.fine("apply", "cop")
    emitted = town.fine("agent", "emit", "cop").out
    assert emitted == "Watch cop.\nBe brief.\n"
    town.fine("agent", "export", "cop", "--format", "copilot", "--to", "out")
    files = (".gc/work/cop/.github/agents/cop.agent.md", "out/cop.agent.md")
    for path in files:
        assert (town.root / path).read_text().partition("\n---\n")[2] == emitted
    shown = town.run("agent", "show", "cop", "--rendered", "--json").json
    assert "".join(span["text"] for span in shown["spans"]) == emitted


def test_no_prompt_of_a_built_in_agent_is_a_constant_in_the_program() -> None:
    """S0-47: each has a file; the program has no text of it."""
    constants = [
        node.value
        for path in Path(gascity.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    prompts = [*Path(data_dir("system_agents")).rglob("prompt*.md")]
    assert len(prompts) > 6
    for prompt in prompts:
        for line in prompt.read_text().splitlines():
            if len(line) > 40:
                assert not [text for text in constants if line in text], prompt


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial/index.md"])
def test_the_first_pages_describe_an_agent_as_a_folder(page: str) -> None:
    """S0-47: the model that users read about is the one that there is."""
    text = (REPOSITORY / page).read_text()
    assert "prompt.md" in text
    assert "agent.toml" in text
    assert "city agent" in text
