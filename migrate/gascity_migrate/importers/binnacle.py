"""Reads Binnacle's agents: blocks of `config.kdl`, and a prompt file for each."""

import re

from gascity_migrate.importers.documents import Keys, valid_settings
from gascity_migrate.importers.kdl import KdlError, KdlMissingError, KdlNode, parse_kdl
from gascity_migrate.importers.types import Findings, Imported, ImportedAgent, SourceTree

_DIRECTORIES = (".binnacle/agents/", "agents/", "")
_CONFIG = "config.kdl"
_AGENT = re.compile(rb"^\s*(?:/-\s*)?agent\b", re.MULTILINE)
# Binnacle's built-in agents, which the pack `builtin:roles` provides.
_ROLES = frozenset(("worker", "do", "prd", "buddy", "ask", "free"))
_TEXTS = {"description": "description", "execution": "execution", "lifecycle": "session_state"}


def read(tree: SourceTree) -> Imported:
    """Read the agents of `.binnacle/agents`, or of a directory with a config.kdl."""
    findings = Findings(tree)
    if tree.single:
        _read_config(findings, "", tree.single)
        return findings.result()
    base = next((base for base in _DIRECTORIES if _has_config(findings, base)), None)
    if base is not None:
        _read_config(findings, base, base + _CONFIG)
    return findings.result()


def _has_config(findings: Findings, base: str) -> bool:
    """Return whether a directory has a config.kdl of Binnacle: other programs have one, too."""
    file = findings.tree.read(base + _CONFIG)
    if file is None:
        return False
    return base.startswith(".binnacle/") or _AGENT.search(file.data) is not None


def _read_config(findings: Findings, base: str, path: str) -> None:
    text = findings.text(path)
    if text is None:
        return
    try:
        nodes = parse_kdl(text)
    except KdlError as error:
        findings.refuse("bad-kdl", str(error), path, error.line, error.col)
        return
    except KdlMissingError:
        hint = "install it with the extra: pip install 'gascity[kdl]'"
        findings.refuse("missing-parser", "the KDL parser is not installed", path, hint=hint)
        return
    for node in nodes:
        if node.name == "agent" and node.arguments:
            _add_agent(findings, base, path, node)
        else:
            findings.lose(path, node.line, node.name, "it is not an agent")


def _add_agent(findings: Findings, base: str, path: str, node: KdlNode) -> None:
    name = str(node.arguments[0])
    settings: dict[str, object] = {}
    tools: dict[str, list[str]] = {"allow": [], "deny": []}
    prompt_file, prompt_line = f"{name}/prompt.md", 0
    for child in node.children:
        value = str(child.arguments[0]) if child.arguments else ""
        if child.name in _TEXTS:
            settings[_TEXTS[child.name]] = value
        elif child.name == "tools":
            _add_tools(findings, path, child, tools)
        elif child.name == "prompt-file":
            prompt_file, prompt_line = value, child.line
        else:
            findings.lose(path, child.line, f"{name}.{child.name}", "it has no counterpart")
    lines = {child.name: child.line for child in node.children}
    keys = Keys(findings, path, {}, lines, f"{name}.")
    settings = valid_settings(keys, settings, {"session_state": "lifecycle"})
    prompt = findings.text(base + prompt_file)
    if prompt is None and prompt_line:
        message = f"prompt-file {prompt_file} does not exist"
        findings.refuse("bad-path", message, path, prompt_line)
    if prompt is None and name in _ROLES:
        changes = settings | {f"tools.{key}_append": words for key, words in tools.items() if words}
        findings.patches[f"roles.{name}"] = changes
        findings.packs["roles"] = "builtin:roles"
        return
    settings |= {f"tools.{key}": words for key, words in tools.items() if words}
    _check_prompt(findings, base + prompt_file, prompt or "")
    body = prompt.encode() if prompt else None
    findings.agents.append(ImportedAgent(name, settings, body, findings.place(path, node.line)))


def _add_tools(findings: Findings, path: str, node: KdlNode, tools: dict[str, list[str]]) -> None:
    for rule in node.children:
        words = [str(word) for word in rule.arguments]
        if rule.name in tools and words:
            tools[rule.name] += words
        else:
            findings.lose(path, rule.line, f"tools.{rule.name}", "it has no counterpart")


def _check_prompt(findings: Findings, path: str, text: str) -> None:
    for number, line in enumerate(text.split("\n"), 1):
        if "{description}" in line:
            reason = "it is not replaced: each run gets the text of its work item as its message"
            findings.lose(path, number, "{description}", reason)
