"""The rule that decides whether an agent may call a tool of a server. Imports little.

`[tools]` decides by name, `[capabilities]` by what a tool is said to do. In both, an absent `allow`
means everything, an empty one nothing, and `deny` wins. A tool must pass both. `render/tool_scope`
makes the rules of one agent and one server; the gateway, the city's own tools and `city check` ask
them.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

TOOLS_ALLOW, TOOLS_DENY, TOOLS_ASK = "tools.allow", "tools.deny", "tools.ask"
CAPABILITIES_ALLOW, CAPABILITIES_DENY = "capabilities.allow", "capabilities.deny"


class ToolWord(NamedTuple):
    """A word of `[tools]` that is about a server, and the tools of the server that it means."""

    word: str
    tools: str  # a glob


class Refusal(NamedTuple):
    """Why a call is refused: the setting, and its word; empty if no word of an `allow` matches."""

    rule: str
    word: str = ""


class ToolRules(NamedTuple):
    """Rules of one agent's settings for the tools of one server.

    `capabilities` are those of the server's tools, `own_capabilities` of single tools instead.
    """

    allow: tuple[ToolWord, ...] | None = None
    deny: tuple[ToolWord, ...] = ()
    ask: tuple[ToolWord, ...] = ()
    capability_allow: tuple[str, ...] | None = None
    capability_deny: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    own_capabilities: Mapping[str, tuple[str, ...]] = {}

    def refusal(self, tool: str, *, can_ask: bool = False) -> Refusal | None:
        """Return why the agent must not call a tool; None if it may.

        A tool under `ask` is refused unless the provider can ask a user.
        """
        denied = _first_match(self.deny, tool)
        if denied is not None:
            return Refusal(TOOLS_DENY, denied)
        asked = None if can_ask else _first_match(self.ask, tool)
        if asked is not None:
            return Refusal(TOOLS_ASK, asked)
        if self.allow is not None and _first_match(self.allow, tool) is None:
            return Refusal(TOOLS_ALLOW)
        return self.capability_refusal(self.own_capabilities.get(tool, self.capabilities))

    def capability_refusal(self, capabilities: Sequence[str]) -> Refusal | None:
        """Return why a tool with these capabilities is refused; one without any never is."""
        for word in self.capability_deny:
            if any(fnmatchcase(capability, word) for capability in capabilities):
                return Refusal(CAPABILITIES_DENY, word)
        if self.capability_allow is not None:
            for capability in capabilities:
                if not any(fnmatchcase(capability, word) for word in self.capability_allow):
                    return Refusal(CAPABILITIES_ALLOW)
        return None


def _first_match(words: Sequence[ToolWord], tool: str) -> str | None:
    return next((each.word for each in words if fnmatchcase(tool, each.tools)), None)
