"""`city sling`: the same answer with and without a controller, on the fast path and with click."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.cli.fast_sling import NEEDS_CLICK, OPTIONS, parse, result_lines, sender
from gascity.cli.sling import sling
from tests.support.running import POOL, RunningCity

KEYS = {
    "schema",
    "work",
    "agent",
    "rig",
    "session",
    "status",
    "position",
    "permission_mode",
    "blocked_by",
    "warnings",
}


@pytest.fixture
def awake(tmp_path: Path) -> Iterator[RunningCity]:
    found = RunningCity(tmp_path / "town")
    found.write({"city.toml": POOL.format(0), "agents/hand/agent.toml": 'provider = "shell"\n'})
    found.write({"city.toml": POOL.format(0), "agents/hand/prompt.md": "Run.\n"})
    found.start()
    yield found
    found.end()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["shell", "true"], {"agent": "shell", "text": "true", "after": []}),
        (["shell", "true", "--json"], {"agent": "shell", "text": "true", "after": []}),
        (
            ["--priority=0", "shell", "--after", "w-1", "--after=w-2", "true", "--rig", "dome"],
            {
                "agent": "shell",
                "text": "true",
                "after": ["w-1", "w-2"],
                "priority": 0,
                "rig": "dome",
            },
        ),
        (["shell"], None),
        (["shell", ""], None),
        (["shell", "true", "more"], {"agent": "shell", "text": "true more", "after": []}),
        (["shell", "true", "--wait"], None),
        (["shell", "--stdin"], None),
        (["shell", "true", "--priority", "9"], None),
        (["shell", "true", "--rig"], None),
        (["shell", "--", "--help"], None),
        (["--help"], None),
    ],
)
def test_only_the_plainest_forms_go_the_short_way(words: list[str], expected: object) -> None:
    request = parse(words)[0]
    assert request == (expected and {"op": "sling", **expected})  # type: ignore[dict-item]


def test_both_ways_say_the_same(awake: RunningCity) -> None:
    def printed(*words: str) -> str:
        ran = awake.run("sling", *words)
        assert (ran.code, ran.err) == (0, "")
        return ran.out.replace("w-1", "w-N").replace("w-2", "w-N")

    short = printed("shell", "true")
    assert printed("shell", "true", "--no-start") == short
    assert short == (
        "w-N queued for shell, blocked: shell session limit is 0 (max_active_sessions = 0)"
        " [agent-cap]\n"
    )


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        ({"CITY_SESSION_ID": "", "CITY_GENERATION": "2"}, {}),
        (
            {"CITY_SESSION_ID": "s", "CITY_GENERATION": "2", "CITY_SESSION_TOKEN": "t"},
            {"token": ["s", 2, "t"]},
        ),
        ({"CITY_SESSION_ID": "s", "CITY_GENERATION": "x"}, {"token": ["s", 0, ""]}),
    ],
)
def test_a_request_names_the_session_that_slings(
    environ: dict[str, str], expected: dict[str, object]
) -> None:
    assert sender(environ) == expected


def test_click_and_the_fast_path_have_the_same_options() -> None:
    flags = {flag for param in sling.params for flag in param.opts if flag.startswith("--")}
    assert flags == {f"--{name}" for name, *_ in OPTIONS} | {"--json"}
    for name, kind, *_ in OPTIONS:
        request, _ = parse(["shell", "true", f"--{name}", "1"])
        assert (request is None) == (kind in NEEDS_CLICK)


@pytest.mark.parametrize(
    ("position", "mode", "blocked", "lines"),
    [
        (0, "", [], ["w-1 queued for shell (next)"]),
        (2, "auto", [], ["w-1 queued for shell (2 ahead, mode auto)"]),
        (0, "auto", ["a"], ["w-1 queued for shell (mode auto), blocked: why a [a]"]),
        (0, "", ["a", "b"], ["w-1 queued for shell, blocked: why a [a]", "  blocked: why b [b]"]),
    ],
)
def test_the_result_says_position_mode_and_why_it_is_blocked(
    position: int, mode: str, blocked: list[str], lines: list[str]
) -> None:
    reasons = [{"code": code, "message": f"why {code}"} for code in blocked]
    result = {"work": "w-1", "agent": "shell", "position": position}
    assert result_lines({**result, "permission_mode": mode, "blocked_by": reasons}) == lines


def test_the_json_object_matches_the_contract(awake: RunningCity) -> None:
    for more in ((), ("--no-start",)):
        found = awake.run("sling", "shell", "true", "--json", *more).json
        assert found.keys() == KEYS
        assert (found["agent"], found["rig"], found["status"]) == ("shell", None, "open")
    assert found["position"] == 1


def test_text_may_come_from_a_file_or_from_standard_input(awake: RunningCity) -> None:
    (awake.root / "todo").write_text("# Say it\necho from a file\n")
    by_file = awake.run("sling", "hand", "--file", "todo", "--wait", "--json").json
    assert by_file["result"]["summary"] == "from a file"
    assert awake.work(by_file["work"]).title == "Say it"
    printed = subprocess.run(
        [sys.executable, "-m", "gascity", "sling", "hand", "--stdin", "--wait"],
        cwd=awake.root,
        input=b"echo piped",
        capture_output=True,
        timeout=60,
    )
    assert printed.stdout == b"w-2 done\npiped\n"


def test_wait_tells_failure_by_its_exit_code(awake: RunningCity) -> None:
    ran = awake.run("sling", "hand", "echo sorry; exit 4", "--wait")
    assert ran.code == 1
    assert ran.out == "w-1 failed: exited with status 4\nsorry\n"


def test_an_interrupted_wait_prints_the_item_as_json_and_leaves_it_running(
    awake: RunningCity,
) -> None:
    words = ["sling", "hand", "exec sleep 1000", "--wait", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gascity", *words], cwd=awake.root, stdout=subprocess.PIPE
    )
    awake.running("w-1")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    answer = json.loads(out)
    assert process.returncode == 130
    assert (answer["work"], answer["status"]) == ("w-1", "claimed")
    assert [problem["code"] for problem in answer["problems"]] == ["interrupted"]
    assert answer.keys() > KEYS


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("nobody", "true"), "unknown-agent", 1),
        (("shel", "true"), "unknown-agent", 1),
        (("shell", "true", "--rig", "nowhere"), "unknown-rig", 1),
        (("shell", "--file", "noise"), "bad-utf8", 1),
        (("shell", " "), "empty-work", 1),
        (("shell", "true", "--after", "w-99"), "bad-dependency", 1),
        (("shell", "true", "--session", "latest"), "unknown-session", 1),
        (("shell", "true", "--session", "nobody"), "unknown-session", 1),
        (("shell",), "usage", 2),
        (("shell", "true", "--stdin"), "usage", 2),
        (("shell", "true", "--priority", "7"), "usage", 2),
    ],
)
@pytest.mark.parametrize("running", [True, False], ids=["running", "alone"])
def test_a_refused_sling_prints_the_reason_and_stores_nothing(
    awake: RunningCity, words: tuple[str, ...], code: str, exit_code: int, running: bool
) -> None:
    (awake.root / "noise").write_bytes(b"\xff\n")
    if not running:
        awake.kill_controller()
    ran = awake.run("sling", *words, "--json", "--no-start" if not running else "--json")
    assert ran.code == exit_code
    assert [one["code"] for one in ran.json["problems"]] == [code]
    assert awake.store.list_work() == []


def test_the_name_of_a_provider_that_is_not_configured_is_accepted(town: RunningCity) -> None:
    town.write({"city.toml": '[workspace]\nprovider = "claude"\n'})
    ran = town.run("sling", "codex", "do it", "--no-start", "--json", env={"PATH": "/bin"})
    assert ran.code == 0
    codes = [one["code"] for one in ran.json["blocked_by"]]
    assert codes == ["missing-binary", "no-controller"]
    assert "not configured" in ran.err


def test_output_that_is_too_long_to_print_is_in_the_log(awake: RunningCity) -> None:
    ran = awake.run("sling", "hand", "seq 1 300", "--wait")
    assert ran.out.endswith("299\n300\n")
    assert "output truncated; full log: `city work logs w-1`" in ran.err
    whole = awake.run("work", "logs", "w-1").out
    assert whole == "".join(f"{n}\n" for n in range(1, 301))
    assert awake.run("work", "logs", "w-1", "--lines", "2").out == "299\n300\n"
    awake.run("sling", "shell", "true")
    ran = awake.run("work", "logs", "w-2")
    assert (ran.code, "[no-run]" in ran.err) == (1, True)


def test_a_provider_that_is_not_configured_is_run_by_a_controller_too(awake: RunningCity) -> None:
    program = awake.root.parent / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ncat > ../heard\n")
    program.chmod(0o755)
    awake.kill_controller()
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    awake.run("start", env=env)
    ran = awake.run("sling", "codex", "well then", "--json")
    assert "not configured" in ran.err
    work = ran.json["work"]
    assert awake.settled(work)[0].status == "done"
    assert (awake.root / ".gc/work/heard").read_text().endswith("well then")
