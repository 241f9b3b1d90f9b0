"""Housekeeping: log size limits, processes left by runs, old records."""

import os
from collections.abc import Callable
from contextlib import suppress

from gascity.control.live_state import CONTROLLER, ActiveRun, LiveState, by_runtime
from gascity.control.paths import controller_log, log_directory
from gascity.runtimes import local_logs
from gascity.watch import WRITES, Watch

_LOGS = 1.0  # seconds between checks of growing logs
_LEFT = 1.0  # seconds from the end of a run to the search for leftover processes
_DAY = 86400.0
_OWN_LOG = 5_000_000


class Housekeeping:
    """Runs when something is due, and never otherwise."""

    def __init__(
        self, live: LiveState, log: Callable[[str], None], logs_grew: Callable[[set[str]], None]
    ) -> None:
        """`logs_grew` is called with the logs that grew."""
        self.live = live
        self.log = log
        self.logs_grew = logs_grew
        self.after: list[ActiveRun] = []  # ended runs to clean up after
        self.next_at: float | None = None
        self.watch = Watch()
        self._grown: set[str] = set()
        self._pruned = 0.0
        self._watch_logs()

    def _watch_logs(self) -> None:
        """Watch the log directory; create it again if a user deleted it."""
        directory = log_directory(self.live.root)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self.watch.add(directory, WRITES)

    def reset(self) -> None:
        """Forget ended runs whose outcome was not committed: they are found again."""
        self.after = []

    def schedule(self, wait: float) -> None:
        at = self.live.monotonic + wait
        self.next_at = at if self.next_at is None else min(self.next_at, at)

    def logs_changed(self) -> None:
        """Note the logs that grew."""
        self._grown |= self.watch.read()
        self._watch_logs()
        self.schedule(_LOGS)

    def add_finished(self, runs: list[ActiveRun]) -> None:
        self.after += runs
        if runs:
            self.schedule(_LEFT)

    def run(self) -> None:
        """Do everything that is due."""
        self.next_at = None
        self._bound_logs()
        self._sweep()
        if self.live.now - self._pruned > _DAY:
            self.prune()

    def prune(self) -> None:
        """Delete old records and their logs."""
        self._pruned = self.live.now
        with suppress(OSError):
            local_logs().truncate(controller_log(self.live.root), _OWN_LOG)
        for path in self.live.store.prune(self.live.now):
            with suppress(OSError):
                os.unlink(path)

    def _bound_logs(self) -> None:
        grown, self._grown = self._grown, set()
        self.logs_grew(grown)
        for active in list(self.live.active_runs.values()):
            if active.run.log in grown:
                self._bound_log(active)
        for active in self.after:  # it may have grown since the last check
            self._bound_log(active)

    def _bound_log(self, active: ActiveRun) -> None:
        live = self.live
        session = live.find_session(active.run.session)
        config = self.live.run_config.agent(session.agent) if session else None
        limit = config.limits.log_bytes if config else 10_000_000
        gone = active.runtime.logs.truncate(active.run.log, limit)
        if not gone or session is None:
            return
        run = active.run._replace(lost_bytes=active.run.lost_bytes + gone)
        if live.active_runs.get(session.id) is active:
            live.active_runs[session.id] = active._replace(run=run)
        live.store.update_run(run.id, {"lost_bytes": run.lost_bytes})
        data: dict[str, object] = {"agent": session.agent, "bytes": gone}
        live.store.record_event("session.log-cut", session.id, live.now, data, CONTROLLER)

    def _sweep(self) -> None:
        """Kill processes that ended runs left behind, and delete the runs' files."""
        after, self.after = self.after, []
        for runtime, handles in by_runtime(after):
            left = {handle: count for handle, count in runtime.leftovers(handles).items() if count}
            if left:
                self.log(f"killed {sum(left.values())} processes that ended runs left behind")
                runtime.kill_all(list(left))
        for active in after:
            active.runtime.forget(active.handle)
        for path in (path for active in after for path in active.files):
            with suppress(OSError):
                os.unlink(path)
