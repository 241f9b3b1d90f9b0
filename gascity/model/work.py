"""Records of a running city: work items, sessions, runs, mail, nudges, events, decisions.

Times are seconds since the epoch. Field names are column names of the store and keys of the JSON
output.

Claims and generations: a session claims a work item before it runs it. Each start of a session
increments the session's generation, and every claim is held by a token of session id and
generation. A write with an older token is refused (`StaleTokenError`), so a process that outlived
a restart cannot finish or reopen an item that now belongs to a later start of the same session.
"""

from collections.abc import Mapping
from typing import NamedTuple

# Status of a work item, as stored and in JSON. Show users `status_word`.
OPEN, CLAIMED, DONE, FAILED, CANCELLED = "open", "claimed", "done", "failed", "cancelled"
FINISHED = (DONE, FAILED, CANCELLED)

# State of a session.
STARTING, RUNNING, IDLE, DRAINING, STOPPING = "starting", "running", "idle", "draining", "stopping"
WAITING = "waiting"
STOPPED, CRASHED, QUARANTINED, RATE_LIMITED, UNKNOWN = (
    "stopped",
    "crashed",
    "quarantined",
    "rate-limited",
    "unknown",
)
# Live sessions count against every session limit. WAITING: its terminal shows a dialog that only a
# user may answer.
LIVE = (STARTING, RUNNING, IDLE, WAITING, DRAINING, STOPPING, UNKNOWN)
STATES = (*LIVE[:-1], STOPPED, CRASHED, QUARANTINED, RATE_LIMITED, UNKNOWN)

# Origin of a session: the pool, a [[named_session]] table, or a user.
POOL, NAMED, MANUAL = "pool", "named", "manual"

# Outcome of a run.
SUCCEEDED, RUN_FAILED, TIMED_OUT, LOST, LIMITED, STOPPED_BY_CITY, NEVER_RAN = (
    "succeeded",
    "failed",
    "timeout",
    "lost",
    "rate-limited",
    "stopped",
    "never-ran",
)

SELF_RESTART = "self-restart"  # request of a session for its own restart; users send `restart`

HUMAN = "human"  # the user, as sender and recipient of mail and as actor of events
HIGHEST, NORMAL, LOWEST = 0, 2, 4  # priorities

_STATUS_WORDS = {OPEN: "queued", CLAIMED: "running"}


def status_word(status: str) -> str:
    """Return the word for a work status in human output: queued running done failed cancelled."""
    return _STATUS_WORDS.get(status, status)


STATUS_OF_WORD = {status_word(status): status for status in (OPEN, CLAIMED, *FINISHED)}


class ClaimToken(NamedTuple):
    """Identifies one start of one session. Writes with an older generation are refused."""

    session: str
    generation: int


class StaleTokenError(Exception):
    """The writer no longer holds the work item. `holder` is the session that does, or empty."""

    def __init__(self, message: str, holder: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.holder = holder


class WorkResult(NamedTuple):
    """Result of a work item. `usage` counts tokens by kind and `cost` is in dollars, if known."""

    exit_code: int | None = None
    summary: str = ""
    usage: Mapping[str, int] | None = None
    cost: float | None = None


class NewWork(NamedTuple):
    """A work item to enqueue."""

    agent: str  # qualified, with its rig
    title: str
    body: str
    prefix: str = "w"  # of its id
    priority: int = NORMAL
    session: str = ""  # reserved for this session
    depends_on: tuple[str, ...] = ()
    not_before: float | None = None
    sender: str = HUMAN  # or the id of the session that slung it
    parent: str = ""  # the item its sender was working on
    depth: int = 0  # number of ancestors
    key: str = ""  # idempotency key: the same key again returns the same item
    start_from: str = ""  # a work item or branch whose commits it starts from
    no_reflection: bool = False  # no run follows it, whatever the agent's settings say
    answer_to: str = ""  # agent, or the user, that gets the result by mail


class Work(NamedTuple):
    """A work item. It outlives the sessions that try it."""

    id: str
    agent: str
    title: str
    body: str
    status: str
    priority: int
    attempts: int  # starts of a run, however they ended
    failures: int
    created: float
    updated: float
    not_before: float | None = None
    session: str = ""  # its claimant; while open, the session it is reserved for
    generation: int = 0
    reserved: bool = False  # only `session` may claim it
    depends_on: tuple[str, ...] = ()
    branch: str = ""
    base: str = ""  # commit its branch started from
    workdir: str = ""
    commits: int = 0
    result: WorkResult | None = None
    log: str = ""
    reason: str = ""  # why it has its status
    sender: str = HUMAN
    parent: str = ""
    depth: int = 0
    start_from: str = ""  # a work item or branch; empty: the rig's default branch
    attempts_before: int = 0  # those that do not count against the limits, as before a user's retry
    failures_before: int = 0
    no_reflection: bool = False
    answer_to: str = ""  # the sender's agent, or the user: its result is mailed to the sender

    @property
    def attempts_since_retry(self) -> int:
        """The attempts that count against the limits."""
        return self.attempts - self.attempts_before

    @property
    def failures_since_retry(self) -> int:
        """The failures that count against the limits."""
        return self.failures - self.failures_before


class Session(NamedTuple):
    """One conversation of an agent and its current state."""

    id: str
    agent: str
    origin: str
    slot: int
    alias: str  # unique among live sessions
    state: str
    reason: str
    created: float
    updated: float
    name: str = ""  # given by the user
    interactive: bool = False  # runs in a terminal; otherwise one run per work item
    runtime: str = "process"
    generation: int = 0
    run: int = 0  # id of its current run, or 0
    pid: int = 0
    workdir: str = ""
    branch: str = ""
    conversation: str = ""  # the provider's conversation id, for resuming
    prints: Mapping[str, str] = {}  # fingerprints of what it was started with, by part
    started: float | None = None  # time of its last start
    idle_since: float | None = None
    work: str = ""
    attached: bool = False
    pinned: float | None = None
    crashes: int = 0  # consecutive
    retry_at: float | None = None  # end of its back-off
    drain_by: float | None = None
    # A request: start, stop, drain, restart, self-restart, clear, delete; while stopping: why it
    # stops; while draining: `drain` if the session asked for it.
    asked: str = ""
    pending: str = ""  # why a requested restart is delayed
    busy_until: float | None = None  # it reported to be busy until then
    snippet: str = ""  # start of its last output


class Run(NamedTuple):
    """One process or turn of a session. pid, ticks and boot id identify a process uniquely."""

    id: int
    session: str
    generation: int
    work: str
    runtime: str
    started: float
    log: str
    exit_file: str
    pid: int = 0
    ticks: int = 0
    boot: str = ""
    handle: str = ""  # the runtime's own name for it
    ended: float | None = None
    outcome: str = ""
    exit_code: int | None = None
    usage: Mapping[str, int] | None = None
    cost: float | None = None
    lost_bytes: int = 0  # bytes cut out of the middle of its log
    about: str = ""  # purpose of a run without a work item: `mail ID,ID` or `reflection WORK`
    token: str = ""  # SHA-256 of its secret; empty: started by a version without tokens


class Mail(NamedTuple):
    """A message. `to` is an agent, a session's id or alias, or the user."""

    id: int
    thread: int
    sender: str
    to: str
    subject: str
    body: str
    at: float
    read: float | None = None
    archived: float | None = None


class Nudge(NamedTuple):
    """A text for a session's next turn."""

    id: int
    session: str
    text: str
    at: float
    delivered: float | None = None
    # `work ID`, `mail ID,ID` or `reflection ID`: what else is settled once it is delivered.
    about: str = ""
    typing: float | None = None  # since when it is being typed, so that nothing else delivers it


def subject_of(nudge: Nudge) -> tuple[str, list[str]]:
    """Return what a nudge is about: `work`, `mail` or `reflection` with ids; "" for a text."""
    kind, _, ids = nudge.about.partition(" ")
    return kind, ids.split(",") if ids else []


class Event(NamedTuple):
    """An event. `seq` only increases."""

    seq: int
    at: float
    type: str
    actor: str
    subject: str
    data: Mapping[str, object]


class Decision(NamedTuple):
    """A scheduling decision and its reason. `times` counts repeats; `at` is the last one."""

    at: float
    subject: str
    action: str
    reason: str
    times: int = 1
