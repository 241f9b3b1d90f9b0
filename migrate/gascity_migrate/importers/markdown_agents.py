"""Reads agents in Markdown files with front matter: Claude Code, Copilot, Cursor and Gemini CLI.

These tools share the layout (metadata above, prompt below) and differ in their keys. A table per
tool says which key becomes which setting.
"""

import posixpath
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gascity.model.problems import warning
from gascity_migrate.importers.documents import Keys, read_markdown, valid_settings
from gascity_migrate.importers.servers import bare_references, own_servers, read_servers
from gascity_migrate.importers.types import (
    Findings,
    Imported,
    ImportedAgent,
    ImportedFile,
    ImportedSkill,
    SourceTree,
)

_PERMISSION_MODES = {
    "default": "manual",
    "acceptEdits": "auto-edit",
    "dontAsk": "dont-ask",
    "plan": "plan",
    "auto": "full-auto",
    "bypassPermissions": "unrestricted",
}
_UNKNOWN = "it has no counterpart"

Take = Callable[[Keys, str], object]


class AgentKeys(NamedTuple):
    """Format of one tool's agent files: its provider, file suffix, and the setting of each key."""

    provider: str
    suffix: str
    settings: Mapping[str, tuple[str, Take]]
    lost: Mapping[str, str] = {}  # known keys without a counterpart, and why
    name_is_title: bool = False  # the file name identifies the agent, `name` is only shown
    servers: str = ""  # the key that defines MCP servers of the agent alone
    expands: Callable[[str], str] = str  # rewrites references in them
    remote: tuple[str, object] = ("", None)  # key and value of an agent that runs elsewhere


def _text(keys: Keys, key: str) -> object:
    return keys.text(key) or None


def _model(keys: Keys, key: str) -> object:
    model = keys.text(key)
    return None if model in ("", "inherit") else model


def _permission_mode(keys: Keys, key: str) -> object:
    line, mode = keys.line(key), keys.text(key)
    if mode and mode not in _PERMISSION_MODES:
        keys.findings.lose(keys.path, line, key, f"`{mode}` is not a known mode")
    elif mode == "bypassPermissions":
        message = "`permissionMode: bypassPermissions` is imported as `unrestricted`: no checks"
        place = keys.findings.place(keys.path, line)
        hint = "remove `permission_mode` from the agent to restrict it again"
        keys.findings.problems.append(warning("unrestricted-agent", message, place, hint))
    return _PERMISSION_MODES.get(mode)


def _number(keys: Keys, key: str) -> object:
    return keys.number(key)


def _integer(keys: Keys, key: str) -> object:
    return keys.integer(key)


def _words(keys: Keys, key: str) -> object:
    words = keys.words(key)
    return list(words) if words is not None else None


_COMMON: Mapping[str, tuple[str, Take]] = {
    "description": ("description", _text),
    "model": ("model", _model),
    "tools": ("tools.allow", _words),
}
CLAUDE = AgentKeys(
    "claude",
    ".md",
    {
        **_COMMON,
        "disallowedTools": ("tools.deny", _words),
        "permissionMode": ("option_defaults.permission_mode", _permission_mode),
        "maxTurns": ("steps", _integer),
        "color": ("color", _text),
        "effort": ("option_defaults.effort", _text),
        "skills": ("skills_filter.allow", _words),
    },
    {
        "hooks": "hooks belong in an overlay, `.claude/settings.json`",
        "memory": "memory of Claude Code is not read",
        "background": "how an agent is started is decided when work is slung",
        "isolation": "set `isolation` of the agent",
    },
    servers="mcpServers",
)
COPILOT = AgentKeys(
    "copilot",
    ".agent.md",
    {**_COMMON, "name": ("display_name", _text)},
    {
        "argument-hint": "it is for editors",
        "handoffs": "it is for editors",
        "target": "it is for editors",
        "infer": "agents choose by `agents_filter`",
    },
    name_is_title=True,
    servers="mcp-servers",
)
CHAT_MODE = COPILOT._replace(suffix=".chatmode.md")  # the former name of an editor's agent
CURSOR = AgentKeys(
    "cursor",
    ".md",
    _COMMON,
    {"readonly": "set `tools.deny`", "is_background": "slung work always runs in the background"},
)
GEMINI = AgentKeys(
    "gemini",
    ".md",
    {
        **_COMMON,
        "display_name": ("display_name", _text),
        "temperature": ("temperature", _number),
        "max_turns": ("steps", _integer),
        "kind": ("", _text),  # `local`, as every agent of a city
    },
    {"timeout_mins": "set `limits.timeout`"},
    servers="mcpServers",
    expands=bare_references,
    remote=("kind", "remote"),
)

# An agent file without a key that only one tool has; the city's provider runs it.
COMMON = AgentKeys("", ".md", _COMMON)


def read_claude(tree: SourceTree) -> Imported:
    """Read a project's Claude Code files: agents, skills and MCP servers."""
    findings = Findings(tree)
    add_agents(findings, CLAUDE, ".claude/agents/**/*.md")
    add_skills(findings, ".claude/skills")
    read_servers(findings, ".mcp.json", "mcpServers")
    add_instructions(findings, "CLAUDE.md", "claude")
    return findings.result()


def read_copilot(tree: SourceTree) -> Imported:
    """Read a project's Copilot files: agents, skills and MCP servers."""
    findings = Findings(tree)
    add_agents(findings, COPILOT, ".github/agents/*.agent.md")
    add_agents(findings, CHAT_MODE, ".github/chatmodes/*.chatmode.md")
    add_skills(findings, ".github/skills")
    read_servers(findings, ".github/mcp.json", "mcpServers")
    read_servers(findings, ".vscode/mcp.json", "servers")
    add_instructions(findings, ".github/copilot-instructions.md", "copilot")
    return findings.result()


def read_cursor(tree: SourceTree) -> Imported:
    """Read a project's Cursor files: rules, agents, skills and MCP servers."""
    findings = Findings(tree)
    add_agents(findings, CURSOR, ".cursor/agents/*.md")
    add_skills(findings, ".cursor/skills")
    read_servers(findings, ".cursor/mcp.json", "mcpServers")
    for path in tree.matching(".cursor/rules/**/*.mdc"):
        file = tree.read(path)
        if file is not None:
            target = f"overlay/per-provider/cursor/{path}"
            findings.files.append(ImportedFile(target, file, findings.place(path), True))
    return findings.result()


def read_gemini(tree: SourceTree) -> Imported:
    """Read a project's Gemini CLI files: agents, skills and MCP servers."""
    findings = Findings(tree)
    add_agents(findings, GEMINI, ".gemini/agents/*.md")
    add_skills(findings, ".gemini/skills")
    read_servers(findings, ".gemini/settings.json", "mcpServers", expands=bare_references)
    add_instructions(findings, "GEMINI.md", "gemini")
    return findings.result()


def add_agents(findings: Findings, tool: AgentKeys, *patterns: str) -> None:
    """Add the agents in the Markdown files that match a pattern."""
    for path in findings.tree.matching(*patterns):
        add_agent(findings, tool, path)


def add_agent(findings: Findings, tool: AgentKeys, path: str) -> None:
    """Add the agent in a Markdown file."""
    markdown = read_markdown(findings, path)
    if markdown is None:
        return
    keys, body = markdown
    if not keys.values and tool.provider != "copilot":
        findings.lose(
            path, 1, posixpath.basename(path), "it has no front matter, so it is no agent"
        )
        return
    key, value = tool.remote
    if key and keys.values.get(key) == value:
        keys.lose(key, "remote agents are programs of their own")
        return
    name = posixpath.basename(path).removesuffix(tool.suffix)
    if not tool.name_is_title:
        name = keys.text("name") or name
    settings: dict[str, object] = {}
    for key, (setting, take) in tool.settings.items():
        value = take(keys, key) if key in keys.values else None
        if setting and value is not None:
            settings[setting] = value
    files = own_servers(keys, tool.servers, tool.expands) if tool.servers else {}
    for key, reason in tool.lost.items():
        if key in keys.values:
            keys.lose(key, reason)
    keys.lose_rest(_UNKNOWN)
    if tool.provider:
        settings["provider"] = tool.provider
    written = {setting: key for key, (setting, _) in tool.settings.items()}
    prompt = body if body.strip() else None
    place = findings.place(path, keys.line("name"))
    checked = valid_settings(keys, settings, written)
    findings.agents.append(ImportedAgent(name, checked, prompt, place, files))


def add_skills(findings: Findings, directory: str) -> None:
    """Add the skills of a directory: each is a folder with a SKILL.md."""
    for path in findings.tree.matching(f"{directory}/*/SKILL.md"):
        folder = posixpath.dirname(path)
        files = {
            below[len(folder) + 1 :]: file
            for below in findings.tree.matching(f"{folder}/**/*")
            if (file := findings.tree.read(below)) is not None
        }
        name = posixpath.basename(folder)
        findings.skills.append(ImportedSkill(name, files, findings.place(path)))


def add_instructions(findings: Findings, path: str, provider: str = "") -> None:
    """Add an instructions file of the project, as an overlay of one provider or of all."""
    file = findings.tree.read(path)
    if file is not None:
        directory = f"overlay/per-provider/{provider}" if provider else "overlay"
        target = f"{directory}/{path}"
        findings.files.append(ImportedFile(target, file, findings.place(path), True))
