"""Mail as rows: the JSON object of the contract and the lines people read."""

import time
from collections.abc import Iterator, Sequence

from gascity.cli.output import BOLD, DIM, ago, clean, moment, paint, table
from gascity.model.work import Mail
from gascity.store.port import Store

_HEADS = ("ID", "FROM", "AGE", "SUBJECT")


def mail_row(mail: Mail, store: Store | None) -> dict[str, object]:
    """One message of the JSON contract; `from_name` is the sender as people call it."""
    return {
        "id": mail.id,
        "thread": mail.thread,
        "from": mail.sender,
        "from_name": correspondent(store, mail.sender),
        "to": mail.to,
        "subject": mail.subject,
        "body": mail.body,
        "at": moment(mail.at),
        "read": moment(mail.read),
        "archived": moment(mail.archived),
    }


def correspondent(store: Store | None, name: str) -> str:
    """Whoever sends or gets mail, as people call it: a session by its alias, else as it is."""
    session = store.session(name) if store is not None else None
    return session.alias or session.agent if session is not None else name


def inbox_lines(
    found: Sequence[Mail], store: Store | None, columns: int, colour: bool
) -> Iterator[str]:
    """One line a message; those that were read already are told from the others."""
    if not found:
        yield "No mail."
        return
    now = time.time()
    rows = [
        [
            str(one.id),
            correspondent(store, one.sender),
            ago(one.at, now),
            one.subject + (" (read)" if one.read is not None else ""),
        ]
        for one in found
    ]
    head, *lines = table(rows, _HEADS, columns)
    yield paint(head, BOLD, colour)
    yield from lines


def letter_lines(mail: Mail, store: Store | None, colour: bool) -> Iterator[str]:
    """A whole message, its text last."""
    yield f"From:    {clean(correspondent(store, mail.sender))}"
    yield f"To:      {clean(correspondent(store, mail.to))}"
    yield f"Subject: {paint(mail.subject, BOLD, colour)}"
    yield paint(f"Sent:    {moment(mail.at)}", DIM, colour)
    yield ""
    yield clean(mail.body).rstrip("\n")
