"""profile.md: what becomes of each part, where it is found again, and how it is edited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.jsonc.edit import parse
from gascity.model.profile import profile_prompt, read_profile
from gascity.source.profiles import edit_profile, locate_in_profile, profile_settings

FILE = "agents/coding/profile.md"
# The example of S4-02 to S4-07 and S4-11 to S4-16, shortened.
PROFILE = """\
---
id: coding
name: Coding Agent
tags: [profile]
---

# Coding Agent

## Role
You write code.

```md
## Not a heading
```

## Config
```json
{
  "model": "sonnet",
  "permission_mode": "auto",
  "limits": {"retries": 2},
  "runtime": "claude_sdk"
}
```
Prose for people.

## Tools
```json
{"allowed": ["shell", "mcp__github__search"], "denied": []}
```

## MCP Servers
```json
["github", "playwright"]
```

## Rules
- Run the tests.

## Reflection
What did you learn?
"""


def codes(text: str, name: str = "coding") -> list[tuple[str, int | None]]:
    problems = profile_settings(text, FILE, name).problems
    return [(problem.code, problem.place.line) for problem in problems if problem.place]


def test_settings_have_the_keys_of_agent_toml() -> None:
    """S4-03, S4-05 to S4-08, S4-11, S4-12, S4-26"""
    assert profile_settings(PROFILE, FILE, "coding").table == {
        "display_name": "Coding Agent",
        "model": "sonnet",
        "limits": {"retries": 2},
        "option_defaults": {"permission_mode": "auto-edit"},
        "provider": "claude",
        "tools": {"allow": ["shell", "github/search"], "deny": []},
        "mcp_filter": {"allow": ["github", "playwright"]},
        "reflection": "./profile.md",
    }


def test_the_prompt_is_the_role_and_then_the_rules() -> None:
    """S4-14, S4-15"""
    prompt = profile_prompt(read_profile(PROFILE))
    expected = "You write code.\n\n```md\n## Not a heading\n```\n\n## Rules\n- Run the tests.\n"
    assert prompt.text == expected
    lines = PROFILE.split("\n")
    written = [lines[line - 1] for line in prompt.lines]
    assert [a for a, b in zip(written, prompt.text.split("\n"), strict=False) if b] == [
        line for line in prompt.text.split("\n") if line
    ]


def test_an_unknown_section_is_part_of_the_prompt_with_a_warning() -> None:
    text = PROFILE.replace("## Rules", "## Style\nBe brief.\n\n## Rules")
    assert "## Style\nBe brief.\n\n## Rules" in profile_prompt(read_profile(text)).text
    assert ("unknown-section", 37) in codes(text)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 3),
        (("Config", "model"), 19),
        (("model",), 19),
        (("limits", "retries"), 21),
        (("Tools", "denied"), 29),
        (("MCP Servers", 1), 34),
    ],
)
def test_a_setting_is_found_at_its_line(path: tuple[str | int, ...], line: int) -> None:
    assert locate_in_profile(PROFILE, path)[0] == line


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ('"model": "sonnet",', '"model": sonnet,', "bad-json", 19),
        ('"model": "sonnet",', '"model": "a", "model": "b",', "bad-json", 19),
        ("Prose for people.", "```json\n{}\n```", "two-blocks", 25),
        ('["github", "playwright"]', '[{"command": "x"}]', "inline-server", None),
        ("claude_sdk", "supervisor", "no-supervisor", None),
        ("tags:", "label:", "unknown-key", 4),
        ("tags: [profile]\n---", "tags: [profile\n---", "bad-front-matter", 4),
        ('"allowed"', '"alowed"', "unknown-key", None),
    ],
)
def test_a_mistake_is_reported_at_its_place(
    old: str, new: str, code: str, line: int | None
) -> None:
    """S4-20, S4-21"""
    assert (code, line) in codes(PROFILE.replace(old, new))


def test_a_section_without_block_sets_nothing_and_says_so() -> None:
    text = "# A\n\n## Role\nx\n\n## Config\nSee above.\n"
    assert codes(text) == [("no-json", 6)]


def test_an_id_that_is_not_the_directory_is_a_warning() -> None:
    [(code, line), *_] = codes(PROFILE, "coder")
    assert (code, line) == ("name-mismatch", 2)


def test_an_agent_of_another_runtime_names_its_provider() -> None:
    """S4-09"""
    text = PROFILE.replace('"claude_sdk"', '"acpx",\n  "agent_name": "codex"')
    assert profile_settings(text, FILE, "coding").table["provider"] == "codex"


def test_an_edit_changes_only_the_block_of_the_setting() -> None:
    text = edit_profile(PROFILE, {"model": "opus", "tools.deny": ["write"], "limits.retries": None})
    table = profile_settings(text, FILE, "coding").table
    assert table["model"] == "opus"
    assert table["tools"] == {"allow": ["shell", "github/search"], "deny": ["write"]}
    assert profile_prompt(read_profile(text)).text == profile_prompt(read_profile(PROFILE)).text


def test_an_edit_adds_a_missing_section() -> None:
    text = edit_profile("# A\n\n## Role\nx\n", {"model": "opus", "mcp_filter.allow": ["github"]})
    table = profile_settings(text, FILE, "a").table
    assert table["model"] == "opus"
    assert table["mcp_filter"] == {"allow": ["github"]}


_names = st.sampled_from(["model", "description", "limits.timeout", "tools.allow", "tools.ask"])
_values = st.one_of(st.text(max_size=20), st.lists(st.text(max_size=8), max_size=3))


@given(st.dictionaries(_names, _values, max_size=4))
def test_edits_keep_every_other_part(changes: dict[str, object]) -> None:
    text = edit_profile(PROFILE, changes)
    before, after = read_profile(PROFILE), read_profile(text)
    assert profile_prompt(after).text == profile_prompt(before).text
    assert [section.title for section in after.sections] == [s.title for s in before.sections]
    config = after.section("Config")
    assert config is not None
    assert parse(config.blocks[0].text).keys() >= {"permission_mode", "runtime"}
