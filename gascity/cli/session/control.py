"""`city session stop|clear|delete`, and kill, wake and reset as packs call them."""

import time
from collections.abc import Iterator

import click

from gascity.cli.command import command
from gascity.cli.context import CommandContext, json_option, pass_context
from gascity.cli.identity import actor, caller
from gascity.cli.output import display_path
from gascity.cli.problems import city_error
from gascity.cli.session.find import resolve_session, session_argument
from gascity.cli.session.rows import session_name, session_row
from gascity.cli.session.wait import request_action, wait_until
from gascity.control.client import controller_state
from gascity.control.status import is_over
from gascity.model.problems import CityError
from gascity.model.work import CLAIMED, LIVE, OPEN, POOL, STARTING, STOPPING, Session
from gascity.runtimes.port import handle_of
from gascity.workdir.session_directory import remove_directory

# A session that starts may be given the deleted directory; wait for it to record its own.
_START_POLL, _START_TIMEOUT = 0.05, 20.0
_TIMEOUT = 60.0  # seconds that the controller may take to act


@command(
    "stop",
    examples=(
        "city session stop mayor-1",
        "city session stop mayor-1 --now",
    ),
    page="how-to/sessions",
)
@session_argument
@click.option("--now", is_flag=True, help="Kill it without a grace period.")
@json_option
@pass_context
def stop(context: CommandContext, reference: str | None, now: bool) -> int:
    """Stop a session.

    Its work item is queued again; its directory stays.
    """
    before = resolve_session(context, reference)
    after = before if is_over(before) else stop_and_wait(context, before, now=now)
    work = context.store().work(before.work) if before.work else None
    context.output(
        lambda: {
            "session": session_row(after, context.root),
            "work": {"id": work.id, "status": work.status} if work else None,
        },
        lambda: _stopped(before, after, work and work.status),
    )
    return 0


def stop_and_wait(context: CommandContext, session: Session, *, now: bool = False) -> Session:
    """Stop a session and wait for it; CityError if that takes too long."""
    doing = f"{session_name(session)} stops"
    after = request_action(context, session, "stop")
    if now:
        # Kill only once the controller knows: before, it would see a crash and restart it.
        after = wait_until(context, after, _ending, _TIMEOUT, doing)
        _kill(context, after)
    after = wait_until(context, after, is_over, _TIMEOUT, doing)
    if not is_over(after):
        message = f"`{session_name(session)}` is still {after.state}"
        hint = "pass --now to kill it; `city session show` shows its state"
        raise city_error("still-there", message, hint)
    return after


def _ending(session: Session) -> bool:
    return session.state == STOPPING or is_over(session)


def _kill(context: CommandContext, session: Session) -> None:
    run = context.store().run(session.run) if session.run else None
    if run is None or run.ended is not None:
        return
    context.runtime(run.runtime).kill(handle_of(run))


def _stopped(before: Session, after: Session, work: str | None) -> Iterator[str]:
    if is_over(before):
        yield f"{session_name(before)} is already {before.state}."
        return
    yield f"{session_name(after)} is {after.state}: {after.reason}".removesuffix(": ") + "."
    if work == OPEN:
        yield f"Its work item {before.work} is queued again."
    elif work == CLAIMED:
        yield f"Another session is already working on {before.work}."
    elif work is not None:
        yield f"Its work item {before.work} is {work}."


@command("clear", examples=("city session clear mayor-1",), page="how-to/sessions")
@session_argument
@json_option
@pass_context
def clear(context: CommandContext, reference: str | None) -> int:
    """Clear a session's conversation.

    Its agent, name and directory stay. A running process is stopped first.
    """
    return _clear(context, reference)


@click.command("reset", hidden=True)
@session_argument
@json_option
@pass_context
def reset(context: CommandContext, reference: str | None) -> int:
    """Clear a session's conversation; the name that packs call."""
    return _clear(context, reference)


def _clear(context: CommandContext, reference: str | None) -> int:
    session = resolve_session(context, reference)
    if session.state in LIVE:
        session = request_and_wait(context, session, "clear")
    else:
        changes = {"conversation": "", "snippet": "", "crashes": 0, "retry_at": None}
        session = context.store().update_session(
            session.id, changes, time.time(), event="session.cleared"
        )
    return _answer(context, session, f"{session_name(session)} has a new conversation.")


@command(
    "delete",
    examples=(
        "city session delete mayor-1",
        "city session delete mayor-1 --force",
    ),
    page="how-to/sessions",
)
@session_argument
@click.option(
    "--force", is_flag=True, help="Stop it first, and discard work that exists nowhere else."
)
@json_option
@pass_context
def delete(context: CommandContext, reference: str | None, force: bool) -> int:
    """Delete a session, its directory and its logs.

    Refused for a live session, and if the directory holds work that exists nowhere
    else.
    """
    session = resolve_session(context, reference)
    if not is_over(session):
        if not force:
            raise _not_stopped(session)
        session = stop_and_wait(context, session)
    _remove_directory(context, session, force)
    store = context.store()
    runs = store.runs(session=session.id)
    runtimes = {run.runtime: context.runtime(run.runtime) for run in runs}
    store.delete_session(session.id, time.time(), actor(caller(context.environ)))
    for run in runs:
        runtimes[run.runtime].forget(handle_of(run))
        runtimes[run.runtime].logs.delete(run.log)
    context.output(
        lambda: {"session": session_row(session, context.root)},
        lambda: [f"Deleted session {session_name(session)} (worktree, logs)."],
    )
    return 0


def _not_stopped(session: Session) -> CityError:
    message = f"`{session_name(session)}` is {session.state}; only a stopped session can be deleted"
    hint = f"run `city session stop {session.alias}` first, or pass --force"
    return city_error("still-there", message, hint)


def _remove_directory(context: CommandContext, session: Session, force: bool) -> None:
    """Remove the directory unless another session uses it; CityError if work would be lost."""
    deadline = time.monotonic() + _START_TIMEOUT

    def in_use() -> list[str]:
        others = [other for other in context.store().sessions() if other.id != session.id]
        starting = (o for o in others if o.state == STARTING and o.agent == session.agent)
        if any(starting) and controller_state(context.root).running:
            if time.monotonic() < deadline:
                raise _UnknownYetError  # it may use this directory without having recorded it
            return [session.workdir]
        # An ended pool session never returns to its directory.
        return [o.workdir for o in others if not (is_over(o) and o.origin == POOL)]

    while True:
        try:
            reasons = remove_directory(
                context.root, session.workdir, context.environ, taken=in_use, force=force
            )
            break
        except _UnknownYetError:
            time.sleep(_START_POLL)
    if reasons:
        message = f"{display_path(context.root, session.workdir)}: {'; '.join(reasons)}"
        hint = "nothing was removed; save the work, or pass --force to discard it"
        raise city_error("would-lose", message, hint)


class _UnknownYetError(Exception):
    """The directories in use are not known yet."""


@click.command("kill", hidden=True)
@session_argument
@json_option
@pass_context
def kill(context: CommandContext, reference: str | None) -> int:
    """Restart a session; the name that packs call."""
    session = resolve_session(context, reference)
    return _ask_and_answer(context, session, "restart", "restarts")


@click.command("wake", hidden=True)
@session_argument
@json_option
@pass_context
def wake(context: CommandContext, reference: str | None) -> int:
    """Start a stopped session; the name that packs call."""
    session = resolve_session(context, reference)
    if session.state in LIVE:
        return _answer(context, session, f"{session_name(session)} is already {session.state}.")
    return _ask_and_answer(context, session, "start", "starts")


def _ask_and_answer(context: CommandContext, session: Session, what: str, message: str) -> int:
    session = request_action(context, session, what)
    return _answer(context, session, f"{session_name(session)} {message}.")


def _answer(context: CommandContext, session: Session, text: str) -> int:
    context.output(lambda: {"session": session_row(session, context.root)}, lambda: [text])
    return 0


def request_and_wait(context: CommandContext, session: Session, what: str) -> Session:
    """Request an action and wait until the controller has done it; CityError on a timeout."""
    requested = request_action(context, session, what)
    doing = f"{session_name(session)} {what}"
    after = wait_until(context, requested, lambda current: not current.asked, _TIMEOUT, doing)
    if after.asked:
        message = f"`{session_name(session)}` was not handled in time; it is {after.state}"
        hint = "run `city status` to see whether a controller is running"
        raise city_error("still-there", message, hint)
    return after
