"""Sessions as rows: the JSON object of the contract and the lines people read."""

import time
from collections.abc import Iterable, Iterator, Sequence

from gascity.cli.output import DIM, RED, YELLOW, ago, clean, moment, paint, wrap
from gascity.control.inspect import is_over
from gascity.model.work import (
    CRASHED,
    IDLE,
    LIVE,
    QUARANTINED,
    RATE_LIMITED,
    UNKNOWN,
    Run,
    Session,
)

SHORT = 8  # letters of an id that people see
_LAST = 10  # sessions that ended and are still listed
_HEADS = ("ID", "SESSION", "AGENT", "STATE", "WORK", "AGE")
_SESSION, _AGENT, _STATE = 1, 2, 3
_NARROWEST = 12  # to which names are cut
_REASON = 24  # columns that a reason needs beside the others
_SHADES = {CRASHED: RED, QUARANTINED: RED, RATE_LIMITED: YELLOW, UNKNOWN: YELLOW, IDLE: DIM}


def shown_path(root: str, path: str) -> str:
    """As contracts have it: relative to the city where it lies inside, absolute otherwise."""
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else path


def session_row(session: Session, root: str) -> dict[str, object]:
    """The object `S` of the JSON contract."""
    return {
        "id": session.id,
        "agent": session.agent,
        "alias": session.alias,
        "name": session.name or None,
        "state": session.state,
        "reason": session.reason,
        "runtime": session.runtime,
        "pid": session.pid or None,
        "generation": session.generation,
        "workdir": shown_path(root, session.workdir) or None,
        "started": moment(session.started),
        "created": moment(session.created),
        "updated": moment(session.updated),
        "attached": session.attached,
        "pinned": session.pinned is not None,
        "pinned_at": moment(session.pinned),
        "work": session.work or None,
        "origin": session.origin,
        "slot": session.slot,
        "interactive": session.interactive,
        "branch": session.branch or None,
        "conversation": session.conversation or None,
        "retry_at": moment(session.retry_at),
        "asked": session.asked or None,
        "pending": session.pending or None,
        "crashes": session.crashes,
        "last_snippet": session.snippet or None,
    }


def run_row(run: Run, root: str) -> dict[str, object]:
    """One run as `session show --json` gives it."""
    return {
        "id": run.id,
        "generation": run.generation,
        "work": run.work or None,
        "about": run.about or None,
        "runtime": run.runtime,
        "pid": run.pid or None,
        "started": moment(run.started),
        "ended": moment(run.ended),
        "outcome": run.outcome or None,
        "exit_code": run.exit_code,
        "cost": run.cost,
        "log": shown_path(root, run.log) or None,
        "lost_bytes": run.lost_bytes,
    }


def called(session: Session) -> str:
    """What a person calls it."""
    return session.name or session.alias


def pinned_first(sessions: Iterable[Session]) -> list[Session]:
    """Pinned ones before the others, the last pinned on top; else as they came."""
    return sorted(sessions, key=lambda one: (one.pinned is None, -(one.pinned or 0)))


def session_lines(
    sessions: Sequence[Session], columns: int, colour: bool, *, everything: bool = False
) -> Iterator[str]:
    """Those that are there or wait, then the last that ended, and how many more there are."""
    if not sessions:
        yield "No sessions."
        return
    ended = [one for one in sessions if is_over(one)]
    left_out = 0 if everything else max(0, len(ended) - _LAST)
    kept = [one for one in sessions if not is_over(one)]
    kept += ended[: len(ended) - left_out]
    yield from _table(kept, columns, colour)
    if left_out:
        yield f"… and {left_out} more that ended; --all shows them"


def _table(sessions: Sequence[Session], columns: int, colour: bool) -> Iterator[str]:
    now = time.time()
    rows = [_cells(one, now) for one in sessions]
    widths = _widths([_HEADS, *rows], columns)
    indent = sum(widths) + 2 * len(widths)
    beside = columns - indent >= _REASON
    yield (_line(_HEADS, widths) + ("  REASON" if beside else "")).rstrip()
    for session, row in zip(sessions, rows, strict=True):
        line = _line(row, widths, _SHADES.get(session.state, "") if colour else "")
        reason = wrap(_reason(session), columns - (indent if beside else 4))
        yield f"{line}  {reason[0]}".rstrip() if beside else line.rstrip()
        rest = reason[1:] if beside else [text for text in reason if text]
        yield from (" " * (indent if beside else 4) + text for text in rest)


def _widths(rows: Sequence[Sequence[str]], columns: int) -> list[int]:
    """Each column as wide as it must be; where that is too much, names are cut."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for at in (_AGENT, _SESSION):
        over = sum(widths) + 2 * (len(widths) - 1) - columns
        widths[at] = max(min(widths[at], _NARROWEST), widths[at] - max(0, over))
    return widths


def _line(row: Sequence[str], widths: Sequence[int], shade: str = "") -> str:
    cells = [f"{cut(cell, size):<{size}}" for cell, size in zip(row, widths, strict=True)]
    cells[_STATE] = paint(cells[_STATE], shade, bool(shade))
    return "  ".join(cells)


def _reason(session: Session) -> str:
    marks = ["pinned"] * (session.pinned is not None) + ["attached"] * session.attached
    return f"{session.reason} ({', '.join(marks)})".lstrip() if marks else session.reason


def _cells(session: Session, now: float) -> tuple[str, ...]:
    return (
        session.id[:SHORT],
        clean(called(session)),
        session.agent,
        session.state,
        session.work or "-",
        ago(since(session), now),
    )


def since(session: Session) -> float:
    """From when its age counts: its last start while it is there, then its end."""
    if session.state in LIVE:
        return session.started or session.created
    return session.updated


def cut(text: str, most: int) -> str:
    """At most so many characters, an ellipsis where some are missing."""
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"
