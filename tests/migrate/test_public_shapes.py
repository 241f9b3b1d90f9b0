"""`city import` of repositories with agent files in the shapes that public ones have."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.in_process import InProcess
from tests.support.trees import build_tree


class Repository(NamedTuple):
    """The files of a repository, and what an import finds, writes and does not carry."""

    files: Mapping[str, str]
    written: Mapping[str, str]
    found: tuple[str, ...]
    not_carried: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # codes of `city check` afterwards


# A collection of subagents by subject: folded descriptions with examples, a comma list of tools.
CLAUDE = Repository(
    {
        ".claude/agents/quality/test-writer.md": (
            "---\nname: test-writer\n"
            "description: >-\n  Writes tests for changed code.\n  Use it after a change.\n"
            "tools: Read, Grep, Bash(npm test:*), mcp__docs__find\n"
            "model: sonnet\nmaxTurns: 20\nmemory: project\n---\n\n# Role\n\nYou write tests.\n"
        ),
        ".claude/agents/README.md": "# Our agents\n\nOne folder for each subject.\n",
    },
    {
        "agents/test-writer/agent.toml": (
            'description = "Writes tests for changed code. Use it after a change."\n'
            'provider = "claude"\nmodel = "sonnet"\nsteps = 20\n\n'
            '[tools]\nallow = ["Read", "Grep", "Bash(npm test:*)", "mcp__docs__find"]\n'
        ),
        "agents/test-writer/prompt.md": "\n# Role\n\nYou write tests.\n",
    },
    ("1 agents",),
    (
        ".claude/agents/README.md:1 README.md: it has no front matter, so it is no agent",
        ".claude/agents/quality/test-writer.md:9 memory: memory of Claude Code is not read",
    ),
)
# Agents that differ by permissions, and one more in the configuration.
OPENCODE = Repository(
    {
        ".opencode/agent/audit.md": (
            "---\ndescription: Audits without changes\nmode: subagent\n"
            "model: anthropic/claude-sonnet-4-5\ntemperature: 0.1\nmaxSteps: 10\n"
            "permission:\n  edit: deny\n  bash:\n    '*': ask\n    'git log *': allow\n---\n"
            "You audit.\n"
        ),
        "opencode.jsonc": (
            "{\n  // for all of us\n"
            '  "agent": {"docs": {"description": "Writes docs", "prompt": "You write docs.",\n'
            '    "tools": {"bash": false}}},\n}\n'
        ),
    },
    {
        "agents/audit/agent.toml": (
            'description = "Audits without changes"\nprovider = "opencode"\n'
            'model = "anthropic/claude-sonnet-4-5"\nmode = "subagent"\ntemperature = 0.1\n'
            "steps = 10\n\n"
            '[tools]\nallow = ["shell(git log *)"]\ndeny = ["edit"]\nask = ["shell"]\n'
        ),
        "agents/audit/prompt.md": "You audit.\n",
        "agents/docs/agent.toml": (
            'description = "Writes docs"\nprovider = "opencode"\n\n[tools]\ndeny = ["shell"]\n'
        ),
        "agents/docs/prompt.md": "You write docs.",
    },
    ("2 agents",),
    (
        ".opencode/agent/audit.md:7 permission.*: tools.allow restricts the agent to what it lists;"
        " add what it also needs",
    ),
)
# A mode of the editor that became an agent, with tools of extensions and a next step.
COPILOT = Repository(
    {
        ".github/agents/planner.agent.md": (
            "---\nname: Planner\ndescription: 'Plans a change'\n"
            "tools:\n    [\n        'search',\n        'fetch',\n        'github/*',\n    ]\n"
            "model: gpt-5\nhandoffs:\n  - label: Build it\n    agent: builder\n    send: false\n"
            "---\nYou plan.\n"
        ),
        ".github/chatmodes/api.chatmode.md": (
            "---\ndescription: 'Designs an API'\n"
            "tools: ['edit', 'runCommands', 'github/github-mcp-server/*',\n"
            "  'github.vscode-pull-request-github/openPullRequest', 'githubRepo']\n---\n"
            "You design.\n"
        ),
        ".github/copilot-instructions.md": "Use tabs.\n",
    },
    {
        "agents/api/agent.toml": (
            'description = "Designs an API"\nprovider = "copilot"\n\n'
            '[tools]\nallow = ["edit", "runCommands", "github/github-mcp-server/*", '
            '"github.vscode-pull-request-github/openPullRequest", "githubRepo"]\n'
        ),
        "agents/api/prompt.md": "You design.\n",
        "agents/planner/agent.toml": (
            'description = "Plans a change"\ndisplay_name = "Planner"\nprovider = "copilot"\n'
            'model = "gpt-5"\n\n[tools]\nallow = ["search", "fetch", "github/*"]\n'
        ),
        "agents/planner/prompt.md": "You plan.\n",
        "overlay/per-provider/copilot/.github/copilot-instructions.md": "Use tabs.\n",
    },
    ("2 agents", "1 files"),
    (".github/agents/planner.agent.md:11 handoffs: it is for editors",),
    ("unenforceable-scope",),  # of the tools of extensions, which only the editor has
)
# Roles as tables, with a sandbox, next to a server.
CODEX = Repository(
    {
        ".codex/agents/explorer.toml": (
            'name = "explorer"\ndescription = "Reads code"\nmodel_reasoning_effort = "medium"\n'
            'sandbox_mode = "read-only"\ndeveloper_instructions = """\nStay in reading mode.\n"""\n'
        ),
        ".codex/config.toml": (
            "[agents]\nmax_threads = 4\n\n"
            '[mcp_servers.docs]\ncommand = "npx"\nargs = ["-y", "docs-server"]\n'
        ),
    },
    {
        "agents/explorer/agent.toml": (
            'description = "Reads code"\nprovider = "codex"\n\n'
            '[option_defaults]\neffort = "medium"\n'
        ),
        "agents/explorer/prompt.md": "Stay in reading mode.\n",
        "mcp/docs.toml": (
            'name = "docs"\ndescription = "MCP server docs, from .codex/config.toml"\n'
            'command = "npx"\nargs = ["-y", "docs-server"]\n'
        ),
    },
    ("1 agents", "1 servers"),
    (".codex/agents/explorer.toml:4 sandbox_mode: it has no counterpart",),
)
# Rules by file name; the unquoted glob is no valid YAML, and Cursor reads it all the same.
STYLE = "---\ndescription: Style\nglobs: *.ts,*.tsx\nalwaysApply: false\n---\nUse tabs.\n"
CURSOR = Repository(
    {
        ".cursor/rules/code/style.mdc": STYLE,
        ".cursor/agents/verifier.md": (
            "---\nname: verifier\ndescription: Checks that work is done\nmodel: inherit\n"
            "readonly: true\n---\nYou check.\n"
        ),
    },
    {
        "agents/verifier/agent.toml": (
            'description = "Checks that work is done"\nprovider = "cursor"\n'
        ),
        "agents/verifier/prompt.md": "You check.\n",
        "overlay/per-provider/cursor/.cursor/rules/code/style.mdc": STYLE,
    },
    ("1 agents", "1 files"),
    (".cursor/agents/verifier.md:5 readonly: set `tools.deny`",),
)
REPOSITORIES = {
    "claude": CLAUDE,
    "opencode": OPENCODE,
    "copilot": COPILOT,
    "codex": CODEX,
    "cursor": CURSOR,
}


@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_is_imported_and_the_city_is_clean(
    run: InProcess, tmp_path: Path, name: str
) -> None:
    repository = REPOSITORIES[name]
    town = build_tree(tmp_path / "town", {"city.toml": "implicit_agents = false\n"})
    source = build_tree(tmp_path / "source", repository.files)
    ran = run("import", str(source), "--yes", "--json", cwd=town)
    assert (ran.code, ran.json["problems"], ran.json["verified"]) == (0, [], True)
    lost = [
        f"{Path(loss['file']).relative_to(source)}:{loss['line']} {loss['key']}: {loss['reason']}"
        for loss in ran.json["not_carried"]
    ]
    assert tuple(lost) == repository.not_carried
    assert {found["dialect"] for found in ran.json["found"]} == {name}
    counts = tuple(f"{found['count']} {found['kind']}" for found in ran.json["found"])
    assert counts == repository.found
    written = {
        str(path.relative_to(town)): path.read_text()
        for path in town.rglob("*")
        if path.is_file() and ".gc" not in path.parts and path.name != "city.toml"
    }
    assert written == repository.written
    checked = run("check", "--json", cwd=town)
    codes = tuple(problem["code"] for problem in checked.json["problems"])
    assert (checked.code, codes) == (0, repository.warnings)
