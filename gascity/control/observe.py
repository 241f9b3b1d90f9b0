"""Gather the inputs of `reconcile` for one agent: pool, sessions, demand, headroom."""

from functools import partial

from gascity.control.blocked import agent_obstacles, cost_obstacles, headroom
from gascity.control.decide import reasons
from gascity.control.decide.types import Demand, Headroom, ObservedSession, Pool
from gascity.control.live_state import LiveState
from gascity.control.run_config import AgentRunConfig, RunConfig
from gascity.model.work import LIVE, MANUAL, OPEN, POOL, STARTING, Session, Work
from gascity.workdir.fingerprint import HOT, NEXT_START, RESTART, drift
from gascity.workdir.prepare_session import PreparedSession, WorkdirRequest

_MANY = 64  # items read for an agent without a session limit


class DriftTracker:
    """Tracks how the definitions of live terminals differ from what they were started with."""

    def __init__(self, live: LiveState, run_config: RunConfig) -> None:
        self.live = live
        self.run_config = run_config
        self._found: dict[str, tuple[int, str, tuple[str, ...]]] = {}

    def of(self, session: Session) -> tuple[str, tuple[str, ...]]:
        """Return the effect of the change and the changed parts; empty if unchanged."""
        generation, effect, parts = self._found.get(session.id, (0, "", ()))
        return (effect, parts) if generation == session.generation else ("", ())

    def look(self) -> None:
        """Prepare the directories of live terminals again, and compare.

        Skills take effect at once; what needs a restart waits until the session is not in use.
        """
        self._found = {}
        for session in list(self.live.sessions):
            config = self.run_config.agent(session.agent)
            if not session.interactive or session.id not in self.live.active_runs or config is None:
                continue
            seat = WorkdirRequest(
                session=session.id,
                alias=session.alias,
                slot=session.slot,
                work=session.work,
                workdir=session.workdir,
                branch=session.branch,
                resume=True,
            )
            self.live.workers.put(
                partial(config.preparer.prepare, config.agent, seat),
                partial(self._seen, session.id, session.generation),
            )

    def _seen(self, id: str, generation: int, done: object) -> None:
        session = self.live.sessions.get(id)
        if session is None or not isinstance(done, PreparedSession) or not done.can_start:
            return
        changes = drift(session.prints, done.fingerprint)
        effects = {change.effect for change in changes}
        worst = next((change for change in (RESTART, NEXT_START, HOT) if change in effects), "")
        parts = tuple(change.part for change in changes if change.effect == worst)
        if worst == HOT:
            self.live.change(session, prints=done.fingerprint)
        self._found[id] = (generation, worst, parts)
        self.live.mark_dirty(session.agent)


class DependencyTracker:
    """Tracks which agents other agents wait for (`depends_on`)."""

    def __init__(self, live: LiveState) -> None:
        self.live = live
        self._needed: dict[str, set[str]] = {}  # by agent: the agents that need it

    def needed(self, agent: str) -> int:
        return len(self._needed.get(agent, ()))

    def awaited(self, config: AgentRunConfig) -> tuple[str, ...]:
        """Return the agents it depends on that have no live session."""
        return tuple(name for name in config.depends_on if not self.live.sessions.live_count(name))

    def remember(self, agent: str, config: AgentRunConfig | None, active: bool) -> None:
        """Update after an agent was reconciled: while it is active, its dependencies must run."""
        for other in config.depends_on if config is not None else ():
            group = self._needed.setdefault(other, set())
            if active != (agent in group):
                (group.add if active else group.discard)(agent)
                self.live.mark_dirty(other)
        if self.live.sessions.live_count(agent):
            for waiting in self._needed.get(agent, ()):
                self.live.mark_dirty(waiting)


class Observer:
    """Gathers inputs; remembers only which sessions have reserved items."""

    def __init__(self, live: LiveState, run_config: RunConfig, drift_tracker: DriftTracker) -> None:
        self.live = live
        self.run_config = run_config
        self.drift_tracker = drift_tracker
        self.dependencies = DependencyTracker(live)
        self.unread: dict[str, int] = {}
        self._reserved: dict[str, set[str]] = {}  # by agent: sessions with reserved items

    def reserve(self, agent: str, session: str) -> None:
        """Note that an item is reserved for a session."""
        self._reserved.setdefault(agent, set()).add(session)

    def pool(self, agent: str) -> Pool:
        """Return the agent's pool with everything that blocks it now."""
        config = self.run_config.agent(agent)
        if config is None:
            return Pool(agent, maximum=0, blocked=(reasons.agent_gone(agent),))
        blocked = agent_obstacles(self.run_config, config)
        if agent in self.live.start_failures:
            blocked = (*blocked, self.live.start_failures[agent])
        return config.pool._replace(
            blocked=blocked,
            wake_on_mail=config.pool.wake_on_mail and not config.script,
            awaits=self.dependencies.awaited(config),
            needed=self.dependencies.needed(agent),
        )

    def with_cost_limits(self, pool: Pool, config: AgentRunConfig) -> Pool:
        """Add used-up cost limits; checked only if there is something to start."""
        over = cost_obstacles(self.run_config, self.live.store, config, self.live.now)
        return pool._replace(blocked=(*pool.blocked, *over)) if over else pool

    def headroom(self, config: AgentRunConfig) -> Headroom:
        """Return how many more sessions the shared caps allow."""
        return headroom(self.run_config, config, self.live.sessions)

    def taken_aliases(self, config: AgentRunConfig) -> frozenset[str]:
        """Return aliases the agent might use that belong to other agents' sessions."""
        sessions, agent = self.live.sessions, str(config.agent.name)
        own = (*config.pool.names, *(slot.alias for slot in config.pool.named))
        owners = (
            (name, sessions.by_alias(name))
            for name in (*own, *sessions.similar_aliases(config.agent.name.bare))
        )
        return frozenset(name for name, other in owners if other and other.agent != agent)

    def items(self, agent: str, config: AgentRunConfig | None) -> list[Work]:
        """Return the next queued items, one more than the session limit."""
        most = config.pool.maximum if config is not None else 0
        limit = min(_MANY if most is None else most + 1, _MANY)
        return self.live.store.claimable(agent, self.live.now, limit)

    def demand(self, agent: str, items: list[Work]) -> Demand:
        store, now = self.live.store, self.live.now
        reserved = []
        for session in sorted(self._reserved.get(agent, ())):
            own = store.reserved(agent, now, session)
            if own is not None:
                reserved.append((session, own.id))
            elif not store.list_work(session=session, status=(OPEN,), limit=1):
                self._reserved[agent].discard(session)
        sessions = self.live.sessions.of(agent) if self.unread else []
        letters = (s.id for s in sessions if s.id in self.unread or s.alias in self.unread)
        return Demand(
            items=tuple(item.id for item in items),
            reserved=tuple(reserved),
            mail=self.unread.get(agent, 0),
            letters=frozenset(letters),
            next_due=store.next_due(agent, now),
        )

    def observed_sessions(self, agent: str) -> list[ObservedSession]:
        """Return its indexed sessions and those with reserved items."""
        live = self.live
        sessions = {session.id: session for session in live.sessions.of(agent)}
        for id in self._reserved.get(agent, ()):
            if id not in sessions and (stopped := live.store.session(id)) is not None:
                sessions[id] = stopped
        return [
            ObservedSession(self._seen(session), *self.drift_tracker.of(session))
            for session in sessions.values()
        ]

    def _seen(self, session: Session) -> Session:
        """Return a session with its current attachment and start request."""
        live, active = self.live, self.live.active_runs.get(session.id)
        if session.interactive and active is not None:
            looks = active.runtime.attached(active.handle)
            if looks is not None and looks != session.attached:
                session = live.store.update_session(session.id, {"attached": looks}, live.now)
                live.sessions.put(session)
        if session.asked == "start" and session.state not in LIVE:
            session = live.renamed(session)
            if session.interactive and session.origin == POOL:
                session = live.change(
                    session, origin=MANUAL
                )  # it belongs to the user who started it
            session = session._replace(state=STARTING, asked="", run=0, origin=MANUAL)
        return session
