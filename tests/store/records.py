"""Short ways to add records to a store."""

from typing import Any

from gascity.model.work import (
    POOL,
    RUNNING,
    ClaimToken,
    NewWork,
    Run,
    Session,
    Work,
)
from gascity.store.port import Store

AGENT = "rig/polecat"


def put(store: Store, now: float = 1.0, agent: str = AGENT, **fields: Any) -> Work:
    return store.add_work(NewWork(agent, fields.pop("title", "a title"), "a body", **fields), now)


def session(id: str, **fields: Any) -> Session:
    usual: dict[str, Any] = {
        "agent": AGENT,
        "origin": POOL,
        "slot": 1,
        "alias": f"alias-{id}",
        "state": RUNNING,
        "reason": "there is work",
        "created": 1.0,
        "updated": 1.0,
        "generation": 1,
    }
    return Session(id=id, **{**usual, **fields})


def enter(store: Store, id: str, **fields: Any) -> ClaimToken:
    """Add a session and return its token."""
    added = store.add_session(session(id, **fields))
    return ClaimToken(added.id, added.generation)


def run(session: str, **fields: Any) -> Run:
    usual: dict[str, Any] = {
        "id": 0,
        "generation": 1,
        "work": "",
        "runtime": "process",
        "started": 1.0,
        "log": "",
        "exit_file": "",
    }
    return Run(session=session, **{**usual, **fields})


def event_types(store: Store, after: int = 0) -> list[tuple[str, str]]:
    """Return the types and subjects of events."""
    return [(event.type, event.subject) for event in store.events(after)]
