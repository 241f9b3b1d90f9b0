"""Sessions put into a real store, for commands to find."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from gascity.model.work import POOL, RUNNING, Run, Session
from gascity.store import open_store
from gascity.store.port import Store

AGO = 90.0  # seconds: how old what is put into a store is


@contextmanager
def stored(root: Path) -> Iterator[Store]:
    """The city's store, closed afterwards."""
    store = open_store(str(root))
    try:
        yield store
    finally:
        store.close()


def a_session(alias: str = "mayor-1", state: str = RUNNING, **values: object) -> Session:
    """A session of the mayor's pool, as it would be in the store."""
    then = time.time() - AGO
    plain = Session(
        id=str(uuid4()),
        agent="mayor",
        origin=POOL,
        slot=1,
        alias=alias,
        state=state,
        reason="w-1 waits",
        created=then,
        updated=then,
        started=then,
        generation=1,
    )
    return plain._replace(**values)  # type: ignore[arg-type]


def put(root: Path, *sessions: Session) -> None:
    """Keep sessions."""
    with stored(root) as store:
        for session in sessions:
            store.add_session(session)


def get(root: Path, session: Session) -> Session:
    """The session as it is now."""
    with stored(root) as store:
        found = store.session(session.id)
    assert found is not None
    return found


def put_run(root: Path, session: Session, text: str, **values: object) -> Run:
    """A run of the session that printed this; it goes on unless it is said when it ended."""
    log = root / ".gc" / "logs" / f"{session.id}.1.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text)
    plain = Run(
        id=0,
        session=session.id,
        generation=session.generation,
        work="",
        runtime="process",
        started=time.time() - AGO,
        log=str(log),
        exit_file=f"{log}.exit",
        pid=os.getpid(),
    )
    with stored(root) as store:
        run = store.add_run(plain._replace(**values))  # type: ignore[arg-type]
        if run.ended is None:
            store.update_session(session.id, {"run": run.id}, session.updated)
    return run
