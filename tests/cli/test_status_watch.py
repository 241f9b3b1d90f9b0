"""`city status --watch`: the live view on a terminal, one line per change in a pipe."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gascity.model.work import DRAINING, IDLE, STOPPED, NewWork
from tests.cli.sessions import a_session, put, stored

DEADLINE = 30.0


class Watching:
    """A running `city status --watch`, in a pipe or on its own terminal."""

    def __init__(self, cwd: Path, *, terminal: bool, more: tuple[str, ...] = ()) -> None:
        self.text = ""
        if terminal:
            self._end, theirs = pty.openpty()
            self.resize(80, 24, theirs)
        else:
            self._end, theirs = os.pipe()
        kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gascity", "status", "--watch", *more],
            cwd=cwd,
            env={**kept, "TERM": "xterm-256color"},
            stdin=theirs if terminal else subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self._theirs = theirs  # kept open, so that its modes can be read afterwards
        self._before = termios.tcgetattr(theirs) if terminal else None
        if not terminal:
            os.close(theirs)

    def resize(self, columns: int, lines: int, end: int | None = None) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._end if end is None else end, termios.TIOCSWINSZ, size)

    def until(self, words: str) -> str:
        """Return all output up to these words."""
        deadline = time.monotonic() + DEADLINE
        while words not in self.text:
            left = deadline - time.monotonic()
            assert left > 0, f"never said {words!r}: {self.text!r}"
            if select.select([self._end], [], [], left)[0]:
                with contextlib.suppress(OSError):
                    self.text += os.read(self._end, 65536).decode()
        return self.text

    def type(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def ended(self) -> int:
        """Return the exit code after reading all output."""
        deadline = time.monotonic() + DEADLINE
        while self.process.poll() is None or select.select([self._end], [], [], 0)[0]:
            assert time.monotonic() < deadline, self.text
            if select.select([self._end], [], [], 0.05)[0]:
                try:
                    data = os.read(self._end, 65536)
                except OSError:
                    break
                if not data:
                    break
                self.text += data.decode()
        return self.process.wait(DEADLINE)

    def is_as_before(self) -> bool:
        """Return whether the terminal echoes and edits lines again."""
        return termios.tcgetattr(self._theirs) == self._before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def watching(harbour: Path) -> Iterator[Callable[..., Watching]]:
    """Start watchers of the city; kill those that still run at the end."""
    found: list[Watching] = []

    def start(*more: str, terminal: bool) -> Watching:
        found.append(Watching(harbour, terminal=terminal, more=more))
        return found[-1]

    yield start
    for one in found:
        one.close()


def test_in_a_pipe_every_change_is_a_line(harbour: Path, watching: Callable[..., Watching]) -> None:
    session = a_session()
    put(harbour, session)
    pipe = watching(terminal=False)
    pipe.until("work  0 queued")
    with stored(harbour) as store:
        store.add_work(NewWork("mayor", "Open the gate", "."), time.time())
        store.update_session(session.id, {"state": IDLE, "reason": "waits"}, time.time())
    text = pipe.until("work  1 queued")
    assert "mayor-1  running: w-1 waits\n" in text
    assert "mayor-1  idle: waits\n" in text
    assert re.search(r"^mayor  1 live, 1 queued", text, re.M)
    assert "\x1b" not in text
    pipe.process.send_signal(signal.SIGINT)
    assert pipe.ended() == 130


def test_until_idle_exits_when_no_work_is_left(
    harbour: Path, watching: Callable[..., Watching]
) -> None:
    session = a_session()
    with stored(harbour) as store:
        store.add_session(session)
        work = store.add_work(NewWork("mayor", "Open the gate", "."), time.time())
    pipe = watching("--until-idle", terminal=False)
    pipe.until("work  1 queued")
    assert pipe.process.poll() is None
    with stored(harbour) as store:
        store.finish(work.id, "done", None, time.time(), token=None)
        store.update_session(session.id, {"state": STOPPED}, time.time())
    assert pipe.ended() == 0
    assert "work  0 queued, 0 running, 1 done" in pipe.text


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
def test_the_live_view_restores_the_terminal(
    harbour: Path, watching: Callable[..., Watching], key: bytes
) -> None:
    put(harbour, a_session())
    view = watching(terminal=True)
    view.until("q quit")
    assert not view.is_as_before()
    assert "\x1b[?1049h" in view.text
    view.type(key)
    assert view.ended() == 0
    assert view.text.endswith("\x1b[?25h\x1b[?1049l")
    assert view.is_as_before()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_killed_live_view_restores_the_terminal(
    harbour: Path, watching: Callable[..., Watching], number: signal.Signals
) -> None:
    put(harbour, a_session())
    view = watching(terminal=True)
    view.until("q quit")
    view.process.send_signal(number)
    assert view.ended() == 128 + number
    assert "\x1b[?1049l" in view.text
    assert view.is_as_before()


def test_the_live_view_writes_only_what_changed(
    harbour: Path, watching: Callable[..., Watching]
) -> None:
    session = a_session(reason="", started=time.time() - 7200)
    put(harbour, session, a_session("mayor-2", IDLE, reason="", started=time.time() - 7200))
    view = watching(terminal=True)
    view.until("q quit")
    view.text = ""
    with stored(harbour) as store:
        store.update_session(session.id, {"state": DRAINING}, time.time())
    text = view.until("draining")
    assert "mayor-1" in text
    assert "mayor-2" not in text
    assert "controller" not in text
    assert "\x1b[2J" not in text


def test_the_live_view_is_redrawn_when_the_terminal_is_resized(
    harbour: Path, watching: Callable[..., Watching]
) -> None:
    put(harbour, a_session())
    view = watching(terminal=True)
    view.until("q quit")
    view.text = ""
    view.resize(60, 12)
    view.process.send_signal(signal.SIGWINCH)
    # The usual redraw of changed lines may come before the signal does.
    view.text = view.until("\x1b[2J").partition("\x1b[2J")[2]
    text = view.until("q quit")
    assert "\x1b[12;1H" in text
    assert "\x1b[13;1H" not in text
