"""The status object of a city, built the same way by the controller and by `city status`.

Times are seconds since the epoch.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gascity.control.blocked import agent_reason, reason_note
from gascity.control.blocked_directories import CODE, read_blocked
from gascity.model.values import JsonObject, TableView
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
    from gascity.control.decide.types import Pool
    from gascity.control.permissions import Access
    from gascity.control.run_config import RunConfig

CONFIG_PROBLEM = "config-problem"  # note with the reason of a failed reload
_NO_COUNTS = {"open": 0, "claimed": 0, "done": 0, "failed": 0, "cancelled": 0}
_ENDED = 10  # ended sessions that are shown
_LOOKED_AT = 200  # ended sessions that are read; there may be thousands
_DECISIONS = 20


class StoreSnapshot(NamedTuple):
    """Contents of the store for the whole city at one moment."""

    counts: Mapping[str, int]
    queued: Mapping[str, int]  # number of queued items by agent, if any
    sessions: tuple[Session, ...]
    reasons: Mapping[str, str]  # the controller's last status line by agent
    decisions: tuple[Decision, ...]
    problem: str = ""  # why the last reload failed
    blocked_directories: tuple[str, ...] = ()  # messages


EMPTY_SNAPSHOT = StoreSnapshot(_NO_COUNTS, {}, (), {}, ())


def listed_agents(run_config: "RunConfig", store: Store | None) -> list[str]:
    """Return all agents, and built-in agents that have queued work without being configured."""
    names = [str(agent.name) for agent in run_config.city.agents]
    named = [] if store is None else store.open_agents()
    return names + [
        name for name in named if name not in names and run_config.agent(name) is not None
    ]


def read_store_snapshot(pools: "Sequence[Pool]", store: Store) -> StoreSnapshot:
    """Read everything that `status_object` needs."""
    ended = store.sessions(live=False, limit=_LOOKED_AT)
    sessions = _shown([*store.sessions(live=True), *ended])
    agents = [pool.agent for pool in pools]
    reasons = {agent: store.get_note(reason_note(agent)) for agent in agents}
    subjects = [*agents, *(session.id for session in sessions)]
    return StoreSnapshot(
        store.work_counts(),
        store.open_counts(),
        sessions,
        {agent: reason for agent, reason in reasons.items() if reason},
        tuple(store.decisions(subjects, _DECISIONS)) if subjects else (),
        store.get_note(CONFIG_PROBLEM),
        tuple(entry.message for entry in read_blocked(store)),
    )


def is_over(session: Session) -> bool:
    """Return whether it ended and will not start again by itself."""
    waits = session.state in (QUARANTINED, RATE_LIMITED) or session.retry_at is not None
    return session.state not in LIVE and not waits


def _shown(sessions: Iterable[Session]) -> tuple[Session, ...]:
    """Return all that are live or will be again, and the last few that ended."""
    kept, ended = [], 0
    for session in sessions:
        ended += is_over(session)
        if ended <= _ENDED or not is_over(session):
            kept.append(session)
    return tuple(kept)


def status_object(
    name: str,
    pools: "Sequence[Pool]",
    snapshot: StoreSnapshot,
    controller: "ControllerState",
    problems: Sequence[Mapping[str, str]] = (),
) -> JsonObject:
    """Return the whole status as JSON values; `name` is the city's."""
    # Only while that controller runs: otherwise the files were just read again.
    if snapshot.problem and controller.running:
        problems = [{"code": CONFIG_PROBLEM, "message": snapshot.problem}, *problems]
    blocked = [{"code": CODE, "message": text} for text in snapshot.blocked_directories]
    problems = [*blocked, *problems]
    return {
        "name": name,
        "controller": {
            "running": controller.running,
            "responding": controller.responding,
            "pid": controller.pid,
            "since": controller.since,
        },
        "agents": _agent_rows(pools, snapshot, controller),
        "counts": dict(snapshot.counts),
        "sessions": [session._replace(prints={})._asdict() for session in snapshot.sessions],
        "decisions": [decision._asdict() for decision in snapshot.decisions],
        "problems": list(problems),
    }


def limited_status(status: JsonObject, store: Store | None, access: "Access") -> JsonObject:
    """Return the status of the agents that the caller may see; a user sees all."""
    if access.unlimited:
        return status
    rows = TableView(status)
    agents = [row for row in rows.tables("agents") if access.sees(row.text("name"))]
    sessions = [row for row in rows.tables("sessions") if access.sees(row.text("agent"))]
    subjects = {*(row.text("name") for row in agents), *(row.text("id") for row in sessions)}
    decisions = [row for row in rows.tables("decisions") if row.text("subject") in subjects]
    problems = [row for row in rows.tables("problems") if row.text("code").startswith("store-")]
    counts = Counter(_NO_COUNTS)
    for row in agents:
        counts.update(store.work_counts(row.text("name")) if store is not None else {})
    return {
        **status,
        "agents": [row.values for row in agents],
        "sessions": [row.values for row in sessions],
        "counts": dict(counts),
        "decisions": [row.values for row in decisions],
        "problems": [row.values for row in problems],
    }


def _agent_rows(
    pools: "Sequence[Pool]", snapshot: StoreSnapshot, controller: "ControllerState"
) -> list[JsonObject]:
    """Return a row per agent, also for those with work or sessions that do not exist any more."""
    live = Counter(session.agent for session in snapshot.sessions if session.state in LIVE)
    unknown = (live.keys() | snapshot.queued.keys()) - {pool.agent for pool in pools}

    def row(agent: str, minimum: int, maximum: int | None, reason: str) -> JsonObject:
        queued = snapshot.queued.get(agent, 0)
        return {
            "name": agent,
            "live": live[agent],
            "min": minimum,
            "max": maximum,
            "queued": queued,
            "reason": reason,
        }

    known = [
        row(
            pool.agent,
            pool.minimum,
            pool.maximum,
            agent_reason(
                pool,
                snapshot.queued.get(pool.agent, 0),
                snapshot.reasons.get(pool.agent, ""),
                controller.running or controller.starting,
            ),
        )
        for pool in pools
    ]
    return known + [row(agent, 0, 0, "agent does not exist") for agent in sorted(unknown)]


def at_rest(counts: Mapping[str, int], sessions: Iterable[Session]) -> bool:
    """Return whether no work is queued or running."""
    return not (counts[OPEN] or under_way(counts, sessions))


def under_way(counts: Mapping[str, int], sessions: Iterable[Session]) -> bool:
    """Return whether anything is in progress. An open terminal alone is not."""
    busy = (
        session.state in LIVE
        and session.state != IDLE
        and (bool(session.work) or not session.interactive)
        for session in sessions
    )
    return bool(counts[CLAIMED]) or any(busy)
