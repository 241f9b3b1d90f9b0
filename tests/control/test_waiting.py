"""Waiting for work ends where nothing but a person can set it going."""

import subprocess
import sys

import pytest

from gascity.control.client import controller_state
from gascity.model.work import CLAIMED, OPEN
from tests.support.running import RunningCity

PATCH = '[[patches.agent]]\nname = "shell"\n'
SLEEPY = {
    "agents/waker/agent.toml": 'description = "Wakes."\nprovider = "shell"\nsuspended = true\n',
    "city.toml": f'{PATCH}depends_on = ["waker"]\n',
}
FOR_GOOD = [
    pytest.param({"city.toml": f"{PATCH}suspended = true\n"}, "suspended", id="suspended"),
    pytest.param({"city.toml": f"{PATCH}max_active_sessions = 0\n"}, "agent-cap", id="no-places"),
    pytest.param(
        {"city.toml": "[workspace]\nmax_active_sessions = 0\n"}, "city-cap", id="none-in-the-city"
    ),
    pytest.param(
        {"city.toml": f'{PATCH}env = {{ A = "${{NOT_THERE}}" }}\n'}, "missing-env", id="no-variable"
    ),
    pytest.param(
        {"city.toml": '[session]\nruntime = "moon"\n'}, "unknown-runtime", id="no-runtime"
    ),
    pytest.param(SLEEPY, "depends-on", id="needs-one-that-sleeps"),
    pytest.param({"city.toml": f'{PATCH}work_dir = "/proc/x"\n'}, "refused", id="no-directory"),
    pytest.param(
        {"city.toml": '[providers.shell]\ncommand = "not-there"\n'}, "missing-binary", id="missing"
    ),
]


@pytest.mark.parametrize(("files", "code"), FOR_GOOD)
def test_waiting_ends_when_only_a_user_can_unblock_the_work(
    town: RunningCity, files: dict[str, str], code: str
) -> None:
    town.write(files)
    ended = town.run("sling", "shell", "true", "--wait", "--json")
    assert ended.code == 1
    assert [one["code"] for one in ended.json["blocked_by"]] == [code]
    assert (ended.json["status"], ended.json["result"]) == (OPEN, None)
    assert town.work("w-1").status == OPEN, "it is kept"
    waited = town.run("sling", "shell", "true", "--wait")
    assert (waited.code, waited.out.startswith("w-2 queued, blocked: ")) == (1, True)
    assert f"[{code}]" in waited.out
    watched = town.run("status", "--until-idle")
    assert watched.code == 1
    of_each = "w-1 blocked: " if code == "missing-env" else "w-1, w-2 blocked: "
    assert of_each in watched.err  # the reason names the item that must be retried


def test_an_agent_that_was_broken_from_the_start_is_not_waited_for(town: RunningCity) -> None:
    town.write({"agents/mayor/agent.toml": 'idle_timeout = "soon"\n', "agents/mayor/prompt.md": ""})
    ended = town.run("sling", "mayor", "look around", "--wait", "--json")
    assert (ended.code, [one["code"] for one in ended.json["blocked_by"]]) == (1, ["broken"])


def test_waiting_ends_for_work_that_depends_on_failed_work(awake: RunningCity) -> None:
    awake.settled(awake.sling("exit 3"))
    awake.sling("true", after=["w-1"])
    ended = awake.run("sling", "shell", "true", "--after", "w-2", "--wait")
    assert ended.code == 1
    assert ended.out == "w-3 queued, blocked: depends on w-1 (failed) [dependency]\n"
    watched = awake.run("status", "--watch", "--until-idle")
    assert watched.code == 1
    assert watched.err == "w-2, w-3 blocked: depends on w-1 (failed)\n"


def test_a_long_row_of_work_is_seen_to_its_beginning(awake: RunningCity) -> None:
    awake.settled(awake.sling("exit 3"))
    for number in range(1, 500):
        awake.sling("true", after=[f"w-{number}"])
    assert awake.run("status", "--until-idle").code == 1
    assert awake.run("sling", "shell", "true", "--after", "w-500", "--wait").code == 1


def test_waiting_ends_if_no_controller_may_be_started(town: RunningCity) -> None:
    ended = town.run("sling", "shell", "true", "--wait", "--no-start", "--json")
    assert (ended.code, [one["code"] for one in ended.json["blocked_by"]]) == (1, ["no-controller"])
    assert town.run("status", "--until-idle").code == 1
    assert not controller_state(str(town.root)).running


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (
            (),
            b"w-1 queued, blocked: the city was stopped (to start it: `city start`)"
            b" [no-controller]\n",
        ),
        (
            ("--keep-sessions",),
            b"w-1 running, blocked: controller is not running (to start it: `city start`)"
            b" [no-controller]\n",
        ),
    ],
)
def test_who_stops_the_controller_stops_those_who_wait_too(
    awake: RunningCity, how: tuple[str, ...], expected: bytes
) -> None:
    words = [sys.executable, "-m", "gascity", "sling", "shell", "sleep 1000", "--wait"]
    with subprocess.Popen(words, cwd=awake.root, stdout=subprocess.PIPE) as waiting:
        awake.until(lambda: any(work.status == CLAIMED for work in awake.store.list_work()))
        awake.running("w-1")
        assert awake.run("stop", *how).code == 0
        out, _ = waiting.communicate(timeout=30)
    assert (waiting.returncode, out) == (1, expected)
    assert not controller_state(str(awake.root)).running


def test_a_restart_is_waited_through(awake: RunningCity) -> None:
    words = [sys.executable, "-m", "gascity", "sling", "shell", "--wait"]
    script = f"while [ ! -e {awake.root}/go ]; do sleep 0.02; done; echo done"
    with subprocess.Popen([*words, script], cwd=awake.root, stdout=subprocess.PIPE) as waiting:
        awake.until(lambda: any(session.pid for session in awake.sessions()))
        assert awake.run("restart").code == 0
        (awake.root / "go").touch()
        out, _ = waiting.communicate(timeout=30)
    assert (waiting.returncode, out) == (0, b"w-1 done\ndone\n")


def test_reports_of_an_earlier_controller_are_cleared(town: RunningCity) -> None:
    town.write({"city.toml": f"{PATCH}max_active_sessions = 1\n"})
    town.start()
    town.running(town.sling("sleep 1000"))
    town.sling("true")
    town.until(lambda: town.run("why", "shell", "--json").json["blocked_by"])
    town.stop()
    slung = town.run("sling", "shell", "true", "--no-start", "--json").json
    assert [one["code"] for one in slung["blocked_by"]] == ["no-controller"]
    for number in (1, 2, 3):
        town.run("work", "cancel", f"w-{number}")
    town.start()
    [shell] = [one for one in town.run("status", "--json").json["agents"] if one["name"] == "shell"]
    assert (shell["live"], shell["queued"], shell["reason"]) == (0, 0, "idle")


def test_work_for_a_provider_that_is_not_configured_has_its_reason(town: RunningCity) -> None:
    env = {"PATH": "/bin"}
    town.run("sling", "vscode", "look", "--no-start", env=env)
    for _ in range(2):
        rows = {one["name"]: one for one in town.run("status", "--json", env=env).json["agents"]}
        assert "city only writes its files" in rows["vscode"]["reason"]
        town.start()
