"""What a store must do; SQLite is behind it, and PostgreSQL can be.

Every method that writes is one durable transaction, or part of the one that `writing` holds open.
What happens to work, sessions and mail is told as an event in the same transaction. `actor` is a
session's id or the person. A `token` fences a write; None is a person's or the controller's own.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gascity.model.work import (
    HUMAN,
    Decision,
    Event,
    Mail,
    NewWork,
    Nudge,
    Result,
    Run,
    Session,
    Token,
    Work,
)


class StoreFault(Exception):
    """The store cannot do it now.

    `code`: store-busy, store-full, store-denied, store-broken, store-newer.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Store(Protocol):
    """Durable, shared by processes, and safe against a writer that is killed at any moment."""

    def close(self) -> None: ...

    def writing(self) -> AbstractContextManager[None]:
        """Several writes as one: all are there, or none. May be nested; the outermost commits."""

    def faults(self) -> list[str]:
        """What an integrity check finds; nothing if it is sound."""

    def prune(self, now: float) -> list[str]:
        """Let go of what is older than its retention. Open work and live sessions never go.

        Gives the files that nothing in the store names any more: logs and exit files of runs.
        """

    # Work

    def put(self, new: NewWork, now: float) -> Work:
        """Keep new work, as `<prefix>-<number>`. Unknown or cyclic `depends_on`: ValueError.

        What was put before with the same key is that work, and nothing is kept.
        """

    def work(self, id: str) -> Work | None: ...

    def list_work(
        self,
        *,
        agent: str | None = None,
        status: Sequence[str] = (),
        session: str | None = None,
        limit: int | None = None,
    ) -> list[Work]:
        """Newest first."""

    def claimable(self, agent: str, now: float, limit: int, session: str = "") -> list[Work]:
        """THE predicate of claiming and of demand, most urgent first, then first come.

        Open, its time has come, all it depends on is done, and reserved for nobody, or for
        `session`. Without `session`, what is reserved for any session is left out.
        """

    def reserved(self, agent: str, now: float, session: str) -> Work | None:
        """The next claimable item that is for this session alone."""

    def reservations(self) -> list[tuple[str, str]]:
        """Agents and sessions of theirs that have open work of their own."""

    def position(self, id: str, now: float) -> int:
        """How many claimable items of its agent stand before it; 0: it is next."""

    def waits_for(self, id: str) -> list[Work]:
        """What it depends on that is not done."""

    def dependents(self, id: str) -> list[str]:
        """Agents whose open work waits for it, or has waited for it."""

    def children(self, id: str) -> int:
        """How much work was slung in the course of it."""

    def next_due(self, agent: str, now: float) -> float | None:
        """When the next open item of the agent is due that is not yet."""

    def counts(self, agent: str | None = None) -> dict[str, int]:
        """How much work there is by status: all five words."""

    def open_agents(self) -> list[str]:
        """Agents that have open or claimed work."""

    def claim(self, token: Token, now: float, *, agent: str = "", work: str = "") -> Work | None:
        """Give the session one item: `work` if it is claimable, else the agent's next; None: none.

        Counts an attempt. Stale if the token is not the session's present generation. An item
        that the token's session and generation hold already is returned as it is.
        """

    def finish(
        self,
        id: str,
        status: str,
        result: Result | None,
        now: float,
        *,
        token: Token | None,
        reason: str = "",
        actor: str = HUMAN,
    ) -> Work:
        """Settle work for good: done, failed or cancelled. KeyError if there is none.

        With a token only the holder may; Stale otherwise, and also where the work is settled
        differently already. Settling again the same way changes nothing.
        """

    def reopen(
        self,
        id: str,
        now: float,
        *,
        token: Token | None,
        reason: str,
        not_before: float | None = None,
        failed: bool = False,
        uncounted: bool = False,
        actor: str = HUMAN,
    ) -> Work:
        """Make it claimable again. `failed` counts a failure, `uncounted` takes the attempt back.

        Without a token (a person's retry) also settled work, whose counters then start anew.
        A reservation stays.
        """

    def note_work(self, id: str, changes: Mapping[str, object], now: float) -> None:
        """Put down branch, base, workdir, commits, log or reason of work; no event."""

    # Sessions and runs

    def add_session(self, session: Session, actor: str = HUMAN) -> Session:
        """ValueError if a live session has its alias."""

    def session(self, id: str) -> Session | None: ...

    def sessions(
        self, *, agent: str | None = None, live: bool | None = None, limit: int | None = None
    ) -> list[Session]:
        """Live ones first, then the latest updated; deleted ones are gone."""

    def find_sessions(self, reference: str) -> list[Session]:
        """By whole id; else live by alias or name; else any by alias or name, latest first, or by
        the beginning of an id (4 letters or more). Several: it is ambiguous."""

    def set_session(
        self,
        id: str,
        changes: Mapping[str, object],
        now: float,
        *,
        generation: int | None = None,
        event: str = "",
        data: Mapping[str, object] | None = None,
        actor: str = HUMAN,
    ) -> Session:
        """Change columns; `updated` moves. With `generation`: Stale if it is another by now."""

    def delete_session(self, id: str, now: float, actor: str = HUMAN) -> None:
        """It and its runs and nudges are gone; what it worked on stays.

        Work that was for it alone is for anybody now: nobody else could ever take it.
        """

    def add_run(self, run: Run) -> Run:
        """`run.id` is 0 and gets its number."""

    def run(self, id: int) -> Run | None: ...

    def runs(
        self, *, session: str | None = None, work: str | None = None, open: bool | None = None
    ) -> list[Run]:
        """Latest first; `open`: not ended."""

    def set_run(self, id: int, changes: Mapping[str, object]) -> None: ...

    def spent(self, since: float, agents: Iterable[str] | None = None) -> float:
        """What runs that ended since then have cost, of these agents or of all."""

    # Mail and nudges

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

    def mail(self, id: int) -> Mail | None: ...

    def inbox(self, names: Sequence[str], *, unread: bool = False) -> list[Mail]:
        """Mail to any of the names that is not archived, newest first."""

    def mark_mail(
        self, ids: Sequence[int], now: float, *, archive: bool = False, actor: str = HUMAN
    ) -> int:
        """Read, or archived; how many changed."""

    def unread(self) -> dict[str, int]:
        """Who has unread mail, and how much."""

    def add_nudge(self, session: str, text: str, now: float, actor: str = HUMAN) -> Nudge: ...

    def nudges(self, session: str) -> list[Nudge]:
        """Not delivered yet, in order."""

    def mark_nudges(self, ids: Sequence[int], now: float) -> None: ...

    # What happened

    def record(
        self, type: str, subject: str, now: float, data: Mapping[str, object], actor: str = HUMAN
    ) -> None:
        """An event of the controller's or the configuration's."""

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """In order, those after a number."""

    def last_event(self) -> int: ...

    def changed(self) -> bool:
        """Has anybody else written since this was asked last? Cheap: reads no table."""

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Keep decisions; the same one again only counts up."""

    def decisions(self, subjects: Sequence[str], limit: int = 50) -> list[Decision]:
        """Of any of the subjects, newest first."""

    # What a controller leaves for the next

    def note(self, key: str, value: str) -> None: ...

    def noted(self, key: str) -> str: ...
