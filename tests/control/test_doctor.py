"""`city doctor` with a running controller: its environment against that of the caller."""

import json
from typing import Any

from tests.support.running import RunningCity

AGENT = """\
provider = "shell"

[env]
TOKEN = "${SHOP_TOKEN}"
"""


def environment(town: RunningCity, **variables: str) -> dict[str, Any]:
    ran = town.run("doctor", "--json", env=variables)
    [row] = [row for row in json.loads(ran.out)["results"] if row["name"] == "environment"]
    return dict(row)


def test_a_variable_that_agents_refer_to_is_compared_without_its_value(
    awake: RunningCity,
) -> None:
    awake.write({"agents/clerk/agent.toml": AGENT, "agents/clerk/prompt.md": "x\n"})
    row = environment(awake)
    assert (row["status"], row["message"]) == (
        "ok",
        "the same as in this shell; variables compared: 1",
    )
    row = environment(awake, SHOP_TOKEN="s3cr3t")
    assert (row["status"], row["fix"]) == ("warning", "city restart")
    assert row["problems"][0]["message"] == "SHOP_TOKEN is set here, but not for the controller"
    assert "s3cr3t" not in json.dumps(row)
