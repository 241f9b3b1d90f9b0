"""The contract of every runtime, in terms of the port alone: no processes, no pids, no files.

Scripts use only `echo`, `exit` and `sleep`, separated by `; `, so that a runtime without a shell
can interpret them.
"""

import os
import select
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gascity.model.screen import TerminalScreen
from gascity.model.work import Run
from gascity.runtimes.port import (
    RunHandle,
    RunSpec,
    RunState,
    RunStatus,
    Runtime,
    handle_of,
    with_handle,
)
from tests.runtimes.bench import exited, until

_PATIENCE = 30_000  # milliseconds


class _NeverReady(NamedTuple):
    """An input line that is never empty."""

    def is_ready(self, screen: TerminalScreen) -> bool:  # noqa: ARG002
        return False

    def has_text(self, screen: TerminalScreen, text: str) -> bool:  # noqa: ARG002
        return False


class Launcher:
    """Spawns runs of one city and kills them all at the end."""

    def __init__(self, runtime: Runtime, root: Path) -> None:
        self.runtime = runtime
        self.root = str(root)
        self.handles: list[RunHandle] = []

    def spawn(self, script: str) -> RunHandle:
        session = str(uuid.uuid4())
        (Path(self.root) / "work").mkdir(parents=True, exist_ok=True)
        spec = RunSpec(
            session=session,
            generation=3,
            name=f"smith-{session[:8]}",
            argv=("/bin/sh", "-c", script),
            cwd=f"{self.root}/work",
            env={
                "PATH": os.environ["PATH"],
                "CITY_ROOT": self.root,
                "CITY_SESSION_ID": session,
                "CITY_GENERATION": "3",
            },
            log=f"{self.root}/.gc/logs/{session}.log",
            exit_file=f"{self.root}/.gc/exits/{session}",
        )
        self.handles.append(self.runtime.spawn(spec))
        return self.handles[-1]

    def start(self, script: str) -> RunHandle:
        handle = self.spawn(script)
        self.runtime.release(handle)
        return handle

    def status(self, handle: RunHandle) -> RunStatus:
        return self.runtime.status(handle)

    def wait(self, handle: RunHandle) -> RunStatus:
        """Wait for the end of a run as the controller does: by descriptor, then by status."""
        fd = self.runtime.exit_fd(handle)
        if fd is not None:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            assert poll.poll(_PATIENCE), "the run did not end"
            os.close(fd)
        over = (RunState.EXITED, RunState.GONE)
        until(lambda: self.status(handle).state in over, "the run has ended")
        return self.status(handle)


class PortContract:
    """Needs the fixtures `runtime`, `root` and `restart`.

    `restart` returns a new runtime object for the same city, as a restarted controller opens one.
    """

    @pytest.fixture
    def launcher(self, runtime: Runtime, root: Path) -> Iterator[Launcher]:
        launcher = Launcher(runtime, root)
        yield launcher
        runtime.kill_all(launcher.handles)
        for handle in launcher.handles:
            until(lambda run=handle: not runtime.leftovers([run])[run], "nothing is left")  # type: ignore[misc]
            launcher.status(handle)

    def test_its_requirements_are_met_here(self, runtime: Runtime) -> None:
        assert runtime.missing_requirement() == ""

    def test_nothing_is_executed_before_the_release(self, launcher: Launcher) -> None:
        handle = launcher.spawn("echo started")
        assert launcher.status(handle) == RunStatus(RunState.HELD, ran=False)
        assert not launcher.runtime.logs.size(handle.log)
        launcher.runtime.release(handle)
        assert launcher.wait(handle) == exited(0)
        logs = launcher.runtime.logs
        until(lambda: b"started" in b"".join(logs.read(handle.log)), "the output is logged")

    def test_a_run_that_is_killed_while_held_never_ran(self, launcher: Launcher) -> None:
        handle = launcher.spawn("echo started")
        launcher.runtime.kill(handle)
        assert launcher.wait(handle) == RunStatus(RunState.GONE, ran=False)
        launcher.runtime.release(handle)
        # A terminal may log that its shell was killed, but nothing of the command.
        assert b"started" not in b"".join(launcher.runtime.logs.read(handle.log))

    def test_the_exit_code_is_reported(self, launcher: Launcher) -> None:
        handle = launcher.start("exit 7")
        assert launcher.wait(handle) == exited(7)
        assert launcher.runtime.exit_fd(handle) is None
        assert not launcher.runtime.leftovers([handle])[handle]

    @pytest.mark.parametrize("way", ["terminate", "kill"])
    def test_a_run_can_be_stopped(self, launcher: Launcher, way: str) -> None:
        handle = launcher.start("sleep 1000")
        until(lambda: launcher.status(handle).state == RunState.RUNNING, "it runs")
        getattr(launcher.runtime, way)(handle)
        status = launcher.wait(handle)
        assert status.ran
        assert status.exit_code != 0

    def test_a_run_can_be_stopped_at_any_moment_of_its_start(self, launcher: Launcher) -> None:
        for _ in range(20):
            handle = launcher.start("sleep 1000")
            until(lambda run=handle: launcher.status(run).state == RunState.RUNNING, "it runs")  # type: ignore[misc]
            launcher.runtime.terminate(handle)
            assert launcher.wait(handle).exit_code != 0

    def test_stopping_a_run_that_has_ended_changes_nothing(self, launcher: Launcher) -> None:
        handle = launcher.start("exit 3")
        launcher.wait(handle)
        for stop in ("release", "interrupt", "terminate", "kill"):
            getattr(launcher.runtime, stop)(handle)
        assert launcher.status(handle) == exited(3)

    def test_a_saved_handle_identifies_the_run_after_a_restart(
        self, launcher: Launcher, restart: Callable[[], Runtime]
    ) -> None:
        handle = launcher.start("sleep 1000")
        run = Run(1, handle.session, handle.generation, "", "", 1.0, handle.log, handle.exit_file)
        restored = handle_of(with_handle(run, handle))
        second = restart()
        assert restored == handle
        until(lambda: second.status(restored).state == RunState.RUNNING, "it is found running")
        second.kill(restored)
        assert launcher.wait(handle).ran

    def test_a_forgotten_run_has_no_exit_code(self, launcher: Launcher) -> None:
        handle = launcher.start("exit 3")
        launcher.wait(handle)
        launcher.runtime.forget(handle)
        launcher.runtime.forget(handle)
        assert launcher.status(handle).exit_code is None
        # A process may exit a moment after its exit code is on record.
        until(lambda: launcher.status(handle).state == RunState.GONE, "it is gone")

    def test_logs_are_read_whole_in_pieces_and_from_the_end(self, launcher: Launcher) -> None:
        logs = launcher.runtime.logs
        handle = launcher.start("echo one; echo two; echo three")
        launcher.wait(handle)
        until(lambda: "three" in logs.tail(handle.log, 1), "the output is logged")
        whole = b"".join(logs.read(handle.log))
        assert [line.strip() for line in whole.splitlines()] == [b"one", b"two", b"three"]
        assert logs.size(handle.log) == len(whole)
        assert [line.strip() for line in logs.tail(handle.log, 2).splitlines()] == ["two", "three"]
        assert logs.tail(handle.log, 0) == ""
        piece, offset = logs.read_from(handle.log, 0)
        assert (piece, offset) == (whole, len(whole))
        assert logs.read_from(handle.log, offset) == (b"", offset)

    def test_a_log_below_its_limit_stays_and_a_deleted_log_is_empty(
        self, launcher: Launcher
    ) -> None:
        logs = launcher.runtime.logs
        handle = launcher.start("echo one")
        launcher.wait(handle)
        until(lambda: "one" in logs.tail(handle.log, 1), "the output is logged")
        assert logs.truncate(handle.log, 1_000_000) == 0
        logs.delete(handle.log)
        logs.delete(handle.log)
        assert logs.size(handle.log) is None
        assert list(logs.read(handle.log)) == []
        assert logs.tail(handle.log, 5) == ""
        assert logs.read_from(handle.log, 0) == (b"", 0)
        assert logs.truncate(handle.log, 1) == 0

    def test_a_run_that_is_not_known_is_a_stray_of_its_city(
        self, launcher: Launcher, restart: Callable[[], Runtime]
    ) -> None:
        known, unknown = launcher.start("sleep 1000"), launcher.start("sleep 1000")
        second = restart()
        assert second.strays(launcher.root, launcher.handles) == []
        assert second.strays(f"{launcher.root}-other", ()) == []
        [stray] = second.strays(launcher.root, [known])
        second.kill(stray)
        assert launcher.wait(unknown).ran
        assert launcher.status(known).state == RunState.RUNNING

    def test_only_an_interactive_runtime_has_terminals(self, launcher: Launcher) -> None:
        runtime = launcher.runtime
        handle = launcher.start("sleep 1000")
        assert bool(runtime.attachment(handle, "", {})) == runtime.interactive
        assert runtime.attached(handle) is False
        assert bool(runtime.screen(handle)) == runtime.interactive
        assert not runtime.type_text(handle, "hello", _NeverReady())
