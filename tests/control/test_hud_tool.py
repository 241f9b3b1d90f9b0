"""The tool `hud_read`, called from inside a real run."""

from tests.control.test_city_tools import FILES, call
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
