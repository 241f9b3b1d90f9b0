"""Reconcile the agents that something happened to, and those whose wake-up time has come.

Anything that may change a decision about an agent marks it dirty: events of the store, ended runs,
requests, a reload. `reconcile_dirty` reconciles the dirty agents, most urgent item first, and
carries out the actions, which may make agents dirty again; it repeats until none is left. A result
may also name a time at which it changes by itself; a heap of wake-up times covers that.

When a session ends, its place under the rig and city caps becomes free. Agents that lacked room
then get their turn in the order of their most urgent items, whichever agent the session was of.
"""

import heapq
from collections.abc import Callable
from traceback import format_exception
from typing import TYPE_CHECKING, cast

from gascity.control.blocked import blocked_note, reason_note
from gascity.control.decide.actions import (
    Action,
    CreateSession,
    Demand,
    ReconcileResult,
    RestartSession,
    RunSession,
    StopSession,
    UpdateSession,
)
from gascity.control.decide.reconcile import reconcile
from gascity.control.decide.types import Blocked, Pool, caps_of, deadlines, is_spare, made_room
from gascity.control.finish import RunFinisher, SessionStopper
from gascity.control.live_state import CONTROLLER, LiveState
from gascity.control.observe import Observer, depends_on_items, item_limit
from gascity.control.run_config import AgentRunConfig
from gascity.control.start import SessionStarter
from gascity.model.work import LIVE, MANUAL, RUNNING, Session, Work
from gascity.store.port import StoreError

if TYPE_CHECKING:
    from gascity.model.session_changes import SessionChanges

_PASSES = 20  # passes of one round; more means that two decisions alternate
_AGAIN = 30.0  # when to try again an agent whose obstacle may go away without an event
_DAY = 86400.0
_LEAST = (9, 0.0)  # the urgency of an agent without queued work
_MAY_CHANGE = ("missing-binary", "missing-env")  # obstacles that go away without an event


class Scheduler:
    """Decides which agents to reconcile and when, and carries out the results."""

    def __init__(
        self,
        live: LiveState,
        starter: SessionStarter,
        stopper: SessionStopper,
        log: Callable[[str], None],
    ) -> None:
        self.live = live
        self.starter = starter
        self.stopper = stopper
        self.log = log
        self.observer = Observer(live)
        self.reset()

    def reset(self) -> None:
        """Forget all wake-up times and notes; what they came from may not have been committed."""
        self._wakes: list[tuple[float, str]] = []
        self._wake_of: dict[str, float] = {}
        # By agent that lacks room under a cap: its urgency.
        self._waiting: dict[str, tuple[int, float]] = {}
        self._noted: dict[str, str] = {}

    def reloaded(self) -> None:
        """Look at everything again: with a new configuration, any decision may be different."""
        self.mark_all_dirty()
        self.observer.drift_tracker.look()

    def mark_all_dirty(self) -> None:
        """Mark every agent dirty that has work, sessions, mail or a minimum.

        Also agents whose last status line may be out of date.
        """
        live, observer = self.live, self.observer
        run_config = live.run_config
        observer.unread = live.store.unread_counts()
        for agent, session in live.store.reservations():
            observer.reserve(agent, session)
        names = (str(agent.name) for agent in run_config.city.agents)
        live.mark_dirty(
            *live.store.open_agents(),
            *live.sessions.agents(),
            *run_config.always_wanted(),
            *(name for name in observer.unread if run_config.agent(name) is not None),
            *(name for name in names if live.store.get_note(reason_note(name)) not in ("", "idle")),
        )

    def next_at(self) -> float | None:
        """Return when the next agent is due, by the wall clock."""
        return self._wakes[0][0] if self._wakes else None

    def shift_clock(self, jump: float) -> None:
        """Shift all running deadlines by the amount that the wall clock was set."""
        live = self.live
        with live.store.transaction():
            for session in live.store.sessions():
                if session.state not in LIVE and session.retry_at is None:
                    continue
                spans = ("retry_at", "drain_by", "idle_since", "started", "busy_until")
                times = {name: getattr(session, name) for name in spans}
                moved = {name: at + jump for name, at in times.items() if at is not None}
                if moved:
                    live.change(session, "", **cast("SessionChanges", moved))
            data = {"seconds": round(jump, 1)}
            live.store.record_event("controller.clock", "controller", live.now, data, CONTROLLER)
        self._wakes, self._wake_of = [], {}
        self.mark_all_dirty()

    # Reconciling

    def reconcile_dirty(self) -> None:
        """Reconcile dirty agents until none is left."""
        live = self.live
        self._due()
        if live.mail_changed:
            live.mail_changed = False
            self.observer.unread = live.store.unread_counts()
        for _ in range(_PASSES):
            if not live.dirty and not live.sessions.slot_freed:
                break
            agents, live.dirty = list(live.dirty), {}
            many = len(agents) > 1
            ranked = ((self._urgency(agent) if many else _LEAST, agent) for agent in agents)
            for _, agent in sorted(ranked):
                self._reconcile_guarded(agent)
            if live.sessions.slot_freed or (self._waiting and self._has_spare()):
                live.sessions.slot_freed = False
                self._serve_waiting()
        if live.dirty:
            self.log(
                f"reconciling {', '.join(live.dirty)} does not converge (this is a bug in city)"
            )
            for agent in live.dirty:
                self._wake(agent, live.now + 1.0)
            live.dirty = {}
        live.write_decisions()

    def _due(self) -> None:
        while self._wakes and self._wakes[0][0] <= self.live.now:
            at, agent = heapq.heappop(self._wakes)
            if self._wake_of.get(agent) == at:
                del self._wake_of[agent]
                self.live.start_failures.pop(agent, None)
                self.live.mark_dirty(agent)

    def _serve_waiting(self) -> None:
        """Reconcile the agents that wait for room under a cap, most urgent first.

        If the city is full, an agent first makes room by stopping an idle session of another one.
        """
        limit = self.live.run_config.city.workspace.max_active_sessions
        counts = self.live.sessions.live_counts
        for agent in sorted(self._waiting, key=self._waiting.__getitem__):
            if 0 <= limit <= counts["city"]:
                self._reconcile_guarded(agent)
                if limit <= counts["city"]:
                    break
            self._reconcile_guarded(agent)

    def _has_spare(self) -> bool:
        """Return whether an idle session may be stopped to make room; see `_make_room`."""
        return any(self._is_spare(session) for session in self.live.sessions)

    def _is_spare(self, session: Session) -> bool:
        return session.origin == MANUAL and is_spare(session, self.live.now)

    def _urgency(self, agent: str) -> tuple[int, float]:
        try:
            head = self.live.store.claimable(agent, self.live.now, 1)
        except StoreError:
            raise
        except Exception:
            return _LEAST  # the error is handled when the agent is reconciled
        return (head[0].priority, head[0].created) if head else _LEAST

    def _reconcile_guarded(self, agent: str) -> None:
        """Reconcile one agent; an internal error about it must not stop the others."""
        live = self.live
        try:
            with live.store.transaction():
                self._reconcile_agent(agent)
        except StoreError:
            raise
        except Exception as error:
            trace = "".join(format_exception(error))
            self.log(f"internal error about {agent} (this is a bug in city): {trace}")
            live.kill_unreleased(lambda other: other == agent)
            for session in live.sessions.of(agent):  # the transaction was rolled back
                known = live.store.session(session.id)
                live.preparing.pop(session.id, None)
                live.sessions.drop(session.id)
                if known is not None:
                    live.sessions.put(known)
            words = f"{type(error).__name__}: {error}"
            live.start_failures[agent] = Blocked(
                "bug", f"internal error, see the controller log: {words}"
            )
            live.dirty.pop(agent, None)
            self._wake(agent, live.now + _AGAIN)

    def _reconcile_agent(self, agent: str) -> None:
        observer, config = self.observer, self.live.run_config.agent(agent)
        room = observer.headroom(config)
        pool = observer.pool(agent)
        items = observer.items(agent, config, pool)
        demand = observer.demand(agent, items, pool)
        if items or demand.reserved:  # these have the program on their own PATH
            blocked = tuple(why for why in pool.blocked if why.code != "missing-binary")
            pool = pool._replace(blocked=blocked)
        if config is not None:
            pool = pool._replace(taken=observer.taken_aliases(config))
            if items or demand.reserved or demand.mail or demand.letters:
                pool = observer.with_cost_limits(pool, config)
        result = reconcile(pool, observer.observed_sessions(agent), demand, room, self.live.now)
        for action in result.actions:
            self._act(action)
        started = self._started(result)
        taken = {session.work for session in started}
        may_be_more = len(items) >= item_limit(pool) and taken.issuperset(i.id for i in items)
        if started and len(started) == len(result.actions) and not may_be_more:
            # All went as planned, so the result is final. `reconcile` would find nothing to do.
            self.live.dirty.pop(agent, None)
        self._record_result(pool, config, result, items, demand)

    def _started(self, result: ReconcileResult) -> list[Session]:
        """Return the sessions that existed before and now run for the item they were given."""
        runs = [action for action in result.actions if isinstance(action, RunSession)]
        given = [(self.live.sessions.get(run.session), run.work) for run in runs if run.work]
        return [s for s, work in given if s and s.state == RUNNING and s.work == work]

    def _act(self, action: Action) -> None:
        if isinstance(action, CreateSession):
            self.starter.create(action)
            return
        session = self.live.find_session(action.session)
        if session is None:
            return
        match action:
            case RunSession():
                self.starter.run(session, action)
            case StopSession():
                self.stopper.stop(session, action)
            case RestartSession():
                self.stopper.restart(session, action)
            case UpdateSession():
                self.stopper.update(session, action)

    def start_restarted(self, finisher: RunFinisher) -> None:
        """Start sessions again whose run ended for a restart, or is followed by a reflection."""
        again, finisher.to_restart = finisher.to_restart, []
        for id, item in again:
            session = self.live.find_session(id)
            config = self.live.run_config.agent(session.agent) if session else None
            if session is not None and config is not None:
                self.starter.begin(config, session, item, "restarted")
        done, finisher.to_reflect = finisher.to_reflect, []
        for id, item in done:
            from gascity.control.reflection import start_reflection

            start_reflection(self.live, self.starter, id, item)

    # Recording

    def _record_result(
        self,
        pool: Pool,
        config: AgentRunConfig | None,
        result: ReconcileResult,
        items: list[Work],
        demand: Demand,
    ) -> None:
        """Record why work waits, and when to reconcile again."""
        live, agent = self.live, pool.agent
        waits = bool(items or demand.reserved)
        if result.lacks_headroom:
            head = items[0] if items else None
            self._waiting[agent] = (head.priority, head.created) if head else _LEAST
            if waits and config is not None:
                self._make_room(config, head.id if head else demand.reserved[0][1])
        else:
            self._waiting.pop(agent, None)
        active = waits or bool(live.sessions.live_count(agent))
        self.observer.remember_needs(agent, config, active)
        for at in self._recheck_times(pool, result, waits):
            self._wake(agent, at)
        held = self.observer.held(agent) if depends_on_items(pool) else None
        why = result.blocked[0] if result.blocked else held
        if held is not None:
            self._wake(agent, live.now + _AGAIN)
        reason = result.reason
        if held is not None and not result.blocked:
            reason = held.message if reason == "idle" else f"{reason}; {held.message}"
        self._note(reason_note(agent), reason)
        self._note(*blocked_note(agent, why))
        if result.blocked and items:
            live.record_decision(items[0].id, "wait", result.blocked[0].message)

    def _make_room(self, config: AgentRunConfig, work: str) -> None:
        """Stop another agent's longest idle session if it only fills a cap that this one needs.

        Only one that a user created and that has no process. Sessions of a pool or with a
        configured name are there because the configuration says so.
        """
        live = self.live
        counts, ending = live.sessions.live_counts, live.sessions.ending_counts
        full = {cap for cap, most in live.run_config.caps(config) if counts[cap] >= most}
        if any(ending[cap] for cap in full):
            return
        spare = [
            session
            for session in live.sessions
            if self._is_spare(session) and full.issubset(caps_of(session))
        ]
        if full and spare:
            session = min(spare, key=lambda session: session.idle_since or 0.0)
            self.stopper.stop(session, StopSession(session.id, "stop", made_room(work)))

    def _recheck_times(self, pool: Pool, result: ReconcileResult, waits: bool) -> list[float]:
        now, agent = self.live.now, pool.agent
        times = [] if result.wake_at is None else [result.wake_at]
        for session in self._started(result):  # the result knows no limit of the new run
            times += deadlines(pool, session)
        codes = {why.code for why in pool.blocked}
        if "cost-limit" in codes:
            times.append(now - now % _DAY + _DAY)  # the limit resets at midnight UTC
        pending = any(session.pending for session in self.live.sessions.of(agent))
        if agent in self.live.start_failures or pending or (waits and codes & set(_MAY_CHANGE)):
            times.append(now + _AGAIN)
        return times

    def _wake(self, agent: str, at: float) -> None:
        before = self._wake_of.get(agent)
        if before == at or (before is not None and self.live.now < before < at):
            return
        self._wake_of[agent] = at
        heapq.heappush(self._wakes, (at, agent))

    def _note(self, key: str, value: str) -> None:
        if self._noted.get(key) != value:
            self._noted[key] = value
            self.live.store.set_note(key, value)
