"""Draw the live view: the lines of a full screen. Pure."""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gascity.cli.output import BOLD, CYAN, DIM, GREEN, RED, YELLOW, plural, time_ago, truncate
from gascity.cli.records import STATE_STYLES, repeats, session_name
from gascity.cli.status import AgentStatus, CityStatus, controller_text, work_counts
from gascity.cli.status.screen import Line, Piece, painted
from gascity.cli.status.view import Row, Rows, View, contains
from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    CRASHED,
    DONE,
    DRAINING,
    FAILED,
    QUARANTINED,
    RATE_LIMITED,
    RUNNING,
    STARTING,
    STOPPING,
    UNKNOWN,
    WAITING,
    status_word,
)

_KEYS = "q quit  ↑↓ select  l log  a attach  c cancel  r retry  / filter"
_EMPTY = "No work. To queue some: `city sling AGENT TEXT`"
_SELECTED = "7"  # inverse
_MAX_BAR = 12
_MAX_NAME, _NARROW_NAME, _NARROW = 24, 16, 100  # longest name, also on a terminal below 100 columns
_MIN_STATE = 8  # so that most changes of a state leave the columns, and other lines, unchanged
_MIN_LINES = 2  # lines of a section; with less room a section is dropped
_DROPPED_FIRST = ("DECISIONS", "AGENTS", "WORK", "SESSIONS")
_STYLES = {
    **STATE_STYLES,
    **dict.fromkeys((STARTING, RUNNING, CLAIMED), CYAN),
    **dict.fromkeys((DRAINING, STOPPING, CANCELLED), YELLOW),
    FAILED: RED,
    DONE: GREEN,
}
# In these states the reason matters more than the title of the work item.
_REASON_FIRST = (WAITING, CRASHED, QUARANTINED, RATE_LIMITED, UNKNOWN, DRAINING, STOPPING, FAILED)


class _Section(NamedTuple):
    title: str
    lines: Sequence[Line]
    rows: bool = False  # its lines can be selected
    selected: int | None = None  # index of the selected line


def frame(
    current: CityStatus,
    root: str,
    rows: Rows,
    view: View,
    now: float,
    width: int,
    height: int,
    colour: bool,
) -> list[str]:
    """Return the lines of a full screen of the given size."""
    head = _head(current, root, rows, view, now)
    names = _MAX_NAME if width >= _NARROW else _NARROW_NAME
    sections = [
        _Section("AGENTS", _agents(_matching(current.agents, view.words))),
        _row_section("SESSIONS", rows.sessions, view, _session_lines(rows.sessions, names, now)),
        _row_section("WORK", rows.work, view, _work_lines(rows.work, names, now)),
        _Section("DECISIONS", _decisions(current, view.words, now)),
    ]
    shown = [section for section in sections if section.lines]
    for title in _DROPPED_FIRST:
        room = height - len(head) - 2 * len(shown) - 1
        if room >= _MIN_LINES * len(shown):
            break
        shown = [section for section in shown if section.title != title]
    room = height - len(head) - 2 * len(shown) - 1
    shares = _shares(shown, room)
    body = [(line, "") for line in head]
    for section, share in zip(shown, shares, strict=True):
        body += [((), ""), ([(section.title, BOLD)], ""), *_window(section, share)]
    if not shown:
        body += [((), ""), ([(_EMPTY if not view.filter else "No row matches.", DIM)], "")]
    body = body[: max(0, height - 1)]
    body += [((), "")] * (height - 1 - len(body))
    return [painted(line, width, colour, style) for line, style in (*body, (_foot(view), ""))]


def _row_section(title: str, rows: Sequence[Row], view: View, lines: Sequence[Line]) -> _Section:
    keys = [row.key for row in rows]
    selected = keys.index(view.selected) if view.selected in keys else None
    marked = [[("> " if at == selected else "  ", ""), *line] for at, line in enumerate(lines)]
    return _Section(title, marked, True, selected)


def _shares(sections: Sequence[_Section], room: int) -> list[int]:
    """Distribute lines among sections, up to what each wants; rows get two for one of the rest."""
    given = [0] * len(sections)
    wants = [len(section.lines) for section in sections]
    while room > 0 and given != wants:
        for at, section in enumerate(sections):
            step = min(2 if section.rows else 1, wants[at] - given[at], room)
            given[at] += step
            room -= step
    return given


def _window(section: _Section, most: int) -> list[tuple[Line, str]]:
    """Return at most `most` lines with their styles, the selected one among them."""
    lines = [
        (line, _SELECTED if at == section.selected else "") for at, line in enumerate(section.lines)
    ]
    if len(lines) <= most:
        return lines
    room = max(1, most - 1)
    first = max(0, (section.selected or 0) - room + 1)
    more: Line = [(f"  … {len(lines) - room} more", DIM)]
    return [*lines[first : first + room], (more, "")][:most]


def _head(current: CityStatus, root: str, rows: Rows, view: View, now: float) -> list[Line]:
    running = current.controller.running
    words = controller_text(current.controller, now)
    lines: list[Line] = [
        [(current.name or os.path.basename(root), BOLD), (f"  {root}", DIM)],
        [("controller  ", BOLD), (words, "" if running else YELLOW)],
        [("work        ", BOLD), *_count_pieces(current)],
    ]
    if view.filter and not view.typing:
        hidden = f"  ({plural(rows.hidden, 'row')} hidden; Esc shows all)"
        lines.append([("filter      ", BOLD), (view.filter, CYAN), (hidden, DIM)])
    return [*lines, *([(problem.message, RED)] for problem in current.problems)]


def _count_pieces(current: CityStatus) -> list[Piece]:
    """Return the counts of work items, failed ones in red if there are any."""
    pieces: list[Piece] = []
    for text in work_counts(current).split(", "):
        failed = text.endswith(f" {FAILED}") and not text.startswith("0 ")
        pieces += [(", " if pieces else "", ""), (text, RED if failed else "")]
    return pieces


def _foot(view: View) -> Line:
    if view.typing:
        return [("filter: ", BOLD), (view.filter + "_", ""), ("  (Enter keeps, Esc clears)", DIM)]
    if view.question is not None:
        row = view.question
        return [(f"Cancel {row.work}", BOLD), (f" ({row.title})? y/n", "")]
    if view.message:
        return [(view.message, YELLOW)]
    return [(_KEYS, DIM)]


def _matching(agents: Sequence[AgentStatus], words: Sequence[str]) -> list[AgentStatus]:
    return [agent for agent in agents if contains(f"{agent.name} {agent.reason}", words)]


def _width(texts: Iterable[str], most: int = _MAX_NAME) -> int:
    return min(most, max(map(len, texts), default=0))


def _agents(agents: Sequence[AgentStatus]) -> list[Line]:
    busy = [agent for agent in agents if not agent.idle]
    names = _width(agent.name for agent in busy)
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


def _session_lines(rows: Sequence[Row], most: int, now: float) -> list[Line]:
    names = _width((row.name for row in rows), most)
    rigs = _width((row.rig for row in rows), most)
    states = max(_MIN_STATE, _width(row.state for row in rows))
    works = _width((row.work for row in rows), most)
    lines: list[Line] = []
    for row in rows:
        pale = DIM if row.over else ""
        rig = f"{truncate(row.rig, rigs) or '-':<{rigs}}  " if rigs else ""
        age = time_ago(row.since, now)
        lines.append(
            [
                (f"{truncate(row.name, names):<{names}}  {rig}", pale),
                (f"{row.state:<{states}}  ", _STYLES.get(row.state, pale)),
                (f"{truncate(row.work, works) or '-':<{works}}  {age:<4}  ", pale),
                *_texts(row, pale),
            ]
        )
    return lines


def _work_lines(rows: Sequence[Row], most: int, now: float) -> list[Line]:
    ids = _width(row.id for row in rows)
    states = max(_MIN_STATE, _width(status_word(row.state) for row in rows))
    agents = _width((row.agent for row in rows), most)
    lines: list[Line] = []
    for row in rows:
        pale = DIM if row.over else ""
        lines.append(
            [
                (f"{truncate(row.id, ids):<{ids}}  ", pale),
                (f"{status_word(row.state):<{states}}  ", _STYLES.get(row.state, pale)),
                (f"{truncate(row.agent, agents):<{agents}}  ", pale),
                (f"{time_ago(row.since, now):<4}  ", pale),
                *_texts(row, pale),
            ]
        )
    return lines


def _texts(row: Row, pale: str) -> list[Piece]:
    """Return title and reason, the more important one first."""
    if row.state in _REASON_FIRST and row.reason:
        title = f"  {row.title}" if row.title else ""
        return [(row.reason, _STYLES.get(row.state, pale)), (title, DIM)]
    known = not row.reason or (bool(row.work) and row.work in row.reason)
    reason = "" if row.title and known else row.reason
    gap = "  " if row.title and reason else ""
    return [(row.title, pale), (gap + reason, DIM)]


def _decisions(current: CityStatus, words: Sequence[str], now: float) -> list[Line]:
    names = {session.id: session_name(session) for session in current.sessions}
    decisions = [
        (decision, names.get(decision.subject, decision.subject)) for decision in current.decisions
    ]
    decisions = [
        (decision, subject)
        for decision, subject in decisions
        if contains(f"{subject} {decision.action} {decision.reason}", words)
    ]
    width = _width(subject for _, subject in decisions)
    return [
        [
            (f"  {time_ago(decision.at, now):<4}  {truncate(subject, width):<{width}}  ", ""),
            (decision.action, CYAN),
            (f"  {decision.reason}" + repeats(decision), DIM),
        ]
        for decision, subject in decisions
    ]
