"""Starts real `city` processes fast, by forking a Python that has everything imported.

`python -m tests.support.forkserver` reads requests, one JSON object per line, and replies to each
with the pid of the new process. That process behaves like the program in every respect: it has its
own session and streams, and signals reach only it.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.command import Ran

# Replaces a function: the process is killed, or blocks indefinitely, where it would be called.
DIE, HANG = "die", "hang"
_CLOCK = "gascity.control.loop:time"
ITEM = "echo start {0} >> {2}/trace; sleep {1:.3f}; echo end {0} >> {2}/trace # {0}."
_WAITING = 24  # queued items at which a slinger pauses


class ForkServer:
    """Starts detached processes; the caller has to end them."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forkserver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )

    def __call__(
        self, *arguments: str, log: Path, patches: Mapping[str, object] | None = None
    ) -> int:
        """Start `city ARGUMENTS` with its output in the log; return the pid.

        `patches` are applied before it starts: `gascity.module:NAME` to a value.
        """
        return self._order(arguments=arguments, log=str(log), patches=dict(patches or {}))

    def run(self, *arguments: str, patches: Mapping[str, object] | None = None) -> Ran:
        """Run `city ARGUMENTS` to its end, with both streams combined."""
        with tempfile.NamedTemporaryFile() as log:
            code = self._order(
                arguments=arguments, log=log.name, patches=dict(patches or {}), wait=True
            )
            said = Path(log.name).read_text()
        assert "Traceback" not in said, said
        return Ran(code, said, said)

    def controller(
        self, log: Path, *, clock: Path | None = None, patches: Mapping[str, object] | None = None
    ) -> int:
        """Start a controller; the file `clock` contains its wall clock's offset in seconds."""
        more = {_CLOCK: str(clock)} if clock else {}
        return self("start", "--detached", log=log, patches={**(patches or {}), **more})

    def slinger(self, name: str, log: Path, agent: str = "shell") -> int:
        """Start a process that slings `NAME-1`, `NAME-2` … until the city has a file `enough`.

        It records accepted items in `slung`; each item records its runs in `trace`.
        """
        return self._order(slinger=name, agent=agent, log=str(log))

    def _order(self, **order: object) -> int:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"cwd": str(self.cwd), **order}).encode() + b"\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


def gone(pid: int) -> bool:
    """Return whether a process has ended. A zombie counts as ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] in "ZX"


def _live(order: dict[str, Any]) -> None:
    """Run one child process; never returns."""
    code = 99
    try:
        os.setsid()
        os.chdir(order["cwd"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        random.seed()
        if "slinger" in order:
            code = _sling_on(order["slinger"], order["agent"], order["cwd"])
        else:
            _patch(order["patches"])
            code = _run(order["arguments"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _patch(patches: Mapping[str, object]) -> None:
    for where, value in patches.items():
        module, _, path = where.partition(":")
        *owners, name = path.split(".")
        owner: Any = importlib.import_module(module)
        for attribute in owners:
            owner = getattr(owner, attribute)
        getattr(owner, name)  # fails if there is nothing to patch: the test would prove nothing
        setattr(owner, name, _meant(where, value))


def _meant(where: str, value: object) -> object:
    if where == _CLOCK:
        file = Path(str(value))
        off = {"time": lambda: time.time() + float(file.read_text())}
        return SimpleNamespace(**{**vars(time), **off})
    if value == DIE:
        return lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    if value == HANG:
        return lambda *_: threading.Event().wait()
    return tuple(value) if isinstance(value, list) else value


def _run(arguments: Sequence[str]) -> int:
    from gascity.__main__ import _answer

    return _answer(list(arguments))


def _sling_on(name: str, agent: str, root: str) -> int:
    """Sling in batches, each item from its own process, as users do."""
    from gascity.store import open_store

    with open(f"{root}/slung", "a", encoding="utf-8") as book:
        number = 0
        while not os.path.exists(f"{root}/enough"):
            for _ in range(random.randint(1, 8)):
                number += 1
                text = ITEM.format(f"{name}-{number}", random.uniform(0.0, 0.06), root)
                if _child(lambda text=text: _run(["sling", agent, text, *_manner()])) == 0:
                    book.write(f"{name}-{number}\n")
                    book.flush()
            store = open_store(root)
            waiting = len(store.list_work(status=("open",)))
            store.close()
            if waiting > _WAITING:
                time.sleep(0.05)
    return 0


def _manner() -> list[str]:
    return random.choice(([], ["--json"], ["--no-start"], ["--priority", "1"]))


def _child(work: Any) -> int:
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return _code(pid)


def _code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _warm_up() -> None:
    import gascity

    for module in pkgutil.walk_packages(gascity.__path__, "gascity."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()  # a collection would copy every page shared with the children


def _serve() -> None:
    _warm_up()
    answers = os.fdopen(os.dup(1), "wb")
    for line in sys.stdin.buffer:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        pid = os.fork()
        if pid == 0:
            answers.close()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _live(json.loads(line))
        answers.write(b"%d\n" % (_code(pid) if b'"wait": true' in line else pid))
        answers.flush()


if __name__ == "__main__":
    _serve()
