"""`city mail`: messages between the person, agents and sessions."""

import sys
import time

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.groups import LazyGroup
from gascity.cli.identity import Caller, actor, caller, present, writer
from gascity.cli.mail_rows import correspondent, inbox_lines, letter_lines, mail_row
from gascity.cli.output import say
from gascity.cli.whom import agent_or_session
from gascity.cli.work_rows import reminder
from gascity.model.problems import CityError, Problem
from gascity.model.work import HUMAN, LIVE, Mail, Session
from gascity.store.port import Store

_SUBJECT = 80
_ID = click.IntRange(1, (1 << 63) - 1)
_COMMANDS = {
    "send": ("gascity.cli.mail", "send", "Send somebody a message."),
    "inbox": ("gascity.cli.mail", "inbox", "List messages that were not read yet."),
    "read": ("gascity.cli.mail", "read", "Show a message; it counts as read then."),
    "reply": ("gascity.cli.mail", "reply", "Answer a message."),
    "archive": ("gascity.cli.mail", "archive", "Put messages away."),
    "check": ("gascity.cli.mail", "check", "Is there unread mail? 0: yes, 1: no."),
    "list": ("gascity.cli.mail", "inbox", ""),  # as older packs call it
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS)
def mail() -> None:
    """Messages between you, agents and sessions.

    You are `human`. Inside a session, mail is its agent's and its own.
    """


@click.command("send")
@click.argument("words", metavar="[TO] [TEXT]", nargs=-1)
@click.option("--to", metavar="NAME", help="Who gets it, if not the first word.")
@click.option("-s", "--subject", metavar="TEXT", help="Else the beginning of its first line.")
@click.option("-m", "--message", metavar="TEXT", help="The text, if not the second word.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the text from standard input.")
@click.option("--notify", is_flag=True, help="Also nudge the sessions that are live.")
@click.option("--all", "everybody", is_flag=True, help="To every session that is live.")
@json_option
@pass_context
def send(
    context: Context,
    words: tuple[str, ...],
    to: str | None,
    subject: str | None,
    message: str | None,
    from_stdin: bool,
    notify: bool,
    everybody: bool,
) -> int:
    """Send a message to `human`, to an agent, or to a session by its id or alias."""
    left = list(words)
    if to is None and not everybody:
        if not left:
            raise click.UsageError("say who gets it: `city mail send TO TEXT`")
        to = left.pop(0)
    text = _text(left, subject, message, from_stdin)
    store = context.store()
    who = writer(context, store)
    receivers = _everybody(store, who) if to is None else [_receiver(context, store, to)]
    now = time.time()
    with store.writing():
        sent = [
            store.send(actor(who), one, _subject(subject, text), text, now) for one in receivers
        ]
        for one in sent if notify else ():
            _notify(store, one, who, now)
    context.say(
        lambda: {"mail": [mail_row(one, store) for one in sent]},
        lambda: (
            [f"sent {one.id} to {correspondent(store, one.to)}" for one in sent]
            or ["sent to nobody: no other session is live"]
        ),
    )
    return 0


def _text(words: list[str], subject: str | None, message: str | None, from_stdin: bool) -> str:
    """The text of a message, from the one place it is in; a subject alone will do."""
    if len(words) > 1:
        raise click.UsageError("the text is one argument: put it in quotes")
    given = [*words, *((message,) if message is not None else ())]
    if from_stdin:
        given.append(sys.stdin.buffer.read().decode("utf-8", "replace"))
    if len(given) > 1:
        raise click.UsageError("the text is given twice")
    text = given[0] if given else subject or ""
    if not text.strip():
        raise click.UsageError("the text is missing")
    return text


def _subject(subject: str | None, text: str) -> str:
    first = text.strip().splitlines()[0].strip()
    return subject or (first if len(first) <= _SUBJECT else first[: _SUBJECT - 1] + "…")


def _receiver(context: Context, store: Store, reference: str) -> str:
    """What a name is stored as: an agent's qualified name, or a session's id."""
    if reference == HUMAN:
        return HUMAN
    # Older packs write an agent of the city with a slash behind it.
    found = agent_or_session(context, store, reference.rstrip("/"))
    return found.id if isinstance(found, Session) else found


def _everybody(store: Store, who: Caller | None) -> list[str]:
    return [one.id for one in store.sessions(live=True) if who is None or one.id != who.session]


def _notify(store: Store, one: Mail, who: Caller | None, now: float) -> None:
    text = f"Mail {one.id} from {correspondent(store, one.sender)}: {one.subject}. "
    text += f"`city mail read {one.id}` shows it."
    for session in store.sessions(live=True):
        if one.to in (session.id, session.agent) and session.id != one.sender:
            store.add_nudge(session.id, text, now, actor=actor(who))


def _names(store: Store | None, who: Caller | None) -> list[str]:
    """Under what names the caller gets mail."""
    if who is None:
        return [HUMAN]
    session = present(store, who)
    alias = [session.alias] if session is not None and session.alias else []
    return [*filter(None, (who.agent, who.session)), *alias]


@click.command("inbox")
@click.option("--all", "everything", is_flag=True, help="Also what was read already.")
@json_option
@pass_context
def inbox(context: Context, everything: bool) -> int:
    """List mail that was not read yet, the newest first."""
    store = context.store_if_any()
    names = _names(store, caller(context.environ))
    found = store.inbox(names, unread=not everything) if store is not None else []
    context.say(
        lambda: {"mail": [mail_row(one, store) for one in found]},
        lambda: inbox_lines(found, store, context.width, context.colour),
    )
    return 0


def _letter(store: Store | None, id: int) -> Mail:
    found = store.mail(id) if store is not None else None
    if found is None:
        hint = "`city mail inbox --all` lists what there is"
        raise CityError(Problem("unknown-mail", f"there is no mail {id}", None, hint))
    return found


@click.command("read")
@click.argument("id", type=_ID)
@json_option
@pass_context
def read(context: Context, id: int) -> int:
    """Show a message. Your own counts as read from then on, other people's stays unread."""
    store = context.store_if_any()
    found = _letter(store, id)
    assert store is not None  # else nothing would have been found
    who = writer(context, store)
    if found.to in _names(store, who) and found.read is None:
        store.mark_mail([id], time.time(), actor=actor(who))
        found = _letter(store, id)
    context.say(
        lambda: {"mail": [mail_row(found, store)]},
        lambda: letter_lines(found, store, context.colour),
    )
    return 0


@click.command("reply")
@click.argument("id", type=_ID)
@click.argument("words", metavar="[TEXT]", nargs=-1)
@click.option("-s", "--subject", metavar="TEXT", help="Else that of the message, with `Re:`.")
@click.option("-m", "--message", metavar="TEXT", help="The text, if not an argument.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the text from standard input.")
@click.option("--notify", is_flag=True, help="Also nudge the sessions that are live.")
@json_option
@pass_context
def reply(
    context: Context,
    id: int,
    words: tuple[str, ...],
    subject: str | None,
    message: str | None,
    from_stdin: bool,
    notify: bool,
) -> int:
    """Answer a message; a session that has ended gets it by way of its agent."""
    text = _text(list(words), subject, message, from_stdin)
    store = context.store_if_any()
    first = _letter(store, id)
    assert store is not None  # else nothing would have been found
    who = writer(context, store)
    now = time.time()
    again = subject or f"Re: {first.subject.removeprefix('Re: ')}"
    with store.writing():
        sent = store.send(
            actor(who), _answered(store, first, who), again, text, now, reply_to=first.id
        )
        if first.to in _names(store, who) and first.read is None:
            store.mark_mail([first.id], now, actor=actor(who))
        if notify:
            _notify(store, sent, who, now)
    context.say(
        lambda: {"mail": [mail_row(sent, store)]},
        lambda: [f"sent {sent.id} to {correspondent(store, sent.to)}"],
    )
    return 0


def _answered(store: Store, first: Mail, who: Caller | None) -> str:
    """Who gets an answer: the sender, or whoever got it if that is who answers."""
    if first.sender == actor(who):
        return first.to
    if first.sender == HUMAN:
        return HUMAN
    session = store.session(first.sender)
    if session is None:
        words = f"session {first.sender}, which sent it, is gone"
        hint = "`city mail send AGENT TEXT` writes to its agent"
        raise CityError(Problem("unknown-session", words, None, hint))
    return session.id if session.state in LIVE else session.agent


@click.command("archive")
@click.argument("ids", metavar="ID...", type=_ID, nargs=-1, required=True)
@json_option
@pass_context
def archive(context: Context, ids: tuple[int, ...]) -> int:
    """Put messages away: they are in no inbox any more."""
    store = context.store_if_any()
    found = [_letter(store, id) for id in ids]
    assert store is not None  # else nothing would have been found
    who = writer(context, store)
    names = _names(store, who)
    foreign = [one for one in found if who is not None and one.to not in names]
    if foreign:
        words = f"mail {foreign[0].id} is not this session's: it is for {foreign[0].to}"
        raise CityError(Problem("not-yours", words, None, "`city mail inbox` lists what is"))
    store.mark_mail(ids, time.time(), archive=True, actor=actor(who))
    context.say(
        lambda: {"mail": [mail_row(_letter(store, id), store) for id in ids]},
        lambda: [f"archived {id}" for id in ids],
    )
    return 0


@click.command("check")
@click.option("--inject", is_flag=True, help="As a reminder for a provider's hook; exits 0.")
@json_option
@pass_context
def check(context: Context, inject: bool) -> int:
    """Exit 0 if there is mail that was not read yet, 1 if there is none."""
    store = context.store_if_any()
    names = _names(store, caller(context.environ))
    found = store.inbox(names, unread=True) if store is not None else []
    if inject and not context.as_json:
        _remind(store, found)
        return 0
    many = f"{len(found)} unread message{'' if len(found) == 1 else 's'}"
    context.say(
        lambda: {"unread": len(found), "mail": [mail_row(one, store) for one in found]},
        lambda: [many if found else "No unread mail."],
    )
    return int(not found and not inject)


def _remind(store: Store | None, found: list[Mail]) -> None:
    if found:
        heads = [f"{m.id}: {m.subject} (from {correspondent(store, m.sender)})" for m in found]
        lines = ("You have unread mail:", *heads, "`city mail read ID` shows a message.")
        say("\n".join(reminder(lines)))
