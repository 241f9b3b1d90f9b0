"""Runs `city` in processes that die, or find the disk full, at a chosen call that changes the disk.

`python -m tests.support.killer` reads requests, one JSON object per line, and replies the same way.
It has everything imported already, so that each kill costs no more than a fork. The product has no
hook for this: only functions of `os` and `subprocess` are wrapped, in the process that is to die.
"""

import builtins
import contextlib
import errno
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.forkserver import warm_up

_CHANGING = (
    "rename replace link symlink unlink remove mkdir rmdir chmod fchmod truncate utime"
).split()
_NEEDS_SPACE = ("link", "symlink", "mkdir", "fsync")
_FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

KILL, FULL = "kill", "full"


class Died(NamedTuple):
    """Result of a command; `killed` if it died before its end."""

    killed: bool
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.out))


class Killer:
    """`killer("apply", cwd=root, at=7)` dies before the seventh call; `at=0` kills nothing."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.killer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )

    def __call__(self, *arguments: str, cwd: Path, at: int = 0, fault: str = KILL) -> Died:
        assert self.process.stdin
        assert self.process.stdout
        order = {"arguments": arguments, "cwd": str(cwd), "at": at, "fault": fault}
        order["env"] = dict(os.environ)
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        died = Died(**json.loads(self.process.stdout.readline()))
        assert "Traceback" not in died.err, died.err
        assert died.code != 3, died.err
        return died

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


class _Counter:
    """Counts calls and makes the process die or fail at the chosen one."""

    def __init__(self, at: int, fault: str) -> None:
        self.at = at
        self.fault = fault
        self.done = 0

    def step(self, needs_space: bool, path: object = None) -> None:
        self.done += 1
        if self.done < self.at:
            return
        if self.fault == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if needs_space:
            named = (path,) if isinstance(path, str) else ()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *named)


def _wrap(counter: _Counter) -> None:
    # A death before an fsync is indistinguishable from one after it.
    for name in (*_CHANGING, *(("fsync",) if counter.fault == FULL else ())):
        setattr(os, name, _counted(getattr(os, name), counter, name in _NEEDS_SPACE))
    subprocess.run = _counted(subprocess.run, counter, False)
    opened, written, opened_file = os.open, os.write, builtins.open

    def open_counted(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & _FOR_WRITING:
            counter.step(bool(flags & os.O_CREAT), path)
        return opened(path, flags, *more, **named)

    def write_counted(handle: int, data: Any) -> int:
        if handle > 2:
            counter.step(True)
            if counter.at == counter.done + 1:
                written(handle, data[: len(data) // 2])  # a torn write
            counter.step(True)
        return written(handle, data)

    def open_file_counted(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        if not isinstance(file, int) and set(mode) & set("wax+"):
            counter.step(True, file)
        return opened_file(file, mode, *more, **named)

    os.open, os.write = open_counted, write_counted
    builtins.open = open_file_counted


def _counted(real: Callable[..., Any], counter: _Counter, needs_space: bool) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        counter.step(needs_space, arguments[0] if arguments else None)
        return real(*arguments, **named)

    return call


def _obey(order: dict[str, Any]) -> dict[str, Any]:
    os.environ.clear()
    os.environ.update(order["env"])
    if not order["at"]:
        return _run(order)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _live(order, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return {
            "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
            "code": os.waitstatus_to_exitcode(status),
            "out": out.read().decode(),
            "err": err.read().decode(),
        }


def _run(order: dict[str, Any]) -> dict[str, Any]:
    """Run a command that is not killed, in this process because that is faster."""
    out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    os.chdir(order["cwd"])
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _ran(order["arguments"])
    os.chdir("/")
    said, complained = (one.buffer.getvalue().decode() for one in (out, err))
    return {"killed": False, "code": code, "out": said, "err": complained}


def _ran(arguments: list[str]) -> int:
    """Run `city`, or `prepare_workdir AGENT WORK`: a preparation that only the controller does."""
    if arguments[0] == "prepare_workdir":
        from tests.support.session_workdirs import prepare_workdir

        return prepare_workdir(arguments[1:])
    from gascity.cli.main import run

    return run(arguments)


def _live(order: dict[str, Any], out: int, err: int) -> None:
    """Run one command in a child process; never returns."""
    code = 99
    try:
        os.chdir(order["cwd"])
        os.dup2(out, 1)
        os.dup2(err, 2)
        _wrap(_Counter(order["at"], order["fault"]))
        code = _ran(order["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _serve() -> None:
    warm_up()
    answers = os.fdopen(os.dup(1), "wb")
    for line in sys.stdin.buffer:
        answers.write(json.dumps(_obey(json.loads(line))).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
