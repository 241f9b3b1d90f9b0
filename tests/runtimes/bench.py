"""Orders to run, runs that end with the test, and waiting for facts."""

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

from gascity.runtimes import proc
from gascity.runtimes.runtime import ENDED, GONE, Handle, Order, Runtime, Seen

_PATIENCE = 30  # seconds, for what takes milliseconds on a machine that is free

_ELSEWHERE = """
import json, os, signal, sys
root = sys.argv[1]
{opening}
from gascity.runtimes.runtime import Order
asked = json.loads(sys.stdin.readline())
handle = runtime.spawn(Order(**asked["order"]))
if asked["release"]:
    runtime.release(handle)
print(json.dumps(handle), flush=True)
signal.pause()
"""


def until(fact: Callable[[], Any], what: str) -> Any:
    """Wait for it to be so, and return it."""
    end = time.monotonic() + _PATIENCE
    while not (found := fact()):
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.002)
    return found


def alive(pid: int) -> bool:
    found = proc.look(pid)
    return found is not None and not found.dead


class Bench:
    """Makes orders of one city and starts them, here or in a process that dies at once."""

    def __init__(self, runtime: Runtime, root: Path, opening: str) -> None:
        self.runtime = runtime
        self.root = root
        self.place = root / "work"
        self.place.mkdir(parents=True)
        self._opening = opening
        self._started: list[Handle] = []

    def order(self, script: str = "", **fields: Any) -> Order:
        """What is to run: a script of `sh`, in a directory of its own."""
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
        return Order(env=env, **{**usual, **fields})

    def spawn(self, order: Order) -> Handle:
        handle = self.runtime.spawn(order)
        self._started.append(handle)
        return handle

    def start(self, script: str = "", **fields: Any) -> Handle:
        """A run that goes."""
        handle = self.spawn(self.order(script, **fields))
        self.runtime.release(handle)
        return handle

    @contextmanager
    def spawned_elsewhere(self, order: Order, release: bool) -> Iterator[Handle]:
        """A run that another process started, which is killed on the way out."""
        with subprocess.Popen(
            [sys.executable, "-c", _ELSEWHERE.format(opening=self._opening), str(self.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as other:
            try:
                assert other.stdin
                assert other.stdout
                asked = {"order": order._asdict(), "release": release}
                other.stdin.write(json.dumps(asked).encode() + b"\n")
                other.stdin.flush()
                handle = Handle(*json.loads(other.stdout.readline()))
                self._started.append(handle)
                yield handle
            finally:
                other.kill()

    def file(self, name: str) -> str:
        """What a run has written into this file, once there is a whole line of it."""
        path = self.place / name
        return str(until(lambda: _whole(path), f"{name} is written"))

    def end(self, handle: Handle) -> Seen:
        """How it stands once it has ended."""
        watched = self.runtime.death(handle)
        if watched is not None:
            poll = select.poll()
            poll.register(watched, select.POLLIN)
            ready = poll.poll(_PATIENCE * 1000)
            os.close(watched)
            assert ready, "it never died"
        seen = until(lambda: self._ended(handle), "it ended")
        assert isinstance(seen, Seen)
        return seen

    def left(self, handle: Handle) -> list[int]:
        """What it left behind."""
        return self.runtime.leftovers_of([handle])[handle]

    def _ended(self, handle: Handle) -> Seen | None:
        seen = self.runtime.seen(handle)
        return seen if seen.state in (ENDED, GONE) else None

    def clean_up(self) -> None:
        """End everything that a test started, however it ended itself."""
        for handle in self._started:
            self.runtime.kill(handle)
            self.runtime.seen(handle)
        until(lambda: not self._struck(), "everything is gone")

    def _struck(self) -> list[proc.Process]:
        found = [process for process in proc.scan() if process.root == str(self.root)]
        for process in found:
            proc.strike(process, signal.SIGKILL)
        return found


def _whole(path: Path) -> str:
    text = path.read_text() if path.exists() else ""
    return text if text.endswith("\n") else ""
