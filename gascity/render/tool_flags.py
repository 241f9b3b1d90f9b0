"""An agent's `[tools]` as its provider's own flags, and what those flags cannot enforce."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from gascity.model.city import Agent, City
from gascity.model.problems import ERROR, Problem, warning
from gascity.model.provider import Provider

HEADLESS, INTERACTIVE = "headless", "interactive"
UNENFORCEABLE = "unenforceable-scope"
NEUTRAL = ("read", "edit", "write", "shell", "search", "fetch")
_PATTERN = r"(?P<name>[^()/]*)(?:\((?P<glob>.*)\)|/(?P<tool>.*))?"


class ToolFlags(NamedTuple):
    """Arguments that enforce an agent's `[tools]`, and problems for what they do not enforce."""

    args: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def is_restricted(agent: Agent) -> bool:
    """Return whether the agent has any `[tools]` restriction."""
    tools = agent.settings.tools
    return tools.allow is not None or bool(tools.deny or tools.ask)


def allowed_tools(agent: Agent) -> tuple[str, ...] | None:
    """Return the only tools the agent may use; None: all that are not denied."""
    tools = agent.settings.tools
    if "*" in tools.deny:
        return ()
    return None if tools.allow is None or "*" in tools.allow else tools.allow


def scope_problems(city: City) -> list[Problem]:
    """Return the restrictions that providers cannot enforce, in any kind of run they have."""
    found: dict[Problem, None] = {}
    for agent in city.agents:
        provider = city.providers.get(agent.provider)
        if provider is not None and not agent.broken and is_restricted(agent):
            kinds = [HEADLESS] if provider.headless else []
            kinds += [INTERACTIVE] if provider.facts.interactive else []
            for kind in kinds:
                found.update(dict.fromkeys(tool_flags(provider, agent, kind).problems))
    return as_required(city, found)


def as_required(city: City, problems: Iterable[Problem]) -> list[Problem]:
    """Turn unenforced restrictions into errors where the city sets `require_enforcement`."""
    if not city.security.require_enforcement:
        return list(problems)
    return [
        problem._replace(severity=ERROR) if problem.code == UNENFORCEABLE else problem
        for problem in problems
    ]


def tool_flags(provider: Provider, agent: Agent, kind: str) -> ToolFlags:
    """Return the flags for `[tools]` in one kind of run.

    In a headless run no user can be asked, so `tools.ask` is denied. Tools that the provider
    would use without asking are denied too unless `tools.allow` has them. Each setting that the
    flags do not enforce is a problem.
    """
    if not is_restricted(agent) or provider.facts.script:  # a script has no tools
        return ToolFlags()
    if agent.settings.start_command:  # an unknown program: the provider's flags do not apply
        provider = Provider(provider.name, provider.family, (), provider.options)
    syntax = _ToolSyntax(provider, kind)
    allow, deny, ask = allowed_tools(agent), agent.settings.tools.deny, agent.settings.tools.ask
    args: list[str] = []
    problems: list[Problem] = []
    if allow is not None:
        allow_args, lost = _allow_args(syntax, allow)
        args += allow_args
        if "*" in deny:
            problems += _unenforced(provider, agent, "deny", ["*"] if lost else [])
        else:
            problems += _unenforced(provider, agent, "allow", lost)
        deny = tuple(tool for tool in deny if tool != "*")
    denied = [*deny, *(ask if kind == HEADLESS else ())]
    deny_args, lost = _deny_args(syntax, denied, [] if allow is None else _others(syntax, allow))
    args += deny_args
    problems += _unenforced(provider, agent, "deny", [tool for tool in lost if tool in deny])
    not_asked = [tool for tool in ask if kind == INTERACTIVE or tool in lost]
    problems += _unenforced(provider, agent, "ask", not_asked)
    return ToolFlags(tuple(args), tuple(problems))


class _ToolSyntax:
    """A provider's syntax for tools, as far as it applies to one kind of run."""

    def __init__(self, provider: Provider, kind: str) -> None:
        tools = self.facts = provider.facts.tools
        applies = tools.only in (None, "", kind)
        self.allow_flag = tools.allow_flag if applies else ""
        self.deny_flag = tools.deny_flag if applies else ""
        self.names = tools.names

    def native(self, tool: str) -> list[str]:
        """Return the provider's names for a tool; empty if it has none."""
        match = re.fullmatch(_PATTERN, tool, re.DOTALL)
        if match is None:
            return []
        if match["tool"] is not None:
            return self._server_tool(match["name"], match["tool"])
        if match["glob"] is not None:
            return self._shell_command(match["name"], match["glob"])
        if _is_glob(tool):
            names = [name for name in NEUTRAL if fnmatchcase(name, tool)]
            return [self.names[name] for name in names if name in self.names]
        if tool in NEUTRAL:
            return [self.names[tool]] if tool in self.names else []
        return [self.names.get(tool, tool)]

    def _server_tool(self, server: str, tool: str) -> list[str]:
        pattern = self.facts.server if tool == "*" else self.facts.server_tool
        if not pattern or _is_glob(server) or (tool != "*" and _is_glob(tool)):
            return []
        return [pattern.replace("{server}", server).replace("{tool}", tool)]

    def _shell_command(self, name: str, glob: str) -> list[str]:
        """Return the native form of `shell(glob)`.

        A provider whose pattern has `{prefix}` can only match the first words of a command.
        """
        pattern = (self.facts.shell_pattern or "") if name == "shell" else ""
        if "{prefix}" not in pattern:
            return [pattern.replace("{glob}", glob)] if pattern else []
        prefix = glob.removesuffix(" *")
        if prefix == glob or _is_glob(prefix):
            return []
        return [pattern.replace("{prefix}", prefix)]

    def args(self, flag: str, natives: Sequence[str]) -> list[str]:
        """Return a flag with its values: once with all, or once for each."""
        if self.facts.repeat:
            return [arg for native in natives for arg in flag_args(flag, native)]
        return flag_args(flag, (self.facts.separator or "").join(natives))

    def translate(self, tools: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the native names of tools, and the tools that have none."""
        natives: list[str] = []
        lost: list[str] = []
        separator = "" if self.facts.repeat else self.facts.separator
        for tool in tools:
            names = self.native(tool)
            # A name that contains the separator would be read as two.
            if names and not any(separator and separator in name for name in names):
                natives += names
            else:
                lost.append(tool)
        return list(dict.fromkeys(natives)), lost


def flag_args(flag: str, value: str) -> list[str]:
    """Return a flag and its value as arguments; a final `=` joins them."""
    words = flag.split()
    if words and words[-1].endswith("="):
        return [*words[:-1], words[-1] + value]
    return [*words, value]


def _allow_args(syntax: _ToolSyntax, allow: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments that allow tools, and the tools they cannot express."""
    if not syntax.allow_flag:
        return [], list(allow) or ["[]"]
    natives, lost = syntax.translate(allow)
    # An allowed neutral tool without a native name is one that the provider never asks for.
    lost = [tool for tool in lost if tool not in NEUTRAL]
    if not natives:  # observed: without any value such a flag allows every tool
        return [], lost + (["[]"] if syntax.facts.allow_only else [])
    return syntax.args(syntax.allow_flag, natives), lost


def _deny_args(
    syntax: _ToolSyntax, denied: Sequence[str], others: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the arguments that deny tools, and the tools they cannot express."""
    if not syntax.deny_flag:
        return [], list(denied)
    natives, lost = syntax.translate(denied)
    natives = list(dict.fromkeys((*natives, *others)))
    return syntax.args(syntax.deny_flag, natives) if natives else [], lost


def _others(syntax: _ToolSyntax, allow: Sequence[str]) -> list[str]:
    """Return the provider's tools that are not allowed, unless its allow flag excludes them."""
    if syntax.facts.allow_only and _allow_args(syntax, allow)[0]:
        return []
    names = {name for tool in allow for name in _neutral_names(tool)}
    kept = {syntax.names[name] for name in names if name in syntax.names}
    return [name for name in dict.fromkeys(syntax.names.values()) if name not in kept]


def _neutral_names(tool: str) -> list[str]:
    name = tool.partition("(")[0]
    return [neutral for neutral in NEUTRAL if "/" not in name and fnmatchcase(neutral, name)]


def _unenforced(provider: Provider, agent: Agent, key: str, tools: Sequence[str]) -> list[Problem]:
    if not tools:
        return []
    names = ", ".join(f"`{tool}`" for tool in tools)
    return [
        warning(
            UNENFORCEABLE,
            f"provider `{provider.name}` cannot enforce {names} in `tools.{key}` of agent "
            f"`{agent.name}`",
            agent.setting(f"tools.{key}").place,
            "it is advisory only; `[security] require_enforcement = true` makes this an error",
        )
    ]


def _is_glob(text: str) -> bool:
    return any(char in text for char in "*?[")
