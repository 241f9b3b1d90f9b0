"""Running city with a real controller and real sessions; stops all of them after the test."""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gascity.control.client import controller_state, is_starting, send_request
from gascity.control.paths import controller_log
from gascity.model.work import FINISHED, Session, Work
from gascity.runtimes.process import ProcessRuntime
from gascity.runtimes.tmux import TmuxRuntime
from gascity.sockets import socket_directory
from gascity.store import open_store
from gascity.store.port import Store
from tests.support.command import Ran
from tests.support.forkserver import ForkServer, gone
from tests.support.trees import build_tree

POOL = '[[patches.agent]]\nname = "shell"\nmax_active_sessions = {}\n'


class RunningCity:
    """Runs commands in a city; reads its store, and writes to it only if a test says so."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.forks = ForkServer(root)
        self.run = self.forks.run
        self._store: Store | None = None
        self._started: list[int] = []

    def write(self, files: Mapping[str, str | bytes]) -> None:
        build_tree(self.root, {"city.toml": "", **files})

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(str(self.root))
        return self._store

    @property
    def pid(self) -> int:
        found = controller_state(str(self.root)).pid
        assert found is not None, "no controller runs"
        return found

    def start(self) -> None:
        """Start a controller without the process of `city start`, and wait until it answers."""
        log = Path(controller_log(str(self.root)))
        log.parent.mkdir(parents=True, exist_ok=True)
        self.forks.controller(log)
        self.until(lambda: send_request(str(self.root), {"op": "ping"}))

    def keep_controller(self, log: Path) -> None:
        """Start a controller with `city start`, unless one runs or is being started."""
        if controller_state(str(self.root)).running:
            return
        self._started = [pid for pid in self._started if not gone(pid)]
        if not self._started:
            self._started.append(self.forks("start", "--detached", log=log))

    def stop(self) -> Ran:
        return self.run("stop")

    def kill_controller(self) -> None:
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: not controller_state(str(self.root)).running)

    def sling(self, text: str, agent: str = "shell", **more: object) -> str:
        """Sling through the socket, which is fast; return the work id."""
        reply = send_request(str(self.root), {"op": "sling", "agent": agent, "text": text, **more})
        assert reply is not None, "no controller answers"
        assert "work" in reply, reply
        return str(reply["work"])

    def work(self, id: str) -> Work:
        found = self.store.work(id)
        assert found is not None
        return found

    def sessions(self, agent: str | None = None, *, live: bool | None = True) -> list[Session]:
        return self.store.sessions(agent=agent, live=live)

    def until(self, fact: Callable[[], Any], longest: float = 30.0) -> Any:
        """Wait until a condition is truthy and return its value."""
        end = time.monotonic() + longest
        while not (found := fact()):
            assert time.monotonic() < end, f"not so within {longest} s: {self.picture()}"
            time.sleep(0.005)
        return found

    def settled(self, *ids: str) -> list[Work]:
        """Wait until all items are finished and return them."""
        self.until(lambda: all(self.work(id).status in FINISHED for id in ids))
        return [self.work(id) for id in ids]

    def running(self, id: str) -> Session:
        """Return the session that works on an item, once its process runs."""

        def holder() -> Session | None:
            found = [one for one in self.sessions() if one.work == id and one.pid]
            return found[0] if found and self._runs(found[0]) else None

        return self.until(holder)  # type: ignore[no-any-return]

    def _runs(self, session: Session) -> bool:
        run = self.store.run(session.run)
        return run is not None and Path(run.exit_file).read_bytes().startswith(b"running")

    def at_rest(self) -> bool:
        """Return whether no session works and no agent could claim an item."""
        if any(one.work for one in self.sessions()):
            return False
        now = time.time()
        return not any(self.store.claimable(one, now, 1) for one in self.store.open_agents())

    def log(self, id: str) -> str:
        path = self.work(id).log
        return Path(path).read_text() if path else ""

    def picture(self) -> str:
        """Return the state to print when a test fails."""
        with contextlib.suppress(Exception):
            works = [
                (w.id, w.status, w.attempts, w.reason, self._decision(w.id))
                for w in self.store.list_work()
            ]
            sessions = [(s.alias, s.state, s.reason, s.work) for s in self.store.sessions()]
            log = self.root / ".gc/logs/controller.log"
            said = log.read_text()[-2000:] if log.exists() else ""
            return f"\nwork {works}\nsessions {sessions}\ncontroller: {said}"
        return "(no picture)"

    def _decision(self, id: str) -> str:
        """Return the latest decision about an item: why it waits, for example."""
        return "".join(each.reason for each in self.store.decisions([id], 1))

    def leftovers(self) -> list[int]:
        """Return processes of the city's sessions, whichever process started them."""
        return [one.pid for one in ProcessRuntime().strays(str(self.root), ())]

    def end(self) -> None:
        """Stop every process of the city, whatever the test did."""
        while is_starting(str(self.root)):
            time.sleep(0.005)
        state = controller_state(str(self.root))
        # A second controller that was still starting would now get the lock.
        for pid in {*self._launched(), *([state.pid] if state.running and state.pid else [])}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        runtime = ProcessRuntime()
        runtime.kill_all(runtime.strays(str(self.root), ()))
        if self.root.exists() and shutil.which("tmux"):
            TmuxRuntime(str(self.root), os.environ).close()
        self.close()
        for directory in (f"{self.root}/.gc/run", f"{self.root}/.gc/run/wakeups"):
            if (elsewhere := socket_directory(directory)) != directory:
                shutil.rmtree(elsewhere, ignore_errors=True)

    def _launched(self) -> Iterator[int]:
        """Return background controllers of the city, including those still starting."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"--detached" in words and os.fsencode(self.root) in words:
                    yield int(entry.name)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
