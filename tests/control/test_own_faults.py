"""A fault of ours about one agent is that agent's alone."""

import sqlite3

from tests.support.running import RunningCity

COOK = 'description = "Cooks."\nprovider = "shell"\n'


def spoil(town: RunningCity, work: str) -> None:
    """Make an item that no code of ours expects."""
    with sqlite3.connect(town.root / ".gc/city.db") as database:
        database.execute("UPDATE work SET summary = '', usage = '{' WHERE id = ?", (work,))
    database.close()


def test_an_internal_error_about_one_agent_does_not_stop_the_others(town: RunningCity) -> None:
    town.write({"agents/cook/agent.toml": COOK, "agents/cook/prompt.md": "Cook.\n"})
    for agent in ("cook", "shell"):
        assert town.run("sling", agent, "true", "--no-start").code == 0
    spoil(town, "w-1")
    town.start()
    assert [work.status for work in town.settled("w-2", town.sling("true"))] == ["done", "done"]
    log = (town.root / ".gc/logs/controller.log").read_text()
    assert "internal error about cook (this is a bug in city): Traceback" in log
    status = town.run("status", "--json").json
    (cook,) = [one for one in status["agents"] if one["name"] == "cook"]
    assert "internal error, see the controller log" in cook["reason"]
    assert not town.sessions("cook")
