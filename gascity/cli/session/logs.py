"""`city session peek`, `city session logs` and `city work logs`."""

import time
from collections.abc import Iterable, Iterator

import click

from gascity.cli.command import command
from gascity.cli.completers import complete_work
from gascity.cli.context import CommandContext, pass_context
from gascity.cli.identity import access
from gascity.cli.problems import city_error
from gascity.cli.records import find_work, session_name
from gascity.cli.session.find import complete_session, find_session, session_command
from gascity.cli.terminal import ContentWriter
from gascity.model.problems import CityError
from gascity.model.work import CLAIMED, STARTING, Run, Session, Work, status_word
from gascity.runtimes.port import RunLogs, handle_of


def complete_work_or_session(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Complete work ids and session names."""
    words = complete_session(ctx, parameter, incomplete)
    return words + complete_work(ctx, parameter, incomplete)


_POLL = 0.15  # seconds between two reads of a growing log
lines_option = click.option(
    "-n",
    "--lines",
    metavar="N",
    type=click.IntRange(min=0),
    help="Number of lines to show from the end.",
)

raw_option = click.option(
    "--raw",
    is_flag=True,
    help="Print the log unformatted (for most providers, JSON), with its control characters.",
)


follow_option = click.option("-f", "--follow", "follows", is_flag=True, help="Follow log output.")


@session_command("peek", "city session peek mayor-1", "city session peek mayor-1 -n 10", json=False)
@lines_option
@raw_option
def peek(context: CommandContext, session: Session, lines: int | None, raw: bool) -> int:
    """Show the last lines of a session's output.

    Reads its terminal, or its log if it has none. Shows 50 lines by default.
    """
    most = 50 if lines is None else lines
    run = _run(context, session, None)
    if session.interactive and session.run == run.id:
        text = context.runtime(session.runtime).peek(handle_of(run), most)
        _print([text.encode(errors="surrogateescape")], raw)
    else:
        form = "" if raw else log_format(context, session.agent, session)
        _print_log(context.runtime(run.runtime).logs, run.log, most, form, raw)
    return 0


@session_command(
    "logs",
    "city session logs mayor-1",
    "city session logs mayor-1 -f",
    "city session logs mayor-1 --run 3 --raw",
    json=False,
)
@follow_option
@lines_option
@click.option(
    "--run", "number", metavar="N", type=int, help="Show this run (see `city session show`)."
)
@raw_option
def logs(
    context: CommandContext,
    session: Session,
    follows: bool,
    lines: int | None,
    number: int | None,
    raw: bool,
) -> int:
    """Show a session's log.

    Shows what the model said and which tools it used.
    """
    if follows and number is not None:
        raise click.UsageError("pass --run or --follow, not both")
    return _show_session_log(context, session, follows, lines, raw, number)


def _show_session_log(
    context: CommandContext,
    session: Session,
    follows: bool,
    lines: int | None,
    raw: bool,
    number: int | None = None,
) -> int:
    form = "" if raw else log_format(context, session.agent, session)
    if follows:
        follow(context, session, lines, raw)
        return 0
    run = _run(context, session, number)
    _print_log(context.runtime(run.runtime).logs, run.log, lines, form, raw)
    return 0


@command("logs", examples=("city work logs w-1", "city work logs w-1 -f"), page="how-to/work")
@click.argument("work", shell_complete=complete_work)
@follow_option
@lines_option
@raw_option
@pass_context
def work_logs(
    context: CommandContext, work: str, follows: bool, lines: int | None, raw: bool
) -> int:
    """Show the log of a work item's last run.

    Shows what the model said and which tools it used.
    """
    return _show_work_log(context, find_work(context, work), follows, lines, raw)


def _show_work_log(
    context: CommandContext, item: Work, follows: bool, lines: int | None, raw: bool
) -> int:
    if not item.log:
        raise city_error("no-run", f"{item.id} has not run yet (it is {status_word(item.status)})")
    session = context.store().session(item.session) if item.session else None
    run_logs = logs_of_work(context, item)
    if run_logs.size(item.log) is None:
        cause = f"its session {item.session} was deleted" if session is None else "it was deleted"
        raise city_error("no-run", f"the log of {item.id} no longer exists: {cause}")
    form = "" if raw else log_format(context, item.agent, session)
    if follows and item.status == CLAIMED and session is not None:
        follow(context, session, lines, raw)
    else:
        _print_log(run_logs, item.log, lines, form, raw)
    return 0


@command(
    "logs",
    examples=("city logs w-1", "city logs mayor-1 -f", "city logs w-1 -n 20"),
    page="how-to/sessions",
)
@click.argument("reference", metavar="WORK|SESSION", shell_complete=complete_work_or_session)
@follow_option
@lines_option
@raw_option
@pass_context
def any_logs(
    context: CommandContext, reference: str, follows: bool, lines: int | None, raw: bool
) -> int:
    """Show the log of a work item or a session.

    Shows what the model said and which tools it used.
    """
    store = context.store_if_any()
    work_id = reference.rpartition("-")[2].isdecimal()
    if store is not None and store.find_sessions(reference) and store.work(reference) is None:
        work_id = False
    if work_id:
        return _show_work_log(context, find_work(context, reference), follows, lines, raw)
    session = find_session(context, reference)
    access(context).check_owner(session.agent, session.id, f"session {session.alias}")
    return _show_session_log(context, session, follows, lines, raw)


def log_format(context: CommandContext, agent: str, session: Session | None) -> str:
    """Return the format of an agent's log, if it is not plain text."""
    if session is not None and session.interactive:
        return ""
    from gascity.pipeline import open_agent

    try:
        city, loaded = open_agent(context.root, context.environ, agent)
    except CityError:
        return ""
    provider = city.provider_of(loaded)
    form = provider.facts.headless.output if provider is not None else ""
    return form if form != "text" else ""


def _print(pieces: Iterable[bytes], raw: bool) -> None:
    """Write log data: unchanged in a pipe or with --raw, escaped on a terminal."""
    writer = ContentWriter(raw)
    for piece in pieces:
        writer.write(piece)
    writer.finish()


def _print_log(run_logs: RunLogs, log: str, lines: int | None, form: str, raw: bool) -> None:
    """Print a log or its last lines, converted to readable text if a format is given."""
    if lines is not None and form:
        formatted = b"".join(_readable(form, run_logs.read(log))).splitlines(keepends=True)
        _print(formatted[-lines:] if lines else [], raw)
    elif lines is not None:
        _print([run_logs.tail(log, lines).encode(errors="surrogateescape")], raw)
    else:
        _print(_readable(form, run_logs.read(log)), raw)


def _readable(form: str, lines: Iterable[bytes]) -> Iterable[bytes]:
    if not form:
        return lines
    from gascity.render.run_output import readable

    return readable(form, lines)


def logs_of_work(context: CommandContext, work: Work) -> RunLogs:
    """Return the logs of a work item's run; local ones if no run is recorded."""
    from gascity.runtimes import local_logs

    run = next(iter(context.store().runs(work=work.id)), None)
    return local_logs() if run is None else context.runtime(run.runtime).logs


def _run(context: CommandContext, session: Session, number: int | None) -> Run:
    """Return a run of the session, by default the last; CityError if there is none."""
    runs = context.store().runs(session=session.id)
    for run in runs:
        if number in (None, run.id):
            return run
    if number is None:
        message = f"`{session_name(session)}` has not run yet (it is {session.state})"
        raise city_error("no-run", message, session.reason or None)
    known = ", ".join(str(run.id) for run in runs[:10])
    message = f"`{session_name(session)}` has no run {number}"
    raise city_error("no-run", message, f"its runs are {known}" if known else None)


def follow(
    context: CommandContext, session: Session, lines: int | None = None, raw: bool = False
) -> None:
    """Print the log of the current run and of later ones, until the session is idle."""
    store = context.store()
    shape = "" if raw else log_format(context, session.agent, session)
    current: Session | None = session
    seen = 0
    while current is not None and current.state == STARTING and not current.run:
        time.sleep(_POLL)
        current = store.session(session.id)
    run = next(iter(store.runs(session=session.id)), None)
    while run is not None and run.id != seen:
        seen = run.id
        pieces = _growing(context, run, lines)
        _print(_readable(shape, _whole_lines(pieces)) if shape else pieces, raw)
        current = store.session(session.id)
        run = store.run(current.run) if current is not None and current.run else None
        lines = None


def _growing(context: CommandContext, run: Run, lines: int | None) -> Iterator[bytes]:
    """Yield a log, or its last lines, as it grows until its run ends."""
    store = context.store()
    at = 0
    run_logs = context.runtime(run.runtime).logs
    if lines is not None:
        at = run_logs.size(run.log) or 0
        yield run_logs.tail(run.log, lines).encode(errors="surrogateescape")
    while True:
        now = store.run(run.id)
        over = now is None or now.ended is not None
        while True:
            piece, at = run_logs.read_from(run.log, at)
            if not piece:
                break
            yield piece
        if over:
            return
        time.sleep(_POLL)


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest
