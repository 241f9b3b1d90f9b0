"""The sessions of a city and what they run, as the store has them.

All of it changes inside one transaction of the loop. What was spawned in it is held until that is
committed, so nothing runs that is not on record.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count

from gascity.control.launch import Errand
from gascity.control.roster import Roster
from gascity.control.workers import Workers
from gascity.control.world import Blocked
from gascity.materialise.furnish import Furnished
from gascity.model.names import parse_name
from gascity.model.records import NamedTuple
from gascity.model.work import Decision, Run, Session, Stale, Token
from gascity.runtimes.runtime import Handle, Runtime
from gascity.store.port import Store

CONTROLLER = "controller"  # who acts, as events name it


class Going(NamedTuple):
    """A run that goes on."""

    run: Run
    runtime: Runtime
    handle: Handle
    files: tuple[str, ...] = ()  # what it was handed


class Ending(NamedTuple):
    """A run that is being ended: why, how far that has come, and when it goes further."""

    ours: str  # stop, timeout, cancel, restart
    stage: int
    next_at: float  # of the steady clock


class Crew:
    """Sessions and their runs. `now` and `steady` are set for each round."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        store: Store,
        runtimes: Mapping[str, Runtime],
        workers: Workers,
    ) -> None:
        self.root = root
        self.environ = environ
        self.store = store
        self.runtimes = runtimes
        self.workers = workers
        self.now = 0.0
        self.steady = 0.0
        self.patience = 60.0  # how long a directory may take to get ready
        self.roster = Roster()
        self.going: dict[str, Going] = {}  # by session, as all of these
        self.ending: dict[str, Ending] = {}
        self.preparing: dict[str, Errand] = {}
        self.furnished: dict[str, Furnished] = {}
        self.typing: set[str] = set()  # in terminals, with something to be told there
        self.held: list[tuple[str, Going]] = []  # spawned, and not yet on record
        self.obstructed: dict[str, Blocked] = {}  # by agent: why its last start failed
        self.dirty: dict[str, None] = {}
        self.mail_changed = False
        self.leaving = False  # the whole city is being stopped
        self.decisions: list[Decision] = []

    def touch(self, agent: str) -> None:
        """Something happened to an agent: it is to be looked at."""
        self.dirty[agent] = None

    def decided(self, subject: str, action: str, reason: str) -> None:
        self.decisions.append(Decision(self.now, subject, action, reason))

    def change(self, session: Session, event: str = "", **columns: object) -> Session:
        """Put down what a session is from now on."""
        told = {"agent": session.agent, "state": columns.get("state", session.state)}
        if columns.get("reason"):
            told["reason"] = columns["reason"]
        after = self.store.set_session(
            session.id, columns, self.now, event=event, data=told, actor=CONTROLLER
        )
        self.roster.put(after)
        self.touch(session.agent)
        return after

    def renamed(self, session: Session) -> Session:
        """A session that comes back, by another alias if somebody else goes by its own now."""
        other = self.roster.called(session.alias)
        if other is None or other.id == session.id:
            return session
        slot = max((one.slot for one in self.roster.of(session.agent)), default=0) + 1
        bare = parse_name(session.agent).bare
        names = (f"{bare}-{n}" for n in count(slot))
        alias = next(name for name in names if self.roster.called(name) is None)
        return self.change(session, slot=slot, alias=alias)

    def give_back(self, session: Session, item: str, reason: str) -> None:
        """An item that a session has and will not do is free again, as if it had not had it."""
        token = Token(session.id, session.generation)
        with suppress(Stale):  # somebody has settled it meanwhile
            self.store.reopen(
                item, self.now, token=token, reason=reason, uncounted=True, actor=CONTROLLER
            )

    def mark_mail(self, session: Session, ids: list[int]) -> None:
        """A session was told of its messages."""
        self.store.mark_mail(ids, self.now, actor=session.id)
        self.mail_changed = True

    def call_off(self, session: Session) -> None:
        """A session that is being made ready is not wanted any more."""
        errand = self.preparing.pop(session.id, None)
        if errand is not None and errand.work is not None:
            self.give_back(errand.session, errand.work.id, "it was called off")

    def start_over(self) -> None:
        """Forget everything. What was spawned and could not be put on record must not run."""
        self.workers.forget()
        self.abandon(lambda _: True)
        for kept in (self.going, self.ending, self.preparing, self.furnished):
            kept.clear()
        self.decisions = []
        self.typing.clear()
        self.obstructed.clear()
        self.dirty.clear()
        self.roster = Roster()

    def abandon(self, agents: Callable[[str], bool]) -> None:
        """End what was spawned for agents and is not to be put on record."""
        kept = []
        for id, going in self.held:
            session = self.roster.get(id)
            if session is None or agents(session.agent):
                with suppress(OSError):
                    going.runtime.kill(going.handle)
                self.going.pop(id, None)
            else:
                kept.append((id, going))
        self.held = kept
