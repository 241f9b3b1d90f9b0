"""Facts that the reconciler gets about one agent, actions that it may choose, and its result."""

from typing import NamedTuple

from gascity.control.decide.types import Blocked
from gascity.model.work import Session


class ObservedSession(NamedTuple):
    """A session, and how its definition differs from the one it was started with."""

    session: Session
    drift: str = ""  # restart, next start or hot; empty: unchanged
    drifted: tuple[str, ...] = ()  # changed parts of the definition


class Headroom(NamedTuple):
    """Number of additional sessions that each cap allows, with the reason if it is full."""

    caps: tuple[tuple[int, Blocked], ...] = ()
    ending: tuple[int, ...] | None = None  # sessions by cap that drain or stop

    @property
    def free(self) -> int | None:
        """The number of sessions that all caps allow; None: no cap."""
        return min((left for left, _ in self.caps), default=None)

    def narrowest(self) -> Blocked | None:
        """The first full cap."""
        full = [why for left, why in self.caps if left <= 0]
        return full[0] if full else None


class Demand(NamedTuple):
    """Queued work of an agent: items for any session, items reserved for one, and mail."""

    items: tuple[str, ...] = ()  # most urgent first; one more than the session limit
    reserved: tuple[tuple[str, str], ...] = ()  # (session, item)
    mail: int = 0  # unread messages to the agent
    letters: frozenset[str] = frozenset()  # sessions with unread messages
    next_due: float | None = None  # when the next postponed item becomes due


class CreateSession(NamedTuple):
    """Create a session in a free slot and give it its first item, if any."""

    agent: str
    slot: int
    alias: str
    origin: str
    work: str
    reason: str
    about: str = ""


class RunSession(NamedTuple):
    """Run an existing session: for an item, for its mail, or to open its terminal again."""

    session: str
    work: str
    reason: str
    about: str = ""
    slot: int = 0  # new slot and alias, if its own were taken meanwhile
    alias: str = ""


class StopSession(NamedTuple):
    """End a session. `how`: drain (let it finish), or stop (interrupt, then kill)."""

    session: str
    how: str
    reason: str
    by: float | None = None  # end of the drain
    timeout: bool = False  # the run exceeded its time limit, so its item fails


class UpdateSession(NamedTuple):
    """Update a session's record without touching its run.

    With `pending`, its request stays open. Without, request, drain and back-off are over.
    """

    session: str
    state: str
    reason: str
    pending: str = ""


class RestartSession(NamedTuple):
    """End a session's run and start it again with the current definition."""

    session: str
    reason: str


Action = CreateSession | RunSession | StopSession | UpdateSession | RestartSession


class ReconcileResult(NamedTuple):
    """Actions for one agent's sessions, in order: stops, restarts, updates, runs, starts."""

    actions: tuple[Action, ...] = ()
    wake_at: float | None = None  # when to reconcile again if nothing happens before
    blocked: tuple[Blocked, ...] = ()  # why queued items do not start
    reason: str = ""  # one line for `status`
    lacks_headroom: bool = False  # a shared cap prevented something
