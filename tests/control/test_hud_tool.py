"""The tool `hud_read`, called from inside a real run."""

import pytest

from tests.control.test_city_tools import FILES, SHELL, call
from tests.support.running import RunningCity

SECTIONS = {
    "hud/rules.md": "Be kind.\n",
    "hud/queue.template.md": (
        "---\nrefresh: on-demand\n---\n{{ .Session }}: {{ .TaskCounts.Running }} running\n"
    ),
}


def test_a_session_reads_its_own_sections_also_those_on_demand(town: RunningCity) -> None:
    town.write({**FILES, **SECTIONS})
    town.start()
    result = call(town, "hud_read")["structuredContent"]
    assert [(each["name"], each["text"]) for each in result["sections"]] == [
        ("rules", "Be kind."),
        ("queue", "lead-1: 1 running"),
    ]
    result = call(town, "hud_read", {"section": "rules"})["structuredContent"]
    assert [each["source"] for each in result["sections"]] == ["hud/rules.md"]
    wrong = call(town, "hud_read", {"section": "rulez"})
    assert wrong["isError"] is True
    assert wrong["content"][0]["text"].startswith("unknown-section: `lead` has no HUD section")


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ('[tools]\ndeny = ["city/hud_*"]\n', "`tools.deny` has `city/hud_*`"),
        ('[tools]\nallow = ["city/agents_*"]\n', "`tools.allow` does not have it"),
        ('[capabilities]\ndeny = ["hud.*"]\n', "`capabilities.deny` has `hud.*`"),
    ],
)
def test_an_agent_whose_rules_deny_its_hud_is_refused(
    town: RunningCity, rules: str, reason: str
) -> None:
    lead = f'description = "Leads."\n{SHELL}{rules}'
    town.write({**FILES, **SECTIONS, "agents/lead/agent.toml": lead})
    town.start()
    refused = call(town, "hud_read")
    assert refused["isError"] is True
    text = refused["content"][0]["text"]
    assert text == f"tool-not-allowed: agent `lead` may not call `city/hud_read`: {reason}"
