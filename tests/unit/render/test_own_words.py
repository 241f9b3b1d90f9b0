"""Words of an agent's own provider in the files of other providers."""

from collections.abc import Mapping

import pytest

from gascity.model.city import City
from gascity.render.agent_tools import FileTarget, native_tools
from gascity.render.flags import INTERACTIVE
from gascity.render.own_words import OwnWords
from gascity.render.tool_words import NEUTRAL, ToolSyntax
from tests.support.city import CityBuilder, agent_of


@pytest.fixture
def town(city: CityBuilder) -> City:
    city.write({"city.toml": ""})
    return city.open(all_providers=True)


def written(
    city: CityBuilder, own: str, target: str, tools: str
) -> tuple[Mapping[str, object], list[str]]:
    """Return the keys and the lost words of an agent of one provider in a file of another."""
    settings = f'provider = "{own}"\n[tools]\n{tools}\n'
    city.write({"city.toml": "", "agents/a/prompt.md": "Hi.\n", "agents/a/agent.toml": settings})
    town = city.open(all_providers=True)
    agent, providers = agent_of(town, "a"), town.providers
    made = native_tools(agent, FileTarget(providers[target], words_of=providers[own]))
    return made.keys, [f"{each.field} {each.value}" for each in made.lost]


@pytest.mark.parametrize(
    ("own", "words", "target", "expected"),
    [
        ("claude", ["Read", "Grep", "Bash"], "copilot", {"tools": ["read", "search", "execute"]}),
        ("copilot", ["read", "execute", "web"], "claude", {"tools": "Read, Bash, WebFetch"}),
        ("opencode", ["grep", "webfetch"], "claude", {"tools": "Grep, WebFetch"}),
        ("gemini", ["read_file", "replace"], "qwen", {"tools": ["read_file", "edit"]}),
        ("qwen", ["run_shell_command"], "droid", {"tools": ["Execute"]}),
        ("droid", ["Create", "FetchUrl"], "grok", {"tools": ["Write", "WebFetch"]}),
        ("kilo", ["bash"], "gemini", {"tools": ["run_shell_command"]}),
        ("claude", ["mcp__docs__find"], "copilot", {"tools": ["docs/find"]}),
        ("grok", ["MCPTool(docs__*)"], "claude", {"tools": "mcp__docs"}),
        ("claude", ["Glob", "Read"], "grok", {"tools": ["Glob", "Read"]}),  # the same names
    ],
)
def test_a_tool_of_the_own_provider_is_the_same_tool_in_a_file_of_another(
    city: CityBuilder, own: str, words: list[str], target: str, expected: Mapping[str, object]
) -> None:
    assert written(city, own, target, f"allow = {words}") == (expected, [])


def test_a_pattern_of_the_own_provider_is_a_rule_of_another(city: CityBuilder) -> None:
    tools = 'allow = ["Read", "Bash(git log:*)"]\ndeny = ["Bash(git log -p *)"]'
    keys, lost = written(city, "claude", "opencode", tools)
    assert keys == {
        "permission": {
            "*": "deny",
            "read": "allow",
            "bash": {"*": "deny", "git log *": "allow", "git log -p *": "deny"},
        }
    }
    assert lost == []


def test_a_pattern_is_lost_in_a_list_under_the_word_that_the_agent_has(city: CityBuilder) -> None:
    tools = 'allow = ["Read", "Bash(git log:*)"]'
    keys, lost = written(city, "claude", "copilot", tools)
    assert keys == {"tools": ["read"]}
    assert lost == ["tools.allow Bash(git log:*)"]


@pytest.mark.parametrize("word", ["Glob", "Read(./src/**)", "WebFetch(domain:a.b)", "mcp__a__b__c"])
def test_an_allowed_word_without_an_exact_counterpart_is_lost(city: CityBuilder, word: str) -> None:
    for target, only_read in (("copilot", ["read"]), ("opencode", {"*": "deny", "read": "allow"})):
        keys, lost = written(city, "claude", target, f'allow = ["Read", "{word}"]')
        assert [*keys.values()] == [only_read]
        assert lost == [f"tools.allow {word}"]


def test_a_denied_word_is_denied_in_the_words_of_the_file(city: CityBuilder) -> None:
    keys, lost = written(city, "claude", "opencode", 'deny = ["Bash", "WebFetch"]')
    assert (keys, lost) == ({"permission": {"bash": "deny", "webfetch": "deny"}}, [])
    keys, lost = written(city, "claude", "qwen", 'deny = ["Bash", "Read(x)"]')
    assert (keys, lost) == ({"disallowedTools": ["run_shell_command"]}, ["tools.deny Read(x)"])


def test_a_denied_word_without_a_counterpart_stays_denied(city: CityBuilder) -> None:
    keys, _ = written(city, "claude", "droid", 'allow = ["Read", "Task"]\ndeny = ["Task"]')
    assert keys == {"tools": ["Read"]}
    keys, _ = written(city, "droid", "claude", 'deny = ["Task"]')
    assert keys == {"disallowedTools": "Task"}


@pytest.mark.parametrize(
    ("own", "word", "neutral"),
    [
        ("claude", "Bash(git log *)", ["shell(git log *)"]),
        ("claude", "Bash(make)", ["shell(make)"]),
        ("claude", "Bash(ls [a]*)", []),
        ("claude", "Bash(:*)", []),
        ("claude", "mcp__docs", ["docs/*"]),
        ("claude", "mcp__docs__*", ["docs/*"]),
        ("claude", "mcp__a___b", []),  # of `a` or of `a_`
        ("grok", "Bash(git log:*)", []),  # its documentation has no such form
        ("copilot", "shell(git:*)", ["shell(git *)"]),
        ("gemini", "run_shell_command(git log)", ["shell(git log *)"]),
        ("kiro", "@docs/find", ["docs/find"]),
        ("opencode", "docs_find", ["docs_find"]),  # a server's, or a tool of that name
        ("claude", "shell(git *)", ["shell(git *)"]),
        ("claude", "docs/*", ["docs/*"]),
        ("claude", "*", ["*"]),
    ],
)
def test_only_an_exact_counterpart_is_a_translation(
    town: City, own: str, word: str, neutral: list[str]
) -> None:
    assert OwnWords(town.providers[own]).neutral(word) == neutral


def test_what_a_flag_says_of_a_neutral_word_is_translated_back(town: City) -> None:
    words = [*NEUTRAL, "shell(git log *)", "docs/find"]
    for provider in town.providers.values():
        if not provider.facts.tools.own_words:
            continue
        for word in words:
            for native in ToolSyntax(provider, INTERACTIVE).native(word):
                back = OwnWords(provider).neutral(native)
                assert not back or word in back or native in NEUTRAL, (provider.name, word, native)
