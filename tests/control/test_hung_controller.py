"""A controller that hangs is noticed, done without, and replaced."""

import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.ancestry import command_line
from gascity.control import client
from gascity.control.client import controller_state
from gascity.model.work import DONE
from gascity.store.port import StoreError
from tests.support.in_process import InProcess
from tests.support.running import RunningCity


@pytest.fixture
def hung(awake: RunningCity, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningCity]:
    """A city whose controller is stopped by a signal while an item runs; tests wait less for it."""
    monkeypatch.setattr(client, "PATIENCE", 0.2)
    monkeypatch.setattr(client, "_silent", {})
    id = awake.sling("while [ ! -e ../go ]; do sleep 0.02; done")
    awake.running(id)
    pid = awake.pid
    awake.until(lambda: _stopped_between_writes(awake, pid))
    yield awake
    if controller_state(str(awake.root)).pid == pid:
        os.kill(pid, signal.SIGCONT)


def _stopped_between_writes(city: RunningCity, pid: int) -> bool:
    """Stop the controller; let it continue if that was inside a transaction."""
    os.kill(pid, signal.SIGSTOP)
    with (city.root / ".gc/city.lock").open("rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.kill(pid, signal.SIGCONT)
            return False
    return True


def test_commands_say_so_and_work_without_the_controller(hung: RunningCity) -> None:
    city = InProcess(hung.root)
    silent = f"controller (pid {hung.pid}) is not responding"
    ran = city("sling", "shell", "true")
    assert (ran.code, ran.out) == (
        0,
        f"w-2 queued for shell, blocked: {silent} (to replace it: `city restart`)"
        " [controller-hung]\n",
    )
    shown = city("status")
    assert f"not responding (pid {hung.pid}); run `city restart` to replace it" in shown.out
    assert "1 queued, 1 running" in shown.out
    controller = city("status", "--json").json["controller"]
    assert (controller["running"], controller["responding"]) == (True, False)
    assert silent in city("why", "w-2").out
    assert city("work", "cancel", "w-2").code == 0
    for command in (("reload",), ("start",), ("session", "stop", "shell-1")):
        ran = city(*command)
        assert (ran.code, silent in ran.err, "[controller-hung]" in ran.err) == (1, True, True)


def test_a_restart_replaces_a_controller_that_hangs_and_adopts_its_runs(hung: RunningCity) -> None:
    before, session = hung.pid, hung.sessions()[0]
    ran = hung.run("restart")
    assert ran.code == 0, ran.err
    assert ran.out.endswith("; 1 session kept.\n")
    assert hung.pid != before
    assert [(one.id, one.pid) for one in hung.sessions()] == [(session.id, session.pid)]
    (Path(session.workdir).parent / "go").touch()
    [work] = hung.settled("w-1")
    assert (work.status, work.attempts) == (DONE, 1)
    status = hung.run("status", "--json").json["controller"]
    assert status["responding"] is True


def test_a_stop_replaces_a_controller_that_hangs_and_ends_its_runs(hung: RunningCity) -> None:
    ran = hung.run("stop")
    assert ran.code == 0, ran.err
    assert "is not responding; replacing it to stop the sessions" in ran.err
    assert not controller_state(str(hung.root)).running
    assert hung.leftovers() == []


def test_a_controller_that_hangs_before_it_accepts_requests_is_replaced(
    awake: RunningCity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_silent", {})
    id = awake.sling("sleep 600")
    awake.running(id)
    assert awake.run("stop", "--keep-sessions").code == 0
    pid = _stopped_starter(str(awake.root))
    silent = f"controller (pid {pid}) is not responding"
    assert f"not responding (pid {pid})" in InProcess(awake.root)("status").out
    ran = InProcess(awake.root)("start")
    assert (ran.code, silent in ran.err) == (1, True)
    ran = awake.run("stop")
    os.waitpid(pid, 0)
    assert (ran.code, f"{silent}; replacing it" in ran.err) == (0, True)
    assert awake.leftovers() == []


def test_a_controller_that_was_just_started_is_starting(awake: RunningCity) -> None:
    assert awake.stop().code == 0
    assert awake.run("sling", "shell", "true", "--no-start").code == 0
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)", "--detached"]
    pid = os.posix_spawn(sys.executable, sleeper, os.environ)
    try:
        awake.until(lambda: b"--detached" in command_line(pid))  # not before its exec is complete
        (awake.root / ".gc/run/starting").write_text(str(pid))
        city = InProcess(awake.root)
        assert "Controller: starting\n" in city("status").out
        for command in (("status",), ("why", "w-1")):
            assert "not running" not in city(*command).out
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert "Controller: not running" in city("status").out


def test_an_item_slung_past_a_controller_that_hangs_is_queued_once(hung: RunningCity) -> None:
    assert hung.run("sling", "shell", "true").code == 0
    os.kill(hung.pid, signal.SIGCONT)  # it answers the request that it got while it was stopped
    (hung.root / ".gc/work/go").touch()
    hung.until(hung.at_rest)
    assert [work.id for work in hung.store.list_work()] == ["w-2", "w-1"]


@pytest.mark.linux
def test_a_process_that_was_stopped_while_it_wrote_is_named(awake: RunningCity) -> None:
    writer = _stopped_writer(str(awake.root))
    try:
        with pytest.raises(StoreError, match=f"process {writer}, which is stopped, holds"):
            awake.store.set_note("x", "y")
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)


def _stopped_writer(root: str) -> int:
    """Return a process that stopped inside a transaction."""
    return _stopped(
        "import os, signal, sys; from gascity.store import open_store\n"
        "with open_store(sys.argv[1]).transaction(): os.kill(os.getpid(), signal.SIGSTOP)",
        root,
    )


def _stopped_starter(root: str) -> int:
    """Return a process that stopped when it had taken the controller's lock."""
    return _stopped(
        "import os, signal, sys; from gascity.control.server import acquire_lock\n"
        "lock = acquire_lock(sys.argv[1]); os.kill(os.getpid(), signal.SIGSTOP)",
        root,
    )


def _stopped(script: str, root: str) -> int:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", script, root], os.environ)
    os.waitpid(pid, os.WUNTRACED)
    return pid
