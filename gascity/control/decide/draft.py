"""Mutable draft of one agent's reconcile: its sessions after the actions chosen so far."""

from collections.abc import Iterator, Sequence

from gascity.control.decide.actions import (
    Action,
    CreateSession,
    Demand,
    Headroom,
    ObservedSession,
    RestartSession,
    RunSession,
    StopSession,
    UpdateSession,
)
from gascity.control.decide.types import (
    BACKING_OFF,
    Blocked,
    Pool,
    backoff_end,
    is_ending,
    is_live,
    is_new_manual,
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
    WAITING,
    Session,
)

_ENDLESS = 1 << 30
_AWAKE = (STARTING, RUNNING, WAITING, UNKNOWN)


class Draft:
    """Collects actions, and shows the sessions as they will be once these are carried out.

    A session that is stopping or draining still counts until it has ended: its slot and its place
    under the caps are not free yet, so nothing else may use them.
    """

    def __init__(
        self,
        pool: Pool,
        facts: Sequence[ObservedSession],
        demand: Demand,
        room: Headroom,
        now: float,
    ) -> None:
        self.pool, self.demand, self.room, self.now = pool, demand, room, now
        order = sorted(facts, key=lambda f: (f.session.slot, f.session.created, f.session.id))
        self.facts = {f.session.id: f for f in order}
        self.sessions = {f.session.id: f.session for f in order}
        self.items = list(demand.items)  # not assigned yet
        self.blocked: list[Blocked] = []
        self.decided: set[str] = set()  # sessions with an action
        self._stops: list[Action] = []
        self._restarts: list[Action] = []
        self._changes: list[UpdateSession] = []
        self._turns: list[Action] = []
        self._starts: list[CreateSession] = []
        self._ends = 0  # sessions that end by this draft
        self._opened = 0  # sessions that become live by this draft
        self.lacks_headroom = False  # a shared cap prevented something

    # Choosing actions

    def actions(self) -> tuple[Action, ...]:
        return (*self._stops, *self._restarts, *self._changes, *self._turns, *self._starts)

    def stop(self, session: Session, reason: str, *, timeout: bool = False) -> None:
        self._stops.append(StopSession(session.id, "stop", reason, timeout=timeout))
        self._end(session._replace(state=STOPPING))

    def drain(self, session: Session, reason: str) -> None:
        by = self.now + self.pool.drain_timeout
        self._stops.append(StopSession(session.id, "drain", reason, by=by))
        self._end(session._replace(state=DRAINING, drain_by=by))

    def _end(self, session: Session) -> None:
        self._ends += not is_ending(self.sessions[session.id])
        self._supersede(session)
        self.sessions[session.id] = session
        self.decided.add(session.id)

    def _supersede(self, session: Session) -> None:
        """Drop updates of a session that ends or restarts anyway."""
        self._changes = [one for one in self._changes if one.session != session.id]

    def restart(self, session: Session, reason: str) -> None:
        self._supersede(session)
        self._restarts.append(RestartSession(session.id, reason))
        self._begin(session._replace(state=STARTING))

    def change(self, session: Session, state: str, reason: str, pending: str = "") -> None:
        """Update a session; without `pending` it has the new state from now on."""
        self._changes.append(UpdateSession(session.id, state, reason, pending))
        if pending:
            return
        wanted = any(id == session.id for id, _ in self.demand.reserved)
        if state == STOPPED and session.origin != NAMED and not wanted:
            del self.sessions[session.id]  # frees its slot; it does not come back
            return
        changed = session._replace(state=state, reason=reason, pending="", retry_at=None)
        self._opened += is_live(changed) and not is_live(session)
        self._ends -= is_ending(session) and not is_ending(changed)
        self.sessions[session.id] = changed

    def run(self, session: Session, work: str, reason: str, about: str = "") -> None:
        slot, alias = (0, "") if self.has_free_slot(session) else self.free_slot()
        self._turns.append(RunSession(session.id, work, reason, about, slot, alias))
        seated = session._replace(slot=slot or session.slot, alias=alias or session.alias)
        runs = session.interactive or work or about
        self._begin(seated._replace(state=RUNNING if runs else IDLE, work=work))

    def _begin(self, session: Session) -> None:
        self._opened += not is_live(self.sessions[session.id])
        self._ends -= is_ending(self.sessions[session.id])
        self.sessions[session.id] = session
        self.decided.add(session.id)

    def start(self, work: str, reason: str, about: str = "", *, named: str = "") -> None:
        slot, alias = self.free_slot()
        origin = NAMED if named else POOL
        new = CreateSession(self.pool.agent, slot, named or alias, origin, work, reason, about)
        self._starts.append(new)
        self._opened += 1

    # The resulting state

    def undecided(self) -> list[Session]:
        return [s for id, s in self.sessions.items() if id not in self.decided]

    def idle(self) -> list[Session]:
        """Return live sessions with nothing to do and no action yet, lowest slot first."""
        ready = [s for s in self.undecided() if not backoff_end(s, self.now)]
        return [s for s in ready if s.state == IDLE or (is_new_manual(s) and not s.interactive)]

    def takers(self) -> list[Session]:
        """Return idle sessions that can be given something: text must reach a terminal."""
        return [s for s in self.idle() if self.pool.typed or not (s.interactive and s.run)]

    def backoff_over(self) -> list[Session]:
        """Return sessions whose back-off is over."""
        waiting = [s for s in self.undecided() if s.state in BACKING_OFF]
        return [s for s in waiting if backoff_end(s, self.now) is None]

    def backing_off(self) -> list[Session]:
        waiting = [s for s in self.sessions.values() if s.state in BACKING_OFF]
        return [s for s in waiting if backoff_end(s, self.now) is not None]

    def live_count(self) -> int:
        return sum(map(is_live, self.sessions.values())) + len(self._starts)

    def pooled_count(self) -> int:
        """Count the pool's own sessions that stay or come back, compared with the minimum."""
        there = [s for s in self.sessions.values() if self.is_pooled(s) and not is_ending(s)]
        held = [s for s in there if is_live(s) or s.state in BACKING_OFF]
        return len(held) + sum(new.origin == POOL for new in self._starts)

    def is_pooled(self, session: Session) -> bool:
        """Return whether it starts and stops with demand, like a named one that lost its name."""
        if session.origin == POOL:
            return True
        return session.origin == NAMED and session.alias not in self.names()

    def names(self) -> tuple[str, ...]:
        return tuple(named.alias for named in self.pool.named)

    def active(self) -> bool:
        """Return whether any session is running or about to."""
        idle = {s.id for s in self.idle()}
        awake = [s for s in self.sessions.values() if s.state in _AWAKE]
        return bool(self._starts) or any(s.id not in idle for s in awake)

    def total_capacity(self, returning: str = "") -> int:
        """Return how many more may become live. `returning` may use the slot it backs off in."""
        free = self.room.free
        by_room = _ENDLESS if free is None else free - self._opened
        return min(by_room, self.own_capacity(returning))

    def own_capacity(self, returning: str = "") -> int:
        """Return `total_capacity` by the agent's own maximum only."""
        if self.pool.maximum is None:
            return _ENDLESS
        waiting = sum(s.id != returning for s in self.backing_off())
        return self.pool.maximum - self.live_count() - waiting

    def slack(self) -> int:
        """Return how many more may stay by every cap once all ending ones are gone."""
        staying = [s for s in self.sessions.values() if is_live(s) and not is_ending(s)]
        most = self.pool.maximum
        own = _ENDLESS if most is None else most - len(staying)
        gone = [sum(is_ending(f.session) for f in self.facts.values())] * len(self.room.caps)
        counted = gone if self.room.ending is None else self.room.ending
        caps = zip(self.room.caps, counted, strict=True)
        return min([own, *(left + going + self._ends - self._opened for (left, _), going in caps)])

    def free_slot(self) -> tuple[int, str]:
        """Return the lowest slot that is free and whose alias is free."""
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

    def has_free_slot(self, session: Session) -> bool:
        """Return whether its slot and alias are still its own; a live session always has them."""
        if is_live(session):
            return True
        others = [s for s in self.sessions.values() if is_live(s)]
        aliases = {s.alias for s in others} | self.pool.taken | {s.alias for s in self._starts}
        slots = {s.slot for s in others if s.slot} | {s.slot for s in self._starts}
        return session.alias not in aliases and session.slot not in slots

    def may_return(self, session: Session) -> bool:
        """Return whether it may run again: a named session only under its own name."""
        return session.origin != NAMED or self.has_free_slot(session)

    def missing_names(self) -> Iterator[str]:
        """Yield configured names that no session has, those to keep running first."""
        aliases = {s.alias for s in self.sessions.values()} | self.pool.taken
        aliases |= {s.alias for s in self._starts}
        for named in sorted(self.pool.named, key=lambda named: not named.always):
            if named.alias not in aliases:
                yield named.alias
