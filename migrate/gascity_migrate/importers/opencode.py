"""Reads OpenCode's agents (Markdown files and opencode.json) and its MCP servers."""

from collections.abc import Mapping

from gascity.model.secrets import masked
from gascity_migrate.importers.documents import (
    JsonDocument,
    Keys,
    read_json,
    read_markdown,
    valid_settings,
)
from gascity_migrate.importers.markdown_agents import add_instructions, add_skills
from gascity_migrate.importers.servers import read_servers
from gascity_migrate.importers.types import Findings, Imported, ImportedAgent, SourceTree

_DIRECTORIES = (".opencode/agent", ".opencode/agents", "agent", "agents")
_CONFIGS = (
    "opencode.json",
    "opencode.jsonc",
    ".opencode/opencode.json",
    ".opencode/opencode.jsonc",
)
_BUILT_IN = frozenset(("build", "plan", "general", "explore", "compaction", "title", "summary"))
_WRITTEN = {f"tools.{action}": "permission" for action in ("allow", "deny", "ask")}
_NEUTRAL = {"bash": "shell", "edit": "edit", "read": "read", "write": "write", "grep": "search"}


def read(tree: SourceTree) -> Imported:
    """Read a project's OpenCode files: agents, skills and MCP servers."""
    findings = Findings(tree)
    is_city = tree.read("city.toml") is not None  # its `agents/` are directories of a city
    for directory in _DIRECTORIES[: 2 if is_city else None]:
        for path in tree.matching(f"{directory}/**/*.md"):
            add_file(findings, path, path[len(directory) + 1 :].removesuffix(".md"))
    for path in tree.matching(*_CONFIGS):
        document = read_json(findings, path)
        if document is not None:
            _add_configured(findings, path, document)
            read_servers(findings, path, "mcp")
    add_skills(findings, ".opencode/skills")
    add_skills(findings, ".opencode/skill")
    add_instructions(findings, "AGENTS.md")
    return findings.result()


def add_file(findings: Findings, path: str, name: str) -> None:
    """Add the agent in a Markdown file; one without front matter is no agent."""
    markdown = read_markdown(findings, path)
    if markdown is not None and markdown.keys.values:
        _add_agent(findings, markdown.keys, name, markdown.body, 1)


def _add_configured(findings: Findings, path: str, document: JsonDocument) -> None:
    agents = document.node("agent")
    for name in agents.value if agents and isinstance(agents.value, dict) else ():
        keys = document.keys(findings, path, "agent", name, prefix=f"agent.{name}.")
        prompt = keys.text("prompt")
        if prompt.startswith("{file:") and prompt.endswith("}"):
            prompt = _included(findings, path, prompt[6:-1], keys.line("prompt"))
        _add_agent(findings, keys, name, prompt.encode(), document.line("agent", name))


def _included(findings: Findings, path: str, written: str, line: int) -> str:
    base = path.rpartition("/")[0]
    target = "/".join(part for part in (base, written.removeprefix("./")) if part)
    text = findings.text(target)
    if text is None:
        findings.refuse("bad-path", f"{written} does not exist", path, line)
    return text or ""


def _add_agent(findings: Findings, keys: Keys, name: str, body: bytes, line: int) -> None:
    path = keys.path
    if keys.flag("disable"):
        what = "disables a built-in agent" if name in _BUILT_IN else "the agent is disabled"
        findings.lose(path, line, name, what)
        return
    settings = valid_settings(keys, _settings(keys), _WRITTEN)
    folder = name.replace("/", "--")
    if folder != name:
        settings["display_name"] = name
    prompt = body if body.strip() else None
    findings.agents.append(ImportedAgent(folder, settings, prompt, findings.place(path, line)))


def _settings(keys: Keys) -> dict[str, object]:
    settings: dict[str, object] = {"provider": "opencode"}
    for key in ("description", "mode", "model", "variant", "color"):
        if text := keys.text(key):
            settings[key] = text
    for key in ("temperature", "top_p"):
        if (number := keys.number(key)) is not None:
            settings[key] = number
    if steps := keys.integer("steps") or keys.integer("maxSteps"):
        settings["steps"] = steps
    if keys.flag("hidden"):
        settings["hidden"] = True
    settings |= permission_settings(keys)
    options = dict(keys.table("options") or {})
    for key in list(keys.values):
        options[key] = keys.values[key]
        keys.lose(key, "kept under [options]")
    for key, value in list(options.items()):
        if masked(value, key) != value:
            keys.note(f"options.{key}", "the secret is not copied")
            del options[key]
    return settings | ({"options": options} if options else {})


def permission_settings(keys: Keys) -> dict[str, object]:
    """Return tools.allow, deny and ask for the keys `permission` and `tools`.

    OpenCode allows what no rule mentions, so a rule that allows a whole tool says nothing unless
    `"*": "deny"` denies everything else. Its last matching rule wins; in a city deny wins over
    ask, and ask over allow.
    """
    line = keys.line("permission")
    permission = keys.values.pop("permission", None)
    rules: dict[str, object] = permission if isinstance(permission, dict) else {}
    if isinstance(permission, str):
        rules = {"*": permission}
    words = _Words(keys, line, rules.get("*") == "deny")
    for tool, rule in rules.items():
        if isinstance(rule, Mapping):
            words.add_patterns(tool, rule)
        elif (tool, rule) != ("*", "deny"):
            words.add(tool, _NEUTRAL.get(tool, tool), rule)
    for tool, enabled in (keys.table("tools") or {}).items():
        if enabled is False:
            words.by_action["deny"].append(_NEUTRAL.get(tool, tool))
    return words.settings()


class _Words:
    """The tool words of one agent, by action."""

    def __init__(self, keys: Keys, line: int, rest_denied: bool) -> None:
        self.keys = keys
        self.line = line
        self.rest_denied = rest_denied
        self.by_action: dict[object, list[str]] = {"allow": [], "deny": [], "ask": []}

    def add(self, tool: str, word: str, action: object) -> None:
        if not isinstance(action, str) or action not in self.by_action:
            self._lose(tool, f"`{action}` is not an action")
        elif action != "allow" or self.rest_denied:
            self.by_action[action].append(word)

    def add_patterns(self, tool: str, rules: Mapping[str, object]) -> None:
        word, denied = _NEUTRAL.get(tool, tool), False
        for pattern, action in rules.items():
            if pattern == "*" and action == "deny" and self.rest_denied:
                continue
            if pattern == "*":
                self.add(tool, word, action)
                denied = denied or action == "deny"
            elif action == "allow" and denied:
                reason = "order-of-rules: a denial of the whole tool wins over this exception"
                self._lose(f"{tool}.{pattern}", reason)
            elif action == "allow":
                self.by_action["allow"].append(f"{word}({pattern})")
            else:
                self.add(f"{tool}.{pattern}", f"{word}({pattern})", action)

    def settings(self) -> dict[str, object]:
        lists = {f"tools.{action}": words for action, words in self.by_action.items() if words}
        if self.rest_denied:
            return {"tools.allow": [], **lists}
        if self.by_action["allow"]:
            reason = "tools.allow restricts the agent to what it lists; add what it also needs"
            self._lose("*", reason)
        return dict(lists)

    def _lose(self, key: str, reason: str) -> None:
        self.keys.findings.lose(self.keys.path, self.line, f"permission.{key}", reason)
