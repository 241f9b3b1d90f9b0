"""The live view as lines of text, and its changes as lines of a log. Pure."""

from collections.abc import Iterator, Sequence

from gascity.cli.output import BOLD, CYAN, DIM, RED, YELLOW, ago, clean, paint
from gascity.cli.session_rows import called, cut, since
from gascity.cli.status import controller_words, work_words
from gascity.cli.status_look import AgentRow, Look
from gascity.control.inspect import is_over
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

_LONGEST_BAR = 12
_WIDEST_NAME = 24
_WIDEST_STATE = 12
_FEWEST = 2  # lines of a section; with less room the last section is left out
_SHADES = {
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


def frame(found: Look, now: float, width: int, height: int, colour: bool) -> list[str]:
    """At most `height` lines of at most `width` characters: what a terminal of that size shows."""
    head = _head(found, now)
    sections = [
        ("AGENTS", _agents(found.agents)),
        ("SESSIONS", _sessions(found.sessions, now)),
        ("DECISIONS", _decisions(found.decisions, found.sessions, now)),
    ]
    there = [(title, lines) for title, lines in sections if lines]
    while there and (room := height - len(head) - 2 * len(there) - 1) < _FEWEST * len(there):
        there.pop()
    shares = _shares([len(lines) for _, lines in there], room if there else 0)
    body: list[Line] = []
    for (title, lines), share in zip(there, shares, strict=True):
        body += [(), [(title, BOLD)], *_at_most(lines, share)]
    lines = [*head, *body][: max(0, height - 1)]
    lines += [()] * (height - 1 - len(lines))
    return [_painted(line, width, colour) for line in (*lines, [("q quits", DIM)])]


def _painted(line: Line, width: int, colour: bool) -> str:
    shown, left = "", width
    for text, shade in line:
        piece = cut(clean(text).replace("\n", " ").replace("\t", " "), left)
        left -= len(piece)
        shown += paint(piece, shade, colour and bool(shade))
        if left <= 0:
            break
    return shown.rstrip()


def _shares(wants: Sequence[int], room: int) -> list[int]:
    """Lines in turn for everybody who wants more, while there are any."""
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


def _head(found: Look, now: float) -> list[Line]:
    running = found.controller.running
    words = controller_words(found.controller, now)
    lines: list[Line] = [
        [("controller  ", BOLD), (words, "" if running else YELLOW)],
        [("work        ", BOLD), (work_words(found), "")],
    ]
    return [*lines, *([(problem.message, RED)] for problem in found.problems)]


def _agents(agents: Sequence[AgentRow]) -> list[Line]:
    busy = [one for one in agents if not one.quiet]
    names = min(_WIDEST_NAME, max((len(one.name) for one in busy), default=0))
    bars = [_bar(one) for one in busy]
    widest = max((len(full + empty) for full, empty in bars), default=0)
    queues = max((min(one.queued, _LONGEST_BAR) for one in busy), default=0)
    lines: list[Line] = []
    for one, (full, empty) in zip(busy, bars, strict=True):
        most = "∞" if one.most is None else str(one.most)
        queued = f"{one.queued} queued" if one.queued else ""
        lines.append(
            [
                (f"  {cut(one.name, names):<{names}}  ", ""),
                (full, CYAN),
                (empty, DIM),
                (" " * (widest - len(full + empty)) + f" {f'{one.live}/{most}':<6}", ""),
                (f"{'▪' * min(one.queued, _LONGEST_BAR):<{queues}}", YELLOW),
                (f" {queued:<10}  " if queues else " ", ""),
                (one.reason, DIM),
            ]
        )
    quiet = len(agents) - len(busy)
    if quiet:
        words = f"{quiet} other{'s' * (quiet > 1)}" if busy else str(quiet)
        lines.append([(f"  {words} with nothing to do", DIM)])
    return lines


def _bar(one: AgentRow) -> tuple[str, str]:
    """A cell for each session that is there, and for each that may be; scaled if they are many."""
    most = max(one.live, one.live if one.most is None else one.most)
    if most <= _LONGEST_BAR:
        return "█" * one.live, "░" * (most - one.live)
    full = -(-one.live * _LONGEST_BAR // most)
    return "█" * full, "░" * (_LONGEST_BAR - full)


def _sessions(sessions: Sequence[Session], now: float) -> list[Line]:
    there = sorted(sessions, key=_place)
    names = min(_WIDEST_NAME, max((len(called(one)) for one in there), default=0))
    works = min(_WIDEST_NAME, max((len(one.work) for one in there), default=0))
    lines: list[Line] = []
    for one in there:
        pale = DIM if is_over(one) else ""
        age = ago(since(one), now)
        lines.append(
            [
                (f"  {cut(called(one), names):<{names}}  ", pale),
                (f"{one.state:<{_WIDEST_STATE}}", _SHADES.get(one.state, pale)),
                (f"  {cut(one.work, works) or '-':<{works}}  {age:<4}  ", pale),
                (one.reason, DIM),
            ]
        )
    return lines


def _place(session: Session) -> tuple[bool, str, int, str]:
    """Each keeps its line while it lives; those that are over come last, as they were told."""
    if is_over(session):
        return True, "", 0, ""
    return False, session.agent, session.slot, session.alias


def _decisions(
    decisions: Sequence[Decision], sessions: Sequence[Session], now: float
) -> list[Line]:
    names = {one.id: called(one) for one in sessions}
    rows = [(ago(one.at, now), names.get(one.subject, one.subject), one) for one in decisions]
    subjects = min(_WIDEST_NAME, max((len(subject) for _, subject, _ in rows), default=0))
    return [
        [
            (f"  {age:<4}  {cut(subject, subjects):<{subjects}}  ", ""),
            (one.action, CYAN),
            (f"  {one.reason}" + (f" (×{one.times})" if one.times > 1 else ""), DIM),
        ]
        for age, subject, one in rows
    ]


def changes(before: Look | None, after: Look) -> Iterator[str]:
    """A line for everything that is not as it was: controller, queues, sessions, work."""
    running = after.controller.running
    if before is None or before.controller.running != running:
        yield f"controller  {'running' if running else 'not running'}"
    agents = {one.name: one for one in before.agents} if before else {}
    for agent in after.agents:
        was = agents.get(agent.name)
        same = was is not None and (was.live, was.queued) == (agent.live, agent.queued)
        if not same and not (was is None and agent.quiet):
            yield _told(agent.name, f"{agent.live} live, {agent.queued} queued", agent.reason)
    sessions = {one.id: one for one in before.sessions} if before else {}
    for session in after.sessions:
        old = sessions.get(session.id)
        same = old is not None and (old.state, old.work) == (session.state, session.work)
        if not same and not (before is None and is_over(session)):
            words = f"{session.state} {session.work}".rstrip()
            yield _told(called(session), words, session.reason)
    if before is None or dict(before.counts) != dict(after.counts):
        yield f"work  {work_words(after)}"


def _told(name: str, words: str, reason: str) -> str:
    return clean(f"{name}  {words}" + (f": {reason}" if reason else "")).replace("\n", " ")
