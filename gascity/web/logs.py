"""The end of a run's log as text for a page, and what is added to it.

A log may be huge and may contain anything. A page gets the last part of it, without colours and
cursor movements; other control characters are shown as `\\x07`. The browser inserts it as text.
"""

import codecs
import re
from collections.abc import Iterable
from typing import NamedTuple

from gascity.cli.context import CommandContext
from gascity.cli.session.logs import log_format, logs_of_work
from gascity.cli.terminal import printable
from gascity.model.work import CLAIMED, Run, Session, Work
from gascity.runtimes.port import RunLogs
from gascity.store.port import Store

_END = 128 << 10  # bytes of a log that a page starts with
_MOST = 256 << 10  # bytes that are added at a time
_MOST_BEHIND = 1 << 20  # bytes that a page which was disconnected may have missed
_LONGEST = 4000  # characters of a line
_LONGEST_RECORD = 8 << 20  # bytes of a line of a log that has a format; a longer one is skipped
# Colours, cursor movements, and what a program tells the terminal's window.
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78])"
)
_UNFINISHED = re.compile(r"\x1b[^\x1b]{0,64}\Z")


class LogSource(NamedTuple):
    """A log, the format of its lines, and whether its run may still write to it."""

    logs: RunLogs
    log: str
    form: str
    live: bool


def work_log(context: CommandContext, store: Store, work: Work) -> LogSource | None:
    """Return the log of an item's last run; None if it has not run or the log was deleted."""
    if not work.log:
        return None
    logs = logs_of_work(context, work)
    if logs.size(work.log) is None:
        return None
    session = store.session(work.session) if work.session else None
    form = log_format(context, work.agent, session)
    return LogSource(logs, work.log, form, work.status == CLAIMED)


def session_log(context: CommandContext, session: Session, run: Run | None) -> LogSource | None:
    """Return the log of a session's run; None if it has not run or the log was deleted."""
    if run is None:
        return None
    logs = context.runtime(run.runtime).logs
    if logs.size(run.log) is None:
        return None
    return LogSource(logs, run.log, log_format(context, session.agent, session), run.ended is None)


def start_near_end(source: LogSource) -> int:
    """Return the offset from which a page shows a log."""
    return max(0, (source.logs.size(source.log) or 0) - _END)


def can_resume(source: LogSource, offset: int) -> bool:
    """Return whether a page that was disconnected gets the rest, and not the end of the log."""
    size = source.logs.size(source.log) or 0
    return size - _MOST_BEHIND <= offset <= size


class LogFollower:
    """Reads a log from an offset to its end, again and again."""

    def __init__(self, source: LogSource, offset: int, *, whole_lines: bool = False) -> None:
        self.offset = offset
        self._source = source
        self._mid_line = whole_lines and offset > 0  # skip the rest of the first line
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = b""  # of a line, if the log has a format
        self._held = ""  # an escape sequence whose end has not arrived yet

    @property
    def resume_offset(self) -> int:
        """Position at which a reader continues that has all the text so far."""
        if self._source.form:
            return self.offset - len(self._rest)
        return self.offset - len(self._held.encode()) - len(self._decoder.getstate()[0])

    def read(self) -> str:
        """Return what was written since the last call, as text."""
        pieces, size = [], 0
        while size < _MOST:
            piece, self.offset = self._source.logs.read_from(self._source.log, self.offset)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        data = b"".join(pieces)
        if self._mid_line and data:
            _, newline, data = data.partition(b"\n")
            self._mid_line = bool(self._source.form) and not newline
        return self._text(data) if data else ""

    def _text(self, data: bytes) -> str:
        if self._source.form:
            *lines, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > _LONGEST_RECORD:
                self._rest, self._mid_line = b"", True
            data = b"".join(_readable(self._source.form, [line + b"\n" for line in lines]))
        text = self._held + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text)
        if unfinished and not _SEQUENCE.match(text, unfinished.start()):
            self._held, text = unfinished[0], text[: unfinished.start()]
        else:
            self._held = ""
        return plain_text(text)


def _readable(form: str, lines: Iterable[bytes]) -> Iterable[bytes]:
    from gascity.render.run_output import readable

    return readable(form, lines)


def plain_text(text: str) -> str:
    """Return terminal output as text: without sequences, lines cut, the rest escaped."""
    text = _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    lines = (
        line if len(line) <= _LONGEST else f"{line[:_LONGEST]}… ({len(line):,} characters)"
        for line in text.split("\n")
    )
    return printable("\n".join(lines))
