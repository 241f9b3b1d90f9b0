"""`city session` and `city status` with a controller that runs: what is asked is done."""

import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.model.work import IDLE, LIVE, OPEN, RUNNING, STOPPED
from gascity.runtimes.tmux import TmuxRuntime
from tests.support.git import branches, repository
from tests.support.running import POOL, RunningCity

TALK = """\
[providers.talk]
command = "sh"
args = ["-c", "printf '> '; exec cat"]
ready_prompt_prefix = "> "
interactive = true
prompt_mode = "none"
"""
STUBBORN = "trap '' INT TERM; echo ready; sleep 60; sleep 60"
DEADLINE = 30.0


def test_a_new_session_waits_for_work_that_is_slung_to_it(town: RunningCity) -> None:
    made = town.run("session", "new", "shell", "--name", "my own", "--json")
    assert made.code == 0, made.err
    session = made.json["session"]
    assert (session["state"], session["name"], session["origin"]) == ("idle", "my own", "manual")
    assert session["alias"] == "shell-4", "beyond the three of its pool"
    assert town.run("sling", "shell", "echo here", "--session", "my own", "--wait").code == 0
    assert town.run("session", "logs", "my own").out == "here\n"
    [taken] = town.store.list_work()
    assert taken.session == session["id"]


def test_a_new_session_works_in_the_rig_that_is_named(town: RunningCity) -> None:
    repository(town.root.parent / "rig", {"README.md": "Read.\n"})
    rig = f'[[rigs]]\nname = "rig"\npath = "{town.root.parent}/rig"\n'
    town.write({"city.toml": f"{POOL.format(1)}{rig}"})
    made = town.run("session", "new", "shell", "--rig", "rig", "--json")
    assert made.code == 0, made.out
    assert made.json["session"]["agent"] == "rig/shell"
    ran = town.run("session", "new", "shell", "--rig", "rag")
    assert ran.code == 1


def test_logs_are_followed_to_the_end_of_the_run(awake: RunningCity) -> None:
    id = awake.sling("echo one; while ! test -e go; do sleep 0.05; done; echo two")
    session = awake.running(id)
    follower = subprocess.Popen(
        [sys.executable, "-m", "gascity", "session", "logs", "-f", session.id],
        cwd=awake.root,
        stdout=subprocess.PIPE,
    )
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"one\n"
        Path(session.workdir, "go").touch()
        rest, _ = follower.communicate(timeout=DEADLINE)
        assert (rest, follower.returncode) == (b"two\n", 0)
    finally:
        follower.kill()


@pytest.mark.parametrize("how", [(), ("--force",)], ids=["asked", "killed"])
def test_a_stop_prints_what_happened_to_the_work(town: RunningCity, how: tuple[str, ...]) -> None:
    patch = f"{POOL.format(1)}suspended = true\n"
    town.write({"city.toml": POOL.format(1)})
    town.start()
    id = town.sling(STUBBORN if how else "echo ready; sleep 60")
    session = town.running(id)
    town.until(lambda: "ready" in town.log(id))
    town.write({"city.toml": patch})  # so that no other session takes it at once
    town.run("reload")
    ran = town.run("session", "stop", session.id, *how)
    assert (ran.code, ran.err) == (0, "")
    assert f"Its work item {id} is queued again (to cancel it: `city work cancel {id}`)." in ran.out
    after = town.store.session(session.id)
    assert after is not None
    assert (after.state, after.pid, after.asked) == (STOPPED, 0, "")
    work = town.work(id)
    assert (work.status, work.attempts, work.attempts_since_retry) == (OPEN, 1, 0), "it was no loss"
    town.until(lambda: not town.leftovers())


def test_a_stop_prints_how_to_cancel_an_item_that_another_session_took_at_once(
    awake: RunningCity,
) -> None:
    id = awake.sling("sleep 60")
    ran = awake.run("session", "stop", awake.running(id).id)
    assert ran.code == 0
    assert f"(to cancel it: `city work cancel {id}`)" in ran.out


def test_clear_ends_the_run_of_a_live_session_and_its_conversation(
    awake: RunningCity,
) -> None:
    session = awake.running(awake.sling("sleep 60"))
    awake.store.update_session(session.id, {"conversation": "c-1"}, time.time())
    ran = awake.run("session", "clear", session.id, "--json")
    assert ran.code == 0, ran.err
    after = ran.json["session"]
    assert (after["id"], after["agent"], after["alias"]) == (session.id, "shell", session.alias)
    assert after["conversation"] != "c-1"


def test_kill_starts_the_same_session_again(awake: RunningCity) -> None:
    session = awake.running(awake.sling("sleep 60"))
    assert awake.run("session", "kill", session.id).code == 0

    def again() -> bool:
        found = awake.store.session(session.id)
        assert found is not None
        return found.state == RUNNING and found.generation > session.generation

    awake.until(again)


def test_a_live_session_is_deleted_by_force_with_its_worktree(town: RunningCity) -> None:
    repository(town.root.parent / "rig", {"README.md": "Read.\n"})
    rig = f'[[rigs]]\nname = "rig"\npath = "{town.root.parent}/rig"\n'
    town.write({"city.toml": f"{POOL.format(1)}{rig}"})
    town.start()
    session = town.running(town.sling("echo text > new; sleep 60", "rig/shell"))
    town.until(lambda: os.path.exists(f"{session.workdir}/new"))
    town.run("session", "stop", session.id)
    town.run("stop")
    ran = town.run("session", "delete", session.id)
    assert ran.code == 1
    assert "[would-lose]" in ran.err
    assert os.path.isdir(session.workdir)
    ran = town.run("session", "delete", session.id, "--force")
    assert (ran.code, ran.err) == (0, "")
    assert not os.path.exists(session.workdir)
    assert town.store.session(session.id) is None
    assert session.branch in branches(town.root.parent / "rig")
    assert f"Branch {session.branch} stays." in ran.out


def test_who_takes_over_from_a_deleted_session_keeps_his_directory(town: RunningCity) -> None:
    repository(town.root.parent / "rig", {"README.md": "Read.\n"})
    rig = f'[[rigs]]\nname = "rig"\npath = "{town.root.parent}/rig"\n'
    town.write({"city.toml": f"{POOL.format(1)}{rig}"})
    town.start()
    id = town.sling("sleep 60", "rig/shell")
    first = town.running(id)
    assert town.run("session", "delete", first.id, "--force").code == 0
    other = town.running(id)
    assert other.id != first.id
    assert os.readlink(f"/proc/{other.pid}/cwd") == other.workdir
    assert os.path.exists(f"{other.workdir}/README.md")


def test_the_controller_answers_status(awake: RunningCity) -> None:
    ids = [awake.sling("sleep 60") for _ in range(5)]
    awake.until(lambda: sum(session.work != "" for session in awake.sessions()) == 3)
    answer = awake.run("status", "--json").json
    assert answer["controller"]["running"] is True
    assert answer["controller"]["pid"] == awake.pid
    assert answer["controller"]["since"].endswith("Z")
    (shell,) = [one for one in answer["agents"] if one["name"] == "shell"]
    assert [shell[key] for key in ("live", "min", "max", "queued")] == [3, 0, 3, 2]
    assert "shell session limit reached (3 of 3)" in shell["reason"]
    assert answer["counts"]["open"] + answer["counts"]["claimed"] == len(ids)
    assert {one["work"] for one in answer["sessions"]} <= set(ids)


def test_a_broken_file_that_is_not_in_force_is_in_the_status(awake: RunningCity) -> None:
    awake.write({"city.toml": "oops\n"})
    awake.run("reload")
    ran = awake.run("status", "--json")
    assert ran.code == 0
    assert [one["code"] for one in ran.json["problems"]] == ["config-problem"]
    assert [one["name"] for one in ran.json["agents"]] == ["shell"], "the last good one"


def test_a_heartbeat_does_not_outlive_the_run_that_gave_it(town: RunningCity) -> None:
    town.write({"city.toml": POOL.format(1)})
    town.start()
    town.settled(town.sling("city runtime heartbeat"))
    town.settled(town.sling("true"))
    town.until(lambda: not town.sessions())


def test_work_is_watched_until_nothing_is_left_to_do(awake: RunningCity) -> None:
    for number in range(5):
        awake.sling(f"echo {number}")
    ran = awake.run("status", "--until-idle")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "work  0 queued, 0 running, 5 done, 0 failed"
    assert not [session for session in awake.sessions() if session.state != IDLE]


# In terminals


@pytest.fixture
def talking(town: RunningCity) -> Iterator[RunningCity]:
    """A city with an agent that repeats what is typed, in a terminal."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed here")
    town.write(
        {
            "city.toml": TALK,
            "agents/chat/agent.toml": 'provider = "talk"\n',
            "agents/chat/prompt.md": "Repeat.\n",
        }
    )
    yield town
    town.run("stop")
    TmuxRuntime(str(town.root), os.environ).close()


def _shown(city: RunningCity) -> str:
    """What stands on the session's screen."""
    return city.run("session", "peek", "pal").out


class Terminal:
    """A person at a terminal, running one command."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self.text = ""
        self._end, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gascity", *arguments],
            cwd=cwd,
            env={**os.environ, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def until(self, words: str) -> None:
        """Read until these words are on the screen."""
        end = time.monotonic() + DEADLINE
        while words not in self.text:
            assert time.monotonic() < end, self.text
            if select.select([self._end], [], [], 0.1)[0]:
                self.text += os.read(self._end, 65536).decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._end)


def test_a_user_attaches_to_a_terminal_and_leaves_it_running(talking: RunningCity) -> None:
    person = Terminal("session", "new", "chat", "--name", "pal", "--attach", cwd=talking.root)
    try:
        talking.until(lambda: [session for session in talking.sessions() if session.run])
        person.until("\x1b[?1049h")
        person.type("hello there\r")
        talking.until(lambda: _shown(talking).count("hello there") == 2)
        assert talking.run("session", "show", "pal", "--json").json["session"]["attached"]
        person.type("\x02d")
        person.until("[detached")
        assert person.process.wait(DEADLINE) == 0
    finally:
        person.close()
    assert "hello there\nhello there" in _shown(talking)
    [session] = talking.run("session", "list", "--json").json["sessions"]
    assert session["state"] in LIVE
    assert (session["runtime"], session["attached"]) == ("tmux", False)


def test_attaching_to_a_stopped_session_starts_it(talking: RunningCity) -> None:
    assert talking.run("session", "new", "chat", "--name", "pal").code == 0
    assert talking.run("session", "stop", "pal").code == 0
    person = Terminal("session", "attach", "pal", cwd=talking.root)
    try:
        person.until("pal is stopped; starting it")
        person.until("\x1b[?1049h")
        person.type("back again\r")
        talking.until(lambda: _shown(talking).count("back again") == 2)
    finally:
        person.close()
    [session] = talking.sessions()
    assert session.generation == 2


def test_a_nudge_is_typed_into_a_terminal(talking: RunningCity) -> None:
    assert talking.run("session", "new", "chat", "--name", "pal").code == 0
    ran = talking.run("session", "nudge", "pal", "Look at the tide.")
    assert ran.out == "pal got the message.\n"
    assert "Look at the tide." in _shown(talking)


def test_a_start_that_fails_says_why(talking: RunningCity) -> None:
    agent = 'provider = "talk"\nenv = { TIDE = "${TIDE_TABLE}" }\n'
    talking.write({"city.toml": TALK, "agents/chat/agent.toml": agent})
    ran = talking.run("session", "new", "chat", "--json")
    assert ran.code == 1
    (problem,) = ran.json["problems"]
    assert problem["code"] == "start-failed"
    assert "TIDE_TABLE" in problem["message"]
