"""Example files of other programs' agent formats, imported and written; ids are requirements."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gascity.model.profile import profile_prompt, read_profile
from gascity.model.session_context import Machine, SessionContext
from gascity.model.tool_rules import ToolRules, ToolWord
from gascity.prompts import Prompts
from gascity.render.flags import HEADLESS, tool_flags
from gascity.source.disk import Disk
from gascity.source.profiles import profile_settings
from gascity_migrate.importers import agent_queue, assistant, binnacle, opencode
from gascity_migrate.importers.types import Imported, ImportedAgent
from tests.migrate.sources import MemoryTree
from tests.support.city import CityBuilder, agent_of
from tests.support.in_process import InProcess
from tests.support.trees import build_tree

# Binnacle's unified agents

ROSTER = {
    "city.toml": 'implicit_agents = false\n[workspace]\nprovider = "copilot"\n',
    "agents/worker/agent.toml": (
        'description = "AI worker that picks tasks from bn ready"\nexecution = "container"\n'
        '[tools]\nallow = ["binnacle/*", "edit", "shell", "agent", "search", "read"]\n'
    ),
    "agents/worker/prompt.md": "Run bn orient --type worker to get oriented with the project.\n",
    **{f"agents/{name}/prompt.md": f"You {name}.\n" for name in ("do", "prd", "buddy", "ask")},
    "agents/free/prompt.md": "You are free.\n",
    "agents/free/agent.toml": "hidden = true\n",
}


@pytest.fixture
def export(run: InProcess, tmp_path: Path) -> Callable[..., list[str]]:
    """Export with the prefix `binnacle`; return the names of the files in the target directory."""
    root = build_tree(tmp_path / "town", ROSTER)

    def call(*arguments: str, to: Path = root / ".github/agents") -> list[str]:
        words = ("agent", "export", "--format", "copilot", "--prefix", "binnacle")
        assert run(*words, *arguments, cwd=root).code == 0
        return sorted(os.listdir(to))

    return call


def test_the_example_agent_file_is_written_as_shown(
    export: Callable[..., list[str]], tmp_path: Path
) -> None:
    """S0-30, S0-32, S0-33, S0-34"""
    export("worker")
    text = (tmp_path / "town/.github/agents/binnacle-worker.agent.md").read_text()
    assert text == (
        "---\nname: Binnacle Worker\ndescription: AI worker that picks tasks from bn ready\n"
        "tools: ['binnacle/*', 'edit', 'execute', 'agent', 'search', 'read']\n---\n"
        "Run bn orient --type worker to get oriented with the project.\n"
    )


def test_only_interactive_agents_of_the_host_are_written(
    export: Callable[..., list[str]],
) -> None:
    """S0-42, S0-43"""
    names = ("ask", "buddy", "do", "prd")
    assert export() == [f"binnacle-{name}.agent.md" for name in names]


def test_obsolete_files_are_removed(export: Callable[..., list[str]], tmp_path: Path) -> None:
    """S0-44"""
    build_tree(tmp_path / "town", {"agents/plan/prompt.md": "You plan.\n"})
    assert "binnacle-plan.agent.md" in export()
    (tmp_path / "town/agents/plan/prompt.md").unlink()
    (tmp_path / "town/agents/plan").rmdir()
    assert "binnacle-plan.agent.md" not in export()


def test_files_are_written_for_the_repository_and_for_the_user(
    export: Callable[..., list[str]], private_home: Path
) -> None:
    """S0-29, S0-31"""
    assert len(export()) == 4
    assert len(export("--to", "user", to=private_home / ".copilot/agents")) == 4


CONFIG = """\
agent "worker" {
    description "AI worker that picks tasks from bn ready"
    execution "container"  // "container" | "host"
    lifecycle "stateful"
    tools {
        allow "write"
        allow "shell(bn:*)"
        deny "shell(bn agent terminate:*)"
        deny "binnacle(binnacle-orient)"
    }
    prompt-file "worker/other.md"
}
"""


EIGHT = {
    **dict.fromkeys(
        ("coordinator", "architect", "decomposer", "implementation-specialist", "poc-specialist"),
        "primary",
    ),
    **dict.fromkeys(("research-specialist", "code-reviewer", "architecture-reviewer"), "subagent"),
}


def only(found: Imported) -> ImportedAgent:
    assert found.problems == ()
    [agent] = found.agents
    return agent


@pytest.mark.parametrize("home", [".binnacle/agents/", "agents/", ""])
def test_a_block_of_binnacle_has_these_fields(home: str) -> None:
    """S0-10, S0-11, S0-12, S0-13, S0-14, S0-15, S0-16"""
    files = {
        "config.kdl": CONFIG,
        "worker/prompt.md": "not this one",
        "worker/other.md": "Run bn orient.\n",
    }
    tree = MemoryTree({home + path: text for path, text in files.items()})
    agent = only(binnacle.read(tree))
    assert (agent.name, agent.prompt) == ("worker", b"Run bn orient.\n")
    assert agent.settings == {
        "description": "AI worker that picks tasks from bn ready",
        "execution": "container",
        "session_state": "stateful",
        "tools.allow": ["write", "shell(bn:*)"],
        "tools.deny": ["shell(bn agent terminate:*)", "binnacle(binnacle-orient)"],
    }


# OpenCode's agents


def opencode_agent(front: str, name: str = "a") -> ImportedAgent:
    text = f"---\n{front}---\nYou are the **Role Name**.\n"
    return only(opencode.read(MemoryTree({f".opencode/agents/{name}.md": text})))


@pytest.mark.parametrize(
    ("front", "settings"),
    [
        pytest.param("description: One line\n", {"description": "One line"}, id="S1-02"),
        pytest.param("mode: primary\n", {"mode": "primary"}, id="S1-03-primary"),
        pytest.param("mode: all\n", {"mode": "all"}, id="S1-03-all"),
        pytest.param("temperature: 0.2\n", {"temperature": 0.2}, id="S1-04"),
        pytest.param(
            'model: "anthropic/claude-sonnet-4"\n',
            {"model": "anthropic/claude-sonnet-4"},
            id="S1-05",
        ),
        pytest.param("variant: high\n", {"variant": "high"}, id="S1-06"),
        pytest.param("top_p: 0.9\n", {"top_p": 0.9}, id="S1-07"),
        pytest.param("hidden: true\n", {"hidden": True}, id="S1-08"),
        pytest.param('color: "#ff8800"\n', {"color": "#ff8800"}, id="S1-09"),
        pytest.param("steps: 5\n", {"steps": 5}, id="S1-10"),
        pytest.param(
            "permission:\n  edit: deny\n  bash:\n"
            '    "git *": allow\n    "rm *": deny\n    "*": ask\n',
            {
                "tools.allow": ["shell(git *)"],
                "tools.deny": ["edit", "shell(rm *)"],
                "tools.ask": ["shell"],
            },
            id="S1-11",
        ),
        pytest.param("options:\n  effort: low\n", {"options": {"effort": "low"}}, id="S1-12"),
        pytest.param("tools:\n  write: false\n", {"tools.deny": ["write"]}, id="S1-14-tools"),
        pytest.param("maxSteps: 7\n", {"steps": 7}, id="S1-14-steps"),
        pytest.param("reasoning: deep\n", {"options": {"reasoning": "deep"}}, id="S1-16"),
    ],
)
def test_a_key_of_opencode_becomes_a_setting(front: str, settings: Mapping[str, object]) -> None:
    agent = opencode_agent(front)
    assert agent.settings == {"provider": "opencode", **settings}
    assert agent.prompt == b"You are the **Role Name**.\n"  # S1-01, S1-18


def test_a_disabled_built_in_agent_is_reported() -> None:
    """S1-13, S1-20"""
    text = '{"agent": {"build": {"disable": true}}}'
    found = opencode.read(MemoryTree({"opencode.json": text}))
    assert found.agents == ()
    assert [(loss.key, loss.reason) for loss in found.lost] == [
        ("build", "disables a built-in agent")
    ]


def test_later_rules_and_options_are_merged_with_those_of_the_agent(
    run: InProcess, tmp_path: Path
) -> None:
    """S1-23, S1-24"""
    files = {
        "city.toml": (
            'implicit_agents = false\n[imports.crew]\nsource = "packs/crew"\n'
            '[[patches.agent]]\nname = "crew.a"\ntools.deny_append = ["shell(rm *)"]\n'
            "options.nested.b = 2\n"
        ),
        "packs/crew/pack.toml": '[pack]\nname = "crew"\nschema = 2\n',
        "packs/crew/agents/a/prompt.md": "You help.\n",
        "packs/crew/agents/a/agent.toml": (
            'tools.deny = ["shell(git push *)"]\noptions.nested.a = 1\n'
        ),
    }
    root = build_tree(tmp_path / "town", files)
    fields = run("agent", "show", "crew.a", "--json", cwd=root).json["fields"]
    assert fields["tools.deny"]["value"] == ["shell(git push *)", "shell(rm *)"]
    assert fields["options"]["value"] == {"nested": {"a": 1, "b": 2}}


def test_the_roster_of_eight_agents_keeps_its_modes(run: InProcess) -> None:
    """S1-36"""
    root = Path(__file__).parents[2] / "migrate/cases/import-opencode-agents/after"
    found = {
        name: run("agent", "show", name, "--json", cwd=root).json["fields"]["mode"]["value"]
        for name in EIGHT
    }
    assert found == EIGHT


def test_an_agent_without_a_mode_is_for_everyone(run: InProcess, tmp_path: Path) -> None:
    """S1-21, S1-22, S1-37"""
    root = build_tree(tmp_path / "town", {"city.toml": "implicit_agents = false\n"})
    front = "---\ndescription: d\n---\nx\n"
    build_tree(tmp_path / "src", {".opencode/agents/a.md": front})
    run("migrate", "--from", "opencode", str(tmp_path / "src"), "--yes", cwd=root)
    fields = run("agent", "show", "a", "--json", cwd=root).json["fields"]
    assert (fields["mode"]["value"], fields["mode"]["layer"]) == ("all", "default")
    assert fields["options"]["value"] == {}


def test_an_agent_is_shown_with_its_name_and_whether_it_is_built_in(
    run: InProcess, tmp_path: Path
) -> None:
    """S1-15"""
    files = {"city.toml": '[workspace]\nprovider = "opencode"\n', "agents/a/prompt.md": "You.\n"}
    root = build_tree(tmp_path / "town", files)
    shown = {name: run("agent", "show", name, "--json", cwd=root).json for name in ("a", "shell")}
    assert {name: (one["name"], one["layer"]) for name, one in shown.items()} == {
        "a": ("a", "city"),
        "shell": ("shell", "built-in"),
    }


PATTERNS = """\
You are the **Implementation Specialist**. You implement, you do not plan.

Work only in `{{ .WorkDir }}`, on branch `{{ .Branch }}`; pass `workdir` to every tool.

1. Load the task
2. Implement it with `{{ .Tool }}`
3. Verify, update and commit

## Safe exit
Set the task to `blocked` and say why.

## Report
| file | change |
|---|---|
"""


def test_the_patterns_of_a_prompt_reach_the_model_with_the_session_s_own_values(
    city: CityBuilder,
) -> None:
    """S1-39: the directory and branch are filled in, everything else is passed as written."""
    text = PATTERNS.replace("{{ .Tool }}", "`bash`")
    found = city({"agents/a/prompt.template.md": text, "agents/a/agent.toml": 'work_dir = "box"\n'})
    agent = agent_of(found, "a")
    session = SessionContext("/town/box", "city/w-1")
    rendered = Prompts(found, Disk(found.root), Machine("linux", "2026-02-03"), session=session).of(
        agent
    )
    assert rendered.problems == ()
    assert rendered.text == text.replace("{{ .WorkDir }}", "/town/box").replace(
        "{{ .Branch }}", "city/w-1"
    )


# An assistant's agents

ASSISTANT = """\
{
  "agents": [
    {
      "agentId": "reading-list",
      "displayName": "Reading List Manager",
      "systemPrompt": "You are a reading list manager.",
      "toolAllowlist": ["reading_list_*"],
      "toolDenylist": ["reading_list_delete"],
      "toolExposure": "mixed",
      "skillAllowlist": ["notes"],
      "capabilityAllowlist": ["lists.*"],
      "capabilityDenylist": ["lists.write"],
      "agentAllowlist": ["todo", "journal"],
      "uiVisible": true,
      "apiExposed": false
    },
    {
      "agentId": "general",
      "displayName": "General Assistant",
      "systemPrompt": "You are a helpful general assistant.",
      "toolAllowlist": null,
      "uiVisible": false
    }
  ]
}
"""


def test_the_example_configuration_of_an_assistant_is_read() -> None:
    """S2-02, S2-05, S2-06, S2-07, S2-08, S2-09, S2-10, S2-12, S2-13, S2-65"""
    found = assistant.read(MemoryTree({"agents.json": ASSISTANT}))
    assert found.problems == ()
    reading, general = found.agents
    assert reading.settings == {
        "display_name": "Reading List Manager",
        "tools.exposure": "mixed",
        "tools.allow": ["reading_list_*"],
        "tools.deny": ["reading_list_delete"],
        "skills_filter.allow": ["notes"],
        "capabilities.allow": ["lists.*"],
        "capabilities.deny": ["lists.write"],
        "agents_filter.allow": ["todo", "journal"],
    }
    assert reading.prompt == b"You are a reading list manager."
    assert general.settings == {"display_name": "General Assistant", "hidden": True}
    assert [loss.key for loss in found.lost] == ["agents.0.apiExposed"]


def test_of_each_pair_of_lists_the_one_that_denies_comes_last(
    run: InProcess, tmp_path: Path
) -> None:
    """S2-11: tools, capabilities, servers, skills and agents."""
    server = 'name = "{0}"\ndescription = "d"\ncommand = "x"\n'
    skill = "---\nname: {0}\ndescription: d\n---\nx\n"
    pairs = ("mcp_filter", "skills_filter", "agents_filter")
    filters = "".join(f'[{pair}]\nallow = ["*"]\ndeny = ["b"]\n' for pair in pairs)
    files = {
        "city.toml": "implicit_agents = false\n",
        "agents/lead/prompt.md": "You lead.\n",
        "agents/lead/agent.toml": f'provider = "claude"\n{filters}',
        **{f"agents/{name}/prompt.md": "You help.\n" for name in "ab"},
        **{f"mcp/{name}.toml": server.format(name) for name in "ab"},
        **{f"skills/{name}/SKILL.md": skill.format(name) for name in "ab"},
    }
    root = build_tree(tmp_path / "town", files)
    servers = run("mcp", "list", "--agent", "lead", "--json", cwd=root).json["servers"]
    assert [row["name"] for row in servers if row["status"] == "projected"] == ["a"]
    steps = run("plan", "lead", "--json", cwd=root).json["agents"][0]["steps"]
    paths = [step["path"] for step in steps]
    assert ".claude/skills/a" in paths
    assert ".claude/skills/b" not in paths
    peers = run("agent", "show", "lead", "--peers", "--json", cwd=root).json
    assert peers["sends_to"] == ["a"]


def test_a_denied_tool_or_capability_stays_denied_whatever_allows_it() -> None:
    """S2-11"""
    every, drop = ToolWord("docs/*", "*"), ToolWord("docs/drop", "drop")
    rules = ToolRules((every,), (drop,), (), ("lists.*",), ("lists.write",))
    tools = rules._replace(own_capabilities={"add": ("lists.write",), "find": ("lists.read",)})
    found = {tool: tools.refusal(tool) for tool in ("drop", "add", "find")}
    assert {tool: refusal.rule if refusal else "" for tool, refusal in found.items()} == {
        "drop": "tools.deny",
        "add": "capabilities.deny",
        "find": "",
    }


@pytest.mark.parametrize(
    ("entry", "settings", "lost"),
    [
        pytest.param({"type": "external"}, None, ["a"], id="S2-03"),
        pytest.param({"chat": {"provider": "pi-cli"}}, {"provider": "pi"}, [], id="S2-04-pi"),
        pytest.param(
            {"chat": {"provider": "openai"}}, {}, ["agents.0.chat.provider"], id="S2-04-openai"
        ),
        pytest.param({"temperature": 1}, {}, ["agents.0.temperature"], id="S2-14"),
    ],
)
def test_a_key_of_an_assistant_becomes_a_setting_or_is_lost(
    entry: Mapping[str, object], settings: Mapping[str, object] | None, lost: list[str]
) -> None:
    text = json.dumps({"agents": [{"agentId": "a", **entry}]})
    found = assistant.read(MemoryTree({"agents.json": text}))
    assert [agent.settings for agent in found.agents] == ([] if settings is None else [settings])
    assert [loss.key for loss in found.lost] == lost


# agent-queue's profiles

PROFILE = """\
---
id: coding
name: Coding Agent
tags: [profile, agent-type]
---

# Coding Agent

## Role
You are a software engineering agent. You write, modify, and debug code
within a project workspace.

## Config
```json
{
  "model": "claude-sonnet-4-6",
  "permission_mode": "auto",
  "runtime": "claude_sdk"
}
```

The ``runtime`` field selects which Runtime implementation executes tasks.

## Tools
```json
{
  "allowed": ["shell", "file_read", "Read", "mcp__github__get_issue"],
  "denied": []
}
```

## MCP Servers
```json
["github", "playwright"]
```

## Rules
- Always run existing tests before committing

## Reflection
After completing a task, consider:
- Did I encounter any surprising behavior worth remembering?
"""


def test_the_example_profile_is_imported_unchanged() -> None:
    """S4-01, S4-02, S4-13"""
    files = {
        "vault/agent-types/coding/profile.md": PROFILE,
        "vault/mcp-servers/github.md": (
            "---\nname: github\ncommand: npx\nargs: [-y, server-github]\n---\n"
        ),
        "vault/templates/knowledge/coding/common-pitfalls.md": "Check for mismatches.\n",
    }
    found = agent_queue.read(MemoryTree(files))
    agent = only(found)
    assert agent.files["profile.md"].data.decode() == PROFILE
    [server] = found.servers
    assert (server.name, server.table["command"]) == ("github", "npx")
    assert [file.path for file in found.files] == ["templates/knowledge/coding/common-pitfalls.md"]


def test_the_example_profile_defines_an_agent() -> None:
    """S4-03, S4-04, S4-05, S4-06, S4-07, S4-08, S4-11, S4-12, S4-14, S4-15, S4-16, S4-23

    S4-25, S4-26
    """
    read = profile_settings(PROFILE, "agents/coding/profile.md", "coding")
    assert [problem for problem in read.problems if problem.is_error] == []
    assert read.table == {
        "display_name": "Coding Agent",
        "model": "claude-sonnet-4-6",
        "option_defaults": {"permission_mode": "auto-edit"},
        "provider": "claude",
        "tools": {"allow": ["shell", "file_read", "Read", "github/get_issue"], "deny": []},
        "mcp_filter": {"allow": ["github", "playwright"]},
        "reflection": "./profile.md",
    }
    assert profile_prompt(read_profile(PROFILE)).text == (
        "You are a software engineering agent. You write, modify, and debug code\n"
        "within a project workspace.\n\n## Rules\n- Always run existing tests before committing\n"
    )


def test_bare_names_of_the_city_s_tools_get_the_prefix_of_its_server(city: CityBuilder) -> None:
    """S4-24, S4-25, S4-26"""
    profile = PROFILE.replace(
        '"shell", "file_read", "Read", "mcp__github__get_issue"',
        '"Read", "agents_message", "memory_*", "mcp__github__get_issue"',
    )
    found = city({"agents/coding/profile.md": profile})
    agent = agent_of(found, "coding")
    provider = found.provider_of(agent)
    assert provider is not None
    flags = tool_flags(provider, agent, HEADLESS, ("city", "github"))
    assert flags.problems == ()
    assert flags.args == (
        *("--tools", "Read", "--allowedTools"),
        "Read,mcp__city__agents_message,mcp__city__memory_add,mcp__city__memory_search,"
        "mcp__github__get_issue",
    )


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        pytest.param('"claude_sdk"', '"supervisor"', "no-supervisor", id="S4-10"),
        pytest.param('["github", "playwright"]', '[{"command": "x"}]', "inline-server", id="S4-12"),
        pytest.param('"auto",', '"auto"', "bad-json", id="S4-20"),
    ],
)
def test_a_profile_that_cannot_be_read_is_an_error(old: str, new: str, code: str) -> None:
    read = profile_settings(PROFILE.replace(old, new), "profile.md", "coding")
    assert [problem.code for problem in read.problems if problem.is_error] == [code]


def test_an_imported_profile_is_exported_as_it_was_written(run: InProcess, tmp_path: Path) -> None:
    """S4-01, S4-16"""
    root = build_tree(
        tmp_path / "town",
        {"city.toml": "implicit_agents = false\n", "agents/coding/profile.md": PROFILE},
    )
    assert run("agent", "export", "--format", "profile", "--to", "out", cwd=root).code == 0
    text = (root / "out/coding/profile.md").read_text()
    assert profile_prompt(read_profile(text)).text == profile_prompt(read_profile(PROFILE)).text
    before = profile_settings(PROFILE, "profile.md", "coding")
    assert profile_settings(text, "profile.md", "coding").table == before.table
    assert "tags: ['profile', 'agent-type']" in text
    assert text.endswith("Did I encounter any surprising behavior worth remembering?\n")


@pytest.mark.parametrize("entry", ['command = "npx"\nargs = [1]\n', "args = []\n"])
def test_the_structure_of_a_server_is_checked(run: InProcess, tmp_path: Path, entry: str) -> None:
    """S4-22"""
    files = {
        "city.toml": "",
        "agents/a/prompt.md": "You help.\n",
        "mcp/x.toml": f'name = "x"\ndescription = "d"\n{entry}',
    }
    ran = run("check", cwd=build_tree(tmp_path / "town", files))
    assert ran.code == 1
    assert "mcp/x.toml:" in ran.err
