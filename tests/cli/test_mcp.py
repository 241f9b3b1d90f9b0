"""`city mcp list --agent A` and `city mcp check`: what is given to whom, and what answers."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cli.shapes import PROBLEM, TEXT, Either, OneOf, fits
from tests.cli.terminal import on_terminal
from tests.support import mcp_server
from tests.support.command import Command, Ran
from tests.support.trees import build_tree

LIST = {
    "schema": int,
    "agent": str,
    "provider": TEXT,
    "target": TEXT,
    "targets": [str],
    "delivery": OneOf("file", "launch", "none"),
    "workdir": str,
    "servers": [
        {
            "name": str,
            "description": str,
            "transport": OneOf("stdio", "http", "sse"),
            "command": TEXT,
            "args": [str],
            "url": TEXT,
            "env": [str],
            "headers": [str],
            "source": str,
            "origin": str,
            "gateway": bool,
            "status": OneOf("projected", "skipped"),
            "reason": TEXT,
        }
    ],
    "shadowed": [{"name": str, "source": str, "by": str}],
    "problems": [PROBLEM],
}
CHECK = {
    "schema": int,
    "results": [
        {
            "name": str,
            "status": OneOf("ok", "warning", "error"),
            "source": str,
            "agents": [str],
            "server": TEXT,
            "version": TEXT,
            "tools": Either(int, None),
            "problems": [PROBLEM],
        }
    ],
}

QUAY: Mapping[str, str] = {
    "city.toml": '[workspace]\nprovider = "claude"\n[imports.crew]\nsource = "crew"\n',
    "crew/pack.toml": '[pack]\nname = "crew"\n',
    "crew/mcp/charts.toml": 'name = "charts"\ndescription = "Old."\ncommand = "charts"\n',
    "mcp/charts.toml": (
        'name = "charts"\ndescription = "Charts."\ncommand = "charts"\n'
        'args = ["--token", "hunter2", "two words"]\n[env]\nTIDE = "low-water"\n'
    ),
    "agents/mayor/prompt.md": "Mayor.\n",
    "agents/mayor/mcp/radio.toml": (
        'name = "radio"\ndescription = "Radio."\nurl = "https://x.test/sse?key=hunter2"\n'
        'transport = "sse"\n[headers]\nX-Ship = "low-water"\n'
    ),
    "agents/clerk/prompt.md": "Clerk.\n",
    "agents/clerk/agent.toml": 'provider = "codex"\n',
    "agents/clerk/mcp/radio.toml": (
        'name = "radio"\ndescription = "Radio."\nurl = "https://x.test"\ntransport = "sse"\n'
    ),
}


@pytest.fixture
def quay(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "quay", QUAY)


def test_without_an_agent_the_list_says_why_it_needs_one(run: Command, quay: Path) -> None:
    ran = run("mcp", "list", cwd=quay)
    assert (ran.code, ran.out) == (2, "")
    assert "missing --agent NAME or --session SESSION: servers depend on the agent" in ran.err
    assert run("mcp", "list", "--json", cwd=quay).json["problems"][0]["code"] == "usage"


def test_the_list_shows_what_is_given_to_an_agent_and_hides_secrets(
    run: Command, quay: Path
) -> None:
    assert run("mcp", "list", "--agent", "mayor", cwd=quay) == Ran(
        0,
        "Provider:  claude\n"
        "Target:    .mcp.json\n"
        "Workdir:   .gc/work/mayor\n"
        "\n"
        "SERVER  STATUS     TRANSPORT  DETAILS\n"
        "charts  projected  stdio      charts --token … 'two words' TIDE=… (city:\n"
        "                              mcp/charts.toml)\n"
        "radio   projected  sse        https://x.test/sse?key=… X-Ship: … (agent:\n"
        "                              agents/mayor/mcp/radio.toml)\n"
        "overridden: crew/mcp/charts.toml (by mcp/charts.toml)\n",
        "",
    )


def test_the_list_as_json_has_keys_and_no_values(run: Command, quay: Path) -> None:
    ran = run("mcp", "list", "--agent", "mayor", "--json", cwd=quay)
    fits(ran.json, LIST)
    charts, radio = ran.json["servers"]
    assert (charts["args"], charts["env"]) == (["--token", "…", "two words"], ["TIDE"])
    assert (radio["url"], radio["headers"]) == ("https://x.test/sse?key=…", ["X-Ship"])
    assert (radio["origin"], radio["command"], charts["url"]) == ("agent", None, None)
    assert ran.json["target"] == ".mcp.json"
    assert ran.json["shadowed"] == [
        {"name": "charts", "source": "crew/mcp/charts.toml", "by": "mcp/charts.toml"}
    ]
    assert "hunter2" not in ran.out
    assert "low-water" not in ran.out


def test_what_a_provider_cannot_take_is_listed_with_the_reason(run: Command, quay: Path) -> None:
    ran = run("mcp", "list", "--agent", "clerk", "--json", cwd=quay)
    fits(ran.json, LIST)
    radio = ran.json["servers"][1]
    reason = "`codex` does not support servers over sse"
    assert (ran.code, radio["status"], radio["reason"]) == (0, "skipped", reason)
    none = run("mcp", "list", "--agent", "shell", "--json", cwd=quay).json
    fits(none, LIST)
    assert (none["target"], none["targets"]) == (None, [])
    assert none["servers"][0]["reason"] == "`shell` does not support MCP servers"


def test_secrets_are_revealed_on_a_terminal_only(run: Command, quay: Path) -> None:
    ran = run("mcp", "list", "--agent", "mayor", "--reveal", cwd=quay)
    assert (ran.code, "--reveal needs a terminal" in ran.err) == (2, True)
    assert "hunter2" not in ran.out + ran.err
    code, screen = on_terminal("mcp", "list", "--agent", "mayor", "--reveal", cwd=quay)
    assert (code, "--token hunter2" in screen) == (0, True)
    assert "hunter2" not in on_terminal("mcp", "list", "--agent", "mayor", cwd=quay)[1]


def test_a_faulty_server_is_an_error_of_the_list_and_the_others_stay(
    run: Command, quay: Path
) -> None:
    build_tree(quay, {"mcp/broken.toml": 'name = "broken"\ncommand = "x"\n'})
    ran = run("mcp", "list", "--agent", "mayor", cwd=quay)
    assert ran.code == 1
    assert "mcp/broken.toml:1:1: error: `description` is missing" in ran.err
    assert "radio" in ran.out


# Trying them


def harbour(command: str = sys.executable, *args: str, more: str = "") -> dict[str, str]:
    words = ", ".join(f"'{one}'" for one in (args or (mcp_server.__file__,)))
    return {
        "agents/mayor/prompt.md": "Mayor.\n",
        "mcp/docs.toml": (
            f"name = 'docs'\ndescription = 'D.'\ncommand = '{command}'\nargs = [{words}]\n{more}"
        ),
    }


def test_a_city_without_servers_has_nothing_to_try(run: Command, town: Callable[..., Path]) -> None:
    root = town()
    assert run("mcp", "check", cwd=root) == Ran(0, "No MCP servers.\n", "")
    assert run("mcp", "check", "--json", cwd=root).json == {"schema": 1, "results": []}


def test_a_server_that_answers_is_ok_and_tried_once_for_all(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(harbour())
    assert run("mcp", "check", cwd=root) == Ran(
        0,
        "SERVER  STATUS  RESULT\ndocs    ok      tests 1, 1 tool (mcp/docs.toml)\n",
        "",
    )
    answer = run("mcp", "check", "--json", cwd=root).json
    fits(answer, CHECK)
    (one,) = answer["results"]
    assert (one["name"], one["status"], one["problems"]) == ("docs", "ok", [])
    assert (one["server"], one["version"], one["tools"]) == ("tests", "1", 1)
    assert "mayor" in one["agents"]
    assert len(one["agents"]) > 1


def test_a_server_that_fails_is_an_error_that_says_why(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(
        {
            **harbour(sys.executable, "tools/fail.py", more='env = { API_KEY = "k-12345" }\n'),
            "tools/fail.py": "import os, sys\nsys.exit('no luck with ' + os.environ['API_KEY'])\n",
            "mcp/other.toml": 'name="other"\ndescription="O."\ncommand="nowhere"\n',
        }
    )
    ran = run("mcp", "check", "--agent", "mayor", "--json", cwd=root)
    fits(ran.json, CHECK)
    docs, other = ran.json["results"]
    assert ran.code == 1
    (problem,) = docs["problems"]
    assert problem["message"] == "server `docs`: it exited with code 1: no luck with …"
    assert (problem["code"], problem["file"], problem["line"]) == ("no-answer", "mcp/docs.toml", 3)
    assert other["problems"][0]["message"] == "server `other`: `nowhere` was not found on PATH"
    assert "k-12345" not in ran.out + ran.err
    text = run("mcp", "check", "--agent", "mayor", cwd=root)
    assert (text.code, text.err) == (1, "")
    assert "`nowhere` was not found on PATH" in text.out


def test_a_variable_that_is_not_set_is_an_error_and_nothing_is_started(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(harbour(more='env = { TOKEN = "${QUAY_TOKEN}" }\n'))
    ran = run("mcp", "check", "--agent", "mayor", "--json", cwd=root)
    assert [p["code"] for p in ran.json["results"][0]["problems"]] == ["missing-env"]
    assert ran.json["results"][0]["status"] == "error"
    again = run("mcp", "check", "--agent", "mayor", cwd=root, env={"QUAY_TOKEN": "t-1"})
    assert again.code == 0


def test_a_faulty_file_is_an_error_of_its_own(run: Command, town: Callable[..., Path]) -> None:
    root = town({**harbour(), "mcp/bad.toml": "name = \n"})
    ran = run("mcp", "check", "--json", cwd=root)
    fits(ran.json, CHECK)
    assert [(one["name"], one["status"]) for one in ran.json["results"]] == [
        ("bad", "error"),
        ("docs", "ok"),
    ]
    assert ran.code == 1


def test_a_server_that_is_slow_is_left_after_the_time_given(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(harbour(sys.executable, "-c", "import sys; sys.stdin.read()"))
    ran = run("mcp", "check", "--timeout", "300ms", "--agent", "mayor", cwd=root)
    assert (ran.code, "no answer within 0.3 s" in ran.out) == (1, True)


def test_a_time_that_is_none_is_a_usage_error(run: Command, town: Callable[..., Path]) -> None:
    ran = run("mcp", "check", "--timeout", "soon", cwd=town())
    assert (ran.code, "`soon` is not a duration such as 10s" in ran.err) == (2, True)
