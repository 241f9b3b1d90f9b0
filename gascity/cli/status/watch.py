"""`city status --watch`: a live view on a terminal, one line per change in a pipe."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from gascity.cli.context import CommandContext
from gascity.cli.output import (
    BOLD,
    CYAN,
    DIM,
    RED,
    YELLOW,
    escape,
    print_stderr,
    print_stdout,
    styled,
    time_ago,
    truncate,
)
from gascity.cli.records import STATE_STYLES, age_start, repeats, session_name
from gascity.cli.status import AgentStatus, CityStatus, StatusReader, controller_text, work_counts
from gascity.cli.terminal import control, draw_screen
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
# Alternate screen, no cursor, no wrapping; and the reverse.
_OPEN = control("?1049h") + control("?25l") + control("?7l")
_CLOSE = control("?7h") + control("?25h") + control("?1049l")
_STYLES = {
    **STATE_STYLES,
    **dict.fromkeys((STARTING, RUNNING), CYAN),
    **dict.fromkeys((DRAINING, STOPPING), YELLOW),
}


def watch_lines(context: CommandContext, until_idle: bool) -> int:
    """Print one line per change, until interrupted or, with `until_idle`, until idle."""
    reader = StatusReader(context)
    idle = IdleCheck(context)
    before: CityStatus | None = None
    while True:
        current = reader.read()
        for line in changes(before, current):
            print_stdout(line)
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
    idle = IdleCheck(context)
    current = reader.read()
    drawn_at = 0.0
    screen = Screen()
    with screen.full():
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

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._asked = -_TICK
        self._absence = ControllerAbsence(context.root)
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
        if not controller_state(self._context.root).running:
            return {"": no_controller().message} if absent else {}
        return {work: reason.message for work, reason in lasting_blocks(self._context).items()}

    def print_blocked(self, ended: int) -> int:
        """Print the blocked work items, one line per reason, and return the exit code."""
        for why in dict.fromkeys(self._left.values() if ended else ()):
            work = [item for item, reason in self._left.items() if item and reason == why]
            more = f" and {len(work) - _NAMED} more" if len(work) > _NAMED else ""
            message = f"{', '.join(work[:_NAMED])}{more} blocked: " if work else ""
            print_stderr(f"{message}{why}")
        return ended


class Screen:
    """The terminal while it shows the live view."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.resized = True

    @contextmanager
    def full(self) -> Iterator[None]:
        """Use the whole terminal; restore it at the end."""
        import signal
        import termios

        keyboard = sys.stdin.fileno()
        modes, quiet = termios.tcgetattr(keyboard), termios.tcgetattr(keyboard)
        # Ctrl-C and Ctrl-Z arrive as keys: a suspended view would keep the alternate screen.
        quiet[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        handlers = {signal.SIGWINCH: self._on_resize, signal.SIGTERM: _exit, signal.SIGHUP: _exit}
        before = {number: signal.signal(number, new) for number, new in handlers.items()}
        termios.tcsetattr(keyboard, termios.TCSADRAIN, quiet)
        draw_screen(_OPEN)
        try:
            yield
        finally:
            draw_screen(_CLOSE)
            termios.tcsetattr(keyboard, termios.TCSADRAIN, modes)
            for number, handler in before.items():
                signal.signal(number, handler)

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
        text = "".join(
            f"{control(f'{at + 1};1H')}{line}{control('K')}"
            for at, line in enumerate(lines)
            if at >= len(self._lines) or self._lines[at] != line
        )
        self._lines = lines
        draw_screen(text)

    def quits(self, timeout: float) -> bool:
        """Wait for a key; return whether it quits the view."""
        import select

        keyboard = sys.stdin.fileno()
        ready = select.select([keyboard], [], [], timeout)[0]
        return bool(ready) and os.read(keyboard, 1) in _QUIT


def _exit(number: int, at: FrameType | None) -> None:
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
        piece = truncate(_one_line(text), left)
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


def _name_width(names: Iterable[str]) -> int:
    return min(_MAX_NAME, max(map(len, names), default=0))


def _agents(agents: Sequence[AgentStatus]) -> list[Line]:
    busy = [agent for agent in agents if not agent.idle]
    names = _name_width(agent.name for agent in busy)
    bars = [_bar(agent) for agent in busy]
    widest = max((len(full + empty) for full, empty in bars), default=0)
    queues = max((min(agent.queued, _MAX_BAR) for agent in busy), default=0)
    lines: list[Line] = []
    for agent, (full, empty) in zip(busy, bars, strict=True):
        sessions = f"{agent.live}/{'∞' if agent.max is None else agent.max}"
        queued = f"{agent.queued} queued" if agent.queued else ""
        lines.append(
            [
                (f"  {truncate(agent.name, names):<{names}}  ", ""),
                (full, CYAN),
                (empty, DIM),
                (" " * (widest - len(full + empty)) + f" {sessions:<6}", ""),
                (f"{'▪' * min(agent.queued, _MAX_BAR):<{queues}}", YELLOW),
                (f" {queued:<10}  " if queues else " ", ""),
                (agent.reason, DIM),
            ]
        )
    idle = len(agents) - len(busy)
    return [*lines, [(f"  {idle} idle", DIM)]] if idle else lines


def _bar(agent: AgentStatus) -> tuple[str, str]:
    """Return a bar of live and free sessions, scaled down if there are many."""
    size, full = max(agent.live, agent.max or 0), agent.live
    if size > _MAX_BAR:
        size, full = _MAX_BAR, -(-agent.live * _MAX_BAR // size)
    return "█" * full, "░" * (size - full)


def _sessions(sessions: Sequence[Session], now: float) -> list[Line]:
    ordered = sorted(sessions, key=_place)
    names = _name_width(session_name(session) for session in ordered)
    works = _name_width(session.work for session in ordered)
    lines: list[Line] = []
    for session in ordered:
        pale = DIM if is_over(session) else ""
        age = time_ago(age_start(session), now)
        lines.append(
            [
                (f"  {truncate(session_name(session), names):<{names}}  ", pale),
                (f"{session.state:<{_STATE_WIDTH}}", _STYLES.get(session.state, pale)),
                (f"  {truncate(session.work, works) or '-':<{works}}  {age:<4}  ", pale),
                (session.reason, DIM),
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
    names = {session.id: session_name(session) for session in sessions}
    subjects = [names.get(decision.subject, decision.subject) for decision in decisions]
    width = _name_width(subjects)
    return [
        [
            (f"  {time_ago(decision.at, now):<4}  {truncate(subject, width):<{width}}  ", ""),
            (decision.action, CYAN),
            (f"  {decision.reason}" + repeats(decision), DIM),
        ]
        for decision, subject in zip(decisions, subjects, strict=True)
    ]


def changes(before: CityStatus | None, after: CityStatus) -> Iterator[str]:
    """Yield one line per change of the controller, queues, sessions and work."""
    running = after.controller.running
    if before is None or before.controller.running != running:
        yield f"controller  {'running' if running else 'not running'}"
    agents = {agent.name: agent for agent in before.agents} if before else {}
    for agent in after.agents:
        was = agents.get(agent.name)
        same = was is not None and (was.live, was.queued) == (agent.live, agent.queued)
        if not same and not (was is None and agent.idle):
            words = f"{agent.live} live, {agent.queued} queued"
            yield _change_line(agent.name, words, agent.reason)
    sessions = {session.id: session for session in before.sessions} if before else {}
    for session in after.sessions:
        old = sessions.get(session.id)
        same = old is not None and (old.state, old.work) == (session.state, session.work)
        if not same and not (before is None and is_over(session)):
            words = f"{session.state} {session.work}".rstrip()
            yield _change_line(session_name(session), words, session.reason)
    if before is None or dict(before.counts) != dict(after.counts):
        yield f"work  {work_counts(after)}"


def _change_line(name: str, words: str, reason: str) -> str:
    return _one_line(f"{name}  {words}" + (f": {reason}" if reason else ""))


def _one_line(text: str) -> str:
    return escape(text.replace("\n", " ").replace("\t", " "))
