"""Mail between users and sessions, and nudges to sessions."""

from collections.abc import Sequence

from gascity.model.work import HUMAN, Mail, Nudge
from gascity.store.port import ConflictError
from gascity.store.sqlite import statements
from gascity.store.sqlite.connection import Connection
from gascity.store.sqlite.events import EventLog
from gascity.store.sqlite.rows import to_mail, to_nudge


class Mailbox:
    """The tables mail and nudge."""

    def __init__(self, connection: Connection, events: EventLog) -> None:
        self._query = connection.query
        self._transaction = connection.transaction
        self._events = events

    def send_mail(
        self,
        sender: str,
        to: str,
        subject: str,
        body: str,
        now: float,
        *,
        reply_to: int | None = None,
    ) -> Mail:
        with self._transaction():
            thread = 0 if reply_to is None else self._thread(reply_to)
            values = (thread, sender, to, subject, body, now)
            mail = to_mail(self._query(statements.INSERT_MAIL, values)[0])
            if reply_to is None:
                self._query(statements.START_THREAD, (mail.id,))
                mail = mail._replace(thread=mail.id)
            data = {"from": sender, "to": to, "subject": subject, "thread": mail.thread}
            self._events.append_event("mail.sent", str(mail.id), now, data, sender)
            return mail

    def _thread(self, reply_to: int) -> int:
        rows = self._query(statements.MAIL_THREAD, (reply_to,))
        if not rows:
            raise KeyError(reply_to)
        return int(rows[0][0])

    def mail(self, id: int) -> Mail | None:
        rows = self._query(statements.MAIL_BY_ID, (id,))
        return to_mail(rows[0]) if rows else None

    def inbox(self, names: Sequence[str], *, unread: bool = False) -> list[Mail]:
        rows = self._query(statements.inbox(names, unread=unread), names)
        return [to_mail(row) for row in rows]

    def mark_mail(
        self, ids: Sequence[int], now: float, *, archive: bool = False, actor: str = HUMAN
    ) -> int:
        column = "archived" if archive else "read"
        with self._transaction():
            rows = self._query(statements.mark_mail(column, ids), (now, *ids))
            for id, sender, to in rows:
                data = {"from": sender, "to": to}
                self._events.append_event(f"mail.{column}", str(id), now, data, actor)
            return len(rows)

    def unread_counts(self) -> dict[str, int]:
        return dict(self._query(statements.UNREAD_COUNTS))

    def add_nudge(self, session: str, text: str, now: float, actor: str = HUMAN) -> Nudge:
        with self._transaction():
            try:
                rows = self._query(statements.INSERT_NUDGE, (session, text, now))
            except ConflictError:  # the foreign key: no such session
                raise KeyError(session) from None
            nudge = to_nudge(rows[0])
            ((agent,),) = self._query(statements.SESSION_AGENT, (session,))
            data = {"agent": agent, "nudge": nudge.id}  # not its text, which is for the session
            self._events.append_event("session.nudged", session, now, data, actor)
            return nudge

    def nudges(self, session: str) -> list[Nudge]:
        return [to_nudge(row) for row in self._query(statements.PENDING_NUDGES, (session,))]

    def mark_nudges(self, ids: Sequence[int], now: float) -> None:
        with self._transaction():
            self._query(statements.mark_nudges(ids), (now, *ids))
