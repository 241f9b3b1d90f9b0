"""`city status --watch`: the city live on a terminal, or line by line in a pipe."""

import os
import sys
import time
from types import FrameType, TracebackType

from gascity.cli.context import Context
from gascity.cli.output import clean, complain, say
from gascity.cli.status_frame import changes, frame
from gascity.cli.status_look import Look, Lookout
from gascity.control.client import ask, controller_state, is_starting
from gascity.control.inspect import at_rest, under_way

_PAUSE = 0.2  # between two questions whether anything changed
_TICK = 1.0  # after which ages are shown anew
_ALONE = 2.0  # for which there may be no controller, while somebody restarts it
_NAMED = 5  # items that are named of those that wait for the same
_QUIT = (b"q", b"Q", b"\x03", b"\x04", b"")  # also Ctrl-C, Ctrl-D, and a terminal that is gone


def watch_lines(context: Context, until_idle: bool) -> int:
    """A line for every change, until interrupted or, if so wished, until nothing is left to do."""
    lookout = Lookout(context)
    rest = Rest(context.root)
    before: Look | None = None
    while True:
        found = lookout.look()
        for line in changes(before, found):
            say(clean(line))
        sys.stdout.flush()
        before = found
        while True:
            ended = rest.ended(found) if until_idle else None
            if ended is not None:
                return rest.tell(ended)
            if lookout.changed():
                break
            time.sleep(_PAUSE)


def watch_screen(context: Context, until_idle: bool) -> int:
    """The live view, until q or Ctrl-C."""
    lookout = Lookout(context)
    rest = Rest(context.root)
    found = lookout.look()
    drawn_at = 0.0
    with Screen() as screen:
        while (ended := rest.ended(found) if until_idle else None) is None:
            now = time.time()
            if now - drawn_at >= _TICK or screen.resized:
                drawn_at = now
                screen.draw(frame(found, now, *screen.size(), context.colour))
            if screen.quits(_PAUSE):
                return 0
            if lookout.changed():
                found = lookout.look()
                drawn_at = 0.0
    return rest.tell(ended)


class Rest:
    """Whether nothing happens any more: all is done, or what is left waits for a person."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._asked = -_TICK
        self._alone: float | None = None  # since when there has been no controller
        self._left: dict[str, str] = {}  # work that cannot go on, and why

    def ended(self, found: Look) -> int | None:
        """The exit code; None while there is something to wait for."""
        if at_rest(found.counts, found.sessions):
            return 0
        now = time.monotonic()
        if under_way(found.counts, found.sessions) or now - self._asked < _TICK:
            return None
        self._asked = now
        self._left = self._stuck(now)
        return 1 if self._left else None

    def _stuck(self, now: float) -> dict[str, str]:
        if controller_state(self._root).running:
            self._alone = None
            told = ask(self._root, {"op": "stuck"}) or {}
            return {work: why["message"] for work, why in told.get("stuck", {}).items()}
        self._alone = now if self._alone is None or is_starting(self._root) else self._alone
        alone = now - self._alone >= _ALONE
        return {"": "no controller runs; `city start` starts one"} if alone else {}

    def tell(self, ended: int) -> int:
        """Say what is left, a line for each reason."""
        for why in dict.fromkeys(self._left.values() if ended else ()):
            work = [one for one, said in self._left.items() if one and said == why]
            more = f" and {len(work) - _NAMED} more" if len(work) > _NAMED else ""
            words = f"{', '.join(work[:_NAMED])}{more} cannot go on: " if work else ""
            complain(f"{words}{clean(why)}")
        return ended


class Screen:
    """The terminal, borrowed: afterwards it is as it was, whatever happened."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.resized = True

    def __enter__(self) -> "Screen":
        import signal
        import termios

        self._keyboard = sys.stdin.fileno()
        self._modes = termios.tcgetattr(self._keyboard)
        quiet = termios.tcgetattr(self._keyboard)
        # Ctrl-C and Ctrl-Z come as keys: a view that is stopped would keep the shell's screen.
        quiet[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        self._before = {
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, self._on_resize),
            signal.SIGTERM: signal.signal(signal.SIGTERM, _leave),
            signal.SIGHUP: signal.signal(signal.SIGHUP, _leave),
        }
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, quiet)
        self._write("\x1b[?1049h\x1b[?25l\x1b[?7l")  # another screen, no cursor, no wrapping
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
        """Columns and lines; a terminal that was never told its size has none."""
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        return max(20, columns or 80), max(5, lines or 24)

    def draw(self, lines: list[str]) -> None:
        """Write the lines that are not there already, in one go."""
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

    def quits(self, patience: float) -> bool:
        """Wait that long for a key; is it one that ends the view?"""
        import select

        if not select.select([self._keyboard], [], [], patience)[0]:
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
