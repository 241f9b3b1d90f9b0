"""`city session nudge|rename|pin|unpin`: put down in the store, whoever runs."""

import time

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.identity import actor, caller
from gascity.cli.output import moment
from gascity.cli.session_names import (
    named_session_argument,
    session_argument,
    the_session,
)
from gascity.cli.session_rows import called, session_row
from gascity.control.inspect import is_over
from gascity.model.problems import CityError, Problem
from gascity.model.work import LIVE, RUNNING, Session
from gascity.store.port import Store


@click.command("nudge")
@named_session_argument
@click.argument("text")
@json_option
@pass_context
def nudge(context: Context, reference: str, text: str) -> int:
    """Leave a session a text: it reads it at its next turn."""
    session = the_session(context, reference)
    if not text.strip():
        raise click.UsageError("the text is empty")
    kept = context.store().add_nudge(session.id, text, time.time(), actor(caller(context.environ)))
    context.say(
        lambda: {
            "nudge": {"id": kept.id, "session": session.id, "text": text, "at": moment(kept.at)},
            "session": session_row(session, context.root),
        },
        lambda: [f"{called(session)} gets it {_when(session)}."],
    )
    return 0


def _when(session: Session) -> str:
    if is_over(session):
        return f"when it runs again; it is {session.state}"
    if session.interactive and session.state in LIVE:
        return "as soon as it is ready for input"
    if session.state == RUNNING:
        return "at its next turn, after what it does now"
    return "at its next turn"


def refuse_taken(store: Store, name: str, but: str = "") -> None:
    """A name that a session has which is there, or will be again, cannot be another's."""
    for one in store.sessions():
        if one.id != but and name in (one.name, one.alias) and not is_over(one):
            words = f"`{name}` is what session {one.id[:8]} of `{one.agent}` is called"
            raise CityError(Problem("name-taken", words, None, "choose another name"))


def checked_name(name: str) -> str:
    """A name that a person gives; it has to be one line that can be printed."""
    name = name.strip()
    if not name or not name.isprintable() or len(name) > 100 or name.startswith("-"):
        words = "a session's name is 1 to 100 printable characters, no dash first"
        raise CityError(Problem("bad-name", words))
    return name


@click.command("rename")
@named_session_argument
@click.argument("name")
@json_option
@pass_context
def rename(context: Context, reference: str, name: str) -> int:
    """Give a session a name of your own. Its alias and id stay."""
    session, name = the_session(context, reference), checked_name(name)
    refuse_taken(context.store(), name, session.id)
    session = _change(context, session, {"name": name}, "session.renamed", {"name": name})
    return _answer(context, session, f"{session.alias} is called {name}.")


@click.command("pin")
@session_argument
@json_option
@pass_context
def pin(context: Context, reference: str | None) -> int:
    """Put a session on top of the list, and keep it from being restarted or ended.

    Work goes where it went before.
    """
    session = the_session(context, reference)
    session = _change(context, session, {"pinned": time.time()}, "session.pinned")
    return _answer(context, session, f"{called(session)} is pinned.")


@click.command("unpin")
@session_argument
@json_option
@pass_context
def unpin(context: Context, reference: str | None) -> int:
    """Take a session off the top of the list again."""
    session = the_session(context, reference)
    session = _change(context, session, {"pinned": None}, "session.unpinned")
    return _answer(context, session, f"{called(session)} is not pinned.")


def _change(
    context: Context,
    session: Session,
    changes: dict[str, object],
    event: str,
    told: dict[str, object] | None = None,
) -> Session:
    return context.store().set_session(
        session.id,
        changes,
        time.time(),
        event=event,
        data=told,
        actor=actor(caller(context.environ)),
    )


def _answer(context: Context, session: Session, text: str) -> int:
    context.say(lambda: {"session": session_row(session, context.root)}, lambda: [text])
    return 0
