"""Reads Codex's agents and the MCP servers of its config.toml."""

import posixpath

from gascity.toml.positions import locate
from gascity_migrate.importers.documents import read_toml, toml_keys, valid_settings
from gascity_migrate.importers.markdown_agents import add_instructions, add_skills
from gascity_migrate.importers.servers import add_server, own_servers
from gascity_migrate.importers.types import Findings, Imported, ImportedAgent, SourceTree

_CONFIG = ".codex/config.toml"
_WRITTEN = {"option_defaults.effort": "model_reasoning_effort"}


def read(tree: SourceTree) -> Imported:
    """Read a project's Codex files: agents, skills and MCP servers."""
    findings = Findings(tree)
    document = read_toml(findings, _CONFIG)
    text, values = document or ("", {})
    configured = _add_configured(findings, text, values.get("agents"))
    for path in tree.matching(".codex/agents/*.toml"):
        if path not in configured:
            add_agent(findings, path)
    _add_servers(findings, text, values.get("mcp_servers"))
    add_skills(findings, ".agents/skills")
    add_instructions(findings, "AGENTS.md")
    return findings.result()


def _add_configured(findings: Findings, text: str, agents: object) -> set[str]:
    """Add the agents that config.toml names; return their files."""
    files = set()
    for name, table in agents.items() if isinstance(agents, dict) else ():
        if not isinstance(table, dict):  # a limit for all of them, such as max_threads
            continue
        at = ("agents", name)
        keys, line = toml_keys(findings, _CONFIG, text, table, *at), locate(text, at)[0]
        description, written = keys.text("description"), keys.text("config_file")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(_CONFIG), written))
        if not written:
            findings.lose(_CONFIG, line, f"agents.{name}", "it has no `config_file`")
        elif findings.tree.read(path) is None:
            message = f"config_file {written} does not exist"
            findings.refuse("bad-path", message, _CONFIG, keys.line("config_file"))
        else:
            files.add(path)
            add_agent(findings, path, name, description)
            keys.lose_rest()
    return files


def add_agent(findings: Findings, path: str, name: str = "", description: str = "") -> None:
    """Add the agent in a TOML file; config.toml may give it a name and a description."""
    document = read_toml(findings, path)
    if document is None:
        return
    keys = toml_keys(findings, path, *document)
    own_name = keys.text("name")
    name = name or own_name or posixpath.basename(path).removesuffix(".toml")
    settings: dict[str, object] = {"provider": "codex"}
    if text := keys.text("description") or description:
        settings["description"] = text
    if model := keys.text("model"):
        settings["model"] = model
    if effort := keys.text("model_reasoning_effort"):
        settings["option_defaults.effort"] = effort
    prompt = keys.text("developer_instructions")
    files = own_servers(keys, "mcp_servers")
    keys.lose_rest()
    settings = valid_settings(keys, settings, _WRITTEN)
    body = prompt.encode() if prompt else None
    findings.agents.append(ImportedAgent(name, settings, body, findings.place(path), files))


def _add_servers(findings: Findings, text: str, servers: object) -> None:
    for name, table in servers.items() if isinstance(servers, dict) else ():
        at = ("mcp_servers", name)
        keys = toml_keys(findings, _CONFIG, text, table, *at)
        add_server(findings, name, keys, locate(text, at)[0])
