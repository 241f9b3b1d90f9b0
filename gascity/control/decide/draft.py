"""The sheet on which one agent's decisions are put down while they are being made."""

from collections.abc import Iterator, Sequence

from gascity.control.standing import BACKING_OFF, fresh, leaving, live, waits_until
from gascity.control.world import (
    Action,
    Blocked,
    Change,
    Demand,
    Facts,
    Pool,
    Restart,
    Room,
    Start,
    Stop,
    Turn,
)
from gascity.model.work import (
    DRAINING,
    IDLE,
    NAMED,
    POOL,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    Session,
)

_ENDLESS = 1 << 30


class Sheet:
    """Sessions as they will stand once what was decided so far is done.

    What ends only later (a stop, a drain) still counts, so nothing is decided on the strength of
    room that is not free yet.
    """

    def __init__(
        self, pool: Pool, facts: Sequence[Facts], demand: Demand, room: Room, now: float
    ) -> None:
        self.pool, self.demand, self.room, self.now = pool, demand, room, now
        order = sorted(facts, key=lambda f: (f.session.slot, f.session.created, f.session.id))
        self.facts = {f.session.id: f for f in order}
        self.sessions = {f.session.id: f.session for f in order}
        self.items = list(demand.items)  # not given to anybody yet
        self.blocked: list[Blocked] = []
        self.done: set[str] = set()  # nothing more is decided about these
        self._stops: list[Action] = []
        self._restarts: list[Action] = []
        self._changes: list[Change] = []
        self._turns: list[Action] = []
        self._starts: list[Start] = []
        self._ends = 0  # sessions that were to stay and now end
        self._opened = 0  # sessions that were not live and now will be
        self.cramped = False  # something is left undone for want of room under others' caps

    # What is decided

    def actions(self) -> tuple[Action, ...]:
        return (*self._stops, *self._restarts, *self._changes, *self._turns, *self._starts)

    def stop(self, session: Session, reason: str, *, timeout: bool = False) -> None:
        self._stops.append(Stop(session.id, "stop", reason, timeout=timeout))
        self._end(session._replace(state=STOPPING))

    def drain(self, session: Session, reason: str) -> None:
        by = self.now + self.pool.drain_timeout
        self._stops.append(Stop(session.id, "drain", reason, by=by))
        self._end(session._replace(state=DRAINING, drain_by=by))

    def _end(self, session: Session) -> None:
        self._ends += not leaving(self.sessions[session.id])
        self._supersede(session)
        self.sessions[session.id] = session
        self.done.add(session.id)

    def _supersede(self, session: Session) -> None:
        """A session that ends or starts anew is not changed as well."""
        self._changes = [one for one in self._changes if one.session != session.id]

    def restart(self, session: Session, reason: str) -> None:
        self._supersede(session)
        self._restarts.append(Restart(session.id, reason))
        self._begin(session._replace(state=STARTING))

    def change(self, session: Session, state: str, reason: str, pending: str = "") -> None:
        """Without `pending` the session is in that state from now on."""
        self._changes.append(Change(session.id, state, reason, pending))
        if pending:
            return
        wanted = any(id == session.id for id, _ in self.demand.reserved)
        if state == STOPPED and session.origin != NAMED and not wanted:
            del self.sessions[session.id]  # its slot is free, and it does not come back
            return
        changed = session._replace(state=state, reason=reason, pending="", retry_at=None)
        self._opened += live(changed) and not live(session)
        self._ends -= leaving(session) and not leaving(changed)
        self.sessions[session.id] = changed

    def turn(self, session: Session, work: str, reason: str, about: str = "") -> None:
        slot, alias = (0, "") if self.fits(session) else self.seat()
        self._turns.append(Turn(session.id, work, reason, about, slot, alias))
        seated = session._replace(slot=slot or session.slot, alias=alias or session.alias)
        runs = session.interactive or work or about
        self._begin(seated._replace(state=RUNNING if runs else IDLE, work=work))

    def _begin(self, session: Session) -> None:
        self._opened += not live(self.sessions[session.id])
        self._ends -= leaving(self.sessions[session.id])
        self.sessions[session.id] = session
        self.done.add(session.id)

    def start(self, work: str, reason: str, about: str = "", *, named: str = "") -> None:
        slot, alias = self.seat()
        origin = NAMED if named else POOL
        new = Start(self.pool.agent, slot, named or alias, origin, work, reason, about)
        self._starts.append(new)
        self._opened += 1

    # What follows from it

    def undecided(self) -> list[Session]:
        return [s for id, s in self.sessions.items() if id not in self.done]

    def idle(self) -> list[Session]:
        """Live, without anything to do, and nothing decided about them; lowest slot first."""
        ready = [s for s in self.undecided() if not waits_until(s, self.now)]
        return [s for s in ready if s.state == IDLE or (fresh(s) and not s.interactive)]

    def rested(self) -> list[Session]:
        """Their back-off is over."""
        waiting = [s for s in self.undecided() if s.state in BACKING_OFF]
        return [s for s in waiting if waits_until(s, self.now) is None]

    def backing_off(self) -> list[Session]:
        waiting = [s for s in self.sessions.values() if s.state in BACKING_OFF]
        return [s for s in waiting if waits_until(s, self.now) is not None]

    def live(self) -> int:
        return sum(map(live, self.sessions.values())) + len(self._starts)

    def pooled(self) -> int:
        """How many there are towards the minimum: the pool's own that stay or will be back."""
        there = [s for s in self.sessions.values() if self.is_pooled(s) and not leaving(s)]
        held = [s for s in there if live(s) or s.state in BACKING_OFF]
        return len(held) + sum(new.origin == POOL for new in self._starts)

    def is_pooled(self, session: Session) -> bool:
        """May it come and go with demand? A named one whose name is no longer given may too."""
        if session.origin == POOL:
            return True
        return session.origin == NAMED and session.alias not in self.names()

    def names(self) -> tuple[str, ...]:
        return tuple(named.alias for named in self.pool.named)

    def active(self) -> bool:
        """Is anybody awake, or about to be?"""
        idle = {s.id for s in self.idle()}
        awake = [s for s in self.sessions.values() if s.state in (STARTING, RUNNING, UNKNOWN)]
        return bool(self._starts) or any(s.id not in idle for s in awake)

    def capacity(self, returning: str = "") -> int:
        """How many more may become live. A slot whose session backs off is not free but for it."""
        free = self.room.free
        by_room = _ENDLESS if free is None else free - self._opened
        return min(by_room, self.own_capacity(returning))

    def own_capacity(self, returning: str = "") -> int:
        """The same by the agent's own maximum alone."""
        if self.pool.maximum is None:
            return _ENDLESS
        waiting = sum(s.id != returning for s in self.backing_off())
        return self.pool.maximum - self.live() - waiting

    def slack(self) -> int:
        """How many more may stay, by every cap, once all that leave are gone; below 0: too many."""
        staying = [s for s in self.sessions.values() if live(s) and not leaving(s)]
        most = self.pool.maximum
        own = _ENDLESS if most is None else most - len(staying)
        gone = [sum(leaving(f.session) for f in self.facts.values())] * len(self.room.caps)
        counted = gone if self.room.leaving is None else self.room.leaving
        caps = zip(self.room.caps, counted, strict=True)
        return min([own, *(left + going + self._ends - self._opened for (left, _), going in caps)])

    def seat(self) -> tuple[int, str]:
        """The lowest slot that nobody has, and whose alias nobody has."""
        slots = {s.slot for s in self.sessions.values()} | {s.slot for s in self._starts}
        aliases = {s.alias for s in self.sessions.values()} | {s.alias for s in self._starts}
        aliases |= self.pool.taken | set(self.names())
        slot = 1
        while slot in slots or self._alias(slot) in aliases:
            slot += 1
        return slot, self._alias(slot)

    def _alias(self, slot: int) -> str:
        if slot <= len(self.pool.names):
            return self.pool.names[slot - 1]
        bare = self.bare()
        return bare if slot == 1 and self.pool.maximum == 1 else f"{bare}-{slot}"

    def bare(self) -> str:
        return self.pool.agent.rpartition("/")[2].rpartition(".")[2]

    def fits(self, session: Session) -> bool:
        """Has nobody else its slot or its alias? A session that is live has both to itself."""
        if live(session):
            return True
        others = [s for s in self.sessions.values() if live(s)]
        aliases = {s.alias for s in others} | self.pool.taken | {s.alias for s in self._starts}
        slots = {s.slot for s in others if s.slot} | {s.slot for s in self._starts}
        return session.alias not in aliases and session.slot not in slots

    def may_return(self, session: Session) -> bool:
        """One with a name of its own is nobody without it."""
        return session.origin != NAMED or self.fits(session)

    def missing_names(self) -> Iterator[str]:
        """Aliases that are given and that no session has; those to be always there first."""
        aliases = {s.alias for s in self.sessions.values()} | self.pool.taken
        aliases |= {s.alias for s in self._starts}
        for named in sorted(self.pool.named, key=lambda named: not named.always):
            if named.alias not in aliases:
                yield named.alias
