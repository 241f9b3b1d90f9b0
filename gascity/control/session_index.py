"""The sessions that count, as the store has them, and how many there are by every cap."""

from collections import Counter
from collections.abc import Iterator

from gascity.model.names import parse_name
from gascity.model.work import DRAINING, LIVE, NAMED, STOPPING, Session

_LEAVING = (DRAINING, STOPPING)
_WAITING = ("crashed", "quarantined", "rate-limited")


def counts(session: Session) -> bool:
    """Does a session have a say: is it live, waiting for its time, or one with a name?"""
    waits = session.state in _WAITING and session.retry_at is not None
    asked = bool(session.asked) and session.state not in LIVE
    return session.state in LIVE or waits or session.origin == NAMED or asked


class Roster:
    """Sessions by id and by agent. Every change costs what it changes, not what there is."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._of: dict[str, dict[str, None]] = {}
        self.live: Counter[str] = Counter()  # by cap: city, rig NAME, agent NAME
        self.leaving: Counter[str] = Counter()  # of these, those that drain or stop
        self._called: dict[str, str] = {}  # by alias: the live session that goes by it
        self._alike: dict[str, dict[str, None]] = {}  # aliases that differ by a number only
        self.freed = False  # a place has become free since somebody looked

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, id: str) -> Session | None:
        return self._sessions.get(id)

    def of(self, agent: str) -> list[Session]:
        """In the order in which they came."""
        return [self._sessions[id] for id in self._of.get(agent, ())]

    def agents(self) -> list[str]:
        return list(self._of)

    def put(self, session: Session) -> None:
        """Have it as it is now; one that has no say any more is let go."""
        freed, before = self.freed, self._sessions.get(session.id)
        self.drop(session.id)
        was_live = before is not None and before.state in LIVE
        self.freed = freed or (was_live and session.state not in LIVE)
        if not counts(session):
            return
        self._sessions[session.id] = session
        self._of.setdefault(session.agent, {})[session.id] = None
        if session.state in LIVE:
            self.live.update(_caps(session))
            self._called[session.alias] = session.id
            self._alike.setdefault(_stem(session.alias), {})[session.alias] = None
        if session.state in _LEAVING:
            self.leaving.update(_caps(session))

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
            alike = self._alike[_stem(session.alias)]
            del alike[session.alias]
            if not alike:
                del self._alike[_stem(session.alias)]
        if session.state in _LEAVING:
            self.leaving.subtract(_caps(session))
        if session.state in LIVE:
            self.live.subtract(_caps(session))
            self.freed = True

    def called(self, alias: str) -> Session | None:
        """The live session that goes by an alias."""
        return self._sessions.get(self._called.get(alias, ""))

    def alike(self, name: str) -> list[str]:
        """Aliases in use that are this name, or this name and a number."""
        return list(self._alike.get(_stem(name), ()))

    def live_of(self, agent: str) -> int:
        return sum(session.state in LIVE for session in self.of(agent))


def _stem(alias: str) -> str:
    start, mark, number = alias.rpartition("-")
    return start if mark and number.isdecimal() else alias


def _caps(session: Session) -> list[str]:
    name = parse_name(session.agent)
    found = ["city", f"agent {name.without_rig}"]
    return [*found, f"rig {name.rig}"] if name.rig else found
