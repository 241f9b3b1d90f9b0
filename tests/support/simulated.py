"""A whole city in memory: records, processes, a clock and a controller that may be killed.

The real `reconcile` and `settle` make all decisions. The rest is minimal: dictionaries instead of
the store, and processes that end when the simulation says so.
"""

import random
from collections.abc import Iterable
from typing import NamedTuple

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
from gascity.control.decide.outcome import (
    FINISH,
    REOPEN,
    Limits,
    RunEnd,
    RunOutcome,
    decide_outcome,
)
from gascity.control.decide.types import Blocked, Pool, is_ending, is_live
from gascity.model.work import (
    CLAIMED,
    CRASHED,
    DONE,
    DRAINING,
    FINISHED,
    IDLE,
    LIVE,
    NAMED,
    NEVER_RAN,
    OPEN,
    QUARANTINED,
    RATE_LIMITED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    Session,
    Work,
)
from tests.support.reconcile_rules import Asked, check_verdict, in_terminal

LIMITS = Limits(retries=1, max_attempts=3)
MOST_ATTEMPTS = LIMITS.max_attempts + LIMITS.retries  # losses, then failures
_BACKING_OFF = (CRASHED, QUARANTINED, RATE_LIMITED)
_MOST_ROUNDS = 200  # of one wake


class Process(NamedTuple):
    """A running process; it outlives the controller."""

    generation: int
    work: str
    about: str = ""
    ended: RunEnd | None = None


class City:
    """Records, processes, and the controller's memory, which is lost when it dies."""

    def __init__(self, pools: Iterable[Pool], rng: random.Random) -> None:
        self.rng = rng
        self.now = 1_000_000.0
        self.pools = {pool.agent: pool for pool in pools}
        self.city_cap: int | None = 6
        self.rig_cap: int | None = None
        self.work: dict[str, Work] = {}
        self.sessions: dict[str, Session] = {}
        self.processes: dict[str, Process] = {}
        self.drift: set[str] = set()  # sessions started with an older definition
        self.mail: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.told: dict[str, str] = {}  # recorded reason for ending a run, by session
        self.up = True
        self.dirty: set[str] = set()
        self.wake: dict[str, float] = {}
        self.waiting: set[str] = set()  # agents with unfinished demand
        self.preparing: set[str] = set()
        self.wakes = 0
        self.count = 0

    # The store

    def claimable(self, agent: str, session: str = "") -> list[Work]:
        found = [w for w in self.work.values() if w.agent == agent and self.is_claimable(w)]
        mine = [w for w in found if (w.session if w.reserved else "") == session]
        return sorted(mine, key=lambda w: (w.priority, w.created, w.id))

    def is_claimable(self, work: Work) -> bool:
        due = work.not_before is None or work.not_before <= self.now
        return work.status == OPEN and due and all(self.done.get(id) for id in work.depends_on)

    def claim(self, session: Session, id: str) -> None:
        work = self.work[id]
        assert self.is_claimable(work), f"{id} is not claimable"
        assert not work.reserved or work.session == session.id, f"{id} is reserved for another"
        self.work[id] = work._replace(
            status=CLAIMED,
            attempts=work.attempts + 1,
            session=session.id,
            generation=session.generation,
            not_before=None,
        )

    def finish(self, id: str, status: str) -> None:
        self.work[id] = self.work[id]._replace(status=status)
        if status == DONE:
            self.done[id] = self.done.get(id, 0) + 1
        self.dirty |= {w.agent for w in self.work.values() if id in w.depends_on}

    def reopen(self, id: str, result: RunOutcome) -> None:
        work = self.work[id]
        never_ran = result.outcome == NEVER_RAN
        self.work[id] = work._replace(
            status=OPEN,
            session=work.session if work.reserved else "",
            attempts=work.attempts - never_ran,
            attempts_before=work.attempts_before + (result.uncounted and not never_ran),
            failures=work.failures + result.failed,
            not_before=result.not_before,
        )

    def put(self, session: Session, **changes: object) -> Session:
        """Write a session; wake agents that wait for the capacity it frees."""
        before = self.sessions.get(session.id)
        after = session._replace(updated=self.now, **changes)  # type: ignore[arg-type]
        self.sessions[session.id] = after
        self.dirty.add(after.agent)
        if before is not None and is_live(before) and not (is_live(after) and not is_ending(after)):
            self.dirty |= self.waiting
        return after

    # Inputs of reconcile

    def facts(self, agent: str) -> list[ObservedSession]:
        wanted = {w.session for w in self.work.values() if w.status == OPEN and w.reserved}
        found = []
        for one in self.sessions.values():
            there = one.state in LIVE or one.state in _BACKING_OFF or one.asked
            if one.agent == agent and (there or one.origin == NAMED or one.id in wanted):
                drift = "restart" if one.id in self.drift else ""
                found.append(ObservedSession(one, drift, ("prompt",) if drift else ()))
        return found

    def demand(self, agent: str) -> Demand:
        reserved = [
            (id, self.claimable(agent, id)[0].id)
            for id in {w.session for w in self.work.values() if w.reserved and w.agent == agent}
            if self.claimable(agent, id)
        ]
        later = [
            w.not_before
            for w in self.work.values()
            if w.agent == agent and w.status == OPEN and (w.not_before or 0) > self.now
        ]
        return Demand(
            items=tuple(w.id for w in self.claimable(agent)[:8]),
            reserved=tuple(sorted(reserved)),
            mail=self.mail.get(agent, 0),
            next_due=min((at for at in later if at is not None), default=None),
        )

    def room(self, agent: str) -> Headroom:
        rig = agent.partition("/")[0]
        there = [s for s in self.sessions.values() if is_live(s)]
        near = [s for s in there if s.agent.partition("/")[0] == rig]
        caps, going = [], []
        for limit, counted, word in (
            (self.rig_cap, near, "rig-cap"),
            (self.city_cap, there, "city-cap"),
        ):
            if limit is not None:
                words = Blocked(word, f"{len(counted)} of {limit} sessions are live")
                caps.append((limit - len(counted), words))
                going.append(sum(map(is_ending, counted)))
        return Headroom(tuple(caps), tuple(going))

    def pool(self, agent: str) -> Pool:
        others = [s for s in self.sessions.values() if s.agent != agent]
        taken = {s.alias for s in others if is_live(s) or s.state in _BACKING_OFF}
        return self.pools[agent]._replace(taken=frozenset(taken))

    # The controller

    def look(self) -> None:
        """Run one controller wake-up: settle ended runs, then reconcile until nothing is left."""
        if not self.up:
            return
        for id, process in list(self.processes.items()):
            if process.ended is not None and self.sessions[id].state != UNKNOWN:
                self.decide_outcome(id, process, process.ended)
        due = {agent for agent, at in self.wake.items() if at <= self.now}
        self.wakes += bool(due)
        self.dirty |= due
        for _ in range(_MOST_ROUNDS):
            if not self.dirty:
                return
            agent = min(self.dirty)
            self.dirty.remove(agent)
            self.decide(agent)
        raise AssertionError(f"the controller does not come to rest: {self.dirty}")

    def decide(self, agent: str) -> None:
        pool, facts = self.pool(agent), self.facts(agent)
        demand, room = self.demand(agent), self.room(agent)
        asked = Asked(pool, tuple(facts), demand, room, self.now)
        result = asked.result()
        check_verdict(asked, result)
        self.waiting.discard(agent)
        self.wake.pop(agent, None)
        if result.wake_at is not None:
            self.wake[agent] = result.wake_at
        for action in result.actions:
            self.act(pool, action)
        if result.blocked or demand.items or demand.mail or pool.minimum or pool.named:
            self.waiting.add(agent)
        if not result.actions:
            self.dirty.discard(agent)

    def act(self, pool: Pool, action: Action) -> None:
        if isinstance(action, CreateSession):
            self.start(pool, action)
            return
        session = self.sessions[action.session]
        assert session.state not in (UNKNOWN, STOPPING), f"{action} touches {session.state}"
        if isinstance(action, RunSession):
            self.turn(pool, session, action)
        elif isinstance(action, UpdateSession):
            self.change(session, action)
        elif isinstance(action, RestartSession):
            held = session.attached or session.pinned is not None
            assert session.asked or not held, f"{action} of a session that a user holds"
            assert not pool.blocked, f"{action} of an agent that is blocked"
            self.end(session, "restart")
        else:
            self.stop(session, action)

    def start(self, pool: Pool, action: CreateSession) -> None:
        assert not pool.blocked, f"{action} of an agent that is blocked"
        self.check_room(pool, action)
        self.count += 1
        session = Session(
            id=f"s{self.count}",
            agent=action.agent,
            origin=action.origin,
            slot=action.slot,
            alias=action.alias,
            state=STARTING,
            reason=action.reason,
            created=self.now,
            updated=self.now,
            interactive=in_terminal(pool, action.origin),
        )
        self.put(session)
        self.begin(session, action.work, action.about)

    def turn(self, pool: Pool, session: Session, action: RunSession) -> None:
        assert not pool.blocked, f"{action} of an agent that is blocked"
        if not is_live(session) and session.asked != "restart":
            self.check_room(pool, action)
        if action.slot:
            session = self.put(session, slot=action.slot, alias=action.alias)
        if session.id in self.processes:
            assert session.interactive, f"{action} for one that runs"
            if action.work:
                self.claim(session, action.work)
                self.put(session, state=RUNNING, work=action.work, idle_since=None)
            else:
                self.mail[session.agent] = 0
        elif session.id not in self.preparing:
            self.begin(session, action.work, action.about)

    def check_room(self, pool: Pool, action: Action) -> None:
        room = self.room(pool.agent)
        assert room.free is None or room.free > 0, f"{action} beyond a cap: {room}"
        number = sum(is_live(s) for s in self.sessions.values() if s.agent == pool.agent)
        assert pool.maximum is None or number < pool.maximum, f"{action} beyond {pool.maximum}"

    def begin(self, session: Session, work: str, about: str) -> None:
        if not (session.interactive or work or about):
            self.put(session, state=IDLE, idle_since=self.now, asked="", pending="", retry_at=None)
            return
        session = self.put(
            session,
            state=STARTING,
            generation=session.generation + 1,
            asked="",
            pending="",
            retry_at=None,
            drain_by=None,
            idle_since=None,
            work=work,
        )
        self.drift.discard(session.id)
        if work:
            self.claim(session, work)
        if about:
            self.mail[session.agent] = 0
        self.preparing.add(session.id)

    def prepared(self, id: str, *, fails: bool = False) -> None:
        """Report that a session's directory is ready or could not be created."""
        self.preparing.discard(id)
        session = self.sessions[id]
        if fails:
            self.conclude(session, RunEnd(None, ran=False, error="no directory"), "")
            return
        self.count += 1
        idle = session.interactive and not session.work
        self.processes[id] = Process(session.generation, session.work)
        self.put(
            session,
            state=IDLE if idle else RUNNING,
            run=self.count,
            started=self.now,
            idle_since=self.now if idle else None,
        )

    def change(self, session: Session, action: UpdateSession) -> None:
        if action.pending:
            self.put(session, pending=action.pending)
            return
        idle_since = self.now if action.state == IDLE else session.idle_since
        self.put(
            session,
            state=action.state,
            reason=action.reason,
            pending="",
            asked="",
            retry_at=None,
            drain_by=None,
            idle_since=idle_since,
        )

    def stop(self, session: Session, action: StopSession) -> None:
        if action.how == "drain":
            assert action.by is not None
            self.put(session, state=DRAINING, drain_by=action.by, reason=action.reason, asked="")
            return
        held = session.attached or session.pinned is not None
        assert session.asked or action.timeout or not held, (
            f"{action} of a session that a user holds"
        )
        self.end(session, "timeout" if action.timeout else "stop", action.reason)

    def end(self, session: Session, ours: str, reason: str = "") -> None:
        if session.id in self.preparing:
            self.preparing.discard(session.id)
            if session.work:
                self.reopen(session.work, RunOutcome(NEVER_RAN, "its start was cancelled"))
                session = self.put(session, work="")
        if session.id in self.processes:
            self.told[session.id] = ours
            self.put(session, state=STOPPING, reason=reason, asked="")
        else:
            self.put(session, state=STOPPED, reason=reason, asked="", pending="", retry_at=None)

    def decide_outcome(self, id: str, process: Process, run_end: RunEnd) -> None:
        del self.processes[id]
        session = self.sessions[id]
        assert session.generation == process.generation
        ours = self.told.pop(id, "")
        self.conclude(session, run_end._replace(ours=ours), session.work or process.work)

    def conclude(self, session: Session, run_end: RunEnd, work: str) -> None:
        """Record the outcome of an ended run."""
        work = work or session.work
        item = self.work.get(work)
        result = decide_outcome(item, session, run_end, LIMITS, self.now)
        if item is not None and result.work == FINISH:
            self.finish(work, result.status)
        elif item is not None and result.work == REOPEN:
            self.reopen(work, result)
        after = self.put(
            session,
            state=result.state,
            reason=result.session_reason,
            run=0,
            work="",
            crashes=result.crashes,
            retry_at=result.retry_at,
            drain_by=None,
            asked="",
            idle_since=self.now,
        )
        if run_end.ours == "restart" and after.interactive and not self.pools[after.agent].blocked:
            self.begin(after._replace(state=STARTING), "", "")

    def killed(self) -> None:
        """Kill the controller and drop its memory."""
        self.up = False
        self.dirty, self.wake, self.waiting, self.preparing = set(), {}, set(), set()

    def started(self) -> None:
        """Start a new controller from the records."""
        self.up = True
        self.dirty = set(self.pools)
        for session in list(self.sessions.values()):
            begun = session.state == STARTING and session.generation > 0
            if begun and session.id not in self.processes:
                self.conclude(session, RunEnd(None, ran=False), "")


def check_city(city: City) -> None:
    """Assert the invariants of every state of the city."""
    holders: dict[str, str] = {}
    aliases: dict[str, str] = {}
    slots: dict[tuple[str, int], str] = {}
    for session in city.sessions.values():
        if session.work:
            assert session.work not in holders, f"{session.work} has two holders"
            holders[session.work] = session.id
        if is_live(session):
            assert aliases.setdefault(session.alias, session.id) == session.id, "alias taken twice"
            free_slot = (session.agent, session.slot)
            if session.slot:
                assert slots.setdefault(free_slot, session.id) == session.id, (
                    f"{free_slot} taken twice"
                )
        else:
            assert not session.work, f"{session.id} is {session.state} and holds work"
            assert session.id not in city.processes, f"{session.id} is {session.state} and runs"
    for work in city.work.values():
        attempts = work.attempts_since_retry
        assert attempts <= MOST_ATTEMPTS, f"{work.id} was tried {attempts} times"
        assert city.done.get(work.id, 0) <= 1, f"{work.id} was done twice"
        if work.status == CLAIMED:
            assert holders.get(work.id) == work.session, f"{work.id} has no holder"
        else:
            assert work.status in (OPEN, *FINISHED)
