"""One agent in the agent format of every provider that has one."""

import pytest
from syrupy.assertion import SnapshotAssertion

from gascity.agent_files import agent_file
from gascity.render.agent_tools import FileTarget
from tests.golden.test_cities import golden as golden
from tests.support.city import CityBuilder, agent_of

FORMATS = (
    "claude codex copilot cursor droid gemini grok kilo kimi kiro opencode qwen vscode".split()
)
AGENT = """
description = "Answers questions: tickets, bugs"
display_name = "Front Desk"
model = "sonnet"
mode = "subagent"
hidden = true
temperature = 0.2
top_p = 0.9
steps = 12
variant = "high"
color = "#8040ff"
[option_defaults]
permission_mode = "plan"
[options]
reasoningEffort = "high"
nested = { list = ["a", 1] }
[tools]
allow = ["read", "search", "shell(git log *)", "docs/*", "tickets/find"]
deny = ["shell(git log -p*)", "docs/drop"]
ask = ["fetch"]
"""
PROMPT = "# Front desk\n\nAnswer {{ nothing }}: 'quoted' \"text\", a \\ and ---\n---\nEnd.\n"


@pytest.mark.parametrize("provider", FORMATS)
def test_an_agent_file_comes_to_its_golden(
    provider: str, city: CityBuilder, golden: SnapshotAssertion
) -> None:
    city.write(
        {
            "city.toml": "",
            "agents/clerk/prompt.md": PROMPT,
            "agents/clerk/agent.toml": f'provider = "claude"\n{AGENT}',
        }
    )
    town = city.open(all_providers=True)
    file = agent_file(agent_of(town, "clerk"), PROMPT, FileTarget(town.providers[provider]))
    lost = [f"lost: {field} {value} ({reason})" for field, value, reason in file.lost]
    assert "\n".join((file.path, file.text, *lost)) == golden


def test_every_provider_with_a_format_has_a_golden(city: CityBuilder) -> None:
    city.write({"city.toml": ""})
    providers = city.open(all_providers=True).providers
    known = [name for name, each in providers.items() if each.facts.agents.format]
    assert sorted(known) == FORMATS
