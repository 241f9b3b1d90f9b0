"""Reads the sources of rulesync and Ruler, which write one set of rules for many tools."""

import posixpath

from gascity.providers.registry import provider_files
from gascity_migrate.importers.documents import (
    read_markdown,
    read_toml,
    toml_keys,
    valid_settings,
)
from gascity_migrate.importers.markdown_agents import add_skills
from gascity_migrate.importers.servers import add_server, read_servers
from gascity_migrate.importers.types import (
    Findings,
    Imported,
    ImportedAgent,
    ImportedFile,
    SourceFile,
    SourceTree,
)

# Names that these tools have for providers, where they differ.
_PROVIDERS = {
    "claudecode": "claude",
    "codexcli": "codex",
    "geminicli": "gemini",
    "gemini-cli": "gemini",
    "qwencode": "qwen",
    "copilotcli": "copilot",
}
_NO_PROVIDER = "`{}` is not a provider of city"
_INSTRUCTIONS = {"claude": "CLAUDE.md", "gemini": "GEMINI.md"}


def is_provider(name: str) -> bool:
    """Return whether city has a provider of this name."""
    return name in provider_files()[0]


def read_rulesync(tree: SourceTree) -> Imported:
    """Read `.rulesync`: subagents, rules, skills and MCP servers."""
    findings = Findings(tree)
    for path in tree.matching(".rulesync/subagents/*.md"):
        _add_subagent(findings, path)
    rules: dict[str, list[bytes]] = {}
    for path in tree.matching(".rulesync/rules/**/*.md"):
        _add_rule(findings, path, rules)
    for target, bodies in rules.items():
        place = findings.place(".rulesync/rules")
        file = SourceFile(b"\n".join(bodies))
        findings.files.append(ImportedFile(target, file, place))
    add_skills(findings, ".rulesync/skills")
    read_servers(findings, ".rulesync/mcp.json", "mcpServers")
    return findings.result()


def _add_subagent(findings: Findings, path: str) -> None:
    markdown = read_markdown(findings, path)
    if markdown is None:
        return
    keys, body = markdown
    name = keys.text("name") or posixpath.basename(path).removesuffix(".md")
    settings: dict[str, object] = {}
    if description := keys.text("description"):
        settings["description"] = description
    targets = [_PROVIDERS.get(word, word) for word in keys.words("targets") or ()]
    if len(targets) == 1 and is_provider(targets[0]):
        settings["provider"] = targets[0]
    elif len(targets) == 1 and targets != ["*"]:
        keys.note("targets", _NO_PROVIDER.format(targets[0]))
    for tool in [key for key, value in keys.values.items() if isinstance(value, dict)]:
        details = keys.table(tool) or {}
        model = details.pop("model", None)
        if isinstance(model, str) and model != "inherit":
            settings.setdefault("model", model)
        if details:
            keys.lose(tool, "settings of single tools are not carried")
    keys.lose_rest()
    prompt = body if body.strip() else None
    settings = valid_settings(keys, settings)
    place = findings.place(path, keys.line("name"))
    findings.agents.append(ImportedAgent(name, settings, prompt, place))


def _add_rule(findings: Findings, path: str, rules: dict[str, list[bytes]]) -> None:
    """Add a rule to the instructions file of all tools, or of the one that it targets."""
    markdown = read_markdown(findings, path)
    if markdown is None:
        return
    keys, body = markdown
    targets = [_PROVIDERS.get(word, word) for word in keys.words("targets") or ("*",)]
    if keys.values.get("globs") not in (None, [], ["**/*"], "**/*"):
        keys.lose("globs", "the rule applies to all files")
    for tool in [key for key, value in keys.values.items() if isinstance(value, dict)]:
        keys.lose(tool, "settings of single tools are not carried")
    if "*" in targets:
        rules.setdefault("overlay/AGENTS.md", []).append(body)
        return
    for provider in targets:
        if not is_provider(provider):
            keys.note("targets", _NO_PROVIDER.format(provider))
            continue
        name = _INSTRUCTIONS.get(provider, "AGENTS.md")
        rules.setdefault(f"overlay/per-provider/{provider}/{name}", []).append(body)


def read_ruler(tree: SourceTree) -> Imported:
    """Read `.ruler`: rules in its order, skills, providers and MCP servers."""
    findings = Findings(tree)
    paths = [path for path in tree.matching(".ruler/**/*.md") if "/skills/" not in path]
    first = (".ruler/AGENTS.md", ".ruler/instructions.md")
    ordered = [*(path for path in first if path in paths), *sorted(set(paths) - set(first))]
    bodies = [file.data for path in ordered if (file := tree.read(path)) is not None]
    if bodies:
        file = SourceFile(b"\n".join(bodies))
        place = findings.place(ordered[0])
        findings.files.append(ImportedFile("overlay/AGENTS.md", file, place))
    add_skills(findings, ".ruler/skills")
    _add_ruler_config(findings)
    read_servers(findings, ".ruler/mcp.json", "mcpServers")
    return findings.result()


def _add_ruler_config(findings: Findings) -> None:
    path = ".ruler/ruler.toml"
    document = read_toml(findings, path)
    if document is None:
        return
    text, values = document
    keys = toml_keys(findings, path, text, values)
    providers = keys.words("default_agents") or ()
    for name in (_PROVIDERS.get(name, name) for name in providers):
        if is_provider(name):
            findings.providers.append(name)
        else:
            keys.note("default_agents", _NO_PROVIDER.format(name))
    for name, table in (keys.table("mcp_servers") or {}).items():
        server = toml_keys(findings, path, text, table, "mcp_servers", name)
        add_server(findings, name, server, keys.line("mcp_servers"))
    keys.lose_rest("it decides what Ruler writes")
