"""What other processes wrote to the store, turned into what it means for sessions."""

from gascity.control.agenda import Agenda
from gascity.control.crew import CONTROLLER, Crew
from gascity.control.stops import Stops
from gascity.model.work import CANCELLED, DRAINING, IDLE, LIVE, RUNNING, SETTLED, Event, Session

_BATCH = 1000
_WISHES = ("work.created", "session.created", "session.asked")


class Feed:
    """Reads events in order, each once."""

    def __init__(self, crew: Crew, stops: Stops, agenda: Agenda) -> None:
        self.crew = crew
        self.stops = stops
        self.agenda = agenda
        self._last = 0

    def skip(self) -> None:
        """What happened before is on record; only what comes is news."""
        self._last = self.crew.store.last_event()

    def catch_up(self) -> None:
        """Take in what was settled while nobody listened."""
        for session in list(self.crew.roster):
            work = self.crew.store.work(session.work) if session.work else None
            if work is not None and work.status in SETTLED:
                self._held(session, work.id, work.status)

    def read(self) -> bool:
        """Take in everything that is new. Does somebody want something done?"""
        wished = False
        while batch := self.crew.store.events(self._last, _BATCH):
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
            self.crew.mail_changed = True
            to = str(event.data.get("to", ""))
            owner = self.crew.store.session(to)
            if owner is not None or self.agenda.desk.post(to) is not None:
                self.crew.touch(owner.agent if owner else to)

    def _work(self, event: Event) -> None:
        crew = self.crew
        agent = str(event.data.get("agent", ""))
        crew.touch(agent)
        work = crew.store.work(event.subject)
        if work is None:
            return
        if work.status == "open":
            if work.reserved:
                self.agenda.survey.reserve(agent, work.session)
            return
        if work.status in SETTLED:
            for other in crew.store.dependents(work.id):
                crew.touch(other)
        session = crew.roster.get(work.session) or self._holder(work.id, agent)
        if session is not None:
            self._held(session, work.id, work.status)

    def _holder(self, work: str, agent: str) -> Session | None:
        return next((one for one in self.crew.roster.of(agent) if one.work == work), None)

    def _held(self, session: Session, work: str, status: str) -> None:
        """Something was done about an item that a session has, or has taken by itself."""
        crew = self.crew
        if status not in SETTLED:
            if session.interactive and session.work != work:
                crew.change(session, state=RUNNING, work=work, idle_since=None)
            return
        if session.work != work or session.id not in crew.going:
            return
        if status == CANCELLED and not session.interactive:
            self.stops.end(session, "cancel", f"{work} was cancelled")
        elif session.interactive:
            state = session.state if session.state == DRAINING else IDLE
            crew.change(session, state=state, work="", idle_since=crew.now)
        elif session.state == RUNNING:
            # It said that it is done: its process may end in peace, but not stay for ever.
            post = self.agenda.desk.post(session.agent)
            by = crew.now + (post.pool.drain_timeout if post else 60.0)
            reason = f"{work} is {status}"
            crew.change(session, state=DRAINING, reason=reason, work="", drain_by=by)

    def _session(self, event: Event) -> None:
        crew = self.crew
        session = crew.store.session(event.subject)
        if session is None:
            crew.roster.drop(event.subject)
        else:
            crew.roster.put(session)
            crew.touch(session.agent)
            if event.type == "session.nudged" and session.interactive and session.state in LIVE:
                crew.typing.add(session.id)
