"""Reads Codex's agents and the MCP servers of its config.toml."""

from gascity.toml.positions import locate
from gascity_migrate.importers.documents import read_toml, toml_keys
from gascity_migrate.importers.markdown_agents import add_instructions, add_skills
from gascity_migrate.importers.servers import add_server
from gascity_migrate.importers.types import Findings, Imported, ImportedAgent, SourceTree

_CONFIG = ".codex/config.toml"


def read(tree: SourceTree) -> Imported:
    """Read a project's Codex files: agents, skills and MCP servers."""
    findings = Findings(tree)
    for path in tree.matching(".codex/agents/*.toml"):
        add_agent(findings, path)
    _add_servers(findings)
    add_skills(findings, ".agents/skills")
    add_instructions(findings, "AGENTS.md")
    return findings.result()


def add_agent(findings: Findings, path: str) -> None:
    """Add the agent in a TOML file."""
    document = read_toml(findings, path)
    if document is None:
        return
    keys = toml_keys(findings, path, *document)
    name = keys.text("name") or path.rpartition("/")[2].removesuffix(".toml")
    settings: dict[str, object] = {"provider": "codex"}
    for key in ("description", "model"):
        if text := keys.text(key):
            settings[key] = text
    if effort := keys.text("model_reasoning_effort"):
        settings["option_defaults.effort"] = effort
    prompt = keys.text("developer_instructions")
    keys.lose_rest()
    body = prompt.encode() if prompt else None
    findings.agents.append(ImportedAgent(name, settings, body, findings.place(path)))


def _add_servers(findings: Findings) -> None:
    document = read_toml(findings, _CONFIG)
    text, values = document or ("", {})
    servers = values.get("mcp_servers")
    for name, table in servers.items() if isinstance(servers, dict) else ():
        at = ("mcp_servers", name)
        keys = toml_keys(findings, _CONFIG, text, table, *at)
        add_server(findings, name, keys, locate(text, at)[0])
