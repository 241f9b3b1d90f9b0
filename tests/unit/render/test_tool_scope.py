"""The words of an agent's scope that are about one server."""

from collections.abc import Callable

import pytest

from gascity.model.city import Agent
from gascity.model.tool_rules import Refusal, ToolRules
from gascity.render.tool_scope import refusal_place, tool_rules
from tests.support.city import CityBuilder, agent_of

Make = Callable[..., tuple[ToolRules, Agent]]


@pytest.fixture
def rules(city: CityBuilder) -> Make:
    """`rules('tools.deny = ["docs/drop"]')`: those of the server `docs`, and the agent."""

    def build(
        settings: str, provider: str = "claude", server: str = "docs", bare_names: bool = False
    ) -> tuple[ToolRules, Agent]:
        made = city(
            {
                "agents/mayor/prompt.md": "Hi.\n",
                "agents/mayor/agent.toml": f'provider = "{provider}"\n{settings}\n',
            }
        )
        agent = agent_of(made, "mayor")
        own = made.providers[provider]
        return tool_rules(own, agent, server, bare_names=bare_names), agent

    return build


def test_words_of_other_servers_and_built_in_tools_do_not_count(rules: Make) -> None:
    made, _ = rules('tools.deny = ["shell", "web/find", "doc/*"]')
    assert made.refusal("find") is None


@pytest.mark.parametrize("word", ["docs/drop", "docs/dr*", "d*/drop", "*", "mcp__docs__drop"])
def test_a_word_may_be_a_glob_or_in_the_providers_grammar(rules: Make, word: str) -> None:
    made, _ = rules(f'tools.deny = ["{word}"]')
    assert made.refusal("drop") == Refusal("tools.deny", word)


def test_copilots_words_count_too(rules: Make) -> None:
    made, _ = rules('tools.allow = ["docs(find)", "write"]', "copilot")
    assert made.refusal("find") is None
    assert made.refusal("drop") == Refusal("tools.allow")


def test_an_allow_list_of_built_in_tools_allows_no_server(rules: Make) -> None:
    made, _ = rules('tools.allow = ["read"]')
    assert made.refusal("find") == Refusal("tools.allow")


def test_words_that_grant_commands_restrict_no_tool(rules: Make) -> None:
    made, _ = rules('capabilities.allow = ["city.work"]')
    assert made.capability_refusal(("net",)) is None
    made, _ = rules('capabilities.allow = ["city.work", "docs.*"]')
    assert made.capability_refusal(("net",)) == Refusal("capabilities.allow")
    made, _ = rules("capabilities.allow = []")
    assert made.capability_refusal(("net",)) == Refusal("capabilities.allow")


def test_a_bare_name_means_a_tool_only_where_that_is_asked_for(rules: Make) -> None:
    made, _ = rules('tools.deny = ["mail_*"]', server="city", bare_names=True)
    assert made.refusal("mail_send") == Refusal("tools.deny", "mail_*")
    made, _ = rules('tools.deny = ["mail_*"]', server="city")
    assert made.refusal("mail_send") is None


def test_a_refusal_is_placed_at_its_word(rules: Make) -> None:
    made, agent = rules('tools.deny = ["shell", "docs/drop"]')
    refused = made.refusal("drop")
    assert refused is not None
    place = refusal_place(agent, refused)
    assert place is not None
    assert (place.file, place.path) == ("agents/mayor/agent.toml", ("tools", "deny", 1))
