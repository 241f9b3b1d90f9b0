"""Which agents are to be looked at, when, and what comes of it."""

import heapq
from collections.abc import Callable
from traceback import format_exception

from gascity.control.crew import CONTROLLER, Crew
from gascity.control.desk import Desk, Post
from gascity.control.drifts import Drifts
from gascity.control.endings import Endings
from gascity.control.reconcile import reconcile
from gascity.control.starts import Starts
from gascity.control.stops import Stops
from gascity.control.survey import Survey
from gascity.control.world import (
    Action,
    Blocked,
    Demand,
    Pool,
    Restart,
    Room,
    Start,
    Stop,
    Turn,
    Verdict,
)
from gascity.model.work import LIVE, Work
from gascity.store.port import StoreFault

_PASSES = 20  # rounds of deciding before something is taken to be wrong
_AGAIN = 30.0  # when an agent is tried again whose way may be free by then, if nobody says so
_DAY = 86400.0
_LEAST = (9, 0.0)  # the urgency of an agent that nothing waits for
_MAY_CHANGE = ("missing-binary", "missing-env")  # what stands in the way, and nobody tells us


class Agenda:
    """Agents that something happened to, and those whose time has come."""

    def __init__(
        self, crew: Crew, starts: Starts, stops: Stops, desk: Desk, say: Callable[[str], None]
    ) -> None:
        self.crew = crew
        self.starts = starts
        self.stops = stops
        self.say = say
        self.drifts = Drifts(crew, desk)
        self.survey = Survey(crew, desk, self.drifts)
        self.desk = desk
        self.start_over()

    def start_over(self) -> None:
        """Forget what was decided: it may not have been put on record."""
        self._wakes: list[tuple[float, str]] = []
        self._wake_of: dict[str, float] = {}
        self._waiting: dict[str, tuple[int, float]] = {}  # for a place; by agent: how urgently
        self._said: dict[str, str] = {}

    def reloaded(self, desk: Desk) -> None:
        """The city was read anew: everything may be different."""
        self.desk = self.survey.desk = self.drifts.desk = self.starts.desk = desk
        self.everything()
        self.drifts.look()

    def everything(self) -> None:
        """Look at every agent that has work, sessions or mail, or wants to be there anyway.

        Also at those of which something was said last that may not be so any more.
        """
        crew, survey = self.crew, self.survey
        survey.unread = crew.store.unread()
        for agent, session in crew.store.reservations():
            survey.reserve(agent, session)
        mailed = [name for name in survey.unread if self.desk.post(name) is not None]
        names = (str(agent.name) for agent in self.desk.city.agents)
        told = [name for name in names if crew.store.noted(f"reason {name}") not in ("", "idle")]
        found = [*crew.store.open_agents(), *crew.roster.agents(), *self.desk.standing(), *mailed]
        for agent in (*found, *told):
            crew.touch(agent)

    def next_at(self) -> float | None:
        """When the next agent is due, by the wall clock."""
        return self._wakes[0][0] if self._wakes else None

    def shift(self, jump: float) -> None:
        """The clock was set: spans that were running go on from where they were."""
        crew = self.crew
        with crew.store.writing():
            for session in crew.store.sessions():
                if session.state not in LIVE and session.retry_at is None:
                    continue
                spans = ("retry_at", "drain_by", "idle_since", "started", "busy_until")
                moved = {
                    name: at + jump
                    for name in spans
                    if isinstance(at := getattr(session, name), float)
                }
                if moved:
                    crew.change(session, "", **moved)
            told = {"seconds": round(jump, 1)}
            crew.store.record("controller.clock", "controller", crew.now, told, CONTROLLER)
        self._wakes, self._wake_of = [], {}
        self.everything()

    # Deciding

    def settle(self) -> None:
        """Decide and act until nothing is left to do about what happened."""
        crew = self.crew
        self._due()
        if crew.mail_changed:
            crew.mail_changed = False
            self.survey.unread = crew.store.unread()
        for _ in range(_PASSES):
            if not crew.dirty and not crew.roster.freed:
                break
            agents, crew.dirty = list(crew.dirty), {}
            many = len(agents) > 1
            ranked = ((self._urgency(agent) if many else _LEAST, agent) for agent in agents)
            for _, agent in sorted(ranked):
                self._guarded(agent)
            if crew.roster.freed:
                crew.roster.freed = False
                self._next_in_line()
        if crew.dirty:
            self.say(f"deciding about {', '.join(crew.dirty)} does not come to an end")
            for agent in crew.dirty:
                self._wake(agent, crew.now + 1.0)
            crew.dirty = {}
        crew.store.decide(crew.decisions)
        crew.decisions = []

    def _due(self) -> None:
        while self._wakes and self._wakes[0][0] <= self.crew.now:
            at, agent = heapq.heappop(self._wakes)
            if self._wake_of.get(agent) == at:
                del self._wake_of[agent]
                self.crew.obstructed.pop(agent, None)
                self.crew.touch(agent)

    def _next_in_line(self) -> None:
        """Places are free: those that wait for one are asked in turn, the most urgent first."""
        limit = self.desk.workspace("max_active_sessions")
        for agent in sorted(self._waiting, key=self._waiting.__getitem__):
            if isinstance(limit, int) and 0 <= limit <= self.crew.roster.live["city"]:
                break
            self._guarded(agent)

    def _urgency(self, agent: str) -> tuple[int, float]:
        try:
            head = self.crew.store.claimable(agent, self.crew.now, 1)
        except StoreFault:
            raise
        except Exception:
            return _LEAST  # it shows again, contained, when the agent is looked at
        return (head[0].priority, head[0].created) if head else _LEAST

    def _guarded(self, agent: str) -> None:
        """Look at one agent. A fault of ours about it is its own: the others go on."""
        crew = self.crew
        try:
            with crew.store.writing():
                self._look(agent)
        except StoreFault:
            raise
        except Exception as error:
            self.say(f"a fault of ours about {agent}: {''.join(format_exception(error))}")
            crew.abandon(lambda other: other == agent)
            for session in crew.roster.of(agent):  # as they were before this look
                known = crew.store.session(session.id)
                crew.preparing.pop(session.id, None)
                crew.roster.drop(session.id)
                if known is not None:
                    crew.roster.put(known)
            words = f"{type(error).__name__}: {error}"
            crew.obstructed[agent] = Blocked("bug", f"a fault of ours, see the log: {words}")
            crew.dirty.pop(agent, None)
            self._wake(agent, crew.now + _AGAIN)

    def _look(self, agent: str) -> None:
        survey, post = self.survey, self.desk.post(agent)
        room = survey.room(post) if post is not None else Room()
        items = survey.items(agent, post)
        demand = survey.demand(agent, items)
        pool = survey.pool(agent)
        if post is not None:
            pool = pool._replace(taken=survey.taken(post))
            if items or demand.reserved or demand.mail or demand.letters:
                pool = survey.wanting(pool, post)
        verdict = reconcile(pool, survey.facts(agent), demand, room, self.crew.now)
        for action in verdict.actions:
            self._act(action)
        self._remember(pool, post, verdict, items, demand)

    def _act(self, action: Action) -> None:
        crew = self.crew
        if isinstance(action, Start):
            self.starts.start(action)
            return
        session = crew.roster.get(action.session) or crew.store.session(action.session)
        if session is None:
            return
        if isinstance(action, Turn):
            self.starts.turn(session, action)
        elif isinstance(action, Stop):
            self.stops.stop(session, action)
        elif isinstance(action, Restart):
            self.stops.restart(session, action)
        else:
            self.stops.note(session, action)

    def restart(self, endings: Endings) -> None:
        """Start anew what ended only for that; it keeps the item it had."""
        again, endings.again = endings.again, []
        for id, item in again:
            session = self.crew.roster.get(id) or self.crew.store.session(id)
            post = self.desk.post(session.agent) if session else None
            if session is not None and post is not None:
                self.starts.begin(post, session, item, "it was restarted")

    # Remembering

    def _remember(
        self,
        pool: Pool,
        post: Post | None,
        verdict: Verdict,
        items: list[Work],
        demand: Demand,
    ) -> None:
        """Keep why things are as they are, and when to look again."""
        crew, agent = self.crew, pool.agent
        waits = bool(items or demand.reserved)
        if verdict.cramped:
            head = items[0] if items else None
            self._waiting[agent] = (head.priority, head.created) if head else _LEAST
        else:
            self._waiting.pop(agent, None)
        active = waits or bool(crew.roster.live_of(agent))
        self.survey.dependence.remember(agent, post, active)
        for at in self._next_looks(pool, verdict, waits):
            self._wake(agent, at)
        why = verdict.blocked[0] if verdict.blocked else None
        self._note(f"reason {agent}", verdict.reason)
        self._note(f"blocked {agent}", f"{why.code} {why.message}" if why else "")
        if why is not None and items:
            crew.decided(items[0].id, "wait", why.message)

    def _next_looks(self, pool: Pool, verdict: Verdict, waits: bool) -> list[float]:
        now, agent = self.crew.now, pool.agent
        found = [] if verdict.wake_at is None else [verdict.wake_at]
        codes = {why.code for why in pool.blocked}
        if "cost-limit" in codes:
            found.append(now - now % _DAY + _DAY)  # a new day
        pending = any(session.pending for session in self.crew.roster.of(agent))
        if agent in self.crew.obstructed or pending or (waits and codes & set(_MAY_CHANGE)):
            found.append(now + _AGAIN)
        return found

    def _wake(self, agent: str, at: float) -> None:
        before = self._wake_of.get(agent)
        if before == at or (before is not None and self.crew.now < before < at):
            return
        self._wake_of[agent] = at
        heapq.heappush(self._wakes, (at, agent))

    def _note(self, key: str, value: str) -> None:
        if self._said.get(key) != value:
            self._said[key] = value
            self.crew.store.note(key, value)
