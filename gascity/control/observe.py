"""Gather the inputs of `reconcile` for one agent, and find the agents that need reconciling.

Commands such as `city work cancel`, `city session stop` or `city mail send` write to the store and
exit; they need no controller. Every write appends an event in the same transaction. The store's
wake-up (`Store.subscribe`) makes the loop's descriptor readable after a write by any process, and
`read` then takes in all events after the last one it saw. Wake-ups may be lost or come twice: only
the events count, each is read once, and events of the controller itself are skipped. An event only
says *where* to look; the decision is made from the records (see `decide/reconcile.py`).
"""

from functools import partial

from gascity.control.blocked import agent_obstacles, cost_obstacles
from gascity.control.decide import reasons
from gascity.control.decide.actions import Demand, Headroom, ObservedSession
from gascity.control.decide.types import Blocked, Pool
from gascity.control.finish import SessionStopper
from gascity.control.live_state import CONTROLLER, LiveState
from gascity.control.run_config import AgentRunConfig
from gascity.control.start import REFLECTION
from gascity.model.work import (
    CANCELLED,
    DONE,
    DRAINING,
    FINISHED,
    IDLE,
    LIVE,
    MANUAL,
    OPEN,
    POOL,
    RUNNING,
    STARTING,
    WAITING,
    Event,
    Session,
    Work,
    subject_of,
)
from gascity.workdir.fingerprint import HOT, NEXT_START, RESTART, drift
from gascity.workdir.prepare_session import PreparedSession, WorkdirRequest

_BATCH = 1000  # events read at once
_WISHES = ("work.created", "session.created", "session.asked")
_MANY = 64  # items read for an agent without a session limit


class DriftTracker:
    """Tracks how the definitions of live terminals differ from what they were started with."""

    def __init__(self, live: LiveState) -> None:
        self.live = live
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
            config = self.live.run_config.agent(session.agent)
            if not session.interactive or session.id not in self.live.active_runs or config is None:
                continue
            request = WorkdirRequest(
                session=session.id,
                alias=session.alias,
                slot=session.slot,
                work=session.work,
                workdir=session.workdir,
                branch=session.branch,
                resume=True,
            )
            self.live.workers.put(
                partial(config.preparer.prepare, config.agent, request),
                partial(self._compare, session.id, session.generation),
                lambda _: None,
            )

    def _compare(self, id: str, generation: int, prepared: PreparedSession) -> None:
        session = self.live.sessions.get(id)
        if session is None or not prepared.can_start:
            return
        changes = drift(session.prints, prepared.fingerprint)
        effects = {change.effect for change in changes}
        worst = next((effect for effect in (RESTART, NEXT_START, HOT) if effect in effects), "")
        parts = tuple(change.part for change in changes if change.effect == worst)
        if worst == HOT:
            self.live.change(session, prints=prepared.fingerprint)
        self._found[id] = (generation, worst, parts)
        self.live.mark_dirty(session.agent)


class Observer:
    """Gathers inputs; remembers which sessions have reserved items and which agents are needed."""

    def __init__(self, live: LiveState) -> None:
        self.live = live
        self.drift_tracker = DriftTracker(live)
        self.unread: dict[str, int] = {}
        self._reserved: dict[str, set[str]] = {}  # by agent: sessions with reserved items
        self._needed_by: dict[str, set[str]] = {}  # by agent: agents whose `depends_on` names it

    def reserve(self, agent: str, session: str) -> None:
        """Note that an item is reserved for a session."""
        self._reserved.setdefault(agent, set()).add(session)

    def pool(self, agent: str) -> Pool:
        """Return the agent's pool with everything that blocks it now."""
        config = self.live.run_config.agent(agent)
        if config is None:
            return Pool(agent, maximum=0, blocked=(reasons.agent_gone(agent),))
        blocked = agent_obstacles(self.live.run_config, config)
        if agent in self.live.start_failures:
            blocked = (*blocked, self.live.start_failures[agent])
        return config.pool._replace(
            blocked=blocked,
            typed=not config.terminal or config.terminal_rules.can_type,
            wake_on_mail=config.pool.wake_on_mail and not config.script,
            awaits=tuple(name for name in config.depends_on if not self._is_live(name)),
            needed=len(self._needed_by.get(agent, ())),
            time_limits=self._time_limits(config) if config.agent.settings.reflection else {},
        )

    def _time_limits(self, config: AgentRunConfig) -> dict[str, float]:
        """Return the time limits of runs that follow a work item."""
        limit, runs = config.limits.reflection_timeout, self.live.active_runs
        return {
            session.id: limit
            for session in self.live.sessions.of(config.name)
            if session.id in runs and runs[session.id].run.about.startswith(REFLECTION)
        }

    def _is_live(self, agent: str) -> bool:
        return self.live.sessions.live_count(agent) > 0

    def remember_needs(self, agent: str, config: AgentRunConfig | None, active: bool) -> None:
        """Update after an agent was reconciled: while it is active, its dependencies must run."""
        for dependency in config.depends_on if config is not None else ():
            dependents = self._needed_by.setdefault(dependency, set())
            if active != (agent in dependents):
                (dependents.add if active else dependents.discard)(agent)
                self.live.mark_dirty(dependency)
        if self._is_live(agent):
            self.live.mark_dirty(*self._needed_by.get(agent, ()))

    def with_cost_limits(self, pool: Pool, config: AgentRunConfig) -> Pool:
        """Add used-up cost limits; checked only if there is something to start."""
        over = cost_obstacles(self.live.run_config, self.live.store, config, self.live.now)
        return pool._replace(blocked=(*pool.blocked, *over)) if over else pool

    def headroom(self, config: AgentRunConfig | None) -> Headroom:
        """Return how many more sessions the caps above the agent's own allow."""
        if config is None:
            return Headroom()
        caps, sessions = list(self.live.run_config.caps(config)), self.live.sessions
        return Headroom(
            tuple(
                (limit - sessions.live_counts[cap], reasons.cap_full(cap, 0, limit))
                for cap, limit in caps
            ),
            tuple(sessions.ending_counts[cap] for cap, _ in caps),
        )

    def taken_aliases(self, config: AgentRunConfig) -> frozenset[str]:
        """Return aliases the agent might use that belong to other agents' sessions."""
        sessions = self.live.sessions
        own = (*config.pool.names, *(slot.alias for slot in config.pool.named))
        owners = (
            (name, sessions.by_alias(name))
            for name in (*own, *sessions.similar_aliases(config.agent.name.bare))
        )
        return frozenset(name for name, other in owners if other and other.agent != config.name)

    def items(self, agent: str, config: AgentRunConfig | None, pool: Pool) -> list[Work]:
        """Return the next queued items, at most `item_limit`."""
        limit, held = item_limit(pool), 0
        if config is None or not depends_on_items(pool) or self.live.environments.all_ready(config):
            return self.live.store.claimable(agent, self.live.now, limit)
        while True:
            # Items that lack something must not be in the way of those behind them.
            items = self.live.store.claimable(agent, self.live.now, limit + held)
            ready = [item for item in items if not self._lacks(config, item.id)]
            if len(items) < limit + held or len(ready) >= limit:
                return ready[:limit]
            held = 2 * (len(items) - len(ready))

    def _lacks(self, config: AgentRunConfig, work: str) -> bool:
        why, is_new = self.live.environments.obstacle(config, work)
        if why is not None and is_new:
            self.live.record_decision(work, "wait", why.message)
        return why is not None

    def held(self, agent: str) -> Blocked | None:
        """Return what an item lacks that is held back; None if all items of the agent are ready."""
        for id, why in self.live.environments.held(agent).items():
            work = self.live.store.work(id)
            if work is not None and work.status == OPEN:
                return why
        return None

    def demand(self, agent: str, items: list[Work], pool: Pool) -> Demand:
        store, now = self.live.store, self.live.now
        config = self.live.run_config.agent(agent) if depends_on_items(pool) else None
        reserved = []
        for session in sorted(self._reserved.get(agent, ())):
            own = store.reserved(agent, now, session)
            if own is not None and (config is None or not self._lacks(config, own.id)):
                reserved.append((session, own.id))
            elif own is not None:
                continue
            elif not store.list_work(session=session, status=(OPEN,), limit=1):
                self._reserved[agent].discard(session)
        sessions = self.live.sessions.of(agent) if self.unread else []
        # A terminal gets the next mail once the last one was typed.
        typing = {s.id for s in sessions if s.interactive and self._has_mail_to_type(s)}
        letters = (s.id for s in sessions if s.id in self.unread or s.alias in self.unread)
        return Demand(
            items=tuple(item.id for item in items),
            reserved=tuple(reserved),
            mail=0 if typing else self.unread.get(agent, 0),
            letters=frozenset(letters) - typing,
            next_due=store.next_due(agent, now),
        )

    def _has_mail_to_type(self, session: Session) -> bool:
        nudges = self.live.store.nudges(session.id)
        return any(subject_of(nudge)[0] == "mail" for nudge in nudges)

    def observed_sessions(self, agent: str) -> list[ObservedSession]:
        """Return its indexed sessions and those with reserved items."""
        live = self.live
        sessions = {session.id: session for session in live.sessions.of(agent)}
        for id in self._reserved.get(agent, ()):
            if id not in sessions and (stopped := live.store.session(id)) is not None:
                sessions[id] = stopped
        return [
            ObservedSession(self._current(session), *self.drift_tracker.of(session))
            for session in sessions.values()
        ]

    def _current(self, session: Session) -> Session:
        """Return a session with its current attachment and start request."""
        live, active = self.live, self.live.active_runs.get(session.id)
        if session.interactive and active is not None:
            attached = active.runtime.attached(active.handle)
            if attached is not None and attached != session.attached:
                session = live.store.update_session(session.id, {"attached": attached}, live.now)
                live.sessions.put(session)
        if session.asked == "start" and session.state not in LIVE:
            session = live.renamed(session)
            if session.interactive and session.origin == POOL:
                # It belongs to the user who started it.
                session = live.change(session, origin=MANUAL)
            session = session._replace(state=STARTING, asked="", run=0, origin=MANUAL)
        return session


def item_limit(pool: Pool) -> int:
    """Return how many queued items to read: one more than the session limit."""
    return min(_MANY if pool.maximum is None else pool.maximum + 1, _MANY)


def depends_on_items(pool: Pool) -> bool:
    """Return whether single items may start: nothing blocks the agent but perhaps its PATH."""
    return all(why.code == "missing-binary" for why in pool.blocked)


class StoreEvents:
    """Reads new events in order, each once."""

    def __init__(self, live: LiveState, stopper: SessionStopper, observer: Observer) -> None:
        self.live = live
        self.stopper = stopper
        self.observer = observer
        self._last = 0

    def skip(self) -> None:
        """Skip past events: adoption reads the records themselves."""
        self._last = self.live.store.last_event()

    def catch_up(self) -> None:
        """Handle items that were finished while no controller was running."""
        for session in list(self.live.sessions):
            work = self.live.store.work(session.work) if session.work else None
            if work is not None and work.status in FINISHED:
                self._held(session, work.id, work.status)

    def read(self) -> bool:
        """Handle all new events; return whether one of them is a request of a user or an agent."""
        wished = False
        while batch := self.live.store.events(self._last, _BATCH):
            for event in batch:
                if event.actor != CONTROLLER:
                    self._take(event)
                    wished = wished or event.type in _WISHES
            self._last = batch[-1].seq
            if len(batch) < _BATCH:
                break
        return wished

    def _take(self, event: Event) -> None:
        kind = event.type.partition(".")[0]
        if kind == "work":
            self._work(event)
        elif kind == "session":
            self._session(event)
        elif kind == "mail":
            self.live.mail_changed = True
            to = str(event.data.get("to", ""))
            owner = self.live.store.session(to)
            if owner is not None or self.live.run_config.agent(to) is not None:
                self.live.mark_dirty(owner.agent if owner else to)

    def _work(self, event: Event) -> None:
        live = self.live
        agent = str(event.data.get("agent", ""))
        live.mark_dirty(agent)
        work = live.store.work(event.subject)
        if work is None:
            return
        if work.status == "open":
            if work.reserved:
                self.observer.reserve(agent, work.session)
            return
        if work.status in FINISHED:
            live.environments.forget(work.id)
            live.mark_dirty(*live.store.dependent_agents(work.id))
        session = live.sessions.get(work.session) or self._holder(work.id, agent)
        if session is not None:
            self._held(session, work.id, work.status)

    def _holder(self, work: str, agent: str) -> Session | None:
        return next(
            (session for session in self.live.sessions.of(agent) if session.work == work), None
        )

    def _held(self, session: Session, work: str, status: str) -> None:
        """Update a session whose item was finished or cancelled, or that claimed one itself."""
        live = self.live
        if status not in FINISHED:
            if session.interactive and session.work != work:
                live.change(session, state=RUNNING, work=work, idle_since=None)
            return
        if session.work != work or session.id not in live.active_runs:
            return
        if status == CANCELLED and not session.interactive:
            self.stopper.begin_stop(session, "cancel", f"{work} was cancelled")
        elif session.interactive:
            kept = session.state in (DRAINING, WAITING)
            state = session.state if kept else IDLE
            session = live.change(session, state=state, work="", idle_since=live.now)
            self._reflect(session, work, status)
        elif session.state == RUNNING:
            # The agent reported the item as finished. Let its process exit, but not stay forever.
            config = self.live.run_config.agent(session.agent)
            by = live.now + (config.pool.drain_timeout if config else 60.0)
            reason = f"{work} is {status}"
            live.change(session, state=DRAINING, reason=reason, work="", drain_by=by)

    def _reflect(self, session: Session, item: str, status: str) -> None:
        config = self.live.run_config.agent(session.agent)
        work = self.live.store.work(item) if status == DONE else None
        if work is not None and config is not None and config.agent.settings.reflection:
            from gascity.control.reflection import type_reflection

            type_reflection(self.live, config, session, work)

    def _session(self, event: Event) -> None:
        live = self.live
        session = live.store.session(event.subject)
        if session is None:
            live.sessions.drop(event.subject)
        else:
            live.sessions.put(session)
            live.mark_dirty(session.agent)
            if event.type == "session.nudged" and session.interactive and session.state in LIVE:
                live.screens_due.add(session.id)
