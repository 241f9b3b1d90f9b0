"""Housekeeping: log limits, files of ended runs, blocked directories, old records, backups."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from gascity.control.blocked_directories import still_blocked, write_blocked
from gascity.control.live_state import CONTROLLER, ActiveRun, LiveState
from gascity.control.paths import controller_log, log_directory
from gascity.model.values import JsonObject
from gascity.runtimes import local_logs
from gascity.store import back_up_store, list_backups, store_created
from gascity.watch import WRITES, open_watch

_LOGS, _FAST_LOGS = 1.0, 0.05  # seconds between checks of growing logs, at most and at least
_LEFT = 1.0  # seconds from the end of a run to the deletion of its files
_DAY = 86400.0
_OWN_LOG = 5_000_000
_FIRST_BACKUP = _BACKUP_RETRY = 3600.0  # seconds
_BLOCKED = 10.0  # seconds between looks at processes that cannot be killed


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
        self._uncommitted: list[ActiveRun] = []  # those that ended in this round
        self.next_at: float | None = None
        self.watch = open_watch()
        self._grown: set[str] = set()
        self._pruned = 0.0
        self.backup_at: float | None = None  # monotonic clock; None: one is being made
        self._backed_up = -1  # the last event in the last backup
        self._watch_logs()

    def _watch_logs(self) -> None:
        """Watch the log directory; create it again if a user deleted it."""
        directory = log_directory(self.live.root)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self.watch.add(directory, WRITES)

    def reset(self) -> None:
        """Forget ended runs whose outcome was not committed: they are found again."""
        self.after, self._uncommitted = [], []

    def schedule(self, wait: float) -> None:
        at = self.live.monotonic + wait
        self.next_at = at if self.next_at is None else min(self.next_at, at)

    def logs_changed(self) -> None:
        """Note the logs that grew."""
        self._grown |= self.watch.read()
        self._watch_logs()
        self.schedule(_LOGS)

    def add_finished(self, runs: list[ActiveRun]) -> None:
        for active in runs:  # at once: a run may have printed a lot in its last second
            self._bound_log(active)
        self.after += runs
        self._uncommitted += runs
        if runs:
            self.schedule(_LEFT)
        if self.live.blocked_directories:
            self.schedule(_BLOCKED)

    def committed(self) -> None:
        """Offer the files of the runs that ended in this round to new runs, until `_sweep`.

        Not before: until the outcome is recorded, the exit file may be all there is.
        """
        self.live.reusable += self._uncommitted
        self._uncommitted = []

    def run(self) -> None:
        """Do everything that is due."""
        self.next_at = None
        self._bound_logs()
        self._sweep()
        self.free_directories()
        if self.live.now - self._pruned > _DAY:
            self.prune()

    def free_directories(self) -> None:
        """Free the directories whose last process is gone."""
        live = self.live
        if not live.blocked_directories:
            return
        before = live.blocked_directories
        live.blocked_directories = still_blocked(before, live.runtimes)
        if live.blocked_directories != before:
            write_blocked(live.store, live.blocked_directories)
        paths = {entry.path for entry in live.blocked_directories}
        for entry in before:
            if entry.path not in paths:
                data: JsonObject = {"agent": entry.agent, "workdir": entry.path}
                live.store.record_event(
                    "session.directory-freed", entry.session, live.now, data, CONTROLLER
                )
                live.start_failures.pop(entry.agent, None)
                live.mark_dirty(entry.agent)
        if live.blocked_directories:
            self.schedule(_BLOCKED)

    def prune(self) -> None:
        """Delete old records and their logs."""
        self._pruned = self.live.now
        with suppress(OSError):
            local_logs().truncate(controller_log(self.live.root), _OWN_LOG)
        for path in self.live.store.prune(self.live.now):
            with suppress(OSError):
                os.unlink(path)

    # Backups

    def schedule_backup(self) -> None:
        """Schedule the next daily backup; the first is due an hour after the store was created."""
        live = self.live
        daily = (backup.at for backup in list_backups(live.root) if backup.kind == "daily")
        last = max(daily, default=None)
        due = last + _DAY if last is not None else (store_created(live.root) or 0.0) + _FIRST_BACKUP
        self.backup_at = live.monotonic + max(0.0, due - live.now)

    def back_up(self) -> None:
        """Have a worker back up the store, unless nothing happened since the last backup."""
        live = self.live
        event = live.store.last_event()
        if event == self._backed_up:
            self.backup_at = live.monotonic + _DAY
            return
        self.backup_at = None
        live.workers.put(
            partial(back_up_store, live.root, live.now),
            lambda _: self._backup_made(event),
            self._backup_failed,
        )

    def _backup_made(self, event: int) -> None:
        self._backed_up = event
        self.backup_at = self.live.monotonic + _DAY

    def _backup_failed(self, error: Exception) -> None:
        self.log(f"backup of the store failed: {error}")
        self.backup_at = self.live.monotonic + _BACKUP_RETRY

    # Logs

    def _bound_logs(self) -> None:
        grown, self._grown = self._grown, set()
        self.logs_grew(grown)
        for active in list(self.live.active_runs.values()):
            if active.run.log in grown:
                self._bound_log(active)

    def _bound_log(self, active: ActiveRun) -> None:
        live = self.live
        session = live.find_session(active.run.session)
        config = self.live.run_config.agent(session.agent) if session else None
        limit = config.limits.log_bytes if config else 10_000_000
        gone = active.runtime.logs.truncate(active.run.log, limit)
        if not gone or session is None:
            return
        # The faster it grows, the sooner the next check: on disk it stays near its limit.
        self.schedule(max(_FAST_LOGS, _LOGS * limit / (limit + gone)))
        run = active.run._replace(lost_bytes=active.run.lost_bytes + gone)
        if live.active_runs.get(session.id) is active:
            live.active_runs[session.id] = active._replace(run=run)
        live.store.update_run(run.id, {"lost_bytes": run.lost_bytes})
        data: JsonObject = {"agent": session.agent, "bytes": gone}
        live.store.record_event("session.log-cut", session.id, live.now, data, CONTROLLER)

    def _sweep(self) -> None:
        """Delete the files of ended runs."""
        after, self.after = self.after, []
        self.live.reusable.clear()
        for active in after:
            active.runtime.forget(active.handle)
        for path in (path for active in after for path in active.files):
            with suppress(OSError):
                os.unlink(path)
