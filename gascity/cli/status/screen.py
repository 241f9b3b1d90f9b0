"""The terminal of a live view: full screen, partial redraws, keys."""

import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from gascity.cli.output import escape, styled, truncate
from gascity.cli.terminal import control, draw_screen

Piece = tuple[str, str]  # a text and its style, or nothing
Line = Sequence[Piece]

# Names of keys that are not characters.
UP, DOWN, PAGE_UP, PAGE_DOWN, HOME, END = "up", "down", "page-up", "page-down", "home", "end"
ENTER, ESCAPE, BACKSPACE, INTERRUPT, CLOSED = "enter", "escape", "backspace", "interrupt", "closed"

# Alternate screen, no cursor, no wrapping; and the reverse.
_OPEN = control("?1049h") + control("?25l") + control("?7l")
_CLOSE = control("?7h") + control("?25h") + control("?1049l")
_SEQUENCES = {
    "\x1b[A": UP,
    "\x1bOA": UP,
    "\x1b[B": DOWN,
    "\x1bOB": DOWN,
    "\x1b[5~": PAGE_UP,
    "\x1b[6~": PAGE_DOWN,
    "\x1b[H": HOME,
    "\x1bOH": HOME,
    "\x1b[1~": HOME,
    "\x1b[F": END,
    "\x1bOF": END,
    "\x1b[4~": END,
}
_CONTROLS = {
    "\r": ENTER,
    "\n": ENTER,
    "\x1b": ESCAPE,
    "\x7f": BACKSPACE,
    "\x08": BACKSPACE,
    "\x03": INTERRUPT,
    "\x04": INTERRUPT,
}
Handler = Callable[[int, FrameType | None], object]


class Screen:
    """The whole terminal. `resized` is set until the next `draw`."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._modes = termios.tcgetattr(sys.stdin.fileno())  # to restore
        self.resized = True

    @contextmanager
    def full(self) -> Iterator[None]:
        """Use the whole terminal; restore it at the end."""
        handlers = {signal.SIGWINCH: self._on_resize, signal.SIGTERM: _exit, signal.SIGHUP: _exit}
        with _handling(handlers):
            self._open()
            try:
                yield
            finally:
                self._close()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Give the terminal to another program for a while."""
        self._close()
        # A handler, not SIG_IGN, which the program would inherit: Ctrl-C is for the program.
        with _handling({signal.SIGINT: lambda *_: None}):
            try:
                yield
            finally:
                self._open()

    def _open(self) -> None:
        quiet = termios.tcgetattr(sys.stdin.fileno())
        # Ctrl-C and Ctrl-Z arrive as keys: a suspended view would keep the alternate screen.
        quiet[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, quiet)
        draw_screen(_OPEN)
        self.resized = True

    def _close(self) -> None:
        draw_screen(_CLOSE)
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._modes)

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
            draw_screen(control("2J"))
        # Erase before the line: after a full line the cursor is still on its last character.
        text = "".join(
            f"{control(f'{at + 1};1H')}{control('K')}{line}"
            for at, line in enumerate(lines)
            if at >= len(self._lines) or self._lines[at] != line
        )
        self._lines = lines
        draw_screen(text)

    def keys(self, timeout: float, also: Iterable[int] = ()) -> list[str]:
        """Wait for keys, or until one of the other descriptors is readable; return the keys."""
        keyboard = sys.stdin.fileno()
        ready = select.select([keyboard, *also], [], [], timeout)[0]
        if keyboard not in ready:
            return []
        data = os.read(keyboard, 1024)
        return decode_keys(data.decode(errors="ignore")) if data else [CLOSED]


def decode_keys(text: str) -> list[str]:
    """Return the keys in what a terminal sent: characters and the names above."""
    keys = []
    while text:
        sequence = next((known for known in _SEQUENCES if text.startswith(known)), text[0])
        keys.append(_SEQUENCES.get(sequence) or _CONTROLS.get(sequence, sequence))
        text = text[len(sequence) :]
    return keys


def painted(line: Line, width: int, colour: bool, style: str = "") -> str:
    """Return one line of at most `width` characters; `style` replaces that of its pieces."""
    text, left = "", width
    for piece, shade in line:
        shown = truncate(one_line(piece), left)
        left -= len(shown)
        text += styled(shown, style or shade, colour and bool(style or shade))
        if left <= 0:
            break
    if style and colour and left > 0:
        text += styled(" " * left, style, colour)
    return text.rstrip()


def one_line(text: str) -> str:
    """Return a text with line breaks as blanks and control characters escaped."""
    return escape(text.replace("\n", " ").replace("\t", " "))


@contextmanager
def _handling(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    before = {number: signal.signal(number, new) for number, new in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, at: FrameType | None) -> None:
    del at
    raise SystemExit(128 + number)
