"""`city session show`: state, directory, log and runs of one session."""

import time
from collections.abc import Iterator, Sequence

from gascity.cli.command import command
from gascity.cli.context import CommandContext, json_option, pass_context
from gascity.cli.output import Column, display_path, fact_lines, table_lines, time_ago
from gascity.cli.session.find import resolve_session, session_argument
from gascity.cli.session.rows import run_row, session_row
from gascity.cli.session.view import with_attached
from gascity.model.durations import format_duration
from gascity.model.work import Nudge, Run, Session, Work

_LABEL = 13
_RUNS = 10  # runs in the table; JSON has all


@command(
    "show",
    examples=(
        "city session show mayor-1",
        "city session show mayor-1 --json",
    ),
    page="how-to/sessions",
)
@session_argument
@json_option
@pass_context
def show_session(context: CommandContext, reference: str | None) -> int:
    """Show a session and its runs."""
    [session] = with_attached(context, [resolve_session(context, reference)])
    store = context.store()
    runs = store.runs(session=session.id)
    work = store.work(session.work) if session.work else None
    nudges = store.nudges(session.id)
    context.output(
        lambda: {
            "session": session_row(session, context.root),
            "runs": [run_row(run, context.root) for run in runs],
            "nudges": [nudge.text for nudge in nudges],
        },
        lambda: _lines(context, session, work, runs, nudges),
    )
    return 0


def _lines(
    context: CommandContext,
    session: Session,
    work: Work | None,
    runs: Sequence[Run],
    nudges: Sequence[Nudge],
) -> Iterator[str]:
    now = time.time()
    facts = [*_identity(session), *_state(session, work, now), *_files(context.root, session, runs)]
    facts += [("Nudge", nudge.text) for nudge in nudges]
    yield from fact_lines(facts, _LABEL, context.width)
    if runs:
        yield ""
        yield from _run_lines(runs, now, context.width, context.colour)


def _identity(session: Session) -> Iterator[tuple[str, str]]:
    yield "Session", session.alias
    yield "Name", session.name
    yield "ID", session.id
    kind = "in a terminal" if session.interactive else "one process per work item"
    yield "Agent", f"{session.agent} ({session.origin}, {kind})"


def _state(session: Session, work: Work | None, now: float) -> Iterator[tuple[str, str]]:
    reason = f": {session.reason}" if session.reason else ""
    yield "State", session.state + reason
    if session.retry_at is not None and session.retry_at > now:
        yield "Retry", f"in {time_ago(now, session.retry_at)}"
    yield "Requested", session.asked
    yield "Pending", f"restart: {session.pending}" if session.pending else ""
    yield "Work", f"{work.id} {work.title}" if work else session.work
    yield "Process", _process(session)
    yield "Started", _past(session.started, now) if session.started else ""
    yield "Attached", "yes" if session.attached else ""
    yield "Pinned", _past(session.pinned, now) if session.pinned else ""
    yield "Last output", session.snippet


def _past(at: float, now: float) -> str:
    message = time_ago(at, now)
    return "just now" if message == "now" else f"{message} ago"


def _process(session: Session) -> str:
    if not session.pid:
        return ""
    return f"{session.pid} ({session.runtime}, generation {session.generation})"


def _files(root: str, session: Session, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    yield "Directory", display_path(root, session.workdir)
    yield "Branch", session.branch
    yield "Resumes", session.conversation
    if runs:
        yield "Log", display_path(root, runs[0].log)


def _run_lines(runs: Sequence[Run], now: float, width: int, colour: bool) -> Iterator[str]:
    columns: tuple[Column[Run], ...] = (
        Column("", lambda run: run.id, "RUN"),
        Column("", lambda run: run.work or run.about, "WORK"),
        Column("", lambda run: _past(run.started, now), "STARTED"),
        Column(
            "", lambda run: format_duration(max(0.0, (run.ended or now) - run.started)), "DURATION"
        ),
        Column("", _outcome, "OUTCOME"),
    )
    yield from table_lines(columns, runs[:_RUNS], width, colour)
    if len(runs) > _RUNS:
        yield f"… and {len(runs) - _RUNS} earlier runs (--json shows all)"


def _outcome(run: Run) -> str:
    if run.ended is None:
        return "running"
    exited = "" if run.exit_code in (None, 0) else f", exit {run.exit_code}"
    return (run.outcome or "ended") + exited
