"""An agent as a file in a provider's own format: names, keys, tools and what is lost."""

import json
import tomllib
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.agent_files import agent_file
from gascity.model.city import City
from gascity.model.front_matter import read_front_matter
from gascity.render.agent_files import AgentFile, agent_file_name
from gascity.render.agent_text import toml_text, yaml_text
from gascity.render.agent_tools import FileTarget, native_tools
from gascity.render.flags import HEADLESS, INTERACTIVE
from tests.support.city import CityBuilder, agent_of

Make = Callable[..., AgentFile]


@pytest.fixture
def written(city: CityBuilder) -> Make:
    """`written("claude", 'color = "red"', prompt="Hi.")`: the agent `clerk` as a file."""

    def build(provider: str, settings: str = "", prompt: str = "Hi.\n", **more: str) -> AgentFile:
        town = town_with(city, settings)
        return agent_file(
            agent_of(town, "clerk"), prompt, FileTarget(town.providers[provider], **more)
        )

    return build


def town_with(city: CityBuilder, settings: str, name: str = "clerk") -> City:
    files = {f"agents/{name}/prompt.md": "Hi.\n", f"agents/{name}/agent.toml": settings}
    city.write({"city.toml": "", **files})
    return city.open(all_providers=True)


def keys_of(file: AgentFile) -> Mapping[str, object]:
    matter = read_front_matter(file.text)
    assert matter is not None
    assert matter.error == ""
    return matter.values


def tools_of(
    city: CityBuilder, provider: str, tools: str, kind: str = INTERACTIVE
) -> Mapping[str, object]:
    town = town_with(city, f"[tools]\n{tools}\n")
    return native_tools(agent_of(town, "clerk"), FileTarget(town.providers[provider], kind)).keys


def lost_of(city: CityBuilder, provider: str, tools: str, kind: str = INTERACTIVE) -> list[str]:
    town = town_with(city, f"[tools]\n{tools}\n")
    lost = native_tools(agent_of(town, "clerk"), FileTarget(town.providers[provider], kind)).lost
    return [f"{each.field} {each.value}" for each in lost]


# Names


def test_a_file_name_has_no_separators_of_a_qualified_name() -> None:
    assert agent_file_name("api/gastown.polecat") == "api--gastown--polecat"
    assert agent_file_name("do", "binnacle") == "binnacle-do"


def test_the_title_is_the_display_name_or_the_name_in_words(written: Make) -> None:
    assert keys_of(written("copilot"))["name"] == "Clerk"
    assert keys_of(written("copilot", 'display_name = "Front Desk"'))["name"] == "Front Desk"


def test_a_prefix_is_in_the_file_name_and_the_title(written: Make) -> None:
    file = written("copilot", prefix="binnacle")
    assert (file.name, file.path) == ("binnacle-clerk", "binnacle-clerk.agent.md")
    assert keys_of(file)["name"] == "Binnacle Clerk"
    titled = written("copilot", 'display_name = "Binnacle Worker"', prefix="binnacle")
    assert keys_of(titled)["name"] == "Binnacle Worker"


# Prompt


@pytest.mark.parametrize(
    "prompt",
    ["Hi.\n", "Hi.", "", "---\nname: x\n---\nHi\r\n", "{{ x }}{% if %}\n\n", "'''\n\"\"\"\\n\x00é"],
)
def test_the_prompt_is_in_the_file_unchanged(written: Make, prompt: str) -> None:
    text = written("claude", prompt=prompt).text
    assert text.partition("\n---\n")[2] == (prompt if prompt.endswith("\n") else prompt + "\n")
    assert json.loads(written("kiro", prompt=prompt).text)["prompt"] == prompt
    codex = tomllib.loads(written("codex", prompt=prompt).text)
    assert codex["developer_instructions"] == prompt


# Keys


def test_keys_are_in_the_order_of_the_provider_and_others_follow(written: Make) -> None:
    settings = 'steps = 3\nmodel = "a/b"\ndescription = "D"\noptions = { z = 1 }\n'
    file = written("opencode", settings + '[tools]\ndeny = ["shell"]')
    assert list(keys_of(file)) == ["description", "model", "steps", "permission", "z"]


def test_a_model_of_another_provider_is_lost(written: Make) -> None:
    own = written("claude", 'provider = "claude"\nmodel = "anything"')
    assert keys_of(own)["model"] == "anything"
    other = written("opencode", 'provider = "claude"\nmodel = "sonnet"')
    assert "model" not in keys_of(other)
    assert ("model", "sonnet", "OpenCode does not know the model") in other.lost
    known = written("opencode", 'provider = "claude"\nmodel = "anthropic/claude-4"')
    assert keys_of(known)["model"] == "anthropic/claude-4"


def test_a_file_does_not_turn_all_checks_off(written: Make) -> None:
    mode = '[option_defaults]\npermission_mode = "unrestricted"'
    file = written("claude", mode)
    assert "permissionMode" not in keys_of(file)
    assert [each.field for each in file.lost] == ["permission_mode"]


def test_an_option_does_not_replace_a_setting(written: Make) -> None:
    file = written("opencode", 'steps = 3\n[options]\nsteps = 99\npermission = "allow"\n')
    assert keys_of(file)["steps"] == 3


def test_options_of_one_provider_are_in_no_other_file(written: Make) -> None:
    settings = '[options]\nx = 1\n[options.copilot]\nargument-hint = "a file"\nother = 2\n'
    copilot = written("copilot", settings)
    assert keys_of(copilot)["argument-hint"] == "a file"
    assert [each.field for each in copilot.lost] == ["options.other", "options.x"]
    opencode = written("opencode", settings)
    assert list(keys_of(opencode)) == ["description", "x"]
    assert opencode.lost == ()


def test_an_option_never_replaces_the_rules_of_tools(written: Make) -> None:
    settings = '[options.permission]\nbash = "allow"\n[tools]\nallow = ["read"]\n'
    assert keys_of(written("opencode", settings))["permission"] == {"*": "deny", "read": "allow"}


# Tools


def test_rules_deny_everything_that_is_not_allowed(city: CityBuilder) -> None:
    rules = tools_of(city, "opencode", 'allow = ["read", "shell(git log *)"]')["permission"]
    assert rules == {
        "*": "deny",
        "read": "allow",
        "bash": {"*": "deny", "git log *": "allow"},
    }


def test_a_denial_comes_after_what_it_limits(city: CityBuilder) -> None:
    """The last rule that matches decides."""
    tools = 'allow = ["docs/*", "docs/find", "shell"]\ndeny = ["docs/*", "shell(rm *)"]'
    rules = tools_of(city, "opencode", tools)["permission"]
    assert isinstance(rules, dict)
    assert list(rules.items()) == [
        ("*", "deny"),
        ("docs_find", "allow"),
        ("docs_*", "deny"),
        ("bash", {"*": "allow", "rm *": "deny"}),
    ]


def test_a_denied_tool_stays_denied_whatever_is_allowed_of_it(city: CityBuilder) -> None:
    tools = 'allow = ["shell", "shell(git *)"]\ndeny = ["shell"]'
    assert tools_of(city, "opencode", tools)["permission"] == {"*": "deny", "bash": "deny"}


def test_nobody_can_be_asked_in_a_headless_run(city: CityBuilder) -> None:
    tools = 'allow = ["read", "shell(git *)"]\nask = ["shell", "read"]'
    assert tools_of(city, "opencode", tools)["permission"] == {
        "*": "deny",
        "bash": {"*": "ask", "git *": "allow"},
        "read": "ask",
    }
    assert tools_of(city, "opencode", tools, HEADLESS)["permission"] == {
        "*": "deny",
        "bash": {"*": "deny", "git *": "allow"},
        "read": "deny",
    }


def test_a_list_has_whole_tools_only(city: CityBuilder) -> None:
    tools = 'allow = ["read", "shell(git *)", "docs/*", "docs/find"]'
    assert tools_of(city, "copilot", tools) == {"tools": ["read", "docs/*", "docs/find"]}
    assert lost_of(city, "copilot", tools) == ["tools.allow shell(git *)"]


def test_denied_tools_are_not_listed(city: CityBuilder) -> None:
    tools = 'allow = ["read", "shell", "docs/find"]\ndeny = ["shell", "docs/*"]'
    assert tools_of(city, "copilot", tools) == {"tools": ["read"]}
    assert lost_of(city, "copilot", tools) == []


def test_a_denied_part_of_an_allowed_tool_is_lost_or_listed_apart(city: CityBuilder) -> None:
    tools = 'allow = ["docs/*", "shell"]\ndeny = ["docs/drop", "shell(rm *)"]'
    assert lost_of(city, "copilot", tools) == ["tools.deny docs/drop", "tools.deny shell(rm *)"]
    assert tools_of(city, "claude", tools) == {
        "tools": "mcp__docs, Bash",
        "disallowedTools": "mcp__docs__drop",
    }


def test_what_cannot_be_asked_for_is_left_out(city: CityBuilder) -> None:
    tools = 'allow = ["read", "fetch"]\nask = ["fetch", "shell"]'
    assert tools_of(city, "copilot", tools) == {"tools": ["read"]}
    assert lost_of(city, "copilot", tools) == ["tools.ask fetch", "tools.ask shell"]


def test_a_denied_part_of_a_tool_that_is_left_out_is_not_lost(city: CityBuilder) -> None:
    assert lost_of(city, "copilot", 'allow = ["read"]\ndeny = ["shell(rm *)"]') == []


def test_denied_tools_without_a_list_of_allowed_ones(city: CityBuilder) -> None:
    assert tools_of(city, "claude", 'deny = ["shell"]') == {"disallowedTools": "Bash"}
    assert lost_of(city, "copilot", 'deny = ["shell"]') == ["tools.deny shell"]


def test_no_tool_is_not_every_tool(city: CityBuilder) -> None:
    assert tools_of(city, "copilot", "allow = []") == {"tools": []}
    assert tools_of(city, "opencode", 'deny = ["*"]') == {"permission": {"*": "deny"}}
    assert lost_of(city, "claude", "allow = []") == ["tools.allow []"]


def test_a_provider_that_asks_for_unlisted_tools_has_two_lists(city: CityBuilder) -> None:
    tools = 'allow = ["read"]\nask = ["shell"]'
    assert tools_of(city, "kiro", tools) == {"tools": ["read", "shell"], "allowedTools": ["read"]}
    assert tools_of(city, "kiro", tools, HEADLESS) == {"tools": ["read"], "allowedTools": ["read"]}


def test_a_format_without_tools_loses_every_word(city: CityBuilder) -> None:
    tools = 'allow = ["read"]\ndeny = ["shell"]\nask = ["fetch"]'
    assert lost_of(city, "codex", tools) == [
        "tools.allow read",
        "tools.deny shell",
        "tools.ask fetch",
    ]


# Text

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(_TEXT, _VALUES, min_size=1, max_size=4))
def test_front_matter_is_read_as_it_was_written(values: dict[str, object]) -> None:
    matter = read_front_matter(f"---\n{yaml_text(values)}\n---\nBody\n")
    assert matter is not None
    assert (matter.error, matter.values) == ("", values)


@given(_VALUES)
def test_toml_is_read_as_it_was_written(value: object) -> None:
    assert tomllib.loads(f"value = {toml_text(value)}\n")["value"] == value
