"""`city session peek|logs`: what a session shows, and what its runs printed."""

import os
import sys
import time
from collections.abc import Iterable, Iterator

import click

from gascity.cli.context import Context, pass_context
from gascity.cli.output import clean
from gascity.cli.session_names import session_argument, the_session
from gascity.cli.session_rows import called
from gascity.model.problems import CityError, Problem
from gascity.model.work import STARTING, Run, Session
from gascity.runtimes.logs import cut_line, read_log, tail
from gascity.runtimes.runtime import handle_of

_PAUSE = 0.15  # between two looks at how long a log is
_PIECE = 1 << 16
lines_option = click.option(
    "--lines", metavar="N", type=click.IntRange(min=0), help="Only so many of the last lines."
)

raw_option = click.option("--raw", is_flag=True, help="As it was printed: of models, mostly JSON.")


@click.command("peek")
@session_argument
@lines_option
@pass_context
def peek(context: Context, reference: str | None, lines: int | None) -> int:
    """Show the last lines of a session: of its terminal, or of its log (50)."""
    session = the_session(context, reference)
    most = 50 if lines is None else lines
    run = _run(context, session, None)
    if session.interactive and session.run == run.id:
        from gascity.runtimes.tmux import TmuxRuntime

        text = TmuxRuntime(context.root, context.environ).peek(handle_of(run), most)
        _show(text.encode(errors="surrogateescape"))
    else:
        print_log(run.log, most, form_of(context, session.agent, session))
    return 0


@click.command("logs")
@session_argument
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on while the session runs.")
@lines_option
@click.option("--run", "number", metavar="N", type=int, help="Of this run: `session show` lists.")
@raw_option
@pass_context
def logs(
    context: Context,
    reference: str | None,
    follows: bool,
    lines: int | None,
    number: int | None,
    raw: bool,
) -> int:
    """Show what a session's last run printed, or goes on printing.

    Of a model that is what it said, and which tools it used.
    """
    session = the_session(context, reference)
    form = "" if raw else form_of(context, session.agent, session)
    if follows:
        if number is not None:
            raise click.UsageError("--run shows one run, --follow those to come: choose one")
        follow(context, session, lines, form)
        return 0
    print_log(_run(context, session, number).log, lines, form)
    return 0


def form_of(context: Context, agent: str, session: Session | None) -> str:
    """The shape of what an agent's runs print, if that is not for people to read."""
    if session is not None and session.interactive:
        return ""
    from gascity.pipeline import open_agent

    try:
        city, found = open_agent(context.root, context.environ, agent)
    except CityError:
        return ""
    provider = city.providers.get(found.provider)
    form = provider.text("headless.output") if provider is not None else ""
    return form if form != "text" else ""


def print_log(path: str, lines: int | None, form: str = "") -> None:
    """What a run printed: all of it, or its last lines; with a form, as people read it."""
    if not os.path.exists(path):
        return
    if lines is not None and form:
        told = b"".join(_as_read(form, read_log(path))).splitlines(keepends=True)
        _show(b"".join(told[-lines:] if lines else []))
    elif lines is not None:
        _show(tail(path, lines).encode(errors="surrogateescape"))
    else:
        for line in _as_read(form, read_log(path)):
            _show(line)


def _as_read(form: str, lines: Iterable[bytes]) -> Iterable[bytes]:
    if not form:
        return lines
    from gascity.render.outputs import readable

    return readable(form, lines)


def as_seen(context: Context, sessions: Iterable[Session]) -> list[Session]:
    """The sessions, those in terminals with whether somebody looks at them right now."""
    found = list(sessions)
    for at, session in enumerate(found):
        run = context.store().run(session.run) if session.interactive and session.run else None
        if run is not None:
            from gascity.runtimes.tmux import TmuxRuntime

            looks = TmuxRuntime(context.root, context.environ).attached(handle_of(run))
            if looks is not None:
                found[at] = session._replace(attached=looks)
    return found


def _run(context: Context, session: Session, number: int | None) -> Run:
    """One run of the session, by default its last; CityError if there is none."""
    runs = context.store().runs(session=session.id)
    for run in runs:
        if number in (None, run.id):
            return run
    if number is None:
        words = f"`{called(session)}` has not run anything yet: it is {session.state}"
        raise CityError(Problem("no-run", words, None, session.reason or None))
    known = ", ".join(str(run.id) for run in runs[:10])
    words = f"`{called(session)}` has no run {number}"
    raise CityError(Problem("no-run", words, None, f"it has {known}" if known else None))


def follow(
    context: Context, session: Session, lines: int | None = None, form: str | None = None
) -> None:
    """Print what its run prints, and that of runs to come, until the session runs nothing."""
    store = context.store()
    shape = form_of(context, session.agent, session) if form is None else form
    current: Session | None = session
    seen = 0
    while current is not None and current.state == STARTING and not current.run:
        time.sleep(_PAUSE)
        current = store.session(session.id)
    run = next(iter(store.runs(session=session.id)), None)
    while run is not None and run.id != seen:
        seen = run.id
        pieces = _growing(context, run, lines)
        for piece in _as_read(shape, _whole_lines(pieces)) if shape else pieces:
            _show(piece)
        current = store.session(session.id)
        run = store.run(current.run) if current is not None and current.run else None
        lines = None


def _growing(context: Context, run: Run, lines: int | None) -> Iterator[bytes]:
    """A log from its beginning, or its last lines, to the end of its run."""
    store = context.store()
    at = 0
    if lines is not None and os.path.exists(run.log):
        at = os.path.getsize(run.log)
        yield tail(run.log, lines).encode(errors="surrogateescape")
    while True:
        now = store.run(run.id)
        over = now is None or now.ended is not None
        while True:
            piece, at = _read(run.log, at)
            if not piece:
                break
            yield piece
        if over:
            return
        time.sleep(_PAUSE)


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _read(path: str, at: int) -> tuple[bytes, int]:
    """What is in a log from there on and where that ends; a line in place of what was cut out."""
    try:
        with open(path, "rb", buffering=0) as file:
            start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            if start > at:
                return cut_line(start - at), start
            size = os.lseek(file.fileno(), start, os.SEEK_HOLE) - start
            os.lseek(file.fileno(), start, os.SEEK_SET)
            piece = file.read(min(size, _PIECE))
            return piece, start + len(piece)
    except OSError:  # at the end, or not there yet
        return b"", at


def _show(data: bytes) -> None:
    """As it is in a pipe; on a terminal, nothing in it can move the cursor."""
    if sys.stdout.isatty():
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        data = clean(text).encode("utf-8", "replace")
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
