"""What a city does: work, the sessions that do it, their runs, mail, nudges, events, decisions.

Times are seconds since the epoch. A session id never changes hands, and each start of a session
counts its generation up: the two together are the token of every claim.
"""

from collections.abc import Mapping

from gascity.model.records import NamedTuple

# What may become of work.
OPEN, CLAIMED, DONE, FAILED, CANCELLED = "open", "claimed", "done", "failed", "cancelled"
SETTLED = (DONE, FAILED, CANCELLED)

# What a session may be.
STARTING, RUNNING, IDLE, DRAINING, STOPPING = "starting", "running", "idle", "draining", "stopping"
STOPPED, CRASHED, QUARANTINED, RATE_LIMITED, UNKNOWN = (
    "stopped",
    "crashed",
    "quarantined",
    "rate-limited",
    "unknown",
)
LIVE = (STARTING, RUNNING, IDLE, DRAINING, STOPPING, UNKNOWN)  # these count against every cap

# Why a session is there.
POOL, NAMED, MANUAL = "pool", "named", "manual"

# How a run ended.
SUCCEEDED, BROKE, TIMED_OUT, LOST, LIMITED, ENDED_BY_US, NEVER_RAN = (
    "succeeded",
    "failed",
    "timeout",
    "lost",
    "rate-limited",
    "stopped",
    "never-ran",
)

HUMAN = "human"  # the person, as sender and receiver of mail and as actor of events
URGENT, USUAL, LAST = 0, 2, 4  # priorities


class Token(NamedTuple):
    """Who writes: one start of one session. An older one is refused."""

    session: str
    generation: int


class Stale(Exception):
    """The writer is not who holds it any more. `holder` is who does, or nothing."""

    def __init__(self, message: str, holder: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.holder = holder


class Result(NamedTuple):
    """What came of work. `usage` are tokens by kind, `cost` is in dollars, where they are told."""

    exit_code: int | None = None
    summary: str = ""
    usage: Mapping[str, int] | None = None
    cost: float | None = None


class NewWork(NamedTuple):
    """Work that is slung."""

    agent: str  # qualified, with its rig
    title: str
    body: str
    prefix: str = "w"  # of its id
    priority: int = USUAL
    session: str = ""  # only this session may take it
    depends_on: tuple[str, ...] = ()
    not_before: float | None = None
    sender: str = HUMAN  # or the id of the session it was slung from
    parent: str = ""  # the work in whose course it was slung
    depth: int = 0  # how many such there are above it
    key: str = ""  # of the act of slinging: the same key again is the same work


class Work(NamedTuple):
    """An item of work. It outlives the sessions that try it."""

    id: str
    agent: str
    title: str
    body: str
    status: str
    priority: int
    attempts: int  # starts, but for those that our own stop ended or that never ran
    failures: int
    created: float
    updated: float
    not_before: float | None = None
    session: str = ""  # who has it; while open, the only one that may take it, or nothing
    generation: int = 0
    reserved: bool = False  # `session` is the only one that may take it
    depends_on: tuple[str, ...] = ()
    branch: str = ""
    base: str = ""  # commit that its branch started from
    workdir: str = ""
    commits: int = 0
    result: Result | None = None
    log: str = ""
    reason: str = ""  # why it is as it is, in words
    sender: str = HUMAN
    parent: str = ""
    depth: int = 0


class Session(NamedTuple):
    """A conversation of one agent, and where it stands."""

    id: str
    agent: str
    origin: str
    slot: int
    alias: str  # unique among sessions that are live
    state: str
    reason: str
    created: float
    updated: float
    name: str = ""  # what a person calls it
    interactive: bool = False  # in a terminal, not one run an item
    runtime: str = "process"
    generation: int = 0
    run: int = 0  # its run that goes on, or 0
    pid: int = 0
    workdir: str = ""
    branch: str = ""
    conversation: str = ""  # the provider's own id, to resume by
    prints: Mapping[str, str] = {}  # fingerprint of what it was started with, by part
    started: float | None = None  # its last start
    idle_since: float | None = None
    work: str = ""
    attached: bool = False
    pinned: float | None = None
    crashes: int = 0  # in a row
    retry_at: float | None = None  # quarantined or rate-limited until then
    drain_by: float | None = None
    # What somebody asked of it: start, stop, drain, restart, clear; while it stops, why it does.
    asked: str = ""
    pending: str = ""  # what a restart waits for
    busy_until: float | None = None  # it said that it is at work
    snippet: str = ""  # the last it said


class Run(NamedTuple):
    """One process or turn of a session. pid, ticks and boot together name a process for good."""

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
    handle: str = ""  # what else its runtime knows it by
    ended: float | None = None
    outcome: str = ""
    exit_code: int | None = None
    usage: Mapping[str, int] | None = None
    cost: float | None = None
    lost_bytes: int = 0  # of the log, cut out of its middle
    about: str = ""  # of a run without work: what it is for, such as mail


class Mail(NamedTuple):
    """A message. `to` is an agent, a session's id or alias, or the person."""

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
    """Text for a session's next turn."""

    id: int
    session: str
    text: str
    at: float
    delivered: float | None = None


class Event(NamedTuple):
    """Something that happened. `seq` only grows."""

    seq: int
    at: float
    type: str
    actor: str
    subject: str
    data: Mapping[str, object]


class Decision(NamedTuple):
    """Why something was done, or not. `times`: so often in a row; `at` is the last time."""

    at: float
    subject: str
    action: str
    reason: str
    times: int = 1
