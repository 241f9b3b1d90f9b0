"""Words for tools in the grammar of one provider, translated into neutral ones.

An agent may name tools in the words of its own provider: `Read`, `Bash(git log:*)`. In a file of
another provider they mean nothing, or something else. Only exact translations are made: a pattern
that would match more or fewer calls has none.
"""

import re

from gascity.model.provider import Provider
from gascity.model.values import as_list
from gascity.render.tool_words import ALL, NEUTRAL, is_glob, neutral_names, split_server_tool

_PLAIN = re.compile(r"[\w-]+")
# Wildcards of neutral patterns that are literal characters elsewhere, or the other way round.
_UNLIKE = re.compile(r"[?\[\]\\]")


class OwnWords:
    """The words of an agent's own provider."""

    def __init__(self, provider: Provider, *, same_names: bool = False) -> None:
        """`same_names`: the file's provider has the same names for the neutral tools."""
        self.same_names = same_names
        self.facts = provider.facts.tools
        self.product = provider.facts.display_name or provider.name
        self._neutral = _neutral_by_name(provider)

    def neutral(self, word: str) -> list[str]:
        """Return the neutral words for a word; empty: it has no exact counterpart.

        A word that is neutral already, or in nobody's grammar, is returned unchanged.
        """
        found = self._tool(word) or self._command(word) or self._server_tool(word)
        return found or ([] if self._is_own(word) else [word])

    def _tool(self, word: str) -> list[str]:
        return [] if word in NEUTRAL else self._neutral.get(word, [])

    def _command(self, word: str) -> list[str]:
        """Return `shell(…)` for a word that means some commands."""
        for pattern in (self.facts.prefix_pattern, self.facts.shell_pattern):
            prefix = _between(word, pattern or "", "{prefix}")
            if prefix and not is_glob(prefix) and not _UNLIKE.search(prefix):
                return [f"shell({prefix} *)"]
        glob = _between(word, self.facts.shell_pattern or "", "{glob}")
        # What `:*` means is known only where `prefix_pattern` says it.
        if not glob or ":*" in glob or _UNLIKE.search(glob):
            return []
        return [f"shell({glob})"]

    def _server_tool(self, word: str) -> list[str]:
        """Return `server/tool` for a word that can only mean one server."""
        before, _, rest = (self.facts.server_tool or "").partition("{server}")
        middle, _, after = rest.partition("{tool}")
        named = _between(word, f"{before}{{server}}{after}", "{server}") if before else ""
        if not named:
            return []
        server, found, tool = named.partition(middle)
        if found and named.rpartition(middle) != (server, found, tool):
            return []
        if found and _PLAIN.fullmatch(server) and (tool == ALL or _PLAIN.fullmatch(tool)):
            return [f"{server}/{tool}"]
        whole = _between(word, self.facts.server or "", "{server}")
        return [f"{whole}/{ALL}"] if middle not in whole and _PLAIN.fullmatch(whole) else []

    def _is_own(self, word: str) -> bool:
        """Return whether a word is in the provider's grammar and not neutral."""
        if neutral_names(word.partition("(")[0]) or split_server_tool(word):
            return False
        return re.fullmatch(self.facts.own_words or "", word, re.DOTALL) is not None


def file_names(provider: Provider, neutral: str) -> list[str]:
    """Return the names of a neutral tool in the provider's agent files."""
    facts = provider.facts
    names = facts.agents.tools.names.get(neutral, facts.tools.names.get(neutral))
    return [str(name) for name in as_list(names, [names] if names else [])]


def _neutral_by_name(provider: Provider) -> dict[str, list[str]]:
    """Return the neutral words of each name, in agent files or in flags."""
    found: dict[str, list[str]] = {}
    for neutral in NEUTRAL:
        in_files = file_names(provider, neutral)
        names = [provider.facts.tools.names.get(neutral, "")]
        # One of several names is only a part of the tool.
        names += in_files if len(in_files) == 1 else ()
        for name in dict.fromkeys(names):
            found.setdefault(name, []).append(neutral)
    return found


def _between(word: str, pattern: str, marker: str) -> str:
    """Return what a word has in place of a pattern's marker; "" if the pattern does not match."""
    before, found, after = pattern.partition(marker)
    if not found or not (word.startswith(before) and word.endswith(after)):
        return ""
    return word[len(before) : len(word) - len(after)]
