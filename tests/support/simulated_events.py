"""Random events for a simulated city, and how it comes to rest."""

import random
from collections.abc import Callable

from gascity.control.decide.outcome import RunEnd
from gascity.control.decide.types import (
    Blocked,
    NamedSlot,
    Pool,
    idle_deadlines,
    is_asleep,
    is_live,
    restart_blocker,
)
from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    DONE,
    DRAINING,
    FAILED,
    IDLE,
    MANUAL,
    NAMED,
    OPEN,
    POOL,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    Session,
    Work,
)
from tests.support.reconcile_rules import in_terminal
from tests.support.simulated import City, check_city

DAY = 86_400.0
_BLOCKED = {
    "suspended": Blocked("suspended", "suspended"),
    "gone": Blocked("gone", "there is no such agent any more"),
    "missing-binary": Blocked("missing-binary", "`claude` is not on PATH"),
}


def pools() -> list[Pool]:
    """Return agents with different settings; two of them have the same unqualified name."""
    return [
        Pool("north/builder", maximum=3, run_timeout=900.0, drain_timeout=60.0),
        Pool("south/builder", maximum=2, minimum=1, names=("ash", "oak")),
        Pool("north/critic", maximum=None, run_timeout=300.0),
        Pool(
            "north/guide",
            maximum=2,
            interactive=True,
            named=(NamedSlot("guide", True),),
            idle_timeout=7200.0,
            sleep_after_idle=3600.0,
        ),
        Pool(
            "city.mayor",
            maximum=2,
            interactive=True,
            named=(NamedSlot("mayor", True), NamedSlot("deputy", False)),
            idle_timeout=1800.0,
        ),
    ]


class Life:
    """Random events for one city; the same seed gives the same events."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.city = City(pools(), self.rng)
        self.happenings: list[tuple[int, Callable[[], None]]] = [
            (30, self.sling),
            (40, self.prepare),
            (30, self.run_ends),
            (16, self.stop_ends),
            (8, self.work_settles),
            (1, self.forget),
            (1, self.cancel),
            (2, self.attach),
            (2, self.pin),
            (2, self.ask),
            (1, self.make_session),
            (2, self.obstruct),
            (1, self.resize),
            (1, self.recap),
            (2, self.drift),
            (1, self.controller_dies),
            (20, self.time_passes),
            (1, self.clock_jumps),
            (2, self.lose_sight),
            (1, self.send_mail),
            (1, self.report_busy),
        ]
        self.weights = [weight for weight, _ in self.happenings]
        self.happened = ""

    def step(self) -> None:
        (happening,) = self.rng.choices([h for _, h in self.happenings], self.weights)
        if not self.city.up and self.rng.random() < 0.2:
            happening = self.controller_returns
        self.happened = happening.__name__
        happening()
        check_city(self.city)
        self.city.look()
        check_city(self.city)

    # Choosing

    def agent(self) -> str:
        return self.rng.choice(list(self.city.pools))

    def one(self, *states: str) -> Session | None:
        found = [s for s in self.city.sessions.values() if not states or s.state in states]
        return self.rng.choice(found) if found else None

    def running(self) -> str | None:
        going = [id for id, process in self.city.processes.items() if process.ended is None]
        return self.rng.choice(going) if going else None

    # Work

    def sling(self) -> None:
        city, rng = self.city, self.rng
        open_items = [w for w in city.work.values() if w.status == OPEN]
        if len(open_items) > 25:
            self.give_up()
            return
        agent = self.agent()
        city.count += 1
        mine = [s for s in city.sessions.values() if s.agent == agent]
        reserved = bool(mine) and rng.random() < 0.15
        new = Work(
            id=f"w{city.count}",
            agent=agent,
            title="",
            body="",
            status=OPEN,
            priority=rng.randint(0, 4),
            attempts=0,
            failures=0,
            created=city.now + city.count * 1e-6,
            updated=city.now,
            not_before=city.now + rng.uniform(0, 300) if rng.random() < 0.2 else None,
            session=rng.choice(mine).id if reserved else "",
            reserved=reserved,
            depends_on=(rng.choice(open_items).id,) if open_items and rng.random() < 0.2 else (),
        )
        city.work[new.id] = new
        city.dirty.add(agent)

    def give_up(self) -> None:
        """Cancel, as a user would, items whose dependencies will never be done."""
        lost = {w.id for w in self.city.work.values() if w.status in (FAILED, CANCELLED)}
        for work in list(self.city.work.values()):
            if work.status == OPEN and lost.intersection(work.depends_on):
                self.city.finish(work.id, CANCELLED)

    def forget(self) -> None:
        """Delete old records: finished work and ended sessions."""
        city = self.city
        needed = {id for w in city.work.values() if w.status == OPEN for id in w.depends_on}
        held = {w.session for w in city.work.values() if w.status in (OPEN, CLAIMED)}
        held |= {s.id for s in city.sessions.values() if s.work or s.origin == NAMED or s.asked}
        kept = [w for w in city.work.values() if w.status in (OPEN, CLAIMED) or w.id in needed]
        kept += [city.work[s.work] for s in city.sessions.values() if s.work]
        city.work = {w.id: w for w in kept}
        there = [s for s in city.sessions.values() if s.id in held or s.state != STOPPED]
        city.sessions = {s.id: s for s in there}

    def work_settles(self) -> None:
        """Run `work done` or `work fail` from inside the session."""
        claimed = [w for w in self.city.work.values() if w.status == CLAIMED]
        claimed = [w for w in claimed if w.session in self.city.processes]
        if not claimed:
            return
        work = self.rng.choice(claimed)
        self.city.finish(work.id, self.rng.choice([DONE, DONE, FAILED]))
        self._hands_free(work)

    def cancel(self) -> None:
        going = [w for w in self.city.work.values() if w.status in (OPEN, CLAIMED)]
        if not going:
            return
        work = self.rng.choice(going)
        claimed = work.status == CLAIMED
        self.city.finish(work.id, CANCELLED)
        if not claimed:
            return
        session = self.city.sessions[work.session]
        if session.interactive and session.id in self.city.processes:
            self._hands_free(work)
        elif session.state in (RUNNING, DRAINING):
            self.city.told[session.id] = "cancel"
            self.city.put(session, state=STOPPING)

    def _hands_free(self, work: Work) -> None:
        session = self.city.sessions[work.session]
        if session.interactive and session.state != UNKNOWN:
            state = IDLE if session.state == RUNNING else session.state
            self.city.put(session, work="", state=state, idle_since=self.city.now)

    # Processes

    def prepare(self) -> None:
        if self.city.up and self.city.preparing:
            id = self.rng.choice(sorted(self.city.preparing))
            self.city.prepared(id, fails=self.rng.random() < 0.05)

    def run_ends(self) -> None:
        id = self.running()
        if id is not None:
            self.end_process(id, self.run_end())

    def end_process(self, id: str, run_end: RunEnd) -> None:
        process = self.city.processes[id]
        self.city.processes[id] = process._replace(ended=run_end)

    def run_end(self) -> RunEnd:
        until = self.city.now + self.rng.uniform(-10, 600)
        return self.rng.choice(
            [
                RunEnd(0),
                RunEnd(0),
                RunEnd(0),
                RunEnd(0),
                RunEnd(1),
                RunEnd(0, error="an error"),
                RunEnd(139),
                RunEnd(137),
                RunEnd(None),
                RunEnd(None, ran=False),
                RunEnd(1, limited_until=self.rng.choice([0.0, until])),
            ]
        )

    def stop_ends(self) -> None:
        """End a run that was asked to stop."""
        for session in self.city.sessions.values():
            if session.state == STOPPING and session.id in self.city.processes:
                self.end_process(session.id, RunEnd(143))

    def lose_sight(self) -> None:
        """Make a run unobservable, or observable again."""
        lost = self.one(UNKNOWN)
        if lost is not None and self.rng.random() < 0.7:
            self.regain_sight(lost)
        elif (id := self.running()) is not None:
            session = self.city.sessions[id]
            if session.state in (RUNNING, IDLE):
                self.city.put(session, state=UNKNOWN)

    def regain_sight(self, session: Session) -> None:
        idle = session.interactive and not session.work
        since = self.city.now if idle else None
        self.city.put(session, state=IDLE if idle else RUNNING, idle_since=since)

    # Users

    def attach(self) -> None:
        session = self.one(RUNNING, IDLE, DRAINING)
        if session is not None and session.interactive:
            self.city.put(session, attached=not session.attached)

    def pin(self) -> None:
        if (session := self.one()) is not None:
            self.city.put(session, pinned=None if session.pinned else self.city.now)

    def ask(self) -> None:
        if (session := self.one()) is not None and not session.asked:
            what = self.rng.choice(["stop", "drain", "restart", "clear"])
            self.city.put(session, asked=what)

    def make_session(self) -> None:
        """Run `city session new`."""
        city, agent = self.city, self.agent()
        if city.pools[agent].blocked:
            return
        city.count += 1
        new = Session(
            id=f"s{city.count}",
            agent=agent,
            origin=MANUAL,
            slot=0,
            alias=f"chat-{city.count}",
            state=STARTING,
            reason="",
            created=city.now,
            updated=city.now,
            interactive=in_terminal(city.pools[agent], MANUAL),
        )
        city.put(new)

    def report_busy(self) -> None:
        session = self.one(RUNNING, IDLE, DRAINING)
        if session is not None and session.interactive:
            self.city.put(session, busy_until=self.city.now + self.rng.uniform(1, 600))

    def send_mail(self) -> None:
        agent = self.agent()
        self.city.mail[agent] = self.city.mail.get(agent, 0) + 1
        self.city.dirty.add(agent)

    # Configuration

    def _redefine(self, agent: str, **changes: object) -> None:
        pool = self.city.pools[agent]._replace(**changes)  # type: ignore[arg-type]
        self.city.pools[agent] = pool
        self.city.dirty.add(agent)

    def obstruct(self) -> None:
        agent = self.agent()
        code = self.rng.choice([*[""] * 9, "suspended", "gone", "missing-binary"])
        self._redefine(agent, blocked=(_BLOCKED[code],) if code else ())
        waits = ("south/builder",) if self.rng.random() < 0.1 else ()
        self._redefine(agent, awaits=() if agent == "south/builder" else waits)
        self._redefine(self.agent(), needed=self.rng.choice([0, 0, 1]))

    def resize(self) -> None:
        most = self.rng.choice([0, 1, 2, 2, 3, 3, 5, None])
        self._redefine(self.agent(), maximum=most, minimum=min(self.rng.randint(0, 2), most or 0))

    def recap(self) -> None:
        self.city.city_cap = self.rng.choice([2, 4, 6, 9, None])
        self.city.rig_cap = self.rng.choice([1, 3, None, None])
        self.city.dirty |= set(self.city.pools)

    def drift(self) -> None:
        agent = self.agent()
        there = {s.id for s in self.city.sessions.values() if s.agent == agent and is_live(s)}
        self.city.drift = (
            self.city.drift - there if self.rng.random() < 0.3 else (self.city.drift | there)
        )
        self.city.dirty.add(agent)

    # Machine

    def controller_dies(self) -> None:
        self.city.killed()

    def controller_returns(self) -> None:
        self.city.started()

    def time_passes(self) -> None:
        self.city.now += self.rng.choice([1.0, 10.0, 60.0, 400.0])

    def clock_jumps(self) -> None:
        self.city.now += self.rng.choice([-4000.0, -60.0, 5000.0, 100_000.0])

    # Rest

    def calm(self) -> None:
        """Detach every user and let everything succeed from now on."""
        city = self.city
        if not city.up:
            city.started()
        city.city_cap = city.rig_cap = None
        for pool in pools():
            city.pools[pool.agent] = pool
        for session in list(city.sessions.values()):
            city.put(session, attached=False, pinned=None)
            if session.state == UNKNOWN:
                self.regain_sight(city.sessions[session.id])
        city.drift = set()
        city.dirty = set(city.pools)

    def rest(self) -> None:
        """Advance time until nothing is left to do, for at most a day."""
        city, end = self.city, self.city.now + DAY
        for _ in range(5000):
            city.look()
            check_city(city)
            if self._move_on():
                continue
            upcoming = [at for at in city.wake.values() if at > city.now]
            if not upcoming or min(upcoming) > end:
                return
            city.now = min(upcoming)
        raise AssertionError(f"no rest: {city.wakes} wakes, {city.wake}")

    def _move_on(self) -> bool:
        """Complete each preparation, stop and run; return whether anything changed."""
        city, moved = self.city, False
        for id in sorted(city.preparing):
            city.prepared(id)
            moved = True
        self.stop_ends()
        for id, process in list(city.processes.items()):
            session = city.sessions[id]
            if session.interactive and session.work and process.ended is None:
                city.finish(session.work, DONE)
                self._hands_free(city.work[session.work])
                moved = True
            elif not session.interactive or process.ended is not None:
                self.end_process(id, process.ended or RunEnd(0))
                moved = True
        return moved

    def check_rest(self) -> None:
        """Assert that all possible work is done and only the wanted sessions are live."""
        city = self.city
        for agent, pool in city.pools.items():
            assert not city.claimable(agent), f"{agent} leaves work undone"
            own = [s for s in city.sessions.values() if s.agent == agent and is_live(s)]
            pooled_count = [s for s in own if s.origin == POOL]
            most = len(own) if pool.maximum is None else pool.maximum
            least = min(pool.minimum, max(0, most - len(own) + len(pooled_count)))
            assert len(pooled_count) == least, f"{agent}: {own}"
            assert all(s.state == IDLE for s in own), f"{agent}: {own}"
            for named in pool.named:
                mine = [s for s in city.sessions.values() if s.alias == named.alias]
                there = any(is_live(s) or is_asleep(s) for s in mine)
                assert there or not named.always, f"{named.alias} is missing"
            for session in own:
                overdue = [at for at in idle_deadlines(pool, session) if at <= city.now]
                assert not overdue or restart_blocker(session, city.now), (
                    f"{session} outlives its time"
                )
        for work in city.work.values():
            persons = [s for s in city.sessions.values() if s.agent == work.agent and is_live(s)]
            full = len(persons) >= (city.pools[work.agent].maximum or len(persons) + 1)
            if work.status == OPEN and work.reserved and not full:
                assert not city.claimable(work.agent, work.session), f"{work.id} is left"
