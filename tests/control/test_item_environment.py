"""Runs get the PATH and the variables of the user who slung or retried their item."""

import os
from pathlib import Path

import pytest

from gascity.model.work import DONE, OPEN
from tests.support.running import RunningCity

PROMPT = {"agents/hand/prompt.md": "Run.\n"}
NAMES = 'provider = "shell"\n[env]\nOWN = "${HAND_TOKEN}"\n'
SHOW = "echo $OWN ${OTHER-unset} > ../shown"
HAS = {"HAND_TOKEN": "hush-7391", "OTHER": "not passed"}
RETRY = "`HAND_TOKEN` is not set; run `city work retry {}` from a shell that has it"


@pytest.fixture
def hand(town: RunningCity) -> RunningCity:
    """A city whose agent `hand` refers to a variable that its controller does not have."""
    town.write({"agents/hand/agent.toml": NAMES, **PROMPT})
    town.start()
    return town


def slung(city: RunningCity, *words: str, **env: str) -> dict[str, object]:
    ran = city.run("sling", *words, "--json", env=env)
    assert ran.code == 0, ran.err
    return ran.json


def why(city: RunningCity, id: str) -> str:
    return str(city.run("why", id, "--json").json["decisions"][0]["reason"])


def test_a_run_gets_the_variables_its_agent_refers_to_and_no_others(hand: RunningCity) -> None:
    [work] = hand.settled(str(slung(hand, "hand", SHOW, **HAS)["work"]))
    assert work.status == DONE
    assert (hand.root / ".gc/work/shown").read_text() == "hush-7391 unset\n"
    files = [file for file in (hand.root / ".gc").rglob("*") if file.is_file()]
    assert [file.name for file in files if b"hush-7391" in file.read_bytes()] == ["shown"]


def test_an_item_without_its_variables_waits_until_it_is_retried_with_them(
    hand: RunningCity,
) -> None:
    answer = slung(hand, "hand", SHOW)
    id = str(answer["work"])
    assert answer["blocked_by"] == [{"code": "missing-env", "message": RETRY.format(id)}]
    [other] = hand.settled(str(slung(hand, "hand", SHOW, **HAS)["work"]))  # behind the first one
    assert (other.status, hand.work(id).status) == (DONE, OPEN)
    assert why(hand, id) == RETRY.format(id)
    ran = hand.run("sling", "hand", "true", "--wait")
    assert (ran.code, "[missing-env]" in ran.out) == (1, True)
    assert hand.run("work", "retry", id, env=HAS).code == 0
    [work] = hand.settled(id)
    assert (work.status, work.attempts) == (DONE, 1)


def test_after_a_restart_of_the_controller_the_values_are_gone(hand: RunningCity) -> None:
    busy = hand.sling("exec sleep 1000", variables=["HAND_TOKEN"], environ=HAS, agent="hand")
    hand.running(busy)
    id = str(slung(hand, "hand", SHOW, **HAS)["work"])
    assert hand.run("restart").code == 0
    assert hand.run("work", "cancel", busy).code == 0
    hand.until(lambda: RETRY.format(id) in hand.store.get_note("blocked hand"))
    assert hand.work(id).status == OPEN
    assert hand.run("work", "retry", id, env=HAS).code == 0
    assert hand.settled(id)[0].status == DONE


def test_a_session_passes_nothing(town: RunningCity) -> None:
    boss = 'provider = "shell"\n[agents_filter]\nallow = ["hand"]\n'
    town.write(
        {
            "agents/hand/agent.toml": NAMES,
            "agents/boss/agent.toml": boss,
            "agents/boss/prompt.md": "Run.\n",
            **PROMPT,
        }
    )
    town.start()
    sling = "city sling hand true"
    script = f"export HAND_TOKEN=hush-7391; {sling}; env -u CITY_SESSION_ID {sling}; true"
    [work] = town.settled(town.sling(script, agent="boss"))
    [item] = [one for one in town.store.list_work() if one.agent == "hand"]
    assert RETRY.format(item.id) in town.log(work.id)
    assert "not-your-session" in town.log(work.id)


def program(directory: Path, text: str) -> str:
    directory.mkdir()
    file = directory / "late-tool"
    file.write_text(f"#!/bin/sh\ncat >/dev/null\necho {text}\n")
    file.chmod(0o755)
    return f"{directory}{os.pathsep}{os.environ['PATH']}"


SERVER = """\
name = "docs"
description = "Documentation."
command = "true"
env = { KEY = "${HAND_TOKEN}" }
"""
LATE = '[providers.late]\nbase = "builtin:shell"\ncommand = "late-tool"\nscript = false\n'


def test_a_program_installed_after_the_controller_started_is_found_on_the_callers_path(
    town: RunningCity, tmp_path: Path
) -> None:
    town.write({"city.toml": LATE, "agents/hand/agent.toml": 'provider = "late"\n', **PROMPT})
    town.start()
    answer = slung(town, "hand", "one")
    assert [reason["code"] for reason in answer["blocked_by"]] == ["missing-binary"]  # type: ignore[attr-defined]
    path = program(tmp_path / "bin", "hello")
    [work] = town.settled(str(slung(town, "hand", "two", PATH=path)["work"]))
    assert (work.status, town.log(work.id)) == (DONE, "hello\n")
    first = str(answer["work"])
    assert town.work(first).status == OPEN
    assert town.run("reload", env={"PATH": path}).code == 0
    assert town.settled(first)[0].status == DONE


def test_an_agent_that_cannot_start_leaves_one_session(town: RunningCity, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "hello")
    provider = '[providers.late]\nbase = "builtin:claude"\ncommand = "late-tool"\n'
    town.write(
        {
            "city.toml": provider,
            "agents/hand/agent.toml": 'provider = "late"\n',
            "mcp/docs.toml": SERVER,
            **PROMPT,
        }
    )
    town.start()
    ids = [str(slung(town, "hand", "please", PATH=path)["work"]) for _ in range(3)]
    town.until(lambda: all("retry" in town.store.decisions([id])[0].reason for id in ids))
    for id in ids:
        assert why(town, id) == RETRY.format(id)
    assert len(town.store.sessions(agent="hand")) == 1
    assert town.run("work", "retry", ids[1], env={"PATH": path, **HAS}).code == 0
    town.settled(ids[1])
