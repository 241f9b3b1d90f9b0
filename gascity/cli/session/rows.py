"""Sessions and runs as JSON objects and table rows."""

import time
from collections.abc import Iterable, Iterator, Sequence

from gascity.cli.output import (
    DIM,
    RED,
    YELLOW,
    Column,
    display_path,
    json_row,
    table_lines,
    time_ago,
    timestamp,
)
from gascity.control.status import is_over
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

_ID_LETTERS = 8  # of an id in tables
_ENDED = 10  # ended sessions that are listed without --all
_STYLES = {CRASHED: RED, QUARANTINED: RED, RATE_LIMITED: YELLOW, UNKNOWN: YELLOW, IDLE: DIM}


def _columns(root: str, now: float) -> tuple[Column[Session], ...]:
    return (
        Column("id", lambda s: s.id, "ID", lambda s: s.id[:_ID_LETTERS]),
        Column("", session_name, "SESSION", shrink=True),
        Column("agent", lambda s: s.agent, "AGENT", shrink=True),
        Column("alias", lambda s: s.alias),
        Column("name", lambda s: s.name or None),
        Column("state", lambda s: s.state, "STATE", style=lambda s: _STYLES.get(s.state, "")),
        Column("", lambda s: s.work, "WORK"),
        Column("", lambda s: time_ago(age_start(s), now), "AGE"),
        Column("reason", lambda s: s.reason, "REASON", _reason, below=True),
        Column("runtime", lambda s: s.runtime),
        Column("pid", lambda s: s.pid or None),
        Column("generation", lambda s: s.generation),
        Column("workdir", lambda s: display_path(root, s.workdir) or None),
        Column("started", lambda s: timestamp(s.started)),
        Column("created", lambda s: timestamp(s.created)),
        Column("updated", lambda s: timestamp(s.updated)),
        Column("attached", lambda s: s.attached),
        Column("pinned", lambda s: s.pinned is not None),
        Column("pinned_at", lambda s: timestamp(s.pinned)),
        Column("work", lambda s: s.work or None),
        Column("origin", lambda s: s.origin),
        Column("slot", lambda s: s.slot),
        Column("interactive", lambda s: s.interactive),
        Column("branch", lambda s: s.branch or None),
        Column("conversation", lambda s: s.conversation or None),
        Column("retry_at", lambda s: timestamp(s.retry_at)),
        Column("asked", lambda s: s.asked or None),
        Column("pending", lambda s: s.pending or None),
        Column("crashes", lambda s: s.crashes),
        Column("last_snippet", lambda s: s.snippet or None),
    )


def session_row(session: Session, root: str) -> dict[str, object]:
    """Return a session as its JSON object."""
    return json_row(_columns(root, 0.0), session)


def run_row(run: Run, root: str) -> dict[str, object]:
    """Return a run as its JSON object."""
    return {
        "id": run.id,
        "generation": run.generation,
        "work": run.work or None,
        "about": run.about or None,
        "runtime": run.runtime,
        "pid": run.pid or None,
        "started": timestamp(run.started),
        "ended": timestamp(run.ended),
        "outcome": run.outcome or None,
        "exit_code": run.exit_code,
        "cost": run.cost,
        "log": display_path(root, run.log) or None,
        "lost_bytes": run.lost_bytes,
    }


def session_name(session: Session) -> str:
    """Return the name that the user gave, else the alias."""
    return session.name or session.alias


def pinned_first(sessions: Iterable[Session]) -> list[Session]:
    """Sort pinned sessions to the top, the last pinned first; the others keep their order."""
    return sorted(sessions, key=lambda session: (session.pinned is None, -(session.pinned or 0)))


def session_lines(
    sessions: Sequence[Session], width: int, colour: bool, *, everything: bool = False
) -> Iterator[str]:
    """Yield the table of live and waiting sessions, then the last ended ones."""
    if not sessions:
        yield "No sessions."
        return
    ended = [session for session in sessions if is_over(session)]
    hidden = 0 if everything else max(0, len(ended) - _ENDED)
    listed = [session for session in sessions if not is_over(session)]
    listed += ended[: len(ended) - hidden]
    yield from table_lines(_columns("", time.time()), listed, width, colour)
    if hidden:
        yield f"… and {hidden} more ended sessions (--all shows them)"


def _reason(session: Session) -> str:
    marks = ["pinned"] * (session.pinned is not None) + ["attached"] * session.attached
    return f"{session.reason} ({', '.join(marks)})".lstrip() if marks else session.reason


def age_start(session: Session) -> float:
    """Return the time from which the age counts: the last start of a live session, else the end."""
    if session.state in LIVE:
        return session.started or session.created
    return session.updated
