"""`city status --watch`: a live view on a terminal, one line per change in a pipe."""

import os
import sys
import time
from types import FrameType, TracebackType

from gascity.cli.context import CommandContext
from gascity.cli.output import print_stderr, print_stdout, printable
from gascity.cli.status.frame import changes, frame
from gascity.cli.status.snapshot import CityStatus, StatusReader
from gascity.control.blocked import ControllerAbsence
from gascity.control.client import controller_state, send_request
from gascity.control.decide.reasons import no_controller
from gascity.control.status import at_rest, under_way

_POLL = 0.2  # seconds between two checks for changes
_TICK = 1.0  # seconds after which ages are redrawn
_NAMED = 5  # items named per reason
_QUIT = (b"q", b"Q", b"\x03", b"\x04", b"")  # also Ctrl-C, Ctrl-D and a closed terminal


def watch_lines(context: CommandContext, until_idle: bool) -> int:
    """Print one line per change, until interrupted or, with `until_idle`, until idle."""
    reader = StatusReader(context)
    idle = IdleCheck(context.root)
    before: CityStatus | None = None
    while True:
        current = reader.read()
        for line in changes(before, current):
            print_stdout(printable(line))
        sys.stdout.flush()
        before = current
        while True:
            ended = idle.ended(current) if until_idle else None
            if ended is not None:
                return idle.print_blocked(ended)
            if reader.changed():
                break
            time.sleep(_POLL)


def watch_screen(context: CommandContext, until_idle: bool) -> int:
    """Show the live view until q or Ctrl-C."""
    reader = StatusReader(context)
    idle = IdleCheck(context.root)
    current = reader.read()
    drawn_at = 0.0
    with Screen() as screen:
        while (ended := idle.ended(current) if until_idle else None) is None:
            now = time.time()
            if now - drawn_at >= _TICK or screen.resized:
                drawn_at = now
                screen.draw(frame(current, now, *screen.size(), context.colour))
            if screen.quits(_POLL):
                return 0
            if reader.changed():
                current = reader.read()
                drawn_at = 0.0
    return idle.print_blocked(ended)


class IdleCheck:
    """Detects that nothing more will happen: all work is done, or the rest needs the user."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._asked = -_TICK
        self._absence = ControllerAbsence(root)
        self._left: dict[str, str] = {}  # blocked work items and their reasons

    def ended(self, current: CityStatus) -> int | None:
        """Return the exit code; None while work can proceed."""
        if at_rest(current.counts, current.sessions):
            return 0
        now = time.monotonic()
        if under_way(current.counts, current.sessions) or now - self._asked < _TICK:
            return None
        self._asked = now
        self._left = self._blocked()
        return 1 if self._left else None

    def _blocked(self) -> dict[str, str]:
        absent = self._absence.lasts()
        if not controller_state(self._root).running:
            return {"": no_controller().message} if absent else {}
        reply = send_request(self._root, {"op": "stuck"}) or {}
        return {work: reason["message"] for work, reason in reply.get("stuck", {}).items()}

    def print_blocked(self, ended: int) -> int:
        """Print the blocked work items, one line per reason, and return the exit code."""
        for why in dict.fromkeys(self._left.values() if ended else ()):
            work = [item for item, reason in self._left.items() if item and reason == why]
            more = f" and {len(work) - _NAMED} more" if len(work) > _NAMED else ""
            message = f"{', '.join(work[:_NAMED])}{more} blocked: " if work else ""
            print_stderr(f"{message}{printable(why)}")
        return ended


class Screen:
    """The terminal in full-screen mode; restored on exit."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.resized = True

    def __enter__(self) -> "Screen":
        import signal
        import termios

        self._keyboard = sys.stdin.fileno()
        self._modes = termios.tcgetattr(self._keyboard)
        quiet = termios.tcgetattr(self._keyboard)
        # Ctrl-C and Ctrl-Z arrive as keys: a suspended view would keep the alternate screen.
        quiet[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        self._before = {
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, self._on_resize),
            signal.SIGTERM: signal.signal(signal.SIGTERM, _leave),
            signal.SIGHUP: signal.signal(signal.SIGHUP, _leave),
        }
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, quiet)
        self._write("\x1b[?1049h\x1b[?25l\x1b[?7l")  # alternate screen, no cursor, no wrapping
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import signal
        import termios

        self._write("\x1b[?7h\x1b[?25h\x1b[?1049l")
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._modes)
        for number, before in self._before.items():
            signal.signal(number, before)

    def _on_resize(self, number: int, at: FrameType | None) -> None:
        del number, at
        self.resized = True

    def size(self) -> tuple[int, int]:
        """Return columns and lines; a terminal whose size was never set reports 0."""
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        return max(20, columns or 80), max(5, lines or 24)

    def draw(self, lines: list[str]) -> None:
        """Write the changed lines at once."""
        if self.resized:
            self.resized = False
            self._lines = []
            self._write("\x1b[2J")
        text = "".join(
            f"\x1b[{at + 1};1H{line}\x1b[K"
            for at, line in enumerate(lines)
            if at >= len(self._lines) or self._lines[at] != line
        )
        self._lines = lines
        self._write(text)

    def quits(self, timeout: float) -> bool:
        """Wait for a key; return whether it quits the view."""
        import select

        if not select.select([self._keyboard], [], [], timeout)[0]:
            return False
        return os.read(self._keyboard, 1) in _QUIT

    @staticmethod
    def _write(text: str) -> None:
        if text:
            sys.stdout.flush()
            data = text.encode("utf-8", "replace")
            while data:
                data = data[os.write(sys.stdout.fileno(), data) :]


def _leave(number: int, at: FrameType | None) -> None:
    del at
    raise SystemExit(128 + number)
