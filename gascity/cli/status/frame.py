"""The live view as lines of text, and changes as log lines. Pure functions."""

from collections.abc import Iterator, Sequence

from gascity.cli.output import BOLD, CYAN, DIM, RED, YELLOW, printable, styled, time_ago, truncate
from gascity.cli.session.rows import age_start, session_name
from gascity.cli.status.command import controller_text, work_counts
from gascity.cli.status.snapshot import AgentStatus, CityStatus
from gascity.control.status import is_over
from gascity.model.work import (
    CRASHED,
    DRAINING,
    IDLE,
    QUARANTINED,
    RATE_LIMITED,
    RUNNING,
    STARTING,
    STOPPING,
    UNKNOWN,
    Decision,
    Session,
)

Piece = tuple[str, str]  # a text and its colour, or nothing
Line = Sequence[Piece]

_MAX_BAR = 12
_MAX_NAME = 24
_STATE_WIDTH = 12
_MIN_LINES = 2  # lines of a section; with less room the last section is dropped
_STYLES = {
    STARTING: CYAN,
    RUNNING: CYAN,
    IDLE: DIM,
    DRAINING: YELLOW,
    STOPPING: YELLOW,
    RATE_LIMITED: YELLOW,
    UNKNOWN: YELLOW,
    CRASHED: RED,
    QUARANTINED: RED,
}


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
        most = "∞" if one.maximum is None else str(one.maximum)
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
    most = max(one.live, one.live if one.maximum is None else one.maximum)
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
