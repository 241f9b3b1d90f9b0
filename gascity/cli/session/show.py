"""`city session list` and `show`."""

import time
from collections.abc import Iterable, Iterator, Sequence

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.identity import access
from gascity.cli.lists import PAGE, list_options, output_list, row_limit
from gascity.cli.output import display_path, time_ago
from gascity.cli.records import run_row, session_row, session_table
from gascity.cli.session.find import find_agent_name, session_command
from gascity.cli.session.terminal import find_provider
from gascity.cli.tables import Column, fact_lines
from gascity.model.names import parse_name
from gascity.model.problems import Problem
from gascity.model.values import format_duration
from gascity.model.work import STATES, Run, Session, Work
from gascity.runtimes.port import handle_of
from gascity.store.port import SessionKey

_LABEL = 13
_RUNS = 10  # runs in the table; JSON has all


@json_command(
    "list",
    examples=(
        "city session list",
        "city session list --agent mayor --all",
        "city session list --state running",
    ),
    page="how-to/sessions",
)
@agent_option()
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(STATES),
    help=f"Filter by state: {', '.join(STATES)}.",
)
@click.option("--all", "everything", is_flag=True, help="Show all sessions, same as --limit 0.")
@list_options
def list_sessions(
    context: CommandContext,
    agent: str | None,
    states: tuple[str, ...],
    everything: bool,
    limit: int | None,
) -> int:
    """List sessions.

    Pinned ones come first, then live ones, then the latest that ended.
    """
    store = context.store_if_any()
    seen = access(context)
    keys = store.session_keys() if store is not None else []
    keys = [key for key in keys if seen.sees(key.agent)]
    if agent is not None:
        keys = _of_agent(context, keys, agent)
    ids = [key.id for key in keys if not states or key.state in states]
    shown = ids[: row_limit(context, 0 if everything and limit is None else limit)]
    sessions = _with_attached(context, _read_sessions(context, shown))
    return output_list(
        context,
        "sessions",
        (session_row(session, context.root) for session in sessions),
        lambda: session_table(context, list(sessions)),
        len(ids) - len(shown),
    )


def _read_sessions(context: CommandContext, ids: Sequence[str]) -> Iterator[Session]:
    for start in range(0, len(ids), PAGE):
        yield from context.store().sessions_by_id(ids[start : start + PAGE])


def _of_agent(
    context: CommandContext, sessions: list[SessionKey], reference: str
) -> list[SessionKey]:
    """Filter by an agent name, qualified or not; the city is read only if nothing matches."""
    wanted = parse_name(reference)
    matches = []
    for session in sessions:
        name = parse_name(session.agent)
        same = name.bare == wanted.bare and wanted.rig in (None, name.rig)
        if same and wanted.binding in (None, name.binding):
            matches.append(session)
    if not matches:
        find_agent_name(context, reference)  # raises for an unknown agent
    return matches


def _with_attached(context: CommandContext, sessions: Iterable[Session]) -> Iterator[Session]:
    """Yield the sessions; those in terminals with their current `attached` state."""
    for session in sessions:
        run = context.store().run(session.run) if session.interactive and session.run else None
        attached = run and context.runtime(session.runtime).attached(handle_of(run))
        yield session if attached is None else session._replace(attached=attached)


@session_command("show", "city session show mayor-1", "city session show mayor-1 --json")
def show_session(context: CommandContext, session: Session) -> int:
    """Show a session and its runs."""
    [session] = _with_attached(context, [session])
    store = context.store()
    runs = store.runs(session=session.id)
    work = store.work(session.work) if session.work else None
    nudges = [nudge.text for nudge in store.nudges(session.id)]
    problems = _setting_problems(context, session)
    return context.output(
        lambda: {
            "session": session_row(session, context.root),
            "runs": [run_row(run, context.root) for run in runs],
            "nudges": nudges,
            "problems": context.problems_json(problems),
        },
        lambda: _show_lines(context, session, work, runs, nudges),
        problems,
    )


def _setting_problems(context: CommandContext, session: Session) -> list[Problem]:
    """Return settings of the agent that this session cannot follow."""
    from gascity.render.ignored_settings import ignored_wake_mode

    agent, provider = find_provider(context, session)
    if agent is None or provider is None:
        return []
    return list(ignored_wake_mode(provider, agent, terminals=session.interactive))


def _show_lines(
    context: CommandContext,
    session: Session,
    work: Work | None,
    runs: Sequence[Run],
    nudges: Sequence[str],
) -> Iterator[str]:
    now = time.time()
    facts = [*_identity(session), *_state(session, work, now), *_files(context.root, session, runs)]
    facts += [("Nudge", nudge) for nudge in nudges]
    yield from fact_lines(facts, _LABEL, context.width)
    if runs:
        yield ""
        yield from context.table(_run_columns(now), runs[:_RUNS])
    if len(runs) > _RUNS:
        yield f"… and {len(runs) - _RUNS} earlier runs (--json shows all)"


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
    if session.pid:
        yield "Process", f"{session.pid} ({session.runtime}, generation {session.generation})"
    yield "Started", _past(session.started, now) if session.started else ""
    yield "Attached", "yes" if session.attached else ""
    yield "Pinned", _past(session.pinned, now) if session.pinned else ""
    yield "Last output", session.snippet


def _past(at: float, now: float) -> str:
    age = time_ago(at, now)
    return "just now" if age == "now" else f"{age} ago"


def _files(root: str, session: Session, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    yield "Directory", display_path(root, session.workdir)
    yield "Branch", session.branch
    yield "Resumes", session.conversation
    if runs:
        yield "Log", display_path(root, runs[0].log)


def _run_columns(now: float) -> tuple[Column[Run], ...]:
    def duration(run: Run) -> str:
        return format_duration(max(0.0, (run.ended or now) - run.started))

    return (
        Column("", lambda run: run.id, "RUN"),
        Column("", lambda run: run.work or run.about, "WORK"),
        Column("", lambda run: _past(run.started, now), "STARTED"),
        Column("", duration, "DURATION"),
        Column("", _outcome, "OUTCOME"),
    )


def _outcome(run: Run) -> str:
    if run.ended is None:
        return "running"
    exited = "" if run.exit_code in (None, 0) else f", exit {run.exit_code}"
    return (run.outcome or "ended") + exited
