"""An agent's `[tools]` in the words of an agent file: rules by tool, or lists of tools.

A file never grants more than `[tools]` does. A word that it cannot express is left out of what is
allowed and reported as lost.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from gascity.model.city import Agent
from gascity.model.provider import Provider
from gascity.model.values import JsonObject
from gascity.render.flags import HEADLESS, INTERACTIVE, allowed_tools, is_restricted
from gascity.render.own_words import OwnWords, file_names
from gascity.render.tool_words import (
    ALL,
    NEUTRAL,
    ToolSyntax,
    fill_server,
    is_glob,
    neutral_names,
    split_server_tool,
    whole_servers,
    without_city_tools,
)

_WITH_PATTERN = re.compile(r"(?P<name>[\w-]+)\((?P<pattern>.*)\)", re.DOTALL)
_ANY_WORD, _ANY_PATTERN = r"[\w-]+", r"[\w*?-]+"
_ALLOW, _DENY = "allow", "deny"
_RULES = "permission"


class FileTarget(NamedTuple):
    """The provider that an agent file is for, which need not be the agent's own, and its use.

    A file for the agent's `own` sessions has no mode and is not hidden, because a provider may
    start another agent in place of a subagent. `words_of` is the agent's own provider, whose words
    in `[tools]` are translated. `gateways` are servers behind the gateway: a file that allows a
    part of one allows all of it, because the gateway offers only the tools that `[tools]` allows.
    """

    provider: Provider
    kind: str = INTERACTIVE
    own: bool = False
    words_of: Provider | None = None
    gateways: Sequence[str] = ()
    prefix: str = ""  # of the agent's name
    option_tables: Collection[str] = ()  # providers for which `options` may have a table


class Lost(NamedTuple):
    """A setting, or a part of it, that an agent file does not carry, and why."""

    field: str
    value: str
    reason: str


class NativeTools(NamedTuple):
    """The keys of an agent file that limit its tools, and what they do not express."""

    keys: Mapping[str, object] = {}
    lost: tuple[Lost, ...] = ()


class _Tool(NamedTuple):
    """A tool in the provider's words, or the part of its calls that a pattern matches."""

    name: str
    pattern: str = ""


def native_tools(agent: Agent, target: FileTarget) -> NativeTools:
    """Return the tools of an agent in its file. A headless run cannot ask, so it denies.

    In a file of the agent's own sessions, flags limit the parts of a tool that a list cannot
    express.
    """
    if not is_restricted(agent):
        return NativeTools()
    provider = target.provider
    syntax = ToolSyntax(provider, target.kind)
    own_words = _own_words(target.words_of, provider)
    scope = _Scope(provider, agent, target.kind, syntax if target.own else None, own_words)
    if scope.allow is not None:
        scope.allow = whole_servers(syntax, scope.allow, target.gateways)
    style = provider.facts.agents.tools.style
    if not style:
        reason = f"agent files of {scope.product} cannot limit tools"
        return NativeTools({}, tuple(scope.all_lost(reason)))
    keys = scope.rules() if style == _RULES else scope.lists()
    return NativeTools(keys, tuple(sorted(dict.fromkeys(scope.lost), key=_position)))


def _own_words(own: Provider | None, provider: Provider) -> OwnWords | None:
    """Return the words of the agent's own provider, if a file of another one needs others."""
    if own is None or own.name == provider.name or (own.family and own.family == provider.family):
        return None
    return OwnWords(own, same_names=_names(own) == _names(provider))


def _names(provider: Provider) -> list[list[str]]:
    return [file_names(provider, neutral) for neutral in NEUTRAL]


def _position(lost: Lost) -> int:
    return ("tools.allow", "tools.deny", "tools.ask").index(lost.field)


class _Scope:
    """The words of one agent's `[tools]`, and what was lost while they were translated."""

    def __init__(
        self,
        provider: Provider,
        agent: Agent,
        kind: str,
        flags: ToolSyntax | None,
        own_words: OwnWords | None,
    ) -> None:
        tools = agent.settings.tools
        self.flags = flags
        self.own_words = own_words
        self.provider = provider
        self.facts = provider.facts.agents.tools
        self.product = provider.facts.display_name or provider.name
        self.allow = allowed_tools(agent)
        self.written_allow = tools.allow or ()
        # `*` among the denied ones is an empty allow list already.
        self.deny = [word for word in without_city_tools(tools.deny) if word != ALL]
        self.ask = list(without_city_tools(tools.ask) if kind == HEADLESS else tools.ask)
        can_ask = bool(self.facts.ask or self.facts.unasked_key)
        self.asks = can_ask and kind != HEADLESS
        self.lost: list[Lost] = []
        if not can_ask:
            self.lose("ask", self.ask, f"{self.product} has no way to ask; left out")

    def all_lost(self, reason: str) -> Iterable[Lost]:
        words = [("allow", word) for word in self.written_allow]
        words += [("deny", word) for word in self.deny] + [("ask", word) for word in self.ask]
        if self.allow == () and not words:
            words = [("allow", "[]")]
        return [Lost(f"tools.{key}", word, reason) for key, word in words]

    # Rules

    def rules(self) -> JsonObject:
        """Return rules of which the last one that matches decides: allow, then ask, then deny."""
        rules = _Rules(self.allow is not None)
        for tool in self.natives("allow", self.allow or ()):
            rules.allow(tool)
        for tool in self.natives("ask", self.ask):
            rules.ask(tool, (self.facts.ask if self.asks else None) or _DENY)
        for tool in self.natives("deny", self.deny):
            rules.deny(tool)
        rest = dict(self.facts.rest) if self.allow is not None else {}
        return {self.facts.key or _RULES: rest | rules.compact()}

    # Lists

    def lists(self) -> JsonObject:
        """Return the list of allowed tools, and of denied ones if the provider has such a list."""
        asked = [tool.name for tool in self.natives("ask", self.ask) if not tool.pattern]
        denied = [tool.name for tool in self.natives("deny", self.deny) if not tool.pattern]
        denied += () if self.asks else asked
        if self.allow is None:
            return self._without_allow(denied)
        names = self._whole((*self.allow, *(self.ask if self.asks else ())))
        names = [name for name in names if not any(_covers(d, name) for d in denied)]
        keys = self._listed(names)
        if self.facts.unasked_key and keys:
            unasked = [name for name in names if not self.asks or name not in asked]
            keys[self.facts.unasked_key] = unasked
        parts = [name for name in denied if any(_covers(each, name) for each in names)]
        if parts and self.facts.deny_key:
            keys[self.facts.deny_key] = self._written(parts)
            parts = []
        self._lose_parts("deny", self.deny, names, parts)
        self._lose_parts("ask", self.ask, names, parts)
        return keys

    def _without_allow(self, denied: Sequence[str]) -> JsonObject:
        if denied and self.facts.deny_key:
            self._lose_parts("deny", self.deny)
            self._lose_parts("ask", self.ask)
            return {self.facts.deny_key: self._written(denied)}
        reason = f"{self.product} cannot limit single tools without `tools.allow`"
        self.lose("deny", self.deny, reason)
        self.lose("ask", self.ask, reason)
        return {}

    def _lose_parts(
        self,
        key: str,
        words: Iterable[str],
        names: Sequence[str] = (ALL,),
        parts: Sequence[str] = (),
    ) -> None:
        """Report the words that limit only a part of a listed tool, which a list cannot say."""
        for word in words:
            for tool in self._tools(key, word):
                listed = any(_covers(name, tool.name) for name in names)
                is_part = tool.name in parts or (tool.pattern and listed)
                if is_part and not self._by_flags(word, "deny_flag"):
                    self.lose(key, [word], f"{self.product} lists whole tools only")

    def _by_flags(self, word: str, flag: str) -> bool:
        """Return whether the command line has a flag for a word."""
        return self.flags is not None and bool(
            getattr(self.flags, flag) and self.flags.native(word)
        )

    def _listed(self, names: Sequence[str]) -> JsonObject:
        if not names and self.facts.joined:
            self.lose("allow", ["[]"], f"without any tool, {self.product} offers all of them")
            return {}
        return {self.facts.key or "tools": self._written(names)}

    def _written(self, names: Sequence[str]) -> object:
        names = list(dict.fromkeys(names))
        return ", ".join(names) if self.facts.joined else names

    def _whole(self, words: Iterable[str]) -> list[str]:
        """Return the names of whole tools; a word for a part of a tool is left out."""
        names: list[str] = []
        for word in words:
            tools = self.natives("allow", [word])
            if any(tool.pattern for tool in tools) and not self._by_flags(word, "allow_flag"):
                self.lose("allow", [word], f"{self.product} lists whole tools only; left out")
                continue
            names += (tool.name for tool in tools)
        return list(dict.fromkeys(names))

    # Words

    def lose(self, key: str, words: Iterable[str], reason: str) -> None:
        self.lost += (Lost(f"tools.{key}", word, reason) for word in words)

    def natives(self, key: str, words: Iterable[str]) -> list[_Tool]:
        """Return the tools that words mean; words without a meaning are lost."""
        found: list[_Tool] = []
        for word in words:
            tools = self._tools(key, word)
            if not tools:
                self.lose(key, [word], self._why_unknown(word))
            found += tools
        return found

    def _why_unknown(self, word: str) -> str:
        if self.own_words and not self.own_words.neutral(word):
            return f"a word of {self.own_words.product} without an exact counterpart"
        return f"{self.product} has no such tool in agent files"

    def _tools(self, key: str, word: str) -> list[_Tool]:
        words = self.own_words.neutral(word) if self.own_words else [word]
        if not words and self._keeps(key, word):
            words = [word]
        return [tool for each in words for tool in self._tools_of(each)]

    def _keeps(self, key: str, word: str) -> bool:
        """Return whether a word of another provider without a translation is written anyway.

        A denial of an unknown tool grants nothing. A pattern is never kept: its meaning differs.
        """
        if self.own_words is None or _WITH_PATTERN.fullmatch(word):
            return False
        return key != "allow" or self.own_words.same_names or word in self._known()

    def _tools_of(self, word: str) -> list[_Tool]:
        if parts := split_server_tool(word):
            return self._server_tools(*parts)
        if match := _WITH_PATTERN.fullmatch(word):
            if match["name"] in NEUTRAL:
                return [_Tool(name, match["pattern"]) for name in self._named(match["name"])]
            return [_Tool(match["name"], match["pattern"])] if self._is_own(word) else []
        names = [name for neutral in neutral_names(word) for name in self._named(neutral)]
        if names or word in NEUTRAL:
            return [_Tool(name) for name in dict.fromkeys(names)]
        return [_Tool(word)] if self._is_own(word) else []

    def _named(self, neutral: str) -> list[str]:
        return file_names(self.provider, neutral)

    def _known(self) -> list[str]:
        return [name for neutral in NEUTRAL for name in self._named(neutral)]

    def _server_tools(self, server: str, tool: str) -> list[_Tool]:
        flags = self.provider.facts.tools
        pattern = self.facts.server_tool or flags.server_tool or ""
        if tool == ALL:
            pattern = self.facts.server or flags.server or pattern
        is_name = not is_glob(server) and (tool == ALL or not is_glob(tool))
        if not pattern or not (is_name or self.facts.style == _RULES):
            return []
        return [_Tool(fill_server(pattern, server, tool))]

    def _is_own(self, word: str) -> bool:
        # A rule may be for several tools: `docs_*` are those of one server.
        any_word = _ANY_PATTERN if self.facts.style == _RULES else _ANY_WORD
        pattern = self.provider.facts.tools.own_words or any_word
        return word in self._known() or re.fullmatch(pattern, word, re.DOTALL) is not None


class _Rules:
    """Rules by tool and pattern, in the order in which they apply."""

    def __init__(self, limited: bool) -> None:
        """`limited`: everything that no rule allows is denied."""
        self.limited = limited
        self.by_tool: dict[str, dict[str, str]] = {}

    def allow(self, tool: _Tool) -> None:
        rules = self.by_tool.setdefault(tool.name, {})
        if not tool.pattern:
            rules.pop(ALL, None)
            self.by_tool[tool.name] = {ALL: _ALLOW, **rules}
        else:
            if self.limited:
                rules.setdefault(ALL, _DENY)
            rules[tool.pattern] = _ALLOW

    def ask(self, tool: _Tool, action: str) -> None:
        """Ask for a tool. Calls that the agent allows by a pattern of their own stay allowed."""
        rules = self.by_tool.pop(tool.name, {})
        if not tool.pattern:
            rules = {ALL: action, **{p: rule for p, rule in rules.items() if p != ALL}}
        else:
            if self.limited:
                rules.setdefault(ALL, _DENY)
            rules.pop(tool.pattern, None)
            rules[tool.pattern] = action
        self.by_tool[tool.name] = rules

    def deny(self, tool: _Tool) -> None:
        rules = self.by_tool.pop(tool.name, {})
        if not tool.pattern:
            rules = {ALL: _DENY}
        else:
            if self.limited:
                rules.setdefault(ALL, _DENY)
            rules.pop(tool.pattern, None)
            rules[tool.pattern] = _DENY
        self.by_tool[tool.name] = rules

    def compact(self) -> JsonObject:
        """Return the rules; a tool with one action for everything has only that."""
        return {
            name: rules[ALL] if ALL in rules and len({*rules.values()}) == 1 else rules
            for name, rules in self.by_tool.items()
        }


def _covers(broad: str, name: str) -> bool:
    """Return whether a name includes another: the same, or all tools of its server."""
    return fnmatchcase(name, broad) or name.startswith((f"{broad}__", f"{broad}/"))
