"""How a city stands, as one object that the controller and `city status` work out alike.

Times are seconds since the epoch; whoever shows them puts them into words.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gascity.model.records import NamedTuple
from gascity.model.work import (
    CLAIMED,
    IDLE,
    LIVE,
    OPEN,
    QUARANTINED,
    RATE_LIMITED,
    Decision,
    Session,
)
from gascity.store.port import Store

if TYPE_CHECKING:
    from gascity.control.client import ControllerState
    from gascity.control.desk import Desk
    from gascity.control.world import Pool

CONFIG_PROBLEM = "config-problem"  # under which a controller leaves what it could not read
_NO_COUNTS = {"open": 0, "claimed": 0, "done": 0, "failed": 0, "cancelled": 0}
_ENDED = 10  # sessions that are over and still told of
_LOOKED_AT = 200  # sessions that are not live; there may be thousands
_DECISIONS = 20


class Census(NamedTuple):
    """What a store says of a whole city at one moment."""

    counts: Mapping[str, int]
    queued: Mapping[str, int]  # open items by agent, where there are any
    sessions: tuple[Session, ...]
    reasons: Mapping[str, str]  # what the controller last said of an agent
    decisions: tuple[Decision, ...]
    problem: str = ""  # why an older configuration is in force


NOBODY = Census(_NO_COUNTS, {}, (), {}, ())


def reason_key(agent: str) -> str:
    """Where the controller leaves why an agent's sessions are as they are."""
    return f"reason {agent}"


def everybody(desk: "Desk", store: Store | None) -> list[str]:
    """All agents of a city, and those of built-in providers that work waits for all the same."""
    names = [str(agent.name) for agent in desk.city.agents]
    named = [] if store is None else store.open_agents()
    return names + [one for one in named if one not in names and desk.post(one) is not None]


def take_census(pools: "Sequence[Pool]", store: Store) -> Census:
    """Ask the store once for everything that `status_object` tells."""
    there = [*store.sessions(live=True), *store.sessions(live=False, limit=_LOOKED_AT)]
    sessions = _worth_telling(there)
    named = {agent: store.counts(agent)[OPEN] for agent in store.open_agents()}
    agents = [pool.agent for pool in pools]
    reasons = {agent: store.noted(reason_key(agent)) for agent in agents}
    subjects = [*agents, *(session.id for session in sessions)]
    return Census(
        store.counts(),
        {agent: count for agent, count in named.items() if count},
        sessions,
        {agent: reason for agent, reason in reasons.items() if reason},
        tuple(store.decisions(subjects, _DECISIONS)) if subjects else (),
        store.noted(CONFIG_PROBLEM),
    )


def is_over(session: Session) -> bool:
    """Neither there nor about to be again."""
    waits = session.state in (QUARANTINED, RATE_LIMITED) or session.retry_at is not None
    return session.state not in LIVE and not waits


def _worth_telling(sessions: Iterable[Session]) -> tuple[Session, ...]:
    """Those that are there or will be again, and the last that are not."""
    kept, ended = [], 0
    for session in sessions:
        ended += is_over(session)
        if ended <= _ENDED or not is_over(session):
            kept.append(session)
    return tuple(kept)


def status_object(
    pools: "Sequence[Pool]", census: Census, controller: "ControllerState"
) -> dict[str, object]:
    """The whole of it, as plain values that JSON can carry."""
    known = {pool.agent for pool in pools}
    strangers = {s.agent for s in census.sessions if s.state in LIVE} | census.queued.keys()
    rows = [_agent_row(pool, census, controller) for pool in pools]
    rows += [_stranger_row(agent, census) for agent in sorted(strangers - known)]
    problem = {"code": CONFIG_PROBLEM, "message": census.problem}
    return {
        "controller": {
            "running": controller.running,
            "pid": controller.pid,
            "since": controller.since,
        },
        "agents": rows,
        "counts": dict(census.counts),
        "sessions": [one._replace(prints={})._asdict() for one in census.sessions],
        "decisions": [decision._asdict() for decision in census.decisions],
        # What a controller left that is gone is no news: its files are read anew.
        "problems": [problem] if census.problem and controller.running else [],
    }


def _agent_row(pool: "Pool", census: Census, controller: "ControllerState") -> dict[str, object]:
    return {
        "name": pool.agent,
        "live": _live(pool.agent, census),
        "min": pool.minimum,
        "max": pool.maximum,
        "queued": census.queued.get(pool.agent, 0),
        "reason": _reason(pool, census, controller),
    }


def _reason(pool: "Pool", census: Census, controller: "ControllerState") -> str:
    """What stands in the way first, then what the controller said, then what can be seen."""
    if pool.blocked:
        return "; ".join(dict.fromkeys(one.message for one in pool.blocked))
    if not controller.running:
        return "no controller is running" if census.queued.get(pool.agent) else ""
    return census.reasons.get(pool.agent, "")


def _stranger_row(agent: str, census: Census) -> dict[str, object]:
    """Work or a session of an agent that the city does not have, or not any more."""
    return {
        "name": agent,
        "live": _live(agent, census),
        "min": 0,
        "max": 0,
        "queued": census.queued.get(agent, 0),
        "reason": "the city has no such agent",
    }


def _live(agent: str, census: Census) -> int:
    return sum(one.agent == agent and one.state in LIVE for one in census.sessions)


def at_rest(counts: Mapping[str, int], sessions: Iterable[Session]) -> bool:
    """Is nothing waiting, held or under way?"""
    return not (counts[OPEN] or under_way(counts, sessions))


def under_way(counts: Mapping[str, int], sessions: Iterable[Session]) -> bool:
    """Is anything being done? A terminal that stands open is no work by itself."""
    busy = (
        one.state in LIVE and one.state != IDLE and (bool(one.work) or not one.interactive)
        for one in sessions
    )
    return bool(counts[CLAIMED]) or any(busy)
