"""Makes the rules of `[tools]` and `[capabilities]` that apply to the tools of one server."""

from collections.abc import Iterator, Mapping, Sequence

from gascity.model.capabilities import GRANTS
from gascity.model.city import Agent
from gascity.model.problems import Place
from gascity.model.provider import Provider
from gascity.model.tool_rules import Refusal, ToolRules, ToolWord
from gascity.render.flags import HEADLESS
from gascity.render.tool_words import ToolSyntax


def tool_rules(
    provider: Provider | None,
    agent: Agent,
    server: str,
    capabilities: Sequence[str] = (),
    own_capabilities: Mapping[str, tuple[str, ...]] = {},
    *,
    bare_names: bool = False,
) -> ToolRules:
    """Return the rules of an agent for one server.

    Words in the provider's own grammar count, too. With `bare_names`, a word without a server means
    tools of this one: the city's own tools can be written without `city/`.
    """
    syntax = ToolSyntax(provider or Provider("", "", (), {}), HEADLESS)
    settings = agent.settings

    def words(written: Sequence[str]) -> tuple[ToolWord, ...]:
        return tuple(_words(syntax, server, written, bare_names))

    allow = settings.tools.allow
    return ToolRules(
        None if allow is None else words(allow),
        words(settings.tools.deny),
        words(settings.tools.ask),
        _allowed_capabilities(agent),
        settings.capabilities.deny,
        tuple(capabilities),
        own_capabilities,
    )


def _words(
    syntax: ToolSyntax, server: str, written: Sequence[str], bare_names: bool
) -> Iterator[ToolWord]:
    for word in written:
        tools = syntax.tool_of(word, server)
        if tools is None and bare_names and "/" not in word:
            tools = word
        if tools is not None:
            yield ToolWord(word, tools)


def _allowed_capabilities(agent: Agent) -> tuple[str, ...] | None:
    """Return the capabilities that a tool may have; None: any.

    Words that grant commands of the city are no restriction, so a list of only those is none.
    """
    allow = agent.settings.capabilities.allow
    if not allow:
        return allow
    return tuple(word for word in allow if not word.startswith(GRANTS)) or None


def refusal_place(agent: Agent, refusal: Refusal) -> Place | None:
    """Return the place of the word that refuses a call, or of the list that has no word for it."""
    setting = agent.named_setting(refusal.rule)
    return setting.place_of(refusal.word) if refusal.word else setting.place


def refusal_message(agent: str, name: str, refusal: Refusal) -> str:
    """Return the text for the caller, such as "`tools.deny` of `clerk` has `docs/drop`"."""
    if refusal.word:
        return f"agent `{agent}` may not call `{name}`: `{refusal.rule}` has `{refusal.word}`"
    return f"agent `{agent}` may not call `{name}`: `{refusal.rule}` does not have it"
