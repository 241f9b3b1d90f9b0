"""`city session stop|clear`, and what packs call kill, wake and reset: asked of the controller."""

import time
from collections.abc import Iterator

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.session_names import session_argument, the_session
from gascity.cli.session_rows import called, session_row
from gascity.cli.session_wait import ask, wait_until
from gascity.control.inspect import is_over
from gascity.model.problems import CityError, Problem
from gascity.model.work import CLAIMED, LIVE, OPEN, STOPPING, Session
from gascity.runtimes.process import ProcessRuntime
from gascity.runtimes.runtime import handle_of
from gascity.runtimes.tmux import TmuxRuntime

_LONGEST = 60.0  # that a session may take to do what it is asked


@click.command("stop")
@session_argument
@click.option("--now", is_flag=True, help="Kill it, without time to end by itself.")
@json_option
@pass_context
def stop(context: Context, reference: str | None, now: bool) -> int:
    """End what a session does. Its work is open again, its directory stays."""
    before = the_session(context, reference)
    after = before if is_over(before) else stop_and_wait(context, before, now=now)
    work = context.store().work(before.work) if before.work else None
    context.say(
        lambda: {
            "session": session_row(after, context.root),
            "work": {"id": work.id, "status": work.status} if work else None,
        },
        lambda: _stopped(before, after, work and work.status),
    )
    return 0


def stop_and_wait(context: Context, session: Session, *, now: bool = False) -> Session:
    """Have a session stopped; CityError if that takes too long."""
    doing = f"{called(session)} is to stop"
    after = ask(context, session, "stop")
    if now:
        # Only once the controller has seen it: a death before would be a loss, not a stop.
        after = wait_until(context, after, _ending, _LONGEST, doing)
        _kill(context, after)
    after = wait_until(context, after, is_over, _LONGEST, doing)
    if not is_over(after):
        words = f"`{called(session)}` has not stopped yet: it is {after.state}"
        hint = "`--now` kills it; `city session show` says how it stands"
        raise CityError(Problem("still-there", words, None, hint))
    return after


def _ending(session: Session) -> bool:
    return session.state == STOPPING or is_over(session)


def _kill(context: Context, session: Session) -> None:
    run = context.store().run(session.run) if session.run else None
    if run is None or run.ended is not None:
        return
    if session.interactive:
        TmuxRuntime(context.root, context.environ).kill(handle_of(run))
    else:
        ProcessRuntime().kill(handle_of(run))


def _stopped(before: Session, after: Session, work: str | None) -> Iterator[str]:
    if is_over(before):
        yield f"{called(before)} is {before.state} already; nothing to do."
        return
    yield f"{called(after)} is {after.state}: {after.reason}".removesuffix(": ") + "."
    if work == OPEN:
        yield f"Its work {before.work} is open again, and will be taken by another session."
    elif work == CLAIMED:
        yield f"Its work {before.work} is already with another session."
    elif work is not None:
        yield f"Its work {before.work} is {work}."


@click.command("clear")
@session_argument
@json_option
@pass_context
def clear(context: Context, reference: str | None) -> int:
    """Let a session forget its conversation; its agent, name and directory stay.

    The conversation so far cannot be gone on with. What runs is ended first.
    """
    return _clear(context, reference)


@click.command("reset", hidden=True)
@session_argument
@json_option
@pass_context
def reset(context: Context, reference: str | None) -> int:
    """The same as `clear`, as packs call it."""
    return _clear(context, reference)


def _clear(context: Context, reference: str | None) -> int:
    session = the_session(context, reference)
    if session.state in LIVE:
        session = asked_and_done(context, session, "clear")
    else:
        changes = {"conversation": "", "snippet": "", "crashes": 0, "retry_at": None}
        session = context.store().set_session(
            session.id, changes, time.time(), event="session.cleared"
        )
    return _answer(context, session, f"{called(session)} has forgotten its conversation.")


@click.command("kill", hidden=True)
@session_argument
@json_option
@pass_context
def kill(context: Context, reference: str | None) -> int:
    """End what a session runs and start it again."""
    session = the_session(context, reference)
    return _ask_and_answer(context, session, "restart", "is to start again")


@click.command("wake", hidden=True)
@session_argument
@json_option
@pass_context
def wake(context: Context, reference: str | None) -> int:
    """Start a session that is stopped; one that is there is left alone."""
    session = the_session(context, reference)
    if session.state in LIVE:
        return _answer(context, session, f"{called(session)} is {session.state} already.")
    return _ask_and_answer(context, session, "start", "is to start")


def _ask_and_answer(context: Context, session: Session, what: str, words: str) -> int:
    session = ask(context, session, what)
    return _answer(context, session, f"{called(session)} {words}.")


def _answer(context: Context, session: Session, text: str) -> int:
    context.say(lambda: {"session": session_row(session, context.root)}, lambda: [text])
    return 0


def asked_and_done(context: Context, session: Session, what: str) -> Session:
    """Ask, and wait until the controller has seen to it; CityError if that takes too long."""
    asked = ask(context, session, what)
    doing = f"{called(session)} is to {what}"
    after = wait_until(context, asked, lambda one: not one.asked, _LONGEST, doing)
    if after.asked:
        words = f"`{called(session)}` has not been seen to yet: it is {after.state}"
        hint = "`city status` says if a controller runs"
        raise CityError(Problem("still-there", words, None, hint))
    return after
