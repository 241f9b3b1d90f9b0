"""Starts real `city` processes fast, by forking a Python that has everything imported.

The tests of one pytest process share one server (`python -m tests.support.forkserver SOCKET`). Each
request comes over its own connection to the socket: one line of JSON with the arguments, directory
and environment, and the three standard streams. The server replies with the pid of the new process
and, when that ends, with its exit code. The process behaves like the program in every respect but
its start: it has its own environment and streams, and signals reach only it.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import random
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.command import Ran
from tests.support.memory import MEMORY

# Replaces a function: the process is killed, or blocks indefinitely, where it would be called.
DIE, HANG = "die", "hang"
_CLOCK = "gascity.control.loop:time"
ITEM = "echo start {0} >> {2}/trace; sleep {1:.3f}; echo end {0} >> {2}/trace # {0}."
_WAITING = 24  # queued items at which a slinger pauses
_LONGEST = 120.0  # seconds


@functools.cache
def server_socket() -> str:
    """Start the server of this process, once; return the path of its socket.

    The server exits when this process does, because its standard input ends then.
    """
    path = os.path.join(tempfile.mkdtemp(prefix="city-forks-"), "socket")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.forkserver", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"

    def close() -> None:
        assert process.stdin
        process.stdin.close()
        process.wait(timeout=30)

    atexit.register(close)
    return path


class Forked:
    """A process that the server started; `wait` returns its exit code."""

    def __init__(self, order: Mapping[str, object], streams: Sequence[int]) -> None:
        self._line = socket.socket(socket.AF_UNIX)
        self._line.settimeout(_LONGEST)
        self._line.connect(server_socket())
        socket.send_fds(self._line, [json.dumps(order).encode() + b"\n"], list(streams))
        self._replies = self._line.makefile("rb")
        self.pid = int(self._replies.readline())

    def wait(self) -> int:
        code = int(self._replies.readline())
        self.close()
        return code

    def close(self) -> None:
        self._replies.close()
        self._line.close()


class ForkServer:
    """Starts `city` in one directory, with the environment of the test."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd

    def __call__(
        self, *arguments: str, log: Path, patches: Mapping[str, object] | None = None
    ) -> int:
        """Start `city ARGUMENTS` with its output in the log; return the pid.

        It has a session of its own, and the caller has to end it. `patches` are applied before it
        starts: `gascity.module:NAME` to a value.
        """
        return self._detached(log, arguments=arguments, patches=dict(patches or {}))

    def run(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        patches: Mapping[str, object] | None = None,
    ) -> Ran:
        """Run `city ARGUMENTS` to its end, as `Command` does."""
        environ = {**os.environ, **(env or {})}
        with (
            open(os.devnull, "rb") as nothing,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            streams = [stream.fileno() for stream in (nothing, out, err)]
            code = self.start(arguments, streams, cwd or self.cwd, environ, patches).wait()
            out.seek(0)
            err.seek(0)
            ran = Ran(code, out.read().decode(), err.read().decode())
        assert "Traceback" not in ran.err, ran.err
        return ran

    def start(
        self,
        arguments: Sequence[str],
        streams: Sequence[int],
        cwd: Path,
        environ: Mapping[str, str],
        patches: Mapping[str, object] | None = None,
    ) -> Forked:
        """Start `city ARGUMENTS` with these standard streams."""
        order = {"arguments": arguments, "cwd": str(cwd), "env": dict(environ)}
        return Forked({**order, "patches": dict(patches or {})}, streams)

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
        return self._detached(log, slinger=name, agent=agent)

    def _detached(self, log: Path, **order: object) -> int:
        with (
            open(os.devnull, "rb") as nothing,
            open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as out,
        ):
            streams = [stream.fileno() for stream in (nothing, out, out)]
            common = {"cwd": str(self.cwd), "env": dict(os.environ), "detached": True}
            forked = Forked({**common, **order}, streams)
        forked.close()
        return forked.pid


def gone(pid: int) -> bool:
    """Return whether a process has ended. A zombie counts as ended, once its threads have.

    The first thread of a killed process may be a zombie while another one still holds its locks.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] in "ZX" and threads <= 1


def _live(order: dict[str, Any], streams: Sequence[int]) -> None:
    """Run one child process; never returns."""
    code = 99
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 65536)
        if "detached" in order:
            os.setsid()
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        random.seed()
        if "slinger" in order:
            code = _sling_on(order["slinger"], order["agent"], order["cwd"])
        else:
            _patch(order["patches"])
            _run(order["arguments"])
    except Exception:
        traceback.print_exc()  # a patch names something that no longer exists
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


def _run(arguments: Sequence[str]) -> None:
    """Run the program; never returns."""
    from gascity import __main__

    sys.argv = [__main__.__file__, *arguments]
    __main__.main()


def _sling_on(name: str, agent: str, root: str) -> int:
    """Sling in batches, each item from its own process, as users do."""
    from gascity.store import open_store

    with open(f"{root}/slung", "a", encoding="utf-8") as book:
        number = 0
        while not os.path.exists(f"{root}/enough"):
            for _ in range(random.randint(1, 8)):
                number += 1
                text = ITEM.format(f"{name}-{number}", random.uniform(0.0, 0.06), root)
                if _child(["sling", agent, text, *_manner()]) == 0:
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


def _child(arguments: Sequence[str]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            _run(arguments)
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def warm_up() -> None:
    """Import everything, and do once what every command does, so that no child repeats it."""
    import gascity
    from gascity.cli.main import run

    for module in pkgutil.walk_packages(gascity.__path__, "gascity."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    with tempfile.TemporaryDirectory(dir=MEMORY) as home:
        Path(home, "city.toml").touch()
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            for command in (["apply"], ["check"], ["agent", "list"], ["work", "list"]):
                run(["--city", home, *command])
    gc.collect()
    gc.freeze()  # a collection would copy every page shared with the children


class _Server:
    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.running: dict[int, socket.socket] = {}

    def accept(self) -> None:
        line, _ = self.listener.accept()
        data, streams, _, _ = socket.recv_fds(line, 1 << 20, 3)
        while not data.endswith(b"\n"):
            data += line.recv(1 << 20)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _live(json.loads(data), streams)
        for stream in streams:
            os.close(stream)
        self.running[pid] = line
        self._reply(line, pid)

    def reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                with self.running.pop(pid) as line:
                    self._reply(line, os.waitstatus_to_exitcode(status))

    def _reply(self, line: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):  # the client did not wait
            line.sendall(b"%d\n" % number)


def _serve(path: str) -> None:
    warm_up()
    ends, exits = socket.socketpair()
    for end in (ends, exits):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(exits.fileno(), warn_on_full_buffer=False)
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(path)
        listener.listen(64)
        server = _Server(listener)
        for source in (listener, ends, sys.stdin.buffer):
            selector.register(source, selectors.EVENT_READ)
        os.write(1, b"ready\n")
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if sys.stdin.buffer in ready:
                break
            if ends in ready:
                ends.recv(4096)
                server.reap()
            if listener in ready:
                server.accept()
    shutil.rmtree(os.path.dirname(path))


if __name__ == "__main__":
    _serve(sys.argv[1])
