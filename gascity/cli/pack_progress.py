"""How far fetching is: one line that is redrawn on a terminal, plain lines in a pipe."""

import os
import signal
import sys
from types import FrameType, TracebackType

from gascity.cli.context import Context
from gascity.cli.output import clean, complain
from gascity.cli.pack_rows import tail

_COLUMNS = 80
_BAR = 24
_ENDS = (signal.SIGTERM, signal.SIGHUP)


class Progress:
    """Tells on stderr what is fetched. With --json it tells nothing.

    Meanwhile a signal that ends us ends the git that fetches, too.
    """

    def __init__(self, context: Context) -> None:
        dumb = context.environ.get("TERM") == "dumb"
        self._silent = context.as_json
        self._drawn = sys.stderr.isatty() and not dumb
        self._columns = _columns()
        self._task, self._name = "", ""
        self._width = 0  # of the line that is drawn

    def __enter__(self) -> "Progress":
        for number in _ENDS:
            if signal.getsignal(number) is signal.SIG_DFL:  # else somebody wants it otherwise
                signal.signal(number, _leave)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in _ENDS:
            if signal.getsignal(number) is _leave:
                signal.signal(number, signal.SIG_DFL)
        self.clear()

    def begin(self, task: str, name: str) -> None:
        """Say what is done from now on, and with which repository."""
        self._task, self._name = task, clean(name)
        if self._silent:
            return
        if self._drawn:
            self._draw("")
        else:
            complain(f"{self._task} {self._name}")

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Say how far it is; `total` is 0 where nobody knows."""
        if self._silent or not self._drawn:
            return
        share = min(1.0, done / total) if total else 0.0
        filled = round(share * _BAR)
        bar = f" [{'#' * filled}{' ' * (_BAR - filled)}] {share:4.0%}" if total else ""
        self._draw(f"  {stage}{bar}")

    def clear(self) -> None:
        """Leave the line as if nothing had been there."""
        if self._width:
            self._write("")
            self._write("")

    def _draw(self, facts: str) -> None:
        """The task, as much of the repository as fits, and how far it is."""
        room = self._columns - len(self._task) - len(facts) - 2
        self._write(f"{self._task} {tail(self._name, room)}{facts}")

    def _write(self, line: str) -> None:
        padded = line.ljust(self._width)
        self._width = len(line)
        sys.stderr.buffer.write(f"\r{padded}".encode("utf-8", "surrogateescape"))
        sys.stderr.flush()


def _leave(number: int, at: FrameType | None) -> None:
    del at
    raise SystemExit(128 + number)


def _columns() -> int:
    try:
        return max(40, min(_COLUMNS, os.get_terminal_size(sys.stderr.fileno()).columns))
    except (OSError, ValueError):
        return _COLUMNS
