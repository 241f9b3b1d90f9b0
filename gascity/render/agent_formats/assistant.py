"""Writes agents as an assistant's configuration: `agents.json` with a list `agents`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gascity.model.values import JsonObject
from gascity.render.agent_formats.types import ExportedAgent, ExportedFile, lost_settings
from gascity.render.agent_tools import Lost

if TYPE_CHECKING:
    from gascity.model.setting_keys import AgentKey

_FILTERS: "Mapping[str, AgentKey]" = {
    "toolAllowlist": "tools.allow",
    "toolDenylist": "tools.deny",
    "skillAllowlist": "skills_filter.allow",
    "skillDenylist": "skills_filter.deny",
    "capabilityAllowlist": "capabilities.allow",
    "capabilityDenylist": "capabilities.deny",
    "agentAllowlist": "agents_filter.allow",
    "agentDenylist": "agents_filter.deny",
}
_PROVIDERS: Mapping[str, str] = {"claude": "claude-cli", "codex": "codex-cli", "pi": "pi-cli"}
_CARRIED = ("display_name", "description", "tools.exposure", "hidden", "model", "provider")
_NO_KEY = "an assistant's configuration has no key for it"


def write_assistant(agents: Sequence[ExportedAgent]) -> list[ExportedFile]:
    """Return `agents.json` with all agents."""
    value = {"agents": [_entry(agent) for agent in agents]}
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    names = tuple(agent.name for agent in agents)
    lost = {agent.name: tuple(_lost(agent)) for agent in agents}
    return [ExportedFile("agents.json", text, names, lost)]


def _entry(agent: ExportedAgent) -> JsonObject:
    entry: JsonObject = {
        "agentId": agent.file_name,
        "displayName": agent.text("display_name", agent.file_name),
        "description": agent.text("description"),
        "type": "chat",
    }
    chat = {"provider": _PROVIDERS.get(agent.provider), "model": agent.text("model")}
    if any(chat.values()):
        entry["chat"] = {key: value for key, value in chat.items() if value}
    entry["systemPrompt"] = agent.prompt
    for key, setting in _FILTERS.items():
        if (words := agent.words(setting)) is not None:
            entry[key] = words
    if exposure := agent.text("tools.exposure"):
        entry["toolExposure"] = exposure
    if agent.settings.get("hidden"):
        entry["uiVisible"] = False
    return entry


def _lost(agent: ExportedAgent) -> Iterator[Lost]:
    if agent.provider not in _PROVIDERS:
        known = ", ".join(_PROVIDERS.values())
        yield Lost("provider", agent.provider, f"an assistant runs only {known}")
    yield from lost_settings(agent, (*_CARRIED, *_FILTERS.values()), _NO_KEY)
