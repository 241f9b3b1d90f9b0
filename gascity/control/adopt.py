"""What a controller finds when it comes: runs that went on, ended or vanished without it."""

import os
from contextlib import suppress

from gascity.control import places
from gascity.control.crew import CONTROLLER, Crew, Going
from gascity.control.endings import Endings
from gascity.control.stops import Stops
from gascity.model.records import NamedTuple
from gascity.model.work import (
    CLAIMED,
    IDLE,
    LIVE,
    MANUAL,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    Run,
    Session,
    Stale,
    Token,
)
from gascity.runtimes.runtime import HELD, handle_of


class Adopted(NamedTuple):
    """How many runs went on, how many had ended, and how many processes nobody knew."""

    going: int
    ended: int
    strays: int


def adopt(crew: Crew, endings: Endings, stops: Stops) -> Adopted:
    """Take over every session and run on record, and end processes of ours that nobody knows."""
    for session in crew.store.sessions():
        crew.roster.put(session)
    runs = crew.store.runs(open=True)
    for run in runs:
        _adopt_run(crew, endings, stops, run)
    going = len(crew.going)
    busy = crew.going.keys() | endings.reading
    for session in list(crew.roster):
        if session.id not in busy and session.state in LIVE:
            _put_right(crew, session)
    _reopen_orphans(crew)
    _sweep(crew.root, runs)
    strays = 0
    known = frozenset(going.handle.pid for going in crew.going.values())
    for runtime in crew.runtimes.values():
        found = runtime.strays(crew.root, known)
        runtime.kill_all(found)
        strays += len(found)
    return Adopted(going, len(runs) - going, strays)


def _sweep(root: str, runs: list[Run]) -> None:
    """Take away what runs were handed and left that were settled before this.

    What becomes of `runs` is not on record yet: their exit files may be all there is of them.
    """
    kept = {(run.session, str(run.generation)) for run in runs}
    directory = places.run_directory(root)
    with suppress(FileNotFoundError):
        for name in os.listdir(directory):
            session, _, rest = name.partition(".")
            generation, mark, _ = rest.partition(".")
            if mark and generation.isdecimal() and (session, generation) not in kept:
                os.unlink(f"{directory}/{name}")


def _handed(root: str, run: Run) -> tuple[str, ...]:
    """Files that a run was handed by whoever started it."""
    start = places.handed(root, run.session, run.generation, "")
    directory = places.run_directory(root)
    try:
        found = [f"{directory}/{name}" for name in os.listdir(directory)]
    except FileNotFoundError:
        return ()
    return tuple(path for path in found if path.startswith(start))


def _adopt_run(crew: Crew, endings: Endings, stops: Stops, run: Run) -> None:
    session = crew.roster.get(run.session) or crew.store.session(run.session)
    runtime = crew.runtimes.get(run.runtime)
    if session is None or runtime is None or session.generation != run.generation:
        crew.store.set_run(run.id, {"ended": crew.now, "outcome": "lost"})
        if runtime is not None:
            runtime.kill(handle_of(run))
        return
    crew.roster.put(session)
    going = Going(run, runtime, handle_of(run), _handed(crew.root, run))
    crew.going[session.id] = going
    if runtime.seen(going.handle).state == HELD:
        runtime.release(going.handle)  # it was put on record, and then we were killed
    endings.look(session.id)
    if session.id not in crew.going:
        return
    if session.interactive and crew.store.nudges(session.id):
        crew.typing.add(session.id)
    if session.state == STOPPING:
        crew.roster.put(session)
        stops.end(session, session.asked or "stop", session.reason)
    elif session.state == UNKNOWN:
        crew.change(session, state=RUNNING, reason="seen again")


def _put_right(crew: Crew, session: Session) -> None:
    """A session on record as live that runs nothing: a start, or an end, was cut short."""
    if session.state == STARTING and session.origin == MANUAL and session.generation == 0:
        crew.touch(session.agent)
        return
    if session.work:
        work = crew.store.work(session.work)
        holder = (work.session, work.generation) if work else ("", 0)
        if work is not None and work.status == CLAIMED:
            if holder == (session.id, session.generation):
                crew.store.reopen(
                    work.id,
                    crew.now,
                    token=Token(session.id, session.generation),
                    reason="the controller ended before it was started",
                    uncounted=True,
                    actor=CONTROLLER,
                )
    over = session.state == STOPPING or session.interactive
    crew.change(
        session,
        state=STOPPED if over else IDLE,
        reason="" if session.state == IDLE else "its start was cut short",
        work="",
        run=0,
        pid=0,
        idle_since=session.idle_since or crew.now,
    )


def _reopen_orphans(crew: Crew) -> None:
    """Work that somebody holds who is not there."""
    for work in crew.store.list_work(status=(CLAIMED,)):
        session = crew.roster.get(work.session)
        if session is not None and session.work == work.id:
            continue
        if session is not None and session.id in crew.going and not session.work:
            crew.change(session, state=RUNNING, work=work.id)  # it took the item by itself
            continue
        with suppress(Stale):
            crew.store.reopen(
                work.id,
                crew.now,
                token=Token(work.session, work.generation),
                reason="who held it is gone",
                uncounted=True,
                actor=CONTROLLER,
            )
