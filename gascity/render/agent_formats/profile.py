"""Writes an agent as agent-queue's `profile.md`, which is also a native definition.

The prompt becomes `## Role`. A heading in it that a profile gives another meaning is written one
level lower. What is written is read back, so that any other difference is reported, too.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gascity.model.profile import (
    CONFIG,
    REFLECTION,
    ROLE,
    RULES,
    SERVERS,
    TOOLS,
    ProfileSection,
    profile_prompt,
    read_profile,
)
from gascity.model.values import JsonObject
from gascity.render.agent_formats.types import (
    NAMES_OF_FILES,
    ExportedAgent,
    ExportedFile,
    lost_settings,
)
from gascity.render.agent_text import yaml_text
from gascity.render.agent_tools import Lost

if TYPE_CHECKING:
    from gascity.model.setting_keys import AgentKey

_IDENTITY = ("description", "display_name")
_TOOL_LISTS: "Mapping[str, AgentKey]" = {
    "allowed": "tools.allow",
    "denied": "tools.deny",
    "ask": "tools.ask",
}
_SERVERS: "AgentKey" = "mcp_filter.allow"
_MODE = "permission_mode"
_ELSEWHERE = frozenset((*_IDENTITY, *_TOOL_LISTS.values(), _SERVERS, "provider", "reflection"))
_NOT_WRITTEN = {
    "runtime": "`runtime` selects the provider in a profile",
    **dict.fromkeys(NAMES_OF_FILES, "the file that it names is not exported"),
}
_SERVER_TOOL = re.compile(r"((?:(?!__)[\w-])+)/([\w*-]+)")
_BLANK_LINES = "empty lines at its start, at its end and below headings are not kept"


def write_profiles(agents: Sequence[ExportedAgent]) -> list[ExportedFile]:
    """Return `NAME/profile.md` for each agent."""
    return [_profile(agent) for agent in agents]


def _profile(agent: ExportedAgent) -> ExportedFile:
    prompt, changed = _with_lower_headings(agent.prompt)
    head = _head(agent)
    role = [f"## {ROLE}\n{prompt.strip()}\n"]
    settings = list(_setting_sections(agent))
    text = "\n".join((head, *role, *settings))
    if _prompt_of(text) != _prompt_of("\n".join((head, *role))):
        # A fence that the prompt leaves open would hide the settings, so they come first.
        text = "\n".join((head, *settings, *role))
    lost = [*_lost(agent), *changed]
    if _prompt_of(text).removesuffix("\n") != prompt.removesuffix("\n"):
        lost.append(Lost("prompt", "", _BLANK_LINES))
    path = f"{agent.file_name}/profile.md"
    return ExportedFile(path, text, (agent.name,), {agent.name: tuple(lost)})


def _prompt_of(text: str) -> str:
    return profile_prompt(read_profile(text)).text


def _head(agent: ExportedAgent) -> str:
    title = agent.text("display_name", agent.file_name)
    matter: JsonObject = {"id": agent.file_name, "name": title}
    if description := agent.text("description"):
        matter["description"] = description
    if agent.tags:
        matter["tags"] = list(agent.tags)
    return f"---\n{yaml_text(matter)}\n---\n\n# {' '.join(title.split())}\n"


def _setting_sections(agent: ExportedAgent) -> Iterator[str]:
    if config := _config(agent):
        yield _json_section(CONFIG, config)
    tools = {key: agent.words(setting) for key, setting in _TOOL_LISTS.items()}
    if any(words is not None for words in tools.values()):
        listed = {key: [*map(_tool, words)] for key, words in tools.items() if words is not None}
        yield _json_section(TOOLS, listed)
    if (servers := agent.words(_SERVERS)) is not None:
        yield _json_section(SERVERS, servers)
    if agent.reflection:
        yield f"## {REFLECTION}\n{agent.reflection.strip()}\n"


def _json_section(title: str, value: object) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return f"## {title}\n```json\n{text}\n```\n"


def _config(agent: ExportedAgent) -> JsonObject:
    """Return the object of `## Config`: agent-queue's own keys first, then other settings."""
    config: JsonObject = {}
    if agent.provider == "claude":
        config["runtime"] = "claude_sdk"
    elif agent.provider:
        config |= {"runtime": "acpx", "agent_name": agent.provider}
    for name, value in agent.settings.items():
        if name in _ELSEWHERE or name in _NOT_WRITTEN:
            continue
        match name, value:
            case "env", dict():
                value = {key: text for key, text in value.items() if key not in agent.secrets}
            case "option_defaults", {"permission_mode": mode, **others}:
                config[_MODE] = "auto" if mode == "auto-edit" else mode
                value = others
            case _, tuple():
                value = list(value)
        if value != {}:
            _put(config, name, value)
    return config


def _put(table: JsonObject, name: str, value: object) -> None:
    """Set `limits.timeout` as `timeout` in the object `limits`."""
    *above, last = name.split(".")
    for key in above:
        inner = table.setdefault(key, {})
        assert isinstance(inner, dict)
        table = inner
    table[last] = value


def _tool(word: str) -> str:
    """Return a tool of a server as agent-queue spells it."""
    match = _SERVER_TOOL.fullmatch(word)
    return f"mcp__{match[1]}__{match[2]}" if match else word


def _lost(agent: ExportedAgent) -> Iterator[Lost]:
    carried = [name for name in agent.settings if name not in _NOT_WRITTEN]
    yield from lost_settings(agent, carried, "", _NOT_WRITTEN)
    for name in agent.secrets:
        yield Lost("env", name, "a secret is not exported")


def _with_lower_headings(prompt: str) -> tuple[str, list[Lost]]:
    """Write headings that would be sections of the profile one level lower.

    `## Rules` is part of the prompt, but comes last in it, so only the last section may have it.
    """
    sections = read_profile(f"## {ROLE}\n{prompt}").sections[1:]
    special = [
        section
        for at, section in enumerate(sections)
        if section.is_known and (section.title != RULES or at < len(sections) - 1)
    ]
    lines = prompt.splitlines(keepends=True)
    for section in special:
        at = section.line - 2  # lines start at 1, and one was added above
        lines[at] = lines[at].replace("##", "###", 1)
    return "".join(lines), [_lowered(section) for section in special]


def _lowered(section: ProfileSection) -> Lost:
    reason = f"it would be a section of the profile; written as `### {section.title}`"
    return Lost("prompt", f"## {section.title}", reason)
