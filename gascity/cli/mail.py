"""`city mail`: messages between the user, agents and sessions."""

import sys
import time
from collections.abc import Iterator, Sequence

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext
from gascity.cli.hook_output import PROMPT_SUBMIT, hook_format_option, print_for_hook
from gascity.cli.identity import access, actor, caller, current_session
from gascity.cli.lists import NEWEST, RecordNumber, list_options, output_list, read_pages, row_limit
from gascity.cli.output import (
    BOLD,
    DIM,
    plural,
    print_stderr,
    styled,
    text_lines,
    time_ago,
    timestamp,
)
from gascity.cli.problems import city_error
from gascity.cli.records import reminder, session_name
from gascity.cli.session.find import find_agent_or_session
from gascity.cli.tables import Column, json_row
from gascity.control.callers import Caller, not_your_session
from gascity.model.values import JsonObject
from gascity.model.work import HUMAN, LIVE, Mail, Session

_PAGE = "how-to/mail"
_SUBJECT = 80  # characters of the first line that become the subject
_ID = RecordNumber(lowest=1)
_message_option = click.option(
    "-m", "--message", metavar="TEXT", help="Message text, instead of an argument."
)
_stdin_option = click.option(
    "--stdin", "from_stdin", is_flag=True, help="Read the text from standard input."
)
_notify_option = click.option(
    "--notify", is_flag=True, help="Also nudge the recipient's live sessions."
)


@json_command(
    "send",
    examples=(
        "city mail send mayor 'the release is on Friday'",
        "city mail send --all 'stop pushing to main' --notify",
        "city mail send human --stdin < report.txt",
    ),
    page=_PAGE,
)
@click.argument("words", metavar="[TO] [TEXT]", nargs=-1)
@click.option("--to", metavar="NAME", help="Recipient, instead of the first argument.")
@click.option(
    "-s", "--subject", metavar="TEXT", help="Subject (default: the start of the first line)."
)
@_message_option
@_stdin_option
@_notify_option
@click.option("--all", "to_all", is_flag=True, help="Send to every live session.")
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
    if to is None and not to_all:
        if not words:
            raise click.UsageError("missing recipient: `city mail send TO TEXT`")
        to, *words_left = words
        words = tuple(words_left)
    text = _text(words, subject, message, from_stdin)
    store = context.store()
    who, seen = caller(context), access(context)
    if to is None:
        live = [session for session in store.sessions(live=True) if seen.sees(session.agent)]
        recipients = [session.id for session in live if who is None or session.id != who.session]
    else:
        recipients = [_recipient(context, to)]
    first_line = text.strip().splitlines()[0].strip()
    if len(first_line) > _SUBJECT:
        first_line = first_line[: _SUBJECT - 1] + "…"
    now = time.time()
    nudged = _nudged_sessions(context, recipients, who) if notify else ()
    with store.transaction():
        sent = [
            store.send_mail(actor(who), recipient, subject or first_line, text, now)
            for recipient in recipients
        ]
        for mail in sent:
            _notify(context, mail, nudged, who, now)
    return context.output(
        lambda: _rows(context, sent),
        lambda: _sent_lines(context, sent) or ["not sent: there is no other live session"],
    )


def _text(words: Sequence[str], subject: str | None, message: str | None, from_stdin: bool) -> str:
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


def _recipient(context: CommandContext, reference: str) -> str:
    """Return the stored form of a recipient: an agent's qualified name, or a session id."""
    if reference == HUMAN:
        return HUMAN
    # Older packs write a trailing slash after the name of a city agent.
    agent, session = find_agent_or_session(context, reference.rstrip("/"))
    access(context).check_agent(agent, typed=False)
    return session.id if session is not None else agent


def _nudged_sessions(
    context: CommandContext, recipients: Sequence[str], who: Caller | None
) -> list[Session]:
    """Return the live sessions to nudge; print those that city cannot nudge."""
    from gascity.cli.session.terminal import cannot_type

    nudged = []
    for session in context.store().sessions(live=True):
        is_recipient = session.id in recipients or session.agent in recipients
        if not is_recipient or session.id == actor(who):
            continue
        if reason := cannot_type(context, session):
            print_stderr(f"no nudge for {session_name(session)}: {reason}")
        else:
            nudged.append(session)
    return nudged


def _notify(
    context: CommandContext,
    mail: Mail,
    sessions: Sequence[Session],
    who: Caller | None,
    now: float,
) -> None:
    """Nudge those of the sessions that the message is to."""
    text = f"Mail {mail.id} from {_display_name(context, mail.sender)}: {mail.subject}. "
    text += f"Run `city mail read {mail.id}` to read it."
    for session in sessions:
        if mail.to in (session.id, session.agent):
            context.store().add_nudge(session.id, text, now, actor=actor(who))


def _sent_lines(context: CommandContext, sent: Sequence[Mail]) -> list[str]:
    return [f"sent {mail.id} to {_display_name(context, mail.to)}" for mail in sent]


def addresses(context: CommandContext, who: Caller | None) -> list[str]:
    """Return the names under which the caller gets mail."""
    if who is None:
        return [HUMAN]
    session = current_session(context, who)
    alias = session.alias if session is not None else ""
    return [name for name in (who.agent, who.session, alias) if name]


def _inbox(
    context: CommandContext, *, unread: bool, limit: int | None
) -> tuple[Iterator[Mail], int]:
    """Return the caller's messages, newest first, and how many there are without the limit."""
    store = context.store_if_any()
    if store is None:
        return iter(()), 0
    names = addresses(context, caller(context))

    def read(last: Mail | None, size: int) -> list[Mail]:
        before = last.id if last is not None else None
        return store.inbox(names, unread=unread, limit=size, before=before)

    return read_pages(read, limit), store.count_inbox(names, unread=unread)


@json_command(
    "inbox",
    examples=("city mail inbox", "city mail inbox --all", "city mail inbox --limit 10 --json"),
    page=_PAGE,
)
@click.option("--all", "everything", is_flag=True, help="Include read messages.")
@list_options
def inbox(context: CommandContext, everything: bool, limit: int | None) -> int:
    """List unread messages, newest first."""
    most = row_limit(context, limit)
    messages, total = _inbox(context, unread=not everything, limit=most)
    columns = _columns(context)
    return output_list(
        context,
        "mail",
        (json_row(columns, mail) for mail in messages),
        lambda: context.table(columns, list(messages), "No mail."),
        0 if most is None else max(0, total - most),
    )


def _find_mail(context: CommandContext, id: int) -> Mail:
    """Return a message by id; CityError if there is none, or it is between others.

    Does not create a store.
    """
    store = context.store_if_any()
    mail = store.mail(id) if store is not None else None
    if mail is None:
        hint = "run `city mail inbox --all` to see all messages"
        raise city_error("unknown-mail", f"there is no message {id}", hint)
    who, limits = caller(context), access(context)
    own = who is None or mail.sender == who.session or mail.to in addresses(context, who)
    if not own and not limits.unlimited:
        hint = "run `city mail inbox` to see your messages"
        raise not_your_session(f"message {id} belongs to another session", hint)
    return mail


def _mark_read(context: CommandContext, mail: Mail, who: Caller | None) -> None:
    """Mark a message as read unless it is to someone else."""
    if mail.to in addresses(context, who) and mail.read is None:
        context.store().mark_mail([mail.id], time.time(), actor=actor(who))


@json_command("read", examples=("city mail read 3", "city mail read 3 --json"), page=_PAGE)
@click.argument("id", type=_ID)
def read(context: CommandContext, id: int) -> int:
    """Show a message and mark it as read.

    A message to someone else stays unread.
    """
    mail = _find_mail(context, id)
    _mark_read(context, mail, caller(context))
    return context.output(
        lambda: _rows(context, [_find_mail(context, id)]), lambda: _message_lines(context, mail)
    )


@json_command(
    "reply",
    examples=("city mail reply 3 'yes, go ahead'", "city mail reply 3 --stdin < answer.md"),
    page=_PAGE,
)
@click.argument("id", type=_ID)
@click.argument("words", metavar="[TEXT]", nargs=-1)
@click.option(
    "-s", "--subject", metavar="TEXT", help="Subject (default: `Re:` and the original subject)."
)
@_message_option
@_stdin_option
@_notify_option
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
    text = _text(words, subject, message, from_stdin)
    first = _find_mail(context, id)
    who = caller(context)
    store, now = context.store(), time.time()
    again = subject or f"Re: {first.subject.removeprefix('Re: ')}"
    to = _reply_recipient(context, first, who)
    nudged = _nudged_sessions(context, [to], who) if notify else ()
    with store.transaction():
        sent = store.send_mail(actor(who), to, again, text, now, reply_to=first.id)
        _mark_read(context, first, who)
        _notify(context, sent, nudged, who, now)
    return context.output(lambda: _rows(context, [sent]), lambda: _sent_lines(context, [sent]))


def _reply_recipient(context: CommandContext, first: Mail, who: Caller | None) -> str:
    """Return who gets a reply: the sender, or the recipient if the sender replies."""
    if first.sender == actor(who):
        return first.to
    if first.sender == HUMAN:
        return HUMAN
    session = context.store().session(first.sender)
    if session is None:
        message = f"the sender, session {first.sender}, was deleted"
        hint = "run `city mail send AGENT TEXT` to write to its agent"
        raise city_error("unknown-session", message, hint)
    return session.id if session.state in LIVE else session.agent


@json_command("archive", examples=("city mail archive 3", "city mail archive 3 4"), page=_PAGE)
@click.argument("ids", metavar="ID...", type=_ID, nargs=-1, required=True)
def archive(context: CommandContext, ids: tuple[int, ...]) -> int:
    """Archive messages."""
    messages = [_find_mail(context, id) for id in ids]
    who = caller(context)
    names = addresses(context, who)
    sent = [mail for mail in messages if who is not None and mail.to not in names]
    if sent and not access(context).unlimited:
        message = f"message {sent[0].id} belongs to its recipient, not to this session"
        raise not_your_session(message, "run `city mail inbox` to see your messages")
    context.store().mark_mail(ids, time.time(), archive=True, actor=actor(who))
    return context.output(
        lambda: _rows(context, [_find_mail(context, id) for id in ids]),
        lambda: [f"archived {id}" for id in ids],
    )


@json_command("check", examples=("city mail check", "city mail check --inject"), page=_PAGE)
@click.option(
    "--inject", is_flag=True, help="Format as a reminder for a provider's hook; exit with 0."
)
@hook_format_option
def check(context: CommandContext, inject: bool, hook_format: str | None) -> int:
    """Exit with 0 if there is unread mail.

    Exits with 1 if there is none.
    """
    listed = None if context.as_json else NEWEST  # a reminder is text for a model: keep it short
    found, unread = _inbox(context, unread=True, limit=listed)
    messages = list(found)
    if inject and not context.as_json:
        if messages:
            heads = [
                f"{mail.id}: {mail.subject} (from {_display_name(context, mail.sender)})"
                for mail in messages
            ]
            if unread > len(messages):
                heads.append(f"{unread - len(messages)} more: run `city mail inbox --limit 0`.")
            lines = ("You have unread mail:", *heads, "Run `city mail read ID` to read a message.")
            print_for_hook(reminder(lines), hook_format, PROMPT_SUBMIT, context.environ)
        return 0
    context.output(
        lambda: {"unread": unread, **_rows(context, messages)},
        lambda: [plural(unread, "unread message") if unread else "No unread mail."],
    )
    return int(not unread and not inject)


def _columns(context: CommandContext) -> tuple[Column[Mail], ...]:
    def sender(mail: Mail) -> str:
        return _display_name(context, mail.sender)

    now = time.time()
    return (
        Column("id", lambda mail: mail.id, "ID"),
        Column("thread", lambda mail: mail.thread),
        Column("from", lambda mail: mail.sender),
        Column("from_name", sender, "FROM"),
        Column("to", lambda mail: mail.to),
        Column("", lambda mail: time_ago(mail.at, now), "AGE"),
        Column("", lambda mail: mail.subject + (" (read)" if mail.read else ""), "SUBJECT"),
        Column("subject", lambda mail: mail.subject),
        Column("body", lambda mail: mail.body),
        Column("at", lambda mail: timestamp(mail.at)),
        Column("read", lambda mail: timestamp(mail.read)),
        Column("archived", lambda mail: timestamp(mail.archived)),
    )


def _rows(context: CommandContext, messages: Sequence[Mail]) -> JsonObject:
    """Return messages as the JSON answer."""
    return {"mail": [json_row(_columns(context), mail) for mail in messages]}


def _display_name(context: CommandContext, name: str) -> str:
    """Return a session's alias, else the name unchanged."""
    store = context.store_if_any()
    session = store.session(name) if store is not None else None
    return session.alias or session.agent if session is not None else name


def _message_lines(context: CommandContext, mail: Mail) -> Iterator[str]:
    """Yield a message with its headers."""
    yield f"From:    {_display_name(context, mail.sender)}"
    yield f"To:      {_display_name(context, mail.to)}"
    yield f"Subject: {styled(mail.subject, BOLD, context.colour)}"
    yield styled(f"Sent:    {timestamp(mail.at)}", DIM, context.colour)
    yield ""
    yield from text_lines(mail.body)


mail = LazyGroup(
    "mail",
    (send, inbox, read, reply, archive, check),
    commands_at={"list": ("gascity.cli.mail", "inbox", "")},  # the name that older packs call
    help="""Send and read messages.

    The user's name is `human`. A session reads its agent's mail and its own.
    """,
    examples=("city mail inbox", "city mail send mayor 'the build is green'"),
    page=_PAGE,
)
