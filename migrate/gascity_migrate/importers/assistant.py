"""Reads the agents of an assistant's configuration: JSON with a list `agents`."""

from gascity_migrate.importers.documents import JsonDocument, Keys, read_json, valid_settings
from gascity_migrate.importers.types import Findings, Imported, ImportedAgent, SourceTree

_FILES = ("agents.json", "config.json", "assistant.json")
_TEXTS = {
    "displayName": "display_name",
    "description": "description",
    "toolExposure": "tools.exposure",
}
_FILTERS = {
    "toolAllowlist": "tools.allow",
    "toolDenylist": "tools.deny",
    "skillAllowlist": "skills_filter.allow",
    "skillDenylist": "skills_filter.deny",
    "capabilityAllowlist": "capabilities.allow",
    "capabilityDenylist": "capabilities.deny",
    "agentAllowlist": "agents_filter.allow",
    "agentDenylist": "agents_filter.deny",
}
_WRITTEN = {setting: key for key, setting in (*_TEXTS.items(), *_FILTERS.items())}
_PROVIDERS = {"claude-cli": "claude", "codex-cli": "codex", "pi-cli": "pi"}


def read(tree: SourceTree) -> Imported:
    """Read the agents of a JSON file with a list `agents`."""
    findings = Findings(tree)
    for path in [tree.single] if tree.single else tree.matching(*_FILES):
        if not tree.single and '"agentId"' not in (findings.text(path) or ""):
            continue  # other tools use the same file names
        document = read_json(findings, path)
        node = document.node("agents") if document else None
        if document is None or node is None or not isinstance(node.value, list):
            continue
        names: dict[str, int] = {}
        for index, value in enumerate(node.value):
            if not isinstance(value, dict):
                where = f"agents.{index}"
                findings.lose(path, document.line("agents", index), where, "expected a table")
                continue
            _add_agent(findings, path, document, index, names)
    return findings.result()


def _add_agent(
    findings: Findings, path: str, document: JsonDocument, index: int, names: dict[str, int]
) -> None:
    keys = document.keys(findings, path, "agents", index, prefix=f"agents.{index}.")
    line = document.line("agents", index)
    name = keys.text("agentId")
    if not name:
        findings.refuse("missing-key", "`agentId` is missing", path, line)
        return
    if name in names:
        message = f"`{name}` is defined twice, first on line {names[name]}"
        findings.refuse("duplicate-agent", message, path, line)
        return
    names[name] = line
    if keys.text("type") == "external":
        findings.lose(path, line, name, "external agents are programs of their own")
        return
    settings = _settings(keys)
    _add_provider(document, keys, index, settings)
    prompt = keys.text("systemPrompt")
    if "apiExposed" in keys.values:
        keys.lose("apiExposed", "it has no effect")
    keys.lose_rest()
    body = prompt.encode() if prompt else None
    checked = valid_settings(keys, settings, _WRITTEN)
    findings.agents.append(ImportedAgent(name, checked, body, findings.place(path, line)))


def _settings(keys: Keys) -> dict[str, object]:
    settings: dict[str, object] = {}
    for key, setting in _TEXTS.items():
        if text := keys.text(key):
            settings[setting] = text
    for key, setting in _FILTERS.items():
        if (words := keys.words(key)) is not None:
            settings[setting] = list(words)
    if keys.flag("uiVisible") is False:
        settings["hidden"] = True
    return settings


def _add_provider(
    document: JsonDocument, keys: Keys, index: int, settings: dict[str, object]
) -> None:
    if "chat" not in keys.values:
        return
    chat = document.keys(
        keys.findings, keys.path, "agents", index, "chat", prefix=f"agents.{index}.chat."
    )
    keys.values.pop("chat")
    line, provider = chat.line("provider"), chat.text("provider")
    if provider in _PROVIDERS:
        settings["provider"] = _PROVIDERS[provider]
    elif provider:
        reason = f"`{provider}` is not a provider of city"
        keys.findings.lose(keys.path, line, f"agents.{index}.chat.provider", reason)
    if model := chat.text("model"):
        settings["model"] = model
    chat.lose_rest()
