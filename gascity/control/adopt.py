"""Take over the sessions of an earlier controller: running, ended or lost in between.

A controller may be stopped with `--keep-sessions`, restarted, or killed at any point. Its runs keep
running: they belong to their wrapper, not to the controller. The next controller adopts every run
that the store has as open:

- still running: watch it like one of its own; continue a stop that was in progress
- still held back: the earlier controller was killed after the commit and before the release, so
  release it now
- ended: read exit status and log, and record the outcome
- unknown (the runtime cannot tell): leave it alone and look again

Then it repairs records that have no run: a session whose start was cut short becomes idle, and an
item whose claimant is gone goes back in the queue. Processes that carry the city's mark but belong
to no recorded run were spawned and never committed; they are killed.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from gascity.control import paths
from gascity.control.blocked_directories import BlockedDirectory, read_blocked, write_blocked
from gascity.control.finish import RunFinisher, SessionStopper
from gascity.control.launch import works_alone
from gascity.control.live_state import NO_RUN, ActiveRun, LiveState
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
    ClaimToken,
    Run,
    Session,
)
from gascity.runtimes.port import Leftover, RunHandle, RunState, handle_of

if TYPE_CHECKING:
    from gascity.model.session_changes import SessionChanges

_STRAYS, _STRAYS_AGAIN = 5.0, 0.01  # seconds to wait for strays that were killed, and between looks


class AdoptionCounts(NamedTuple):
    """Counts of runs that keep running, runs that had ended, and stray processes killed."""

    running: int
    ended: int
    strays: int


def adopt(live: LiveState, finisher: RunFinisher, stopper: SessionStopper) -> AdoptionCounts:
    """Adopt all recorded sessions and runs, and kill stray processes."""
    live.blocked_directories = read_blocked(live.store)
    for session in live.store.sessions():
        live.sessions.put(session)
    runs = live.store.runs(open=True)
    for run in runs:
        _adopt_run(live, finisher, stopper, run)
    running = len(live.active_runs)
    busy = live.active_runs.keys() | finisher.reading
    for session in list(live.sessions):
        if session.id not in busy and session.state in LIVE:
            _put_right(live, session)
    _reopen_orphans(live)
    _sweep(live.root, runs)
    strays = kill_strays(live, [active.handle for active in live.active_runs.values()])
    return AdoptionCounts(running, len(runs) - running, strays)


def kill_strays(live: LiveState, known: Sequence[RunHandle]) -> int:
    """Kill the processes of this city that belong to no known run; return how many runs.

    Waits until they are gone: nothing may start beside them. What cannot be killed blocks the
    directory of its session.
    """
    found: set[RunHandle] = set()
    blocked = {entry.handle[:3] for entry in live.blocked_directories}
    deadline = time.monotonic() + _STRAYS
    for name, runtime in live.runtimes.items():
        while True:
            strays = [s for s in runtime.strays(live.root, known) if s[:3] not in blocked]
            if not strays or time.monotonic() > deadline:
                break
            found.update(strays)
            runtime.kill_all(strays)
            time.sleep(_STRAYS_AGAIN)
        for stray in strays:
            _block(live, name, stray)
    return len(found)


def _block(live: LiveState, runtime: str, stray: RunHandle) -> None:
    session = live.find_session(stray.session) if stray.session else None
    if session is None or not session.workdir:
        return
    process = Leftover(stray.pid, "")
    entry = BlockedDirectory(session.workdir, session.agent, session.id, runtime, stray, (process,))
    live.blocked_directories.append(entry)
    write_blocked(live.store, live.blocked_directories)


def _sweep(root: str, runs: list[Run]) -> None:
    """Delete temporary files of runs that were finished earlier.

    Not those of `runs`: their outcome is not recorded yet, and the exit file may be all there is.
    """
    kept = {(run.session, str(run.generation)) for run in runs}
    directory = paths.run_directory(root)
    with suppress(FileNotFoundError):
        for name in os.listdir(directory):
            session, _, rest = name.partition(".")
            generation, mark, _ = rest.partition(".")
            if mark and generation.isdecimal() and (session, generation) not in kept:
                os.unlink(f"{directory}/{name}")


def _handed(root: str, run: Run) -> tuple[str, ...]:
    """Return the temporary files written for a run."""
    start = paths.handed(root, run.session, run.generation, "")
    directory = paths.run_directory(root)
    try:
        files = [f"{directory}/{name}" for name in os.listdir(directory)]
    except FileNotFoundError:
        return ()
    return tuple(path for path in files if path.startswith(start))


def _adopt_run(live: LiveState, finisher: RunFinisher, stopper: SessionStopper, run: Run) -> None:
    session = live.find_session(run.session)
    runtime = live.runtimes.get(run.runtime)
    if session is None or runtime is None or session.generation != run.generation:
        live.store.update_run(run.id, {"ended": live.now, "outcome": "lost"})
        if runtime is not None:
            runtime.kill(handle_of(run))
        return
    live.sessions.put(session)
    config = live.run_config.agent(session.agent)
    own = config is not None and works_alone(live.root, config, session.workdir)
    handle = handle_of(run, session.workdir if own else "")
    active = ActiveRun(run, runtime, handle, _handed(live.root, run))
    live.active_runs[session.id] = active
    if runtime.status(active.handle).state == RunState.HELD:
        # Committed, but the controller was killed before the release.
        runtime.release(active.handle)
    finisher.check(session.id)
    if session.id not in live.active_runs:
        return
    if session.interactive:
        live.screens_due.add(session.id)
    if session.state == STOPPING:
        live.sessions.put(session)
        stopper.begin_stop(session, session.asked or "stop", session.reason)
    elif session.state == UNKNOWN:
        live.change(session, state=RUNNING, reason="reachable again")


def _put_right(live: LiveState, session: Session) -> None:
    """Repair a session that is recorded as live but has no run: its start or stop was cut short."""
    if session.state == STARTING and session.origin == MANUAL and session.generation == 0:
        live.mark_dirty(session.agent)
        return
    if session.work:
        token = ClaimToken(session.id, session.generation)
        live.release_item(token, session.work, "the controller exited before the run started")
    over = session.state == STOPPING or session.interactive
    columns: SessionChanges = {
        **NO_RUN,
        "state": STOPPED if over else IDLE,
        "reason": "" if session.state == IDLE else "its start was interrupted",
        "idle_since": session.idle_since or live.now,
    }
    live.change(session, "", **columns)


def _reopen_orphans(live: LiveState) -> None:
    """Put items back in the queue whose claimant no longer exists."""
    for work in live.store.list_work(status=(CLAIMED,)):
        session = live.sessions.get(work.session)
        if session is not None and session.work == work.id:
            continue
        if session is not None and session.id in live.active_runs and not session.work:
            live.change(session, state=RUNNING, work=work.id)  # it claimed the item itself
            continue
        token = ClaimToken(work.session, work.generation)
        live.release_item(token, work.id, "its session no longer exists")
