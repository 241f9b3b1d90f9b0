"""`city mcp call`, `city mcp serve --server` and skills of servers, as a user sees them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.shapes import ANYTHING, PROBLEM, fits
from tests.support import mcp_server
from tests.support.command import Command
from tests.support.trees import build_tree

CALL = {
    "schema": int,
    "server": str,
    "tool": str,
    "is_error": bool,
    "content": [dict],
    "structured": ANYTHING,
    "problems": [PROBLEM],
}
SERVER = (
    f'name = "docs"\ndescription = "Echoes."\ncommand = "{sys.executable}"\n'
    f'args = ["{mcp_server.__file__}", "--two"]\n'
)
FAILING = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "tools/call":
        content = [{"type": "image", "data": "AA=="}, {"type": "text", "text": "no\\nway"}]
        result = {"content": content, "isError": True}
    else:
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def quay(tmp_path: Path) -> Path:
    return build_tree(
        tmp_path / "quay",
        {
            "city.toml": '[workspace]\nprovider = "claude"\n',
            "agents/clerk/prompt.md": "Answer.\n",
            "agents/porter/prompt.md": "Carry.\n",
            "mcp/docs.toml": SERVER,
            "failing.py": FAILING,
            "mcp/failing.toml": (
                f'name = "failing"\ndescription = "x"\ncommand = "{sys.executable}"\n'
                f'args = ["{tmp_path}/quay/failing.py"]\n'
            ),
        },
    )


def test_a_call_prints_the_text_of_its_result(run: Command, quay: Path) -> None:
    ran = run("mcp", "call", "docs", "echo", '{"text": "hi"}', cwd=quay)
    assert (ran.code, json.loads(ran.out)["text"], ran.err) == (0, "hi", "")
    assert not (quay / ".gc/city.db").exists()  # a user's call needs no store


def test_a_call_as_json_has_the_whole_result(run: Command, quay: Path) -> None:
    ran = run("mcp", "call", "docs", "echo", "--json", cwd=quay)
    fits(ran.json, CALL)
    assert (ran.code, ran.json["tool"], ran.json["is_error"]) == (0, "echo", False)


def test_a_failed_call_goes_to_stderr_and_exits_with_1(run: Command, quay: Path) -> None:
    ran = run("mcp", "call", "failing", "x", cwd=quay)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == '{"type": "image", "data": "AA=="}\nno\nway\n'
    ran = run("mcp", "call", "failing", "x", "--json", cwd=quay)
    assert (ran.code, ran.json["is_error"]) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("dcs", "x"), 1, "did you mean `docs`?"),
        (("docs", "x", "{"), 2, "the arguments are not valid JSON"),
        (("docs", "x", "[]"), 2, "the arguments are not a JSON object"),
        (("docs", "x", "{}", "--stdin"), 2, "not both"),
        (("docs", "x", "--agent", "clrk"), 1, "did you mean `clerk`?"),
        (("docs",), 2, "Missing argument"),
    ],
)
def test_bad_input_is_explained(
    run: Command, quay: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    ran = run("mcp", "call", *words, cwd=quay)
    assert (ran.code, text in ran.err) == (code, True), ran.err


def test_agents_with_different_servers_of_a_name_need_agent(run: Command, quay: Path) -> None:
    own = SERVER.replace('"--two"', '"clerk"')
    build_tree(quay / "agents/clerk/mcp", {"docs.toml": own})
    ran = run("mcp", "call", "docs", "echo", cwd=quay)
    assert (ran.code, "[ambiguous-server]" in ran.err, "--agent" in ran.err) == (1, True, True)
    ran = run("mcp", "call", "docs", "echo", "--agent", "clerk", cwd=quay)
    assert json.loads(ran.out)["argv"] == ["clerk"]


def test_a_variable_that_is_not_set_is_named(run: Command, quay: Path) -> None:
    build_tree(quay / "mcp", {"docs.toml": f'{SERVER}[env]\nGREETING = "${{QUAY_WORD}}"\n'})
    ran = run("mcp", "call", "docs", "echo", cwd=quay)
    assert (ran.code, "`QUAY_WORD` is not set [missing-env]" in ran.err) == (1, True)
    ran = run("mcp", "call", "docs", "echo", cwd=quay, env={"QUAY_WORD": "ahoy"})
    assert json.loads(ran.out)["greeting"] == "ahoy"


def test_a_server_that_cannot_start_is_an_error(run: Command, quay: Path) -> None:
    build_tree(quay / "mcp", {"docs.toml": SERVER.replace(sys.executable, "no-such-program")})
    ran = run("mcp", "call", "docs", "echo", cwd=quay)
    assert ran.code == 1
    assert "server `docs`: `no-such-program` was not found on PATH [server-failed]" in ran.err


def test_outside_a_session_the_gateway_serves_no_tool(quay: Path) -> None:
    lines = [
        {"jsonrpc": "2.0", "id": id, "method": method, "params": {"name": "echo"}}
        for id, method in enumerate(("initialize", "tools/list", "tools/call"))
    ]
    done = served(quay, "--server", "docs", input="".join(json.dumps(x) + "\n" for x in lines))
    answers = {each["id"]: each["result"] for each in map(json.loads, done.splitlines())}
    assert answers[1] == {"tools": []}
    assert answers[2]["isError"] is True
    assert "this is not a session of the city" in answers[2]["content"][0]["text"]


def served(root: Path, *words: str, input: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gascity", "mcp", "serve", *words],
        cwd=root,
        input=input,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_user_is_served_with_all_tools(quay: Path) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}) + "\n"
    out = served(quay, "--server", "docs", "--as", "human", input=line)
    assert [tool["name"] for tool in json.loads(out)["result"]["tools"]] == ["echo", "shout"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_killed_gateway_leaves_no_server_behind(quay: Path) -> None:
    stubborn = (
        "import json, os, sys, time\n"
        "asked = json.loads(sys.stdin.readline())\n"
        'print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": os.getpid()}))\n'
        "sys.stdout.flush()\ntime.sleep(1000)\n"
    )
    (quay / "failing.py").write_text(stubborn)
    gateway = subprocess.Popen(
        [sys.executable, "-m", "gascity", "mcp", "serve", "--server", "failing", "--as", "human"],
        cwd=quay,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert gateway.stdin is not None
    assert gateway.stdout is not None
    with gateway.stdin, gateway.stdout:
        gateway.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        gateway.stdin.flush()
        pid = json.loads(gateway.stdout.readline())["result"]
        os.kill(gateway.pid, signal.SIGKILL)
        gateway.wait(30)
        end = time.monotonic() + 30
        while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
            assert time.monotonic() < end, "the server still runs"
            time.sleep(0.01)


def test_servers_as_skills_are_planned_applied_and_undone(run: Command, quay: Path) -> None:
    scope = '[tools]\nexposure = "skills"\ndeny = ["docs/sh*"]\n'
    build_tree(quay / "agents/clerk", {"agent.toml": scope})
    (quay / "mcp/failing.toml").unlink()
    ran = run("apply", "clerk", cwd=quay)
    assert "[no-tool-list]" in ran.err
    assert "run `city mcp check`, then `city apply`" in ran.err
    assert run("mcp", "check", cwd=quay).code == 0
    ran = run("apply", "clerk", "--json", cwd=quay)
    [directory] = [Path(quay, agent["workdir"]) for agent in ran.json["agents"]]
    file = directory / ".claude/skills/mcp-docs/SKILL.md"
    text = file.read_text()
    assert "city mcp call docs echo" in text
    assert "shout" not in text
    assert not (directory / ".mcp.json").exists()
    listed = run("mcp", "list", "--agent", "clerk", "--json", cwd=quay).json
    assert listed["servers"][0]["reason"] == "agents call it by the skill `mcp-docs`"
    assert run("undo", "clerk", cwd=quay).code == 0
    assert not file.exists()


def test_mixed_exposure_has_both(run: Command, quay: Path) -> None:
    build_tree(quay / "agents/clerk", {"agent.toml": '[tools]\nexposure = "mixed"\n'})
    (quay / "mcp/failing.toml").unlink()
    assert run("mcp", "check", cwd=quay).code == 0
    ran = run("apply", "clerk", "--json", cwd=quay)
    [directory] = [Path(quay, agent["workdir"]) for agent in ran.json["agents"]]
    assert (directory / ".claude/skills/mcp-docs/SKILL.md").exists()
    assert (directory / ".mcp.json").exists()
