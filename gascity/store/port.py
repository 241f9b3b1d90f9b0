"""The protocol of the store. SQLite implements it today; a server such as PostgreSQL could.

Every method that writes is one durable transaction, or part of the one that `transaction` holds
open. A change of work, a session or mail records its event in the same transaction. `actor` is a
session's id, or HUMAN. A `token` fences a write by an agent: it succeeds only while the agent still
holds the work. A user and the controller pass None.

Methods raise KeyError for an id that does not exist, ValueError for a value that makes no sense,
StaleTokenError for a token that is out of date, ConflictError and StoreError.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gascity.model.work import (
    HUMAN,
    ClaimToken,
    Decision,
    Event,
    Mail,
    NewWork,
    Nudge,
    Run,
    Session,
    Work,
    WorkResult,
)

if TYPE_CHECKING:
    from gascity.model.session_changes import SessionChanges


class StoreError(Exception):
    """The store cannot be read or written at the moment.

    `code`: store-busy, store-full, store-denied, store-broken, store-missing or store-newer.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ConflictError(ValueError):
    """The write contradicts another record, such as an alias that is already in use."""


class Activity(NamedTuple):
    """Work that finished in one step of time, and the cost of the runs that ended in it."""

    start: float
    done: int
    failed: int
    cost: float


class SessionKey(NamedTuple):
    """Keys that select a session for a list, without the rest of its record."""

    id: str
    agent: str
    state: str


class Wakeups(Protocol):
    """Wakes a poll loop after another process has written to the store.

    A wake-up is a hint. It may arrive before the write is committed, so check `Store.changed`
    inside a transaction, or again a moment later. It may also arrive without any change.
    """

    fd: int  # readable when there is something to drain; -1: closed
    # Seconds after which to check `changed` without a wake-up; None: every write is reported.
    recheck: float | None

    def drain(self) -> None:
        """Make `fd` unreadable until the next write."""

    def close(self) -> None: ...


# Of one run: its agent, when it ended, its tokens by kind, and its cost in dollars, if known.
RunUsage = tuple[str, float, Mapping[str, int] | None, float | None]


class Store(Protocol):
    """Durable, shared by processes, and consistent when a writer is killed at any moment."""

    def close(self) -> None: ...

    def transaction(self) -> AbstractContextManager[None]:
        """Commit all writes inside at the end, or none if an exception leaves the block.

        May be nested: the outermost commits, and a nested one that fails is undone alone.
        """

    def subscribe(self) -> Wakeups:
        """Return wake-ups for writes by other processes, starting now."""

    def changed(self) -> bool:
        """Return whether another process has written since the last call. Cheap enough to poll."""

    def deleted(self) -> bool:
        """Return whether the store's data was deleted or replaced while it is open.

        Every transaction then fails with `store-missing`: its writes would be lost.
        """

    def rescue(self, now: float) -> str:
        """Save the records as a backup, also if the data was deleted; return where."""

    def integrity_errors(self) -> list[str]:
        """Check the whole store; return a message per error, or nothing."""

    def prune(self, now: float) -> list[str]:
        """Delete records past their retention, but never unfinished work or live sessions.

        Return the logs and exit files that no remaining record refers to.
        """

    # Work

    def add_work(self, new: NewWork, now: float) -> Work:
        """Add work with the id `<prefix>-<number>`. ValueError if `depends_on` does not exist.

        If work with the same key exists, return that and add nothing.
        """

    def work(self, id: str) -> Work | None: ...

    def list_work(
        self,
        *,
        agent: str | None = None,
        agents: Collection[str] | None = None,
        status: Sequence[str] = (),
        session: str | None = None,
        limit: int | None = None,
        before: str = "",
        words: Sequence[str] = (),
    ) -> list[Work]:
        """Return work, newest first: of an agent, of any of `agents`; older than `before`.

        `words`: each of them occurs in the id, the agent or the title, in any case.
        """

    def count_work(
        self,
        *,
        agents: Collection[str] | None = None,
        status: Sequence[str] = (),
        words: Sequence[str] = (),
    ) -> int:
        """Return how many items `list_work` has with these filters."""

    def work_agents(self) -> list[str]:
        """Return the agents that have work of any status."""

    def claimable(self, agent: str, now: float, limit: int, session: str = "") -> list[Work]:
        """Return the work that can be claimed, by priority, then age.

        Claimable: open, past its `not_before`, all dependencies done, and reserved for no session
        or for `session`. Without `session`, work reserved for any session is left out.
        """

    def reserved(self, agent: str, now: float, session: str) -> Work | None:
        """Return the next claimable work reserved for this session."""

    def reservations(self) -> list[tuple[str, str]]:
        """Return each agent and session for which open work is reserved."""

    def position(self, id: str, now: float) -> int:
        """Return how many claimable items of its agent come before it; 0: it is next."""

    def unfinished_dependencies(self, id: str) -> list[Work]:
        """Return the dependencies that are not done."""

    def dependent_agents(self, id: str) -> list[str]:
        """Return the agents with open work that depends on this item."""

    def child_count(self, id: str) -> int:
        """Return how many items were slung while working on this one."""

    def children(self, ids: Sequence[str]) -> list[Work]:
        """Return the items that were slung while working on any of these, oldest first."""

    def delegations(self, limit: int) -> list[Work]:
        """Return the items that nothing was delegated to, but that others were delegated from.

        Newest first.
        """

    def next_due(self, agent: str, now: float) -> float | None:
        """Return the earliest `not_before` of the agent's open work that is still to come."""

    def work_counts(self, agent: str | None = None) -> dict[str, int]:
        """Return the number of items by status, with all five statuses."""

    def open_agents(self) -> list[str]:
        """Return the agents that have open or claimed work."""

    def open_counts(self) -> dict[str, int]:
        """Return the number of open items by agent, for agents that have any."""

    def update_work(self, id: str, changes: Mapping[str, object], now: float) -> None:
        """Set branch, base, workdir, commits, log, reason or answer_to. Records no event."""

    def claim(
        self, token: ClaimToken, now: float, *, agent: str = "", work: str = ""
    ) -> Work | None:
        """Claim `work` for the token's session if it is claimable, else the agent's next item.

        Counts an attempt. Return None if nothing is claimable. StaleTokenError if the session has
        another generation by now. An item that the token already holds is returned unchanged.
        """

    def finish(
        self,
        id: str,
        status: str,
        result: WorkResult | None,
        now: float,
        *,
        token: ClaimToken | None,
        reason: str = "",
        lost: bool = False,
        actor: str = HUMAN,
    ) -> Work:
        """Finish work as done, failed or cancelled.

        If claimed work fails, that counts a failure, unless its run was `lost`. If it has
        `answer_to`, the result is mailed to its sender, or to `answer_to` if that has ended.
        With a token, only the holder may. StaleTokenError if the token is not the holder's, or if
        the work was finished with another status. Finishing again the same way changes nothing.
        """

    def reopen(
        self,
        id: str,
        now: float,
        *,
        token: ClaimToken | None,
        reason: str,
        not_before: float | None = None,
        failed: bool = False,
        uncounted: bool = False,
        never_ran: bool = False,
        actor: str = HUMAN,
    ) -> Work:
        """Make work claimable again. `failed` counts a failure.

        An `uncounted` attempt does not count against the limits; `never_ran` takes it back, because
        no run was started. Without a token (a user's retry), also reopen finished work; its
        attempts and failures up to then no longer count against the limits. A reservation stays.
        """

    def move_work(
        self, id: str, agent: str, now: float, *, start_from: str, actor: str = HUMAN
    ) -> Work:
        """Queue open work for another agent, with new counters and without its reservation.

        `start_from` replaces that of the item. ValueError if the work is not open.
        """

    def rename_agent(self, old: str, new: str, now: float, actor: str = HUMAN) -> list[str]:
        """Give an agent's unfinished work and unread mail to its new name; return the work ids."""

    # Sessions and runs

    def add_session(self, session: Session, actor: str = HUMAN) -> Session:
        """Add a session. ConflictError if a live session has its alias."""

    def session(self, id: str) -> Session | None: ...

    def sessions(
        self, *, agent: str | None = None, live: bool | None = None, limit: int | None = None
    ) -> list[Session]:
        """Return sessions: live ones first, then the latest updated."""

    def session_keys(self) -> list[SessionKey]:
        """Return a key per session, in the order of a list.

        Pinned ones first, then live ones, those that wait to start again, and the others; of each
        the latest first.
        """

    def sessions_by_id(self, ids: Sequence[str]) -> list[Session]:
        """Return the sessions with these ids that still exist, in this order."""

    def find_sessions(self, reference: str) -> list[Session]:
        """Return the sessions that a user may mean; several if the reference is ambiguous.

        By id; else live ones by alias or name; else any by alias, name or the first 4 or more
        characters of the id, latest first.
        """

    def update_session(
        self,
        id: str,
        changes: "SessionChanges",
        now: float,
        *,
        generation: int | None = None,
        event: str = "",
        data: Mapping[str, object] | None = None,
        actor: str = HUMAN,
    ) -> Session:
        """Set fields, and `updated`; record `event` if given.

        With `generation`, StaleTokenError if the session has another one by now. ConflictError if
        a live session has its alias.
        """

    def delete_session(self, id: str, now: float, actor: str = HUMAN) -> None:
        """Delete a session with its runs and nudges; its work stays.

        Open work reserved for it loses the reservation, because no session could claim it.
        """

    def add_run(self, run: Run) -> Run:
        """Add a run, ignoring its id; return it with its new id."""

    def run(self, id: int) -> Run | None: ...

    def runs(
        self, *, session: str | None = None, work: str | None = None, open: bool | None = None
    ) -> list[Run]:
        """Return runs, latest first; `open`: those that have not ended."""

    def runs_after(self, id: int, limit: int) -> list[Run]:
        """Return the first runs with a higher id, by id."""

    def update_run(self, id: int, changes: Mapping[str, object]) -> None: ...

    def total_cost(self, since: float, agents: Iterable[str] | None = None) -> float:
        """Return the cost of runs that ended since then, of these agents or of all."""

    def run_usage(self, since: float) -> Iterator[RunUsage]:
        """Yield the usage of each run that ended since then, in the order of their starts."""

    def activity(self, since: float, step: float) -> list[Activity]:
        """Return the steps of time since then in which work finished or runs cost something."""

    # Mail and nudges

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
        """Send mail; a reply joins the thread of the mail it answers."""

    def mail(self, id: int) -> Mail | None: ...

    def inbox(
        self,
        names: Sequence[str],
        *,
        unread: bool = False,
        limit: int | None = None,
        before: int | None = None,
    ) -> list[Mail]:
        """Return mail to any of the names that is not archived, newest first.

        `before`: only mail that is older than this id.
        """

    def count_inbox(self, names: Sequence[str], *, unread: bool = False) -> int:
        """Return how many messages `inbox` has."""

    def mark_mail(
        self, ids: Sequence[int], now: float, *, archive: bool = False, actor: str = HUMAN
    ) -> int:
        """Mark mail as read, or archive it; return how many messages changed."""

    def unread_counts(self) -> dict[str, int]:
        """Return the number of unread messages of each recipient that has any."""

    def add_nudge(
        self, session: str, text: str, now: float, actor: str = HUMAN, about: str = ""
    ) -> Nudge:
        """Queue a text for the session's next turn."""

    def nudges(self, session: str) -> list[Nudge]:
        """Return nudges that are not delivered yet, oldest first."""

    def mark_nudges(self, ids: Sequence[int], now: float) -> None:
        """Mark nudges as delivered."""

    def take_nudges(self, session: str, now: float) -> list[Nudge]:
        """Mark all nudges that are not being typed as delivered, and return them, oldest first.

        The caller delivers them. Of two callers each nudge goes to one.
        """

    def set_typing(self, id: int, since: float | None) -> bool:
        """Record that a nudge is being typed, or no longer; False if it is delivered or gone."""

    def drop_nudge(self, id: int) -> None:
        """Delete a nudge that must not be delivered any more."""

    # Events, decisions, notes

    def record_event(
        self, type: str, subject: str, now: float, data: Mapping[str, object], actor: str = HUMAN
    ) -> None:
        """Record an event that is not the change of a record in the store."""

    def events(
        self,
        after: int = 0,
        limit: int = 1000,
        *,
        types: Sequence[str] = (),
        since: float = 0.0,
        newest: bool = False,
    ) -> list[Event]:
        """Return the events after this sequence number, oldest first.

        `types`: of these types; `work` means every type that starts with `work.`. `newest`: the
        last of them instead of the first.
        """

    def count_events(self, after: int = 0, *, types: Sequence[str] = (), since: float = 0.0) -> int:
        """Return how many events `events` has without a limit."""

    def last_event(self) -> int:
        """Return the sequence number of the latest event, or 0."""

    def record_decisions(self, decisions: Iterable[Decision]) -> None:
        """Record decisions; one that repeats the subject's latest only counts up."""

    def decisions(self, subjects: Sequence[str], limit: int = 50) -> list[Decision]:
        """Return decisions about any of the subjects, newest first."""

    def set_note(self, key: str, value: str) -> None:
        """Save a value for the next controller."""

    def get_note(self, key: str) -> str:
        """Return the saved value, or an empty string."""
