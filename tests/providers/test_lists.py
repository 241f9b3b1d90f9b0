"""Each real program lists exactly the servers, skills and agents that `city apply` planned."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.providers.conftest import Equipped
from tests.providers.install import CLIS
from tests.support import mcp_server
from tests.support.city import CityBuilder
from tests.support.command import Command
from tests.support.mcp_server import HttpServer

pytestmark = pytest.mark.providers

MARKDOWN = "---\nname: harbourmaster\ndescription: Keeps ships apart.\n---\nKeep ships apart.\n"
AGENT_FILES = {
    "claude": (".claude/agents/harbourmaster.md", MARKDOWN),
    "cline": (
        ".cline/agents/harbourmaster.yaml",
        "name: harbourmaster\ndescription: Keeps ships apart.\nprompt: Keep ships apart.\n",
    ),
    "codex": (
        ".codex/agents/harbourmaster.toml",
        'name = "harbourmaster"\ndescription = "Keeps ships apart."\n'
        'developer_instructions = "Keep ships apart."\n',
    ),
    "copilot": (".github/agents/harbourmaster.agent.md", MARKDOWN),
    "grok": (".grok/agents/harbourmaster.md", MARKDOWN),
    "kilo": (".kilo/agents/harbourmaster.md", MARKDOWN),
    "opencode": (".opencode/agents/harbourmaster.md", MARKDOWN),
    "qwen": (".qwen/agents/harbourmaster.md", MARKDOWN),
}
EXPORTED = ("claude", "codex", "copilot", "grok", "kilo", "opencode", "qwen")
OWN_AGENT = ("copilot", "kilo", "opencode")  # a session's own agent is listed, too
# amp, kilo and qwen get their servers at each launch.
SHOWN_IN_A_SESSION_ONLY = {
    "amp": ["mcp"],
    "droid": ["skills"],
    "kilo": ["mcp"],
    "kimi": ["mcp", "skills"],
    "qwen": ["mcp", "skills"],
}


def build(town: CityBuilder, name: str, web: HttpServer) -> Path:
    """A city with one agent: two servers, two skills, an overlay with an agent file."""
    skill = "---\nname: {0}\ndescription: All about {0}.\n---\nDo {0}.\n"
    files: dict[str, str | bytes] = {
        "city.toml": f'[workspace]\nprovider = "{name}"\n',
        "agents/mayor/prompt.md": "You are the mayor.\n",
        "mcp/probe.toml": (
            'name = "probe"\ndescription = "Echoes."\n'
            f'command = "{sys.executable}"\nargs = ["{mcp_server.__file__}", "b c"]\n'
            '[env]\nGREETING = "ahoy"\n'
        ),
        "agents/mayor/mcp/web.toml": (
            f'name = "web"\ndescription = "Echoes far away."\nurl = "{web.url}"\n'
            '[headers]\nX-Harbour = "open"\n'
        ),
        "skills/knots/SKILL.md": skill.format("knots"),
        "agents/mayor/skills/tides/SKILL.md": skill.format("tides"),
        "overlay/NOTES.md": "Mind the tide.\n",
    }
    if name in AGENT_FILES:
        path, text = AGENT_FILES[name]
        files[f"overlay/per-provider/{name}/{path}"] = text
    return town.write(files)


@pytest.mark.parametrize("name", CLIS)
def test_it_lists_exactly_what_was_planned(
    name: str, city: CityBuilder, run: Command, web: HttpServer, equipped: Equipped
) -> None:
    env = equipped(name)
    root = build(city, name, web)
    assert run("apply", "mayor", cwd=root, env=env).code == 0
    workdir = root / ".gc/work/mayor"
    assert (workdir / "NOTES.md").read_text() == "Mind the tide.\n"

    ran = run("provider", "check", name, "--agent", "mayor", "--json", cwd=root, env=env)
    rows = {row["name"]: row for row in ran.json["results"]}
    wanted = {"mcp": "2 of 2 loaded", "skills": "2 of 2 loaded"}
    count = 2 if name in OWN_AGENT else 1
    wanted |= {"agents": f"{count} of {count} loaded"} if name in AGENT_FILES else {}
    for kind in SHOWN_IN_A_SESSION_ONLY.get(name, ()):
        assert codes_of(rows.pop(kind)) == ["provider-silent"]
        wanted.pop(kind, None)
    assert {kind: (row["what"], row["problems"]) for kind, row in rows.items()} == {
        kind: (what, []) for kind, what in wanted.items()
    }
    if not wanted:
        pytest.skip(f"{name} lists nothing outside a session; it was only applied")


@pytest.mark.observes("listed")
@pytest.mark.parametrize("name", EXPORTED)
def test_it_lists_an_exported_agent(
    name: str, city: CityBuilder, run: Command, equipped: Equipped
) -> None:
    env = equipped(name)
    root = city.write(
        {
            "city.toml": f'[workspace]\nprovider = "{name}"\n',
            "agents/mayor/prompt.md": "You are the mayor.\n",
            "agents/harbourmaster/agent.toml": 'description = "Keeps ships apart."\n',
            "agents/harbourmaster/prompt.md": "Keep ships apart.\n",
        }
    )
    assert run("apply", "mayor", cwd=root, env=env).code == 0
    workdir = root / ".gc/work/mayor"
    words = ("agent", "export", "harbourmaster", "--format", name, "--to")
    assert run(*words, str((workdir / AGENT_FILES[name][0]).parent), cwd=root, env=env).code == 0
    assert (workdir / AGENT_FILES[name][0]).exists()
    ran = run("provider", "check", name, "--agent", "mayor", "--json", cwd=root, env=env)
    [row] = [row for row in ran.json["results"] if row["name"] == "agents"]
    count = 2 if name in OWN_AGENT else 1
    assert (row["what"], row["problems"]) == (f"{count} of {count} loaded", [])


def codes_of(row: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in row["problems"]]


@pytest.mark.parametrize("name", CLIS)
def test_its_facts_are_of_the_version_that_is_tested(
    name: str, city: CityBuilder, run: Command, equipped: Equipped
) -> None:
    env = equipped(name)
    root = city.write({"city.toml": ""})
    rows = run("provider", "check", name, "--json", cwd=root, env=env).json["results"]
    assert [row["what"] for row in rows if row["name"] == "version"] == [CLIS[name].version]
