"""City tools, called from inside real runs: the agents are scripts that call `city mcp serve`."""

import json
import shlex
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.running import RunningCity

SHELL = 'provider = "shell"\nmax_active_sessions = 3\n'
FILES = {
    "city.toml": "",
    "agents/lead/agent.toml": f"""\
description = "Leads."
{SHELL}
[agents_filter]
allow = ["ally", "lead"]
""",
    "agents/ally/agent.toml": f'description = "Helps."\ndisplay_name = "Ally"\n{SHELL}',
    "agents/rival/agent.toml": f'description = "Competes."\n{SHELL}',
    "agents/ghost/agent.toml": f"hidden = true\n{SHELL}",
}


@pytest.fixture
def city(town: RunningCity) -> RunningCity:
    town.write(FILES)
    town.start()
    return town


def messages(*calls: tuple[str, Mapping[str, Any]]) -> str:
    """Return the lines of a client that calls tools."""
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}]
    for number, (tool, arguments) in enumerate(calls, 1):
        params = {"name": tool, "arguments": arguments}
        lines.append({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    return "".join(json.dumps(line) + "\n" for line in lines)


def call(
    city: RunningCity,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    agent: str = "lead",
    prefix: str = "",
    options: str = "",
) -> dict[str, Any]:
    """Call one tool from a session; return the result."""
    text = shlex.quote(messages((tool, arguments or {})))
    serve = f"{sys.executable} -m gascity mcp serve {options}"
    id = city.sling(f"printf %s {text} | {prefix} {serve}", agent)
    city.settled(id)
    city.until(lambda: '"id":1' in city.log(id))
    answers = [json.loads(line) for line in city.log(id).splitlines() if line.startswith("{")]
    [answer] = [answer for answer in answers if answer.get("id") == 1]
    found: dict[str, Any] = answer.get("result") or answer["error"]
    return found


def test_a_session_lists_the_agents_that_it_may_message(city: RunningCity) -> None:
    result = call(city, "agents_list")
    assert result["structuredContent"] == {
        "agents": [
            {"agentId": "ally", "displayName": "Ally", "description": "Helps.", "status": "idle"}
        ]
    }
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["isError"] is False


def test_a_user_s_client_sees_what_a_user_may_assign_work_to(city: RunningCity) -> None:
    text = messages(("agents_list", {}))
    for answers in (_serve(city, text, "--as", "human"),):
        names = [row["agentId"] for row in answers[1]["result"]["structuredContent"]["agents"]]
        assert {"ally", "lead", "rival"} <= set(names)
        assert "ghost" not in names


def _serve(city: RunningCity, text: str, *options: str) -> list[dict[str, Any]]:
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "gascity", "mcp", "serve", *options],
        input=text,
        capture_output=True,
        text=True,
        cwd=city.root,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    return sorted(map(json.loads, done.stdout.splitlines()), key=lambda answer: answer["id"])


NOT_A_SESSION = "this is not a session of the city"


@pytest.mark.parametrize(
    ("prefix", "options"),
    [
        ("env -u CITY_SESSION_TOKEN", ""),
        ("env CITY_SESSION_TOKEN=00", ""),
        ("env CITY_SESSION_ID=", ""),
        ("env -u CITY_SESSION_ID", "--as human"),
        ("env CITY_GENERATION=7", ""),
        ("env CITY_SESSION_ID=nobody", ""),
        ("", "--as human"),
    ],
)
def test_a_caller_without_a_valid_token_is_refused(
    city: RunningCity, prefix: str, options: str
) -> None:
    result = call(city, "agents_list", prefix=prefix, options=options)
    assert result["isError"] is True
    assert NOT_A_SESSION in result["content"][0]["text"]


def test_outside_a_session_every_call_is_refused(city: RunningCity) -> None:
    [_, answer] = _serve(city, messages(("agents_list", {})))
    assert NOT_A_SESSION in answer["result"]["content"][0]["text"]


def test_a_denied_tool_is_neither_listed_nor_run(city: RunningCity) -> None:
    city.write({**FILES, "agents/lead/agent.toml": f'{SHELL}[tools]\ndeny = ["city/agents_*"]\n'})
    result = call(city, "agents_list")
    text = result["content"][0]["text"]
    assert text.startswith("tool-not-allowed: agent `lead` may not call `city/agents_list`")
    assert text.endswith("`tools.deny` has `city/agents_*`")
    id = city.sling(
        'echo \'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\' '
        f"| {sys.executable} -m gascity mcp serve",
        "lead",
    )
    city.settled(id)
    city.until(lambda: '"id":1' in city.log(id))
    listed = json.loads(city.log(id).splitlines()[0])["result"]["tools"]
    assert [tool for tool in listed if tool["name"].startswith("agents_")] == []


def test_an_unknown_tool_is_an_error_of_the_protocol(city: RunningCity) -> None:
    assert call(city, "nonsense")["code"] == -32602


def test_wrong_arguments_are_all_named(city: RunningCity) -> None:
    result = call(city, "agents_list", {"a": 1, "b": 2})
    assert "`a` is not an argument" in result["content"][0]["text"]
    assert "`b` is not an argument" in result["content"][0]["text"]


def test_tools_work_while_no_controller_runs(city: RunningCity) -> None:
    go = city.root / "go"
    text = shlex.quote(messages(("agents_list", {})))
    serve = f"{sys.executable} -m gascity mcp serve"
    id = city.sling(
        f"while ! test -e {go}; do sleep 0.01; done; printf %s {text} | {serve}", "lead"
    )
    city.running(id)
    assert city.run("stop", "--keep-sessions").code == 0
    go.touch()
    city.until(lambda: '"agentId":"ally"' in city.log(id))


def test_a_session_writes_and_finds_the_notes_of_its_own_agent(city: RunningCity) -> None:
    note = {"text": "The tide is low.", "title": "Tides", "tags": ["sea"]}
    added = call(city, "memory_add", note)["structuredContent"]
    assert added["path"].startswith("agents/lead/memory/2")
    assert "tags: [sea]" in (city.root / added["path"]).read_text()
    found = call(city, "memory_search", {"query": "TIDE low"})["structuredContent"]
    assert [(row["name"], row["tags"]) for row in found["memory"]] == [(added["name"], ["sea"])]
    assert call(city, "memory_search", {"query": "tide"}, agent="ally")["structuredContent"] == {
        "memory": [],
        "more": False,
    }
    refused = call(city, "memory_add", {"text": " "})
    assert (refused["isError"], refused["content"][0]["text"][:10]) == (True, "empty-note")
