"""Progress on stderr: one redrawn line on a terminal, plain lines in a pipe."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from gascity.cli.context import CommandContext
from gascity.cli.output import escape, print_stderr, truncate_start
from gascity.cli.terminal import control, redraw_line

_MAX_COLUMNS = 80
_BAR = 24
_DELAY = 1.0  # seconds before a count of files appears: most plans are applied faster
_REDRAW = 0.1  # seconds between two drawings of a count


@contextmanager
def status_line(text: str) -> Iterator[None]:
    """Show a line on a terminal while the block runs."""
    terminal = sys.stderr.isatty()
    if terminal:
        redraw_line(text)
    try:
        yield
    finally:
        if terminal:
            redraw_line(control("K"))


class Progress:
    """Shows what is being fetched or written. Prints nothing with --json.

    As a context manager it turns SIGTERM and SIGHUP into SystemExit, so that a git child process
    is ended too.
    """

    def __init__(self, context: CommandContext) -> None:
        self._silent = context.as_json
        self._redraws = sys.stderr.isatty() and context.environ.get("TERM") != "dumb"
        self._columns = _columns()
        self._task, self._name = "", ""
        self._width = 0  # of the line on the screen
        self._next_count = time.monotonic() + _DELAY

    def __enter__(self) -> "Progress":
        import signal

        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # the caller's own handler stays
                signal.signal(number, _exit)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import signal

        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is _exit:
                signal.signal(number, signal.SIG_DFL)
        self.clear()

    def begin(self, task: str, name: str) -> None:
        """Start a task on one repository."""
        self._task, self._name = task, escape(name)
        if self._silent:
            return
        if self._redraws:
            self._draw_task("")
        else:
            print_stderr(f"{self._task} {self._name}")

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how far the task is; `total` is 0 if unknown."""
        if self._silent or not self._redraws:
            return
        share = min(1.0, done / total) if total else 0.0
        filled = round(share * _BAR)
        bar = f" [{'#' * filled}{' ' * (_BAR - filled)}] {share:4.0%}" if total else ""
        self._draw_task(f"  {escape(stage)}{bar}")

    def count_files(self, done: int, total: int) -> None:
        """Show a count of files once it takes long; a total of 0 clears the line."""
        if not total:
            self.clear()
        elif not self._silent and self._redraws and time.monotonic() >= self._next_count:
            self._next_count = time.monotonic() + _REDRAW
            self._write(f"{done:,} of {total:,} files")

    def clear(self) -> None:
        """Erase the line."""
        if self._width:
            self._write("")
            self._write("")

    def _draw_task(self, facts: str) -> None:
        room = self._columns - len(self._task) - len(facts) - 2
        self._write(f"{self._task} {truncate_start(self._name, room)}{facts}")

    def _write(self, line: str) -> None:
        padded = line.ljust(self._width)
        self._width = len(line)
        redraw_line(padded)


def _exit(number: int, frame: FrameType | None) -> None:
    del frame
    raise SystemExit(128 + number)


def _columns() -> int:
    try:
        return max(40, min(_MAX_COLUMNS, os.get_terminal_size(sys.stderr.fileno()).columns))
    except (OSError, ValueError):
        return _MAX_COLUMNS
