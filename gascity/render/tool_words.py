"""Tool names: the neutral ones of `[tools]`, and each provider's own grammar.

A neutral word is one of `NEUTRAL`, a glob over them, `shell(glob)` or `server/tool`. A word in the
provider's own grammar (`Bash(git log:*)`, `mcp__docs__find`) is passed on unchanged. Any other word
means nothing to either, so it cannot be enforced.
"""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from gascity.model.city_tools import CITY_SERVER, CITY_TOOLS
from gascity.model.provider import Provider
from gascity.render.arguments import flag_args

NEUTRAL = ("read", "edit", "write", "shell", "search", "fetch")
ALL = "*"
_IN_SERVER = frozenset("_-*?[]")  # in the name of a server beside letters and digits
_ANY_WORD = r"[\w-]+"  # of a provider whose grammar is not known


class ToolSyntax:
    """A provider's syntax for tools, as far as it applies to one kind of run."""

    def __init__(self, provider: Provider, kind: str) -> None:
        tools = self.facts = provider.facts.tools
        applies = tools.only in (None, "", kind)
        self.allow_flag = tools.allow_flag if applies else ""
        self.deny_flag = tools.deny_flag if applies else ""
        self.only_flag = tools.only_flag if applies else ""
        self.names = tools.names
        self.own_words = tools.own_words or _ANY_WORD
        self._known = {*tools.names.values()}

    def native(self, word: str) -> list[str]:
        """Return the provider's names for a word; empty if neither grammar knows it."""
        return self._of_neutral(word) or ([word] if self.is_own(word) else [])

    def is_own(self, word: str) -> bool:
        """Return whether a word is in the provider's own grammar."""
        if word in NEUTRAL:
            return False
        return word in self._known or re.fullmatch(self.own_words, word, re.DOTALL) is not None

    def _of_neutral(self, word: str) -> list[str]:
        if word.startswith("shell(") and word.endswith(")"):
            return self._shell_command(word[len("shell(") : -1])
        if pair := split_server_tool(word):
            return self._server_tool(*pair)
        return [self.names[name] for name in neutral_names(word) if name in self.names]

    def _server_tool(self, server: str, tool: str) -> list[str]:
        pattern = self.facts.server if tool == ALL else self.facts.server_tool
        if not pattern or is_glob(server) or (tool != ALL and is_glob(tool)):
            return []
        return [fill_server(pattern, server, tool)]

    def _shell_command(self, glob: str) -> list[str]:
        """Return the native form of `shell(glob)`.

        A provider whose pattern has `{prefix}` can only match the first words of a command.
        """
        pattern = self.facts.shell_pattern or ""
        if "{prefix}" not in pattern:
            return [pattern.replace("{glob}", glob)] if pattern else []
        prefix = glob.removesuffix(" *")
        if prefix == glob or is_glob(prefix):
            return []
        return [pattern.replace("{prefix}", prefix)]

    def tool_of(self, word: str, server: str) -> str | None:
        """Return the tool of a server that a word means, `*` for all; None if it means none."""
        if word == ALL:
            return ALL
        pair = split_server_tool(word)
        if pair and fnmatchcase(server, pair[0]):
            return pair[1]
        if self.facts.server and word == fill_server(self.facts.server, server, ALL):
            return ALL
        before, marker, after = fill_server(self.facts.server_tool or "", server, "\0").partition(
            "\0"
        )
        if marker and word.startswith(before) and word.endswith(after):
            return word[len(before) : len(word) - len(after)] or None
        return None

    def is_server_word(self, native: str) -> bool:
        """Return whether a native name means tools of an MCP server."""
        prefix = (self.facts.server_tool or "").partition("{server}")[0]
        return bool(prefix) and native.startswith(prefix)

    def builtin_names(self, natives: Iterable[str]) -> list[str]:
        """Return the bare names of the built-in tools among native names."""
        names = (name.partition("(")[0] for name in natives if not self.is_server_word(name))
        return list(dict.fromkeys(names))

    def args(self, flag: str, natives: Sequence[str]) -> list[str]:
        """Return a flag with its values: once with all, or once for each."""
        if self.facts.repeat:
            return [arg for native in natives for arg in flag_args(flag, native)]
        return flag_args(flag, (self.facts.separator or "").join(natives))

    def translate(self, words: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the native names of words, and the words that have none."""
        natives: list[str] = []
        lost: list[str] = []
        separator = "" if self.facts.repeat else self.facts.separator
        for word in words:
            names = self.native(word)
            # A name that contains the separator would be read as two.
            if names and not any(separator and separator in name for name in names):
                natives += names
            else:
                lost.append(word)
        return list(dict.fromkeys(natives)), lost


def whole_servers(
    syntax: ToolSyntax, words: Iterable[str], gateways: Sequence[str], others: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return allowed words; those for tools of servers behind the gateway become whole servers.

    A word that also means tools of the `others`, which are not behind the gateway, stays, too.
    """
    allowed: list[str] = []
    for word in words:
        behind = [name for name in gateways if word != ALL and syntax.tool_of(word, name)]
        if not behind or any(syntax.tool_of(word, name) for name in others):
            allowed.append(word)
        allowed += (f"{name}/{ALL}" for name in behind)
    return tuple(dict.fromkeys(allowed))


def with_city_tools(words: Iterable[str]) -> list[str]:
    """Return words with `city/agents_list` for `agents_list`: users do not write the city's server.

    A glob means every tool of the city that it matches, beside what it means to the provider.
    """
    found: list[str] = []
    for word in words:
        tools = _city_tools(word)
        found += [word] if not tools or neutral_names(word) else []
        found += (f"{CITY_SERVER}/{name}" for name in tools)
    return list(dict.fromkeys(found))


def without_city_tools(words: Iterable[str]) -> tuple[str, ...]:
    """Return words without those that only mean tools of the city, whose server refuses them."""
    return tuple(word for word in words if neutral_names(word) or not _city_tools(word))


def _city_tools(word: str) -> list[str]:
    """Return the tools of the city that a name or glob means."""
    if word == ALL or "/" in word:
        return []
    return [*_matching(CITY_TOOLS, word)]


def split_server_tool(word: str) -> tuple[str, str] | None:
    """Return the server and the tool of `server/tool`; None for any other word."""
    server, _, tool = word.partition("/")
    if not server or not tool or "\n" in tool:
        return None
    return (server, tool) if all(c.isalnum() or c in _IN_SERVER for c in server) else None


def neutral_names(word: str) -> list[str]:
    """Return the neutral names that a name or glob means."""
    return [] if "/" in word else [*_matching(NEUTRAL, word)]


@lru_cache(maxsize=1024)  # agents have the same words, and each check reads them again
def _matching(names: tuple[str, ...], word: str) -> tuple[str, ...]:
    """Return the names that a name or glob means."""
    if not is_glob(word):
        return (word,) if word in names else ()
    return tuple(name for name in names if fnmatchcase(name, word))


def is_glob(text: str) -> bool:
    """Return whether a text contains wildcards."""
    return any(char in text for char in "*?[")


def server_tool(word: str) -> bool:
    """Return whether a word is one tool of a server by name, or all of them: `docs/find`."""
    server, tool = split_server_tool(word) or ("*", "")
    return not is_glob(server) and (tool == ALL or not is_glob(tool))


def fill_server(pattern: str, server: str, tool: str) -> str:
    """Return a provider's name of a tool of an MCP server."""
    return pattern.replace("{server}", server).replace("{tool}", tool)
