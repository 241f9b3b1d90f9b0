"""What deciding about sessions is made of, and what it comes to. Values only."""

from gascity.model.records import NamedTuple
from gascity.model.work import Session


class Blocked(NamedTuple):
    """Something in the way of work, as `sling` and `status` say it."""

    code: str
    message: str


class Pool(NamedTuple):
    """One agent's settings, as far as they decide about its sessions. None: no limit, never."""

    agent: str
    minimum: int = 0
    maximum: int | None = 1
    interactive: bool = False  # its sessions are in terminals; else each item is a run of its own
    names: tuple[str, ...] = ()  # aliases of its slots
    named: tuple["Named", ...] = ()
    idle_timeout: float | None = None  # ends an idle session
    sleep_after_idle: float | None = None  # stops one that can be resumed
    drain_timeout: float = 300.0
    run_timeout: float | None = None  # longest time of one run
    wake_on_mail: bool = True
    blocked: tuple[Blocked, ...] = ()  # nothing of it may start: suspended, broken, not installed
    awaits: tuple[str, ...] = ()  # agents it depends on that have no live session
    needed: int = 0  # other agents wait for it to be awake
    taken: frozenset[str] = frozenset()  # aliases that other agents' sessions have


class Named(NamedTuple):
    """A session with a name of its own."""

    alias: str
    always: bool


class Limits(NamedTuple):
    """How often work may be tried: again after failures, and in all when runs are lost."""

    retries: int = 0
    max_attempts: int = 3


class Facts(NamedTuple):
    """What is known of a session beyond its record."""

    session: Session
    drift: str = ""  # restart, next start, hot; nothing: as it was started
    drifted: tuple[str, ...] = ()  # which parts


class Room(NamedTuple):
    """How many more sessions may be live, by each cap that has a say; the words name the cap."""

    caps: tuple[tuple[int, Blocked], ...] = ()
    leaving: tuple[int, ...] | None = None  # how many each cap counts that drain or stop by now

    @property
    def free(self) -> int | None:
        """None: no cap."""
        return min((left for left, _ in self.caps), default=None)

    def narrowest(self) -> Blocked | None:
        """The cap that says stop."""
        full = [why for left, why in self.caps if left <= 0]
        return full[0] if full else None


class Demand(NamedTuple):
    """What waits for an agent: claimable items for anybody, and for single sessions."""

    items: tuple[str, ...] = ()  # most urgent first; as many as the pool may have sessions
    reserved: tuple[tuple[str, str], ...] = ()  # (session, item)
    mail: int = 0  # unread messages to the agent
    letters: frozenset[str] = frozenset()  # sessions that have unread messages of their own
    next_due: float | None = None  # when something that waits for its time comes due


class Start(NamedTuple):
    """Make a session in a free slot, and give it its first item, if there is one."""

    agent: str
    slot: int
    alias: str
    origin: str
    work: str
    reason: str
    about: str = ""


class Turn(NamedTuple):
    """Have a session that is there run: an item, its mail, or just its terminal again."""

    session: str
    work: str
    reason: str
    about: str = ""
    slot: int = 0  # and alias: others, if its own were taken while it was not there
    alias: str = ""


class Stop(NamedTuple):
    """End a session. `how`: drain (finish what it does), or stop (interrupt, then kill)."""

    session: str
    how: str
    reason: str
    by: float | None = None  # a drain's end
    timeout: bool = False  # the run went on for too long: its work failed


class Change(NamedTuple):
    """Put down something about a session without touching what it runs.

    With `pending`, what was asked of it still waits. Without, nothing is left of what was asked,
    of a drain's end or of a back-off.
    """

    session: str
    state: str
    reason: str
    pending: str = ""


class Restart(NamedTuple):
    """End what a session runs and start it again with today's definition."""

    session: str
    reason: str


Action = Start | Turn | Stop | Change | Restart


class Verdict(NamedTuple):
    """What is to be done about one agent's sessions, in order: stops, changes, turns, starts."""

    actions: tuple[Action, ...] = ()
    wake_at: float | None = None  # nothing changes before then unless something happens
    blocked: tuple[Blocked, ...] = ()  # why waiting items are not taken
    reason: str = ""  # one line for `status`
    cramped: bool = False  # something was left undone for want of room under a cap of others
