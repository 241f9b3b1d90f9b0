"""`city session back`, and the summary of a session for the one that the user came from."""

import time

import click

from gascity.cli.context import CommandContext
from gascity.cli.identity import actor, caller
from gascity.cli.output import timestamp
from gascity.cli.problems import city_error
from gascity.cli.records import session_name, session_row
from gascity.cli.session.find import session_command
from gascity.cli.session.terminal import require_typing
from gascity.model.work import HUMAN, Session


def summary_of(context: CommandContext, session: Session, text: str = "") -> str:
    """Return what another session should know about this one: a text, or its last output."""
    items = context.store().list_work(session=session.id, limit=1)
    result = items[0].result if items else None
    last_words = text.strip() or (result.summary if result else "") or session.snippet
    return f"Summary of {session_name(session)} ({session.agent}):\n{last_words or 'no output yet'}"


def remember_origin(context: CommandContext, session: Session, origin: Session) -> None:
    """Record the session that the user attached from, so that `back` finds it."""
    context.store().set_note(_key(session), origin.id)


@session_command("back", "city session back", "city session back reviewer-1 -m 'we keep the API'")
@click.option("-m", "--message", metavar="TEXT", default="", help="Summary (default: last output).")
def back(context: CommandContext, session: Session, message: str) -> int:
    """Send a summary to the session that started or attached this one."""
    origin = _origin(context, session)
    require_typing(context, origin)
    text = summary_of(context, session, message)
    nudge = context.store().add_nudge(origin.id, text, time.time(), actor(caller(context)))
    name = session_name(origin)
    row = {"id": nudge.id, "session": origin.id, "text": text, "at": timestamp(nudge.at)}
    return context.output(
        lambda: {"nudge": row, "session": session_row(origin, context.root)},
        lambda: [f"Summary sent to {name}; next: `city session attach {name}`"],
    )


def _origin(context: CommandContext, session: Session) -> Session:
    """Return where the user attached from, or who delegated the session's last item."""
    store = context.store()
    items = store.list_work(session=session.id, limit=1)
    senders = [item.sender for item in items if item.sender != HUMAN]
    for id in filter(None, (store.get_note(_key(session)), *senders)):
        if (origin := store.session(id)) is not None:
            return origin
    message = f"{session_name(session)} was not started or attached from another session"
    raise city_error("no-origin", message, "run `city session nudge SESSION --from` to name one")


def _key(session: Session) -> str:
    return f"attached from {session.id}"
