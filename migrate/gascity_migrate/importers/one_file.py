"""Reads a single agent file of any tool; its format is detected by its path and its keys."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress

from gascity.cli.agent.from_file import AgentFileContent, LostKey
from gascity.cli.context import CommandContext
from gascity.cli.problems import city_error
from gascity.jsonc.tree import JsoncError
from gascity.model.problems import CityError
from gascity.source.profiles import edit_profile
from gascity_migrate.import_cli import open_source
from gascity_migrate.importers.codex import add_agent as add_codex
from gascity_migrate.importers.documents import read_markdown
from gascity_migrate.importers.markdown_agents import (
    CLAUDE,
    COMMON,
    COPILOT,
    CURSOR,
    GEMINI,
    AgentKeys,
    add_agent,
)
from gascity_migrate.importers.opencode import add_file as add_opencode
from gascity_migrate.importers.plan import agent_files
from gascity_migrate.importers.types import Findings, SourceTree

_PROFILE, _CODEX, _OPENCODE, _PLAIN = "profile", "codex", "opencode", "markdown"
_SCHEMA = b"#:schema ../../.gc/schemas/agent.schema.json\n"
_PROFILE_SECTION = re.compile(r"^## (?:Role|Config|Rules)[ \t]*$", re.MULTILINE)
_TOOLS: Mapping[str, AgentKeys] = {
    "claude": CLAUDE,
    "copilot": COPILOT,
    "cursor": CURSOR,
    "gemini": GEMINI,
}
# The provider by a directory above the file. What is not in _TOOLS has the keys that all share.
_DIRECTORIES = {
    ".claude": "claude",
    ".copilot": "copilot",
    ".cursor": "cursor",
    ".factory": "droid",
    ".gemini": "gemini",
    ".github": "copilot",
    ".grok": "grok",
    ".kilo": "kilo",
    ".kimi-code": "kimi",
    ".opencode": _OPENCODE,
    ".qwen": "qwen",
    "kilo": "kilo",
    "opencode": _OPENCODE,
}
# Keys that only one tool has, in the order in which they decide.
_OWN_KEYS: Mapping[str, frozenset[str]] = {
    _OPENCODE: frozenset(
        ("mode", "permission", "top_p", "steps", "maxSteps", "disable", "hidden", "variant")
    ),
    "gemini": frozenset(("kind", "max_turns", "timeout_mins", "display_name")),
    "copilot": frozenset(("argument-hint", "handoffs", "target", "infer", "mcp-servers")),
    "cursor": frozenset(("readonly", "is_background")),
    "claude": frozenset(
        ("disallowedTools", "permissionMode", "maxTurns", "color", "skills", "effort", "hooks")
    ),
}


def read_agent_file(
    context: CommandContext, file: str, name: str, settings: Mapping[str, str]
) -> AgentFileContent:
    """Return the files of an agent directory `name` for an agent file.

    `settings` override those of the file. Raises CityError with all problems of the file.
    """
    tree = open_source(context, file)
    if not tree.single:
        hint = f"`city import {file}` imports all agents of a directory"
        raise city_error("not-an-agent-file", f"{file} is a directory", hint)
    findings = Findings(tree)
    detected = _detect(findings, os.path.join(tree.root, tree.single))
    if detected == _PROFILE:
        files = _profile_files(findings, name, settings)
    else:
        _reader(detected)(findings, tree.single)
        provider = {} if detected == _PLAIN else {"provider": detected}
        files = _files(findings, name, {**provider, **settings})
    if any(problem.is_error for problem in findings.problems):
        raise CityError(*findings.problems)
    if not files:
        hint = "an agent file starts with front matter between lines of `---`"
        raise city_error("not-an-agent-file", f"{file} has no front matter", hint)
    context.print_problems(findings.problems)
    return AgentFileContent(detected, files, tuple(LostKey(*lost) for lost in findings.lost))


def _detect(findings: Findings, path: str) -> str:
    """Return the format of the source's file."""
    file = os.path.basename(path)
    if file.endswith(".toml"):
        return _CODEX
    if not file.endswith(".md"):
        hint = "use a Markdown file, or a .toml file of Codex; `city import` reads other files"
        raise city_error("not-an-agent-file", f"{file} is not an agent file", hint)
    if file == "profile.md" or _is_profile(findings.tree):
        return _PROFILE
    if file.endswith((".agent.md", ".chatmode.md")):
        return "copilot"
    for directory in reversed(path.split("/")[:-1]):
        if directory in _DIRECTORIES:
            return _DIRECTORIES[directory]
    markdown = read_markdown(Findings(findings.tree), findings.tree.single)
    return _detect_by_keys(markdown.keys.values if markdown else {})


def _is_profile(tree: SourceTree) -> bool:
    """Return whether a file has an `id`, as profiles do, and two sections of a profile."""
    markdown = read_markdown(Findings(tree), tree.single)
    if markdown is None or "id" not in markdown.keys.values:
        return False
    return len(_PROFILE_SECTION.findall(markdown.body.decode())) > 1


def _detect_by_keys(values: Mapping[str, object]) -> str:
    if isinstance(values.get("tools"), dict):
        return _OPENCODE
    for tool, keys in _OWN_KEYS.items():
        if keys & values.keys():
            return tool
    tools = values.get("tools")
    # Claude Code's tools start with a capital letter: `Read, Grep`.
    if isinstance(tools, str) and tools[:1].isupper():
        return "claude"
    return _PLAIN


def _reader(detected: str) -> Callable[[Findings, str], None]:
    if detected == _CODEX:
        return add_codex
    if detected in (_OPENCODE, "kilo"):
        return lambda findings, path: add_opencode(findings, path, path.removesuffix(".md"))
    return lambda findings, path: add_agent(findings, _TOOLS.get(detected, COMMON), path)


def _files(findings: Findings, name: str, settings: Mapping[str, str]) -> dict[str, bytes]:
    """Return agent.toml and prompt.md of the agent that was read; none if there is none."""
    if not findings.agents:
        return {}
    agent = findings.agents[0]
    merged = {**agent.settings, **settings}
    files = agent_files(agent._replace(name=name, settings=merged))
    return {path: _SCHEMA * (path == "agent.toml") + data for path, (data, _) in files}


def _profile_files(findings: Findings, name: str, settings: Mapping[str, str]) -> dict[str, bytes]:
    """Return the profile with the new agent's id and the given settings."""
    text = findings.text(findings.tree.single)
    if text is None:
        return {}
    text = re.sub(r"(\A---\n(?:(?!---).*\n)*?id:[ \t]*).*", lambda m: m[1] + name, text, count=1)
    with suppress(JsoncError):  # the city reports a block that is not valid, with its place
        text = edit_profile(text, settings)
    return {"profile.md": text.encode()}
