"""`city mail`: messages between the user, agents and sessions."""

import sys
import time
from collections.abc import Iterator, Sequence

import click

from gascity.cli.command import LazyGroup, command
from gascity.cli.context import CommandContext, json_option, pass_context
from gascity.cli.identity import Caller, actor, caller, current_session, writing_caller
from gascity.cli.output import (
    BOLD,
    DIM,
    Column,
    plural,
    print_stdout,
    printable,
    styled,
    table_lines,
    time_ago,
    timestamp,
)
from gascity.cli.problems import city_error
from gascity.cli.session.find import find_agent_or_session
from gascity.cli.work.rows import reminder
from gascity.model.work import HUMAN, LIVE, Mail, Session
from gascity.store.port import Store

_SUBJECT = 80  # characters of the first line that become the subject
_ID = click.IntRange(1, (1 << 63) - 1)
_COMMANDS = {
    "send": ("gascity.cli.mail", "send", "Send a message."),
    "inbox": ("gascity.cli.mail", "inbox", "List unread messages."),
    "read": ("gascity.cli.mail", "read", "Show a message and mark it as read."),
    "reply": ("gascity.cli.mail", "reply", "Reply to a message."),
    "archive": ("gascity.cli.mail", "archive", "Archive messages."),
    "check": ("gascity.cli.mail", "check", "Exit with 0 if there is unread mail."),
    "list": ("gascity.cli.mail", "inbox", ""),  # the name that older packs call
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS, page="how-to/mail")
def mail() -> None:
    """Send and read messages.

    The user's name is `human`. A session reads its agent's mail and its own.
    """


@command(
    "send",
    examples=(
        "city mail send mayor 'the release is on Friday'",
        "city mail send --all 'stop pushing to main' --notify",
        "city mail send human --stdin < report.txt",
    ),
    page="how-to/mail",
)
@click.argument("words", metavar="[TO] [TEXT]", nargs=-1)
@click.option("--to", metavar="NAME", help="Recipient, instead of the first argument.")
@click.option(
    "-s", "--subject", metavar="TEXT", help="Subject (default: the start of the first line)."
)
@click.option("-m", "--message", metavar="TEXT", help="Message text, instead of an argument.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the text from standard input.")
@click.option("--notify", is_flag=True, help="Also nudge the recipient's live sessions.")
@click.option("--all", "to_all", is_flag=True, help="Send to every live session.")
@json_option
@pass_context
def send(
    context: CommandContext,
    words: tuple[str, ...],
    to: str | None,
    subject: str | None,
    message: str | None,
    from_stdin: bool,
    notify: bool,
    to_all: bool,
) -> int:
    """Send a message.

    The recipient is `human`, an agent, or a session by id or alias.
    """
    left = list(words)
    if to is None and not to_all:
        if not left:
            raise click.UsageError("missing recipient: `city mail send TO TEXT`")
        to = left.pop(0)
    text = _text(left, subject, message, from_stdin)
    store = context.store()
    who = writing_caller(context, store)
    recipients = _live_sessions(store, who) if to is None else [_recipient(context, store, to)]
    now = time.time()
    with store.transaction():
        sent = [
            store.send_mail(actor(who), one, _subject(subject, text), text, now)
            for one in recipients
        ]
        for one in sent if notify else ():
            _notify(store, one, who, now)
    context.output(
        lambda: {"mail": [_mail_row(one, store) for one in sent]},
        lambda: (
            [f"sent {one.id} to {_display_name(store, one.to)}" for one in sent]
            or ["not sent: there is no other live session"]
        ),
    )
    return 0


def _text(words: list[str], subject: str | None, message: str | None, from_stdin: bool) -> str:
    """Return the text from its one source; a subject alone is enough."""
    if len(words) > 1:
        raise click.UsageError("TEXT is one argument; put it in quotes")
    given = [*words, *((message,) if message is not None else ())]
    if from_stdin:
        given.append(sys.stdin.buffer.read().decode("utf-8", "replace"))
    if len(given) > 1:
        raise click.UsageError("pass the text only once")
    text = given[0] if given else subject or ""
    if not text.strip():
        raise click.UsageError("missing text")
    return text


def _subject(subject: str | None, text: str) -> str:
    first = text.strip().splitlines()[0].strip()
    return subject or (first if len(first) <= _SUBJECT else first[: _SUBJECT - 1] + "…")


def _recipient(context: CommandContext, store: Store, reference: str) -> str:
    """Return the stored form of a recipient: an agent's qualified name, or a session id."""
    if reference == HUMAN:
        return HUMAN
    # Older packs write a trailing slash after the name of a city agent.
    found = find_agent_or_session(context, store, reference.rstrip("/"))
    return found.id if isinstance(found, Session) else found


def _live_sessions(store: Store, who: Caller | None) -> list[str]:
    return [one.id for one in store.sessions(live=True) if who is None or one.id != who.session]


def _notify(store: Store, one: Mail, who: Caller | None, now: float) -> None:
    text = f"Mail {one.id} from {_display_name(store, one.sender)}: {one.subject}. "
    text += f"Run `city mail read {one.id}` to read it."
    for session in store.sessions(live=True):
        if one.to in (session.id, session.agent) and session.id != one.sender:
            store.add_nudge(session.id, text, now, actor=actor(who))


def _addresses(store: Store | None, who: Caller | None) -> list[str]:
    """Return the names under which the caller gets mail."""
    if who is None:
        return [HUMAN]
    session = current_session(store, who)
    alias = [session.alias] if session is not None and session.alias else []
    return [*filter(None, (who.agent, who.session)), *alias]


@command(
    "inbox",
    examples=(
        "city mail inbox",
        "city mail inbox --all",
    ),
    page="how-to/mail",
)
@click.option("--all", "everything", is_flag=True, help="Include read messages.")
@json_option
@pass_context
def inbox(context: CommandContext, everything: bool) -> int:
    """List unread messages."""
    store = context.store_if_any()
    names = _addresses(store, caller(context.environ))
    found = store.inbox(names, unread=not everything) if store is not None else []
    context.output(
        lambda: {"mail": [_mail_row(one, store) for one in found]},
        lambda: _inbox_lines(found, store, context),
    )
    return 0


def _find_mail(store: Store | None, id: int) -> Mail:
    found = store.mail(id) if store is not None else None
    if found is None:
        hint = "run `city mail inbox --all` to see all messages"
        raise city_error("unknown-mail", f"there is no message {id}", hint)
    return found


@command("read", examples=("city mail read 3",), page="how-to/mail")
@click.argument("id", type=_ID)
@json_option
@pass_context
def read(context: CommandContext, id: int) -> int:
    """Show a message and mark it as read.

    A message to someone else stays unread.
    """
    store = context.store_if_any()
    found = _find_mail(store, id)
    assert store is not None  # _find_mail raised otherwise
    who = writing_caller(context, store)
    if found.to in _addresses(store, who) and found.read is None:
        store.mark_mail([id], time.time(), actor=actor(who))
        found = _find_mail(store, id)
    context.output(
        lambda: {"mail": [_mail_row(found, store)]},
        lambda: _message_lines(found, store, context.colour),
    )
    return 0


@command("reply", examples=("city mail reply 3 'yes, go ahead'",), page="how-to/mail")
@click.argument("id", type=_ID)
@click.argument("words", metavar="[TEXT]", nargs=-1)
@click.option(
    "-s", "--subject", metavar="TEXT", help="Subject (default: `Re:` and the original subject)."
)
@click.option("-m", "--message", metavar="TEXT", help="Message text, instead of an argument.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the text from standard input.")
@click.option("--notify", is_flag=True, help="Also nudge the recipient's live sessions.")
@json_option
@pass_context
def reply(
    context: CommandContext,
    id: int,
    words: tuple[str, ...],
    subject: str | None,
    message: str | None,
    from_stdin: bool,
    notify: bool,
) -> int:
    """Reply to a message.

    If the sending session has ended, its agent gets the reply.
    """
    text = _text(list(words), subject, message, from_stdin)
    store = context.store_if_any()
    first = _find_mail(store, id)
    assert store is not None  # _find_mail raised otherwise
    who = writing_caller(context, store)
    now = time.time()
    again = subject or f"Re: {first.subject.removeprefix('Re: ')}"
    with store.transaction():
        sent = store.send_mail(
            actor(who), _reply_recipient(store, first, who), again, text, now, reply_to=first.id
        )
        if first.to in _addresses(store, who) and first.read is None:
            store.mark_mail([first.id], now, actor=actor(who))
        if notify:
            _notify(store, sent, who, now)
    context.output(
        lambda: {"mail": [_mail_row(sent, store)]},
        lambda: [f"sent {sent.id} to {_display_name(store, sent.to)}"],
    )
    return 0


def _reply_recipient(store: Store, first: Mail, who: Caller | None) -> str:
    """Return who gets a reply: the sender, or the recipient if the sender replies."""
    if first.sender == actor(who):
        return first.to
    if first.sender == HUMAN:
        return HUMAN
    session = store.session(first.sender)
    if session is None:
        words = f"the sender, session {first.sender}, was deleted"
        hint = "run `city mail send AGENT TEXT` to write to its agent"
        raise city_error("unknown-session", words, hint)
    return session.id if session.state in LIVE else session.agent


@command("archive", examples=("city mail archive 3 4",), page="how-to/mail")
@click.argument("ids", metavar="ID...", type=_ID, nargs=-1, required=True)
@json_option
@pass_context
def archive(context: CommandContext, ids: tuple[int, ...]) -> int:
    """Archive messages."""
    store = context.store_if_any()
    found = [_find_mail(store, id) for id in ids]
    assert store is not None  # _find_mail raised otherwise
    who = writing_caller(context, store)
    names = _addresses(store, who)
    foreign = [one for one in found if who is not None and one.to not in names]
    if foreign:
        words = f"message {foreign[0].id} belongs to {foreign[0].to}, not to this session"
        raise city_error("not-yours", words, "run `city mail inbox` to see your messages")
    store.mark_mail(ids, time.time(), archive=True, actor=actor(who))
    context.output(
        lambda: {"mail": [_mail_row(_find_mail(store, id), store) for id in ids]},
        lambda: [f"archived {id}" for id in ids],
    )
    return 0


@command(
    "check",
    examples=(
        "city mail check",
        "city mail check --inject",
    ),
    page="how-to/mail",
)
@click.option(
    "--inject", is_flag=True, help="Format as a reminder for a provider's hook; exit with 0."
)
@json_option
@pass_context
def check(context: CommandContext, inject: bool) -> int:
    """Exit with 0 if there is unread mail.

    Exits with 1 if there is none.
    """
    store = context.store_if_any()
    names = _addresses(store, caller(context.environ))
    found = store.inbox(names, unread=True) if store is not None else []
    if inject and not context.as_json:
        _remind(store, found)
        return 0
    context.output(
        lambda: {"unread": len(found), "mail": [_mail_row(one, store) for one in found]},
        lambda: [plural(len(found), "unread message") if found else "No unread mail."],
    )
    return int(not found and not inject)


def _remind(store: Store | None, found: list[Mail]) -> None:
    if found:
        heads = [f"{m.id}: {m.subject} (from {_display_name(store, m.sender)})" for m in found]
        lines = ("You have unread mail:", *heads, "Run `city mail read ID` to read a message.")
        print_stdout("\n".join(reminder(lines)))


def _mail_row(mail: Mail, store: Store | None) -> dict[str, object]:
    """Return a message as its JSON object; `from_name` is the sender's display name."""
    return {
        "id": mail.id,
        "thread": mail.thread,
        "from": mail.sender,
        "from_name": _display_name(store, mail.sender),
        "to": mail.to,
        "subject": mail.subject,
        "body": mail.body,
        "at": timestamp(mail.at),
        "read": timestamp(mail.read),
        "archived": timestamp(mail.archived),
    }


def _display_name(store: Store | None, name: str) -> str:
    """Return a session's alias, else the name unchanged."""
    session = store.session(name) if store is not None else None
    return session.alias or session.agent if session is not None else name


def _inbox_lines(
    messages: Sequence[Mail], store: Store | None, context: CommandContext
) -> Iterator[str]:
    if not messages:
        yield "No mail."
        return
    now = time.time()
    columns: tuple[Column[Mail], ...] = (
        Column("", lambda mail: mail.id, "ID"),
        Column("", lambda mail: _display_name(store, mail.sender), "FROM"),
        Column("", lambda mail: time_ago(mail.at, now), "AGE"),
        Column("", lambda mail: mail.subject + (" (read)" if mail.read else ""), "SUBJECT"),
    )
    yield from table_lines(columns, messages, context.width, context.colour)


def _message_lines(mail: Mail, store: Store | None, colour: bool) -> Iterator[str]:
    """Yield a message with its headers."""
    yield f"From:    {printable(_display_name(store, mail.sender))}"
    yield f"To:      {printable(_display_name(store, mail.to))}"
    yield f"Subject: {styled(mail.subject, BOLD, colour)}"
    yield styled(f"Sent:    {timestamp(mail.at)}", DIM, colour)
    yield ""
    yield printable(mail.body).rstrip("\n")
