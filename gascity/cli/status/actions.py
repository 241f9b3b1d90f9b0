"""Actions of the live view's keys: each runs the command of `city` that a user would type."""

import os
import subprocess
import sys
from collections import deque

from gascity.cli.context import CommandContext
from gascity.cli.output import BOLD, DIM, print_stderr
from gascity.cli.status.screen import (
    CLOSED,
    DOWN,
    END,
    ESCAPE,
    HOME,
    INTERRUPT,
    PAGE_DOWN,
    PAGE_UP,
    UP,
    Line,
    Screen,
    one_line,
    painted,
)
from gascity.cli.status.view import ATTACH, CANCEL, LOG, RETRY, SESSION, Command, Row

_TIMEOUT = 30.0  # seconds for a command that only writes to the store
_KEPT = 5000  # lines of a log
_REDRAW = 0.25  # seconds
_KEYS = "q back  ↑↓ PgUp PgDn scroll  g start  G end (follow)"


def run_command(context: CommandContext, screen: Screen, command: Command) -> str:
    """Carry out a command; return the message to show."""
    row = command.row
    assert row is not None  # only `quit` has none
    if command.name == LOG:
        _show_log(context, screen, row)
    elif command.name == ATTACH:
        return _attach(context, screen, row)
    elif command.name in (CANCEL, RETRY):
        return _captured(context, "work", command.name, row.work)
    return ""


def _argv(context: CommandContext, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "gascity", "--city", context.root, *arguments]


def _captured(context: CommandContext, *arguments: str) -> str:
    """Run a command and return the first line that it printed."""
    try:
        done = subprocess.run(
            _argv(context, *arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=context.environ,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return f"`city {' '.join(arguments)}` takes too long; see `city status`"
    lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    return lines[0].removeprefix("city: ") if lines else ""


def _attach(context: CommandContext, screen: Screen, row: Row) -> str:
    with screen.suspended():
        code = subprocess.call(_argv(context, "session", "attach", row.id), env=context.environ)
        if code:
            print_stderr("Press Enter to return.")
            sys.stdin.readline()
    return ""


def _show_log(context: CommandContext, screen: Screen, row: Row) -> None:
    """Show and follow the log until the user returns."""
    process = subprocess.Popen(
        _argv(context, row.kind, "logs", row.id, "--follow", "--lines", str(_KEPT)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=context.environ,
    )
    assert process.stdout is not None  # a pipe was requested
    log = Log(f"{row.name}  {row.title}" if row.kind == SESSION else f"{row.id}  {row.title}")
    end = process.stdout.fileno()
    screen.resized = True
    try:
        while True:
            width, height = screen.size()
            screen.draw(log.frame(width, height, context.colour))
            keys = screen.keys(_REDRAW, () if log.ended else (end,))
            if any(log.press(key, height - 2) for key in keys):
                return
            if not log.ended and _readable(end):
                log.add(os.read(end, 1 << 16))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        screen.resized = True


def _readable(fd: int) -> bool:
    import select

    return bool(select.select([fd], [], [], 0)[0])


class Log:
    """The last lines of a growing log and how far the user scrolled up."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.ended = False
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._rest = b""  # a line whose end has not arrived yet
        self._up = 0  # lines below the screen; 0 follows the end
        self._wrapped: list[str] = []

    def add(self, data: bytes) -> None:
        """Add a piece of the log; an empty one is its end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data:
            self.ended = True
            lines = [self._rest] if self._rest else []
            self._rest = b""
        self._lines.extend(line.decode(errors="replace").rstrip("\r") for line in lines)

    def press(self, key: str, page: int) -> bool:
        """Handle a key; return whether it leaves the log."""
        moves = {UP: 1, "k": 1, DOWN: -1, "j": -1, PAGE_UP: page, PAGE_DOWN: -page, " ": -page}
        if key in (HOME, "g"):
            self._up = len(self._wrapped)
        elif key in (END, "G"):
            self._up = 0
        self._up = max(0, self._up + moves.get(key, 0))
        return key in ("q", "Q", ESCAPE, INTERRUPT, CLOSED)

    def frame(self, width: int, height: int, colour: bool) -> list[str]:
        """Return the lines of a full screen of the given size."""
        text = [one_line(line) for line in (*self._lines, self._rest.decode(errors="replace"))]
        self._wrapped = [
            line[at : at + width] for line in text for at in range(0, max(1, len(line)), width)
        ]
        if self._wrapped and not self._wrapped[-1]:
            self._wrapped.pop()
        room = height - 2
        self._up = min(self._up, max(0, len(self._wrapped) - room))
        last = len(self._wrapped) - self._up
        shown = self._wrapped[max(0, last - room) : last]
        state = "ended" if self.ended else "following" if not self._up else "scrolled up"
        head: Line = [(self.title, BOLD), (f"  ({state})", DIM)]
        body: list[Line] = [*([(line, "")] for line in shown), *[()] * (room - len(shown))]
        return [painted(line, width, colour) for line in (head, *body, [(_KEYS, DIM)])]
