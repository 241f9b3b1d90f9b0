"""`city status --watch`: a live view on a terminal, one line per change in a pipe."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType

from gascity.cli.context import CommandContext
from gascity.cli.output import (
    BOLD,
    CYAN,
    DIM,
    RED,
    YELLOW,
    print_stderr,
    print_stdout,
    printable,
    styled,
    time_ago,
    truncate,
)
from gascity.cli.records import STATE_STYLES, age_start, session_name
from gascity.cli.status import AgentStatus, CityStatus, StatusReader, controller_text, work_counts
from gascity.cli.wait import lasting_blocks
from gascity.control.blocked import ControllerAbsence
from gascity.control.client import controller_state
from gascity.control.decide.reasons import no_controller
from gascity.control.status import at_rest, is_over, under_way
from gascity.model.work import DRAINING, RUNNING, STARTING, STOPPING, Decision, Session

Piece = tuple[str, str]  # a text and its colour, or nothing
Line = Sequence[Piece]

_POLL = 0.2  # seconds between two checks for changes
_TICK = 1.0  # seconds after which ages are redrawn
_NAMED = 5  # items named per reason
_QUIT = (b"q", b"Q", b"\x03", b"\x04", b"")  # also Ctrl-C, Ctrl-D and a closed terminal
_MAX_BAR = 12
_MAX_NAME = 24
_STATE_WIDTH = 12
_MIN_LINES = 2  # lines of a section; with less room the last section is dropped
_STYLES = {
    **STATE_STYLES,
    **dict.fromkeys((STARTING, RUNNING), CYAN),
    **dict.fromkeys((DRAINING, STOPPING), YELLOW),
}


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
        return {work: reason.message for work, reason in lasting_blocks(self._root).items()}

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


def frame(current: CityStatus, now: float, width: int, height: int, colour: bool) -> list[str]:
    """Return the lines of a full screen of the given size."""
    head = _head(current, now)
    sections = [
        ("AGENTS", _agents(current.agents)),
        ("SESSIONS", _sessions(current.sessions, now)),
        ("DECISIONS", _decisions(current.decisions, current.sessions, now)),
    ]
    shown = [(title, lines) for title, lines in sections if lines]
    while shown and (room := height - len(head) - 2 * len(shown) - 1) < _MIN_LINES * len(shown):
        shown.pop()
    shares = _shares([len(lines) for _, lines in shown], room if shown else 0)
    body: list[Line] = []
    for (title, lines), share in zip(shown, shares, strict=True):
        body += [(), [(title, BOLD)], *_at_most(lines, share)]
    lines = [*head, *body][: max(0, height - 1)]
    lines += [()] * (height - 1 - len(lines))
    return [_painted(line, width, colour) for line in (*lines, [("q to quit", DIM)])]


def _painted(line: Line, width: int, colour: bool) -> str:
    painted, left = "", width
    for text, shade in line:
        piece = truncate(printable(text).replace("\n", " ").replace("\t", " "), left)
        left -= len(piece)
        painted += styled(piece, shade, colour and bool(shade))
        if left <= 0:
            break
    return painted.rstrip()


def _shares(wants: Sequence[int], room: int) -> list[int]:
    """Distribute lines evenly among sections, up to what each wants."""
    given = [0] * len(wants)
    while room > 0 and given != list(wants):
        for at, want in enumerate(wants):
            if given[at] < want and room > 0:
                given[at] += 1
                room -= 1
    return given


def _at_most(lines: Sequence[Line], most: int) -> list[Line]:
    if len(lines) <= most:
        return list(lines)
    left_out = len(lines) - max(0, most - 1)
    return [*lines[: max(0, most - 1)], [(f"  … {left_out} more", DIM)]][:most]


def _head(current: CityStatus, now: float) -> list[Line]:
    running = current.controller.running
    words = controller_text(current.controller, now)
    lines: list[Line] = [
        [("controller  ", BOLD), (words, "" if running else YELLOW)],
        [("work        ", BOLD), (work_counts(current), "")],
    ]
    return [*lines, *([(problem.message, RED)] for problem in current.problems)]


def _agents(agents: Sequence[AgentStatus]) -> list[Line]:
    busy = [one for one in agents if not one.idle]
    names = min(_MAX_NAME, max((len(one.name) for one in busy), default=0))
    bars = [_bar(one) for one in busy]
    widest = max((len(full + empty) for full, empty in bars), default=0)
    queues = max((min(one.queued, _MAX_BAR) for one in busy), default=0)
    lines: list[Line] = []
    for one, (full, empty) in zip(busy, bars, strict=True):
        most = "∞" if one.max is None else str(one.max)
        queued = f"{one.queued} queued" if one.queued else ""
        lines.append(
            [
                (f"  {truncate(one.name, names):<{names}}  ", ""),
                (full, CYAN),
                (empty, DIM),
                (" " * (widest - len(full + empty)) + f" {f'{one.live}/{most}':<6}", ""),
                (f"{'▪' * min(one.queued, _MAX_BAR):<{queues}}", YELLOW),
                (f" {queued:<10}  " if queues else " ", ""),
                (one.reason, DIM),
            ]
        )
    idle = len(agents) - len(busy)
    if idle:
        lines.append([(f"  {idle} idle", DIM)])
    return lines


def _bar(one: AgentStatus) -> tuple[str, str]:
    """Return a bar of live and free sessions, scaled down if there are many."""
    most = max(one.live, one.live if one.max is None else one.max)
    if most <= _MAX_BAR:
        return "█" * one.live, "░" * (most - one.live)
    full = -(-one.live * _MAX_BAR // most)
    return "█" * full, "░" * (_MAX_BAR - full)


def _sessions(sessions: Sequence[Session], now: float) -> list[Line]:
    there = sorted(sessions, key=_place)
    names = min(_MAX_NAME, max((len(session_name(one)) for one in there), default=0))
    works = min(_MAX_NAME, max((len(one.work) for one in there), default=0))
    lines: list[Line] = []
    for one in there:
        pale = DIM if is_over(one) else ""
        age = time_ago(age_start(one), now)
        lines.append(
            [
                (f"  {truncate(session_name(one), names):<{names}}  ", pale),
                (f"{one.state:<{_STATE_WIDTH}}", _STYLES.get(one.state, pale)),
                (f"  {truncate(one.work, works) or '-':<{works}}  {age:<4}  ", pale),
                (one.reason, DIM),
            ]
        )
    return lines


def _place(session: Session) -> tuple[bool, str, int, str]:
    """Sort key: live sessions keep their line, ended ones come last in their given order."""
    if is_over(session):
        return True, "", 0, ""
    return False, session.agent, session.slot, session.alias


def _decisions(
    decisions: Sequence[Decision], sessions: Sequence[Session], now: float
) -> list[Line]:
    names = {one.id: session_name(one) for one in sessions}
    rows = [(time_ago(one.at, now), names.get(one.subject, one.subject), one) for one in decisions]
    subjects = min(_MAX_NAME, max((len(subject) for _, subject, _ in rows), default=0))
    return [
        [
            (f"  {age:<4}  {truncate(subject, subjects):<{subjects}}  ", ""),
            (one.action, CYAN),
            (f"  {one.reason}" + (f" (×{one.times})" if one.times > 1 else ""), DIM),
        ]
        for age, subject, one in rows
    ]


def changes(before: CityStatus | None, after: CityStatus) -> Iterator[str]:
    """Yield one line per change of the controller, queues, sessions and work."""
    running = after.controller.running
    if before is None or before.controller.running != running:
        yield f"controller  {'running' if running else 'not running'}"
    agents = {one.name: one for one in before.agents} if before else {}
    for agent in after.agents:
        was = agents.get(agent.name)
        same = was is not None and (was.live, was.queued) == (agent.live, agent.queued)
        if not same and not (was is None and agent.idle):
            yield _change_line(
                agent.name, f"{agent.live} live, {agent.queued} queued", agent.reason
            )
    sessions = {one.id: one for one in before.sessions} if before else {}
    for session in after.sessions:
        old = sessions.get(session.id)
        same = old is not None and (old.state, old.work) == (session.state, session.work)
        if not same and not (before is None and is_over(session)):
            words = f"{session.state} {session.work}".rstrip()
            yield _change_line(session_name(session), words, session.reason)
    if before is None or dict(before.counts) != dict(after.counts):
        yield f"work  {work_counts(after)}"


def _change_line(name: str, words: str, reason: str) -> str:
    return printable(f"{name}  {words}" + (f": {reason}" if reason else "")).replace("\n", " ")
