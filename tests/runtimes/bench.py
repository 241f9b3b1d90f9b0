"""Runs for tests, which end with the test, and waiting for conditions."""

import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gascity.ancestry import city_part, make_mark
from gascity.runtimes.port import RunHandle, RunSpec, RunState, RunStatus, Runtime
from gascity.runtimes.process_table import Process, find_process, process_table

_PATIENCE = 30  # seconds, for what takes milliseconds on a machine that is free

_ELSEWHERE = """
import json, os, signal, sys
root = sys.argv[1]
{opening}
from gascity.runtimes.port import RunSpec
asked = json.loads(sys.stdin.readline())
handle = runtime.spawn(RunSpec(**asked["spec"]))
if asked["release"]:
    runtime.release(handle)
print(json.dumps(handle), flush=True)
signal.pause()
"""


def until(fact: Callable[[], Any], what: str) -> Any:
    """Wait until the condition holds and return its value."""
    end = time.monotonic() + _PATIENCE
    while not (found := fact()):
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.002)
    return found


def alive(pid: int) -> bool:
    found = process_table().read_process(pid)
    return found is not None and not found.dead


def exited(code: int) -> RunStatus:
    return RunStatus(RunState.EXITED, code)


class Bench:
    """Starts runs of one city, in this process or in one that is then killed."""

    def __init__(self, runtime: Runtime, root: Path, opening: str) -> None:
        self.runtime = runtime
        self.root = root
        self.place = root / "work"
        self.place.mkdir(parents=True)
        self._opening = opening
        self._started: list[RunHandle] = []

    def spec(self, script: str = "", **fields: Any) -> RunSpec:
        """Return the spec of a shell script, in a directory of its own."""
        session = str(uuid.uuid4())
        env = {
            "PATH": os.environ["PATH"],
            "CITY_ROOT": str(self.root),
            "CITY_SESSION_ID": session,
            "CITY_GENERATION": "3",
            **fields.pop("env", {}),
        }
        usual = {
            "session": session,
            "generation": 3,
            "name": f"smith-{session[:8]}",
            "argv": ("/bin/sh", "-c", script),
            "cwd": str(self.place),
            "log": str(self.root / ".gc" / "logs" / f"{session}.log"),
            "exit_file": str(self.root / ".gc" / "exits" / session),
        }
        return RunSpec(env=env, **{**usual, **fields})

    def spawn(self, spec: RunSpec) -> RunHandle:
        handle = self.runtime.spawn(spec)
        self._started.append(handle)
        return handle

    def start(self, script: str = "", **fields: Any) -> RunHandle:
        """Spawn a run and release it."""
        handle = self.spawn(self.spec(script, **fields))
        self.runtime.release(handle)
        return handle

    @contextmanager
    def spawned_elsewhere(self, spec: RunSpec, release: bool) -> Iterator[RunHandle]:
        """Spawn a run in another process, which is killed at the end of the block."""
        with subprocess.Popen(
            [sys.executable, "-c", _ELSEWHERE.format(opening=self._opening), str(self.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as other:
            try:
                assert other.stdin
                assert other.stdout
                asked = {"spec": spec._asdict(), "release": release}
                other.stdin.write(json.dumps(asked).encode() + b"\n")
                other.stdin.flush()
                handle = RunHandle(*json.loads(other.stdout.readline()))
                self._started.append(handle)
                yield handle
            finally:
                other.kill()

    def file(self, name: str) -> str:
        """Wait for a whole line in a file of the working directory and return the text."""
        path = self.place / name
        return str(until(lambda: _whole(path), f"{name} is written"))

    def end(self, handle: RunHandle) -> RunStatus:
        """Wait until the leader of a run has exited, and return the status of the run."""
        watched = self.runtime.exit_fd(handle)
        if watched is not None:
            poll = select.poll()
            poll.register(watched, select.POLLIN)
            ready = poll.poll(_PATIENCE * 1000)
            os.close(watched)
            assert ready, "it never died"
        seen = until(lambda: self._ended(handle), "it ended")
        assert isinstance(seen, RunStatus)
        return seen

    def left(self, handle: RunHandle) -> list[int]:
        """Return the pids that a run left behind."""
        return [left.pid for left in self.runtime.leftovers([handle])[handle]]

    def _ended(self, handle: RunHandle) -> RunStatus | None:
        # The exit code is on record a moment before the leader exits, so look at the leader first.
        leader = find_process(process_table(), handle)
        seen = self.runtime.status(handle)
        if leader and not leader.dead:
            return None
        return seen if seen.state in (RunState.EXITED, RunState.GONE) else None

    def clean_up(self) -> None:
        """Kill everything that the test started."""
        for handle in self._started:
            self.runtime.kill(handle)
            self.runtime.status(handle)
        until(lambda: not self._struck(), "everything is gone")

    def _struck(self) -> list[Process]:
        city = city_part(make_mark(str(self.root)))
        found = [
            process
            for process in process_table().list_processes()
            if process.root == str(self.root) or city_part(process.mark) == city
        ]
        for process in found:
            process_table().send_signal(process, signal.SIGKILL)
        return found


def _whole(path: Path) -> str:
    text = path.read_text() if path.exists() else ""
    return text if text.endswith("\n") else ""
