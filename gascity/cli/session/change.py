"""`city session nudge|rename|pin|unpin`: changes in the store; they need no controller."""

import time

import click

from gascity.cli.command import command
from gascity.cli.context import CommandContext, json_option, pass_context
from gascity.cli.identity import actor, caller
from gascity.cli.output import timestamp
from gascity.cli.problems import city_error
from gascity.cli.session.find import named_session_argument, resolve_session, session_argument
from gascity.cli.session.rows import session_name, session_row
from gascity.control.status import is_over
from gascity.model.work import LIVE, RUNNING, Session
from gascity.store.port import Store


@command(
    "nudge", examples=("city session nudge mayor-1 'use the new API'",), page="how-to/sessions"
)
@named_session_argument
@click.argument("text")
@json_option
@pass_context
def nudge(context: CommandContext, reference: str, text: str) -> int:
    """Send a session a message for its next turn."""
    session = resolve_session(context, reference)
    if not text.strip():
        raise click.UsageError("TEXT is empty")
    nudge = context.store().add_nudge(session.id, text, time.time(), actor(caller(context.environ)))
    context.output(
        lambda: {
            "nudge": {
                "id": nudge.id,
                "session": session.id,
                "text": text,
                "at": timestamp(nudge.at),
            },
            "session": session_row(session, context.root),
        },
        lambda: [f"{session_name(session)} gets the message {_when(session)}."],
    )
    return 0


def _when(session: Session) -> str:
    if is_over(session):
        return f"when it runs again (it is {session.state})"
    if session.interactive and session.state in LIVE:
        return "when it is ready for input"
    if session.state == RUNNING:
        return "at its next turn, after its current work"
    return "at its next turn"


def refuse_taken(store: Store, name: str, except_id: str = "") -> None:
    """Raise CityError if a session that has not ended uses the name."""
    for other in store.sessions():
        if other.id != except_id and name in (other.name, other.alias) and not is_over(other):
            message = f"session {other.id[:8]} of `{other.agent}` is already named `{name}`"
            raise city_error("name-taken", message, "choose another name")


def checked_name(name: str) -> str:
    """Validate and strip a session name given by the user."""
    name = name.strip()
    if not name or not name.isprintable() or len(name) > 100 or name.startswith("-"):
        message = "a session name has 1 to 100 printable characters and does not start with a dash"
        raise city_error("bad-name", message)
    return name


@command("rename", examples=("city session rename mayor-1 release",), page="how-to/sessions")
@named_session_argument
@click.argument("name")
@json_option
@pass_context
def rename(context: CommandContext, reference: str, name: str) -> int:
    """Rename a session.

    Its alias and id stay valid.
    """
    session, name = resolve_session(context, reference), checked_name(name)
    refuse_taken(context.store(), name, session.id)
    session = _change(context, session, {"name": name}, "session.renamed", {"name": name})
    return _answer(context, session, f"{session.alias} is now named {name}.")


@command("pin", examples=("city session pin mayor-1",), page="how-to/sessions")
@session_argument
@json_option
@pass_context
def pin(context: CommandContext, reference: str | None) -> int:
    """Pin a session to the top of the list.

    The controller does not stop or restart a pinned session.
    """
    session = resolve_session(context, reference)
    session = _change(context, session, {"pinned": time.time()}, "session.pinned")
    return _answer(context, session, f"{session_name(session)} pinned.")


@command("unpin", examples=("city session unpin mayor-1",), page="how-to/sessions")
@session_argument
@json_option
@pass_context
def unpin(context: CommandContext, reference: str | None) -> int:
    """Unpin a session."""
    session = resolve_session(context, reference)
    session = _change(context, session, {"pinned": None}, "session.unpinned")
    return _answer(context, session, f"{session_name(session)} unpinned.")


def _change(
    context: CommandContext,
    session: Session,
    changes: dict[str, object],
    event: str,
    data: dict[str, object] | None = None,
) -> Session:
    return context.store().update_session(
        session.id,
        changes,
        time.time(),
        event=event,
        data=data,
        actor=actor(caller(context.environ)),
    )


def _answer(context: CommandContext, session: Session, text: str) -> int:
    context.output(lambda: {"session": session_row(session, context.root)}, lambda: [text])
    return 0
