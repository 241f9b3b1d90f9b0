"""`city session show`: where one session stands, why, and what it ran."""

import time
from collections.abc import Iterator, Sequence

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.output import ago, table, wrap
from gascity.cli.session_names import session_argument, the_session
from gascity.cli.session_rows import run_row, session_row, shown_path
from gascity.cli.session_view import as_seen
from gascity.model.durations import spoken
from gascity.model.work import Nudge, Run, Session, Work

_LABEL = 11
_RUNS = 10  # that people see; JSON has all


@click.command("show")
@session_argument
@json_option
@pass_context
def show_session(context: Context, reference: str | None) -> int:
    """Show one session: its state and the reason, its work, directory, log and runs."""
    [session] = as_seen(context, [the_session(context, reference)])
    store = context.store()
    runs = store.runs(session=session.id)
    work = store.work(session.work) if session.work else None
    nudges = store.nudges(session.id)
    context.say(
        lambda: {
            "session": session_row(session, context.root),
            "runs": [run_row(run, context.root) for run in runs],
            "nudges": [nudge.text for nudge in nudges],
        },
        lambda: _lines(context, session, work, runs, nudges),
    )
    return 0


def _lines(
    context: Context,
    session: Session,
    work: Work | None,
    runs: Sequence[Run],
    nudges: Sequence[Nudge],
) -> Iterator[str]:
    now = time.time()
    facts = [*_who(session), *_how(session, work, now), *_where(context.root, session, runs)]
    facts += [("Nudge:", nudge.text) for nudge in nudges]
    for label, text in facts:
        if text:
            first, *rest = wrap(text, max(20, context.width - _LABEL))
            yield f"{label:<{_LABEL}}{first}"
            yield from (" " * _LABEL + line for line in rest)
    if runs:
        yield ""
        yield from _run_lines(runs, now, context.width)


def _who(session: Session) -> Iterator[tuple[str, str]]:
    yield "Session:", session.alias
    yield "Name:", session.name
    yield "Id:", session.id
    kind = "in a terminal" if session.interactive else "one run an item"
    yield "Agent:", f"{session.agent} ({session.origin}, {kind})"


def _how(session: Session, work: Work | None, now: float) -> Iterator[tuple[str, str]]:
    reason = f": {session.reason}" if session.reason else ""
    yield "State:", session.state + reason
    if session.retry_at is not None and session.retry_at > now:
        yield "Again:", f"in {ago(now, session.retry_at)}"
    yield "Asked:", session.asked
    yield "Pending:", f"a restart, {session.pending}" if session.pending else ""
    yield "Work:", f"{work.id} {work.title}" if work else session.work
    yield "Process:", _process(session)
    yield "Started:", _past(session.started, now) if session.started else ""
    yield "Attached:", "yes" if session.attached else ""
    yield "Pinned:", _past(session.pinned, now) if session.pinned else ""
    yield "Last said:", session.snippet


def _past(at: float, now: float) -> str:
    words = ago(at, now)
    return "just now" if words == "now" else f"{words} ago"


def _process(session: Session) -> str:
    if not session.pid:
        return ""
    return f"{session.pid} ({session.runtime}, start {session.generation})"


def _where(root: str, session: Session, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    yield "Directory:", shown_path(root, session.workdir)
    yield "Branch:", session.branch
    yield "Resumes:", session.conversation
    if runs:
        yield "Log:", shown_path(root, runs[0].log)


def _run_lines(runs: Sequence[Run], now: float, columns: int) -> Iterator[str]:
    rows = [
        [
            str(run.id),
            run.work or run.about or "-",
            _past(run.started, now),
            spoken(max(0.0, (run.ended or now) - run.started)),
            _outcome(run),
        ]
        for run in runs[:_RUNS]
    ]
    yield from table(rows, ("RUN", "WORK", "STARTED", "TOOK", "OUTCOME"), columns)
    if len(runs) > _RUNS:
        yield f"… and {len(runs) - _RUNS} before; --json has them all"


def _outcome(run: Run) -> str:
    if run.ended is None:
        return "goes on"
    exited = "" if run.exit_code in (None, 0) else f", exit {run.exit_code}"
    return (run.outcome or "ended") + exited
