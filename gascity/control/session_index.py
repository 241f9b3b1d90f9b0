"""In-memory index of the sessions that matter for decisions, with counts by cap."""

from collections import Counter
from collections.abc import Iterator

from gascity.model.names import parse_name
from gascity.model.work import DRAINING, LIVE, NAMED, STOPPING, Session

_LEAVING = (DRAINING, STOPPING)
_WAITING = ("crashed", "quarantined", "rate-limited")


def counts(session: Session) -> bool:
    """Return whether it matters: live, backing off, named, or with an open request."""
    waits = session.state in _WAITING and session.retry_at is not None
    asked = bool(session.asked) and session.state not in LIVE
    return session.state in LIVE or waits or session.origin == NAMED or asked


class SessionIndex:
    """Sessions by id, agent and alias. Updating one costs the same however many there are."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._of: dict[str, dict[str, None]] = {}
        self.live_counts: Counter[str] = Counter()  # by cap: city, rig NAME, agent NAME
        self.ending_counts: Counter[str] = Counter()  # the part that drains or stops
        self._called: dict[str, str] = {}  # live session by alias
        self._alike: dict[
            str, dict[str, None]
        ] = {}  # by stem: aliases in use that differ only by a number
        self.slot_freed = False  # a live session ended since the last check

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, id: str) -> Session | None:
        return self._sessions.get(id)

    def of(self, agent: str) -> list[Session]:
        """Return the agent's sessions in order of creation."""
        return [self._sessions[id] for id in self._of.get(agent, ())]

    def agents(self) -> list[str]:
        return list(self._of)

    def put(self, session: Session) -> None:
        """Add or update a session; drop it if it no longer matters."""
        slot_freed, before = self.slot_freed, self._sessions.get(session.id)
        self.drop(session.id)
        was_live = before is not None and before.state in LIVE
        self.slot_freed = slot_freed or (was_live and session.state not in LIVE)
        if not counts(session):
            return
        self._sessions[session.id] = session
        self._of.setdefault(session.agent, {})[session.id] = None
        if session.state in LIVE:
            self.live_counts.update(_caps(session))
            self._called[session.alias] = session.id
            self._alike.setdefault(_stem(session.alias), {})[session.alias] = None
        if session.state in _LEAVING:
            self.ending_counts.update(_caps(session))

    def drop(self, id: str) -> None:
        session = self._sessions.pop(id, None)
        if session is None:
            return
        ids = self._of[session.agent]
        del ids[id]
        if not ids:
            del self._of[session.agent]
        if self._called.get(session.alias) == id:
            del self._called[session.alias]
            similar_aliases = self._alike[_stem(session.alias)]
            del similar_aliases[session.alias]
            if not similar_aliases:
                del self._alike[_stem(session.alias)]
        if session.state in _LEAVING:
            self.ending_counts.subtract(_caps(session))
        if session.state in LIVE:
            self.live_counts.subtract(_caps(session))
            self.slot_freed = True

    def by_alias(self, alias: str) -> Session | None:
        """Return the live session with this alias."""
        return self._sessions.get(self._called.get(alias, ""))

    def similar_aliases(self, name: str) -> list[str]:
        """Return aliases in use that equal the name, or the name and a number."""
        return list(self._alike.get(_stem(name), ()))

    def live_count(self, agent: str) -> int:
        return sum(session.state in LIVE for session in self.of(agent))


def _stem(alias: str) -> str:
    start, mark, number = alias.rpartition("-")
    return start if mark and number.isdecimal() else alias


def _caps(session: Session) -> list[str]:
    name = parse_name(session.agent)
    caps = ["city", f"agent {name.without_rig}"]
    return [*caps, f"rig {name.rig}"] if name.rig else caps
