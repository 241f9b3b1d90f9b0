"""Sessions reach servers behind the gateway only within their scope, and never their secrets."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from gascity.model.work import DONE
from tests.support import mcp_server
from tests.support.running import RunningCity

SECRET = "hush-7391"
SERVER = (
    f'name = "docs"\ndescription = "Echoes."\ncommand = "{sys.executable}"\n'
    f'args = ["{mcp_server.__file__}", "--two"]\ngateway = true\n'
    '[tools.shout]\ncapabilities = ["noise"]\n[env]\nGREETING = "${DOCS_TOKEN}"\n'
)
AGENT = (
    'provider = "shell"\n[tools]\ndeny = ["docs/drop*"]\n'
    '[capabilities]\nallow = ["city.work"]\ndeny = ["noise"]\n'
)


@pytest.fixture
def hand(town: RunningCity) -> RunningCity:
    town.write(
        {
            "agents/hand/agent.toml": AGENT,
            "agents/hand/prompt.md": "Run.\n",
            "mcp/docs.toml": SERVER,
        }
    )
    town.start()
    return town


def ran(city: RunningCity, script: str) -> str:
    """Run a script in a session whose user has the server's variable; return its output."""
    slung = city.run("sling", "hand", script, "--json", env={"DOCS_TOKEN": SECRET})
    [work] = city.settled(slung.json["work"])
    assert work.status == DONE, work
    return city.run("work", "logs", work.id).out


def content(file: Path) -> bytes:
    """Return what a file contains; nothing if it is none, or the controller just removed it."""
    try:
        return file.read_bytes() if file.is_file() else b""
    except FileNotFoundError:
        return b""


def message(method: str, **params: object) -> str:
    text = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return f"printf '%s\\n' {shlex.quote(json.dumps(text))}"


def test_a_call_reaches_the_server_and_its_secret_only_the_server(hand: RunningCity) -> None:
    call = 'city mcp call docs echo \'{"text": "hi"}\' > ../answer'
    assert ran(hand, f"env | grep -c DOCS_TOKEN; {call}") == "0\n"
    answer = hand.root / ".gc/work/answer"
    assert json.loads(answer.read_text()) == {"text": "hi", "argv": ["--two"], "greeting": SECRET}
    [event] = [event for event in hand.store.events() if event.type == "mcp.called"]
    assert {**event.data, "ms": 0} == {
        "server": "docs",
        "tool": "echo",
        "agent": "hand",
        "alias": "hand",
        "ms": 0,
        "ok": True,
    }
    files = (hand.root / ".gc").rglob("*")
    assert [file.name for file in files if SECRET.encode() in content(file)] == ["answer"]


def test_a_refused_call_names_the_rule_and_its_place(hand: RunningCity) -> None:
    text = ran(hand, "city mcp call docs drop_all; echo $?; city mcp call docs shout; echo $?")
    assert "tool-not-allowed: agent `hand` may not call `docs/drop_all`" in text
    assert text.split().count("1") == 2
    refused = [event for event in hand.store.events() if event.type == "mcp.refused"]
    found = [(e.data["tool"], e.data["rule"], e.data["word"], e.data["line"]) for e in refused]
    assert found == [
        ("drop_all", "tools.deny", "docs/drop*", 3),
        ("shout", "capabilities.deny", "noise", 6),
    ]
    assert {event.data["file"] for event in refused} == {"agents/hand/agent.toml"}
    why = hand.run("why", refused[0].subject, "--json").json
    reasons = [decision["reason"] for decision in why["decisions"]]
    assert "docs/drop_all: `tools.deny` has `docs/drop*` (agents/hand/agent.toml:3)" in reasons


def test_an_odd_tool_name_is_recorded_in_part_and_ends_nothing(hand: RunningCity) -> None:
    odd = message("tools/call", name="drop \ud800" + "x" * 1000, arguments={})
    fine = message("tools/call", name="echo", arguments={"text": "hi"})
    ran(hand, f"({odd}; {fine}) | city mcp serve --server docs")
    events = [event for event in hand.store.events() if event.type.startswith("mcp.")]
    assert [event.type for event in events] == ["mcp.refused", "mcp.called"]
    assert len(str(events[0].data["tool"])) == 200


@pytest.mark.parametrize(
    "without", ["CITY_SESSION_TOKEN=x", "CITY_GENERATION=7", "CITY_SESSION_ID=x"]
)
def test_a_hostile_client_gets_no_tool_and_no_secret(hand: RunningCity, without: str) -> None:
    serve = f"env {without} city mcp serve --server docs"
    listing = f"{message('tools/list')} | {serve}"
    call = f"{message('tools/call', name='echo')} | {serve}"
    as_user = f"{message('tools/call', name='echo')} | env -i PATH=$PATH DOCS_TOKEN={SECRET}"
    as_user += " city mcp serve --server docs --as human"
    pretended = json.loads(ran(hand, as_user))["result"]
    assert pretended["isError"] is True
    assert "belongs to a session" in pretended["content"][0]["text"]
    text = ran(hand, f"{listing}; {call}; env -i PATH=$PATH {call.rpartition('| ')[2]} </dev/null")
    listed, called = (json.loads(line) for line in text.splitlines()[:2])
    assert listed["result"]["tools"] == []
    assert called["result"]["isError"] is True
    assert "this is not a session of the city" in called["result"]["content"][0]["text"]
    assert SECRET not in text


def test_a_session_without_a_controller_has_no_secret_and_says_so(hand: RunningCity) -> None:
    script = "echo > ../ready; until test -e ../go; do sleep 0.01; done; city mcp call docs echo"
    slung = hand.run("sling", "hand", f"{script}; true", "--json", env={"DOCS_TOKEN": SECRET})
    hand.until((hand.root / ".gc/work/ready").exists)
    hand.kill_controller()
    (hand.root / ".gc/work/go").touch()
    log = hand.until(lambda: hand.work(slung.json["work"]).log)
    hand.until(lambda: "[missing-env]" in (hand.root / log).read_text())
    assert "`DOCS_TOKEN` is not set" in (hand.root / log).read_text()
