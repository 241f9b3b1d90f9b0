"""Mail, and nudges to sessions."""

from collections.abc import Sequence

from gascity.model.work import HUMAN, Mail, Nudge
from gascity.store.book import Conflict
from gascity.store.happenings import Happenings
from gascity.store.rows import MAIL, NUDGE, marks, to_mail, to_nudge


class Post(Happenings):
    """What people and sessions write to each other."""

    def send(
        self,
        sender: str,
        to: str,
        subject: str,
        body: str,
        now: float,
        *,
        reply_to: int | None = None,
    ) -> Mail:
        """A reply keeps its thread. KeyError if there is no such mail."""
        with self.writing():
            thread = 0 if reply_to is None else self._thread(reply_to)
            values = (thread, sender, to, subject, body, now)
            (row,) = self.ask(
                "INSERT INTO mail (thread, sender, recipient, subject, body, at)"
                f" VALUES (?, ?, ?, ?, ?, ?) RETURNING {MAIL}",
                values,
            )
            mail = to_mail(row)
            if reply_to is None:
                self.ask("UPDATE mail SET thread = id WHERE id = ?", (mail.id,))
                mail = mail._replace(thread=mail.id)
            told = {"from": sender, "to": to, "subject": subject, "thread": mail.thread}
            self._tell("mail.sent", str(mail.id), now, told, sender)
            return mail

    def _thread(self, reply_to: int) -> int:
        rows = self.ask("SELECT thread FROM mail WHERE id = ?", (reply_to,))
        if not rows:
            raise KeyError(reply_to)
        return int(rows[0][0])

    def mail(self, id: int) -> Mail | None:
        """One message, or none."""
        rows = self.ask(f"SELECT {MAIL} FROM mail WHERE id = ?", (id,))
        return to_mail(rows[0]) if rows else None

    def inbox(self, names: Sequence[str], *, unread: bool = False) -> list[Mail]:
        """Mail to any of the names that is not archived, newest first."""
        where = "archived IS NULL AND read IS NULL" if unread else "archived IS NULL"
        rows = self.ask(
            f"SELECT {MAIL} FROM mail WHERE recipient IN ({marks(names)}) AND {where}"
            " ORDER BY id DESC",
            names,
        )
        return [to_mail(row) for row in rows]

    def mark_mail(
        self, ids: Sequence[int], now: float, *, archive: bool = False, actor: str = HUMAN
    ) -> int:
        """Read, or archived; how many changed."""
        column = "archived" if archive else "read"
        with self.writing():
            rows = self.ask(
                f"UPDATE mail SET {column} = ? WHERE id IN ({marks(ids)}) AND {column} IS NULL"
                " RETURNING id, sender, recipient",
                (now, *ids),
            )
            for id, sender, to in rows:
                self._tell(f"mail.{column}", str(id), now, {"from": sender, "to": to}, actor)
            return len(rows)

    def unread(self) -> dict[str, int]:
        """Who has unread mail, and how much."""
        sql = (
            "SELECT recipient, COUNT(*) FROM mail WHERE archived IS NULL AND read IS NULL"
            " GROUP BY recipient"
        )
        return {name: count for name, count in self.ask(sql)}

    def add_nudge(self, session: str, text: str, now: float, actor: str = HUMAN) -> Nudge:
        """For the session's next turn. KeyError if there is no such session."""
        with self.writing():
            sql = f"INSERT INTO nudge (session, text, at) VALUES (?, ?, ?) RETURNING {NUDGE}"
            try:
                nudge = to_nudge(self.ask(sql, (session, text, now))[0])
            except Conflict:
                raise KeyError(session) from None
            ((agent,),) = self.ask("SELECT agent FROM session WHERE id = ?", (session,))
            told = {"agent": agent, "nudge": nudge.id}
            self._tell("session.nudged", session, now, told, actor)
            return nudge

    def nudges(self, session: str) -> list[Nudge]:
        """Not delivered yet, in order."""
        sql = f"SELECT {NUDGE} FROM nudge WHERE session = ? AND delivered IS NULL ORDER BY id"
        return [to_nudge(row) for row in self.ask(sql, (session,))]

    def mark_nudges(self, ids: Sequence[int], now: float) -> None:
        """They are delivered."""
        with self.writing():
            where = f"id IN ({marks(ids)}) AND delivered IS NULL"
            self.ask(f"UPDATE nudge SET delivered = ? WHERE {where}", (now, *ids))
