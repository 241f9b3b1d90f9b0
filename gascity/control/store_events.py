"""Maps store events from other processes to the agents that need reconciling.

Commands such as `city work cancel`, `city session stop` or `city mail send` write to the store and
exit; they need no controller. Every write appends an event in the same transaction. The store's
wake-up (`Store.subscribe`) makes the loop's descriptor readable after a write by any process, and
`read` then takes in all events after the last one it saw. Wake-ups may be lost or come twice: only
the events count, each is read once, and events of the controller itself are skipped. An event only
says *where* to look; the decision is made from the records (see `decide/reconcile.py`).
"""

from gascity.control.live_state import CONTROLLER, LiveState
from gascity.control.observe import Observer
from gascity.control.stop import SessionStopper
from gascity.model.work import CANCELLED, DRAINING, FINISHED, IDLE, LIVE, RUNNING, Event, Session

_BATCH = 1000
_WISHES = ("work.created", "session.created", "session.asked")


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
            state = session.state if session.state == DRAINING else IDLE
            live.change(session, state=state, work="", idle_since=live.now)
        elif session.state == RUNNING:
            # The agent reported the item as finished. Let its process exit, but not stay forever.
            config = self.live.run_config.agent(session.agent)
            by = live.now + (config.pool.drain_timeout if config else 60.0)
            reason = f"{work} is {status}"
            live.change(session, state=DRAINING, reason=reason, work="", drain_by=by)

    def _session(self, event: Event) -> None:
        live = self.live
        session = live.store.session(event.subject)
        if session is None:
            live.sessions.drop(event.subject)
        else:
            live.sessions.put(session)
            live.mark_dirty(session.agent)
            if event.type == "session.nudged" and session.interactive and session.state in LIVE:
                live.typing_queue.add(session.id)
