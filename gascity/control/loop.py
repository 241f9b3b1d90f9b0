"""The controller loop: sleep until something happens, write one transaction, repeat.

Everything arrives as a readable descriptor, so an idle controller uses no CPU: ended runs by pidfd,
writes to the store and edits of the city's files by inotify, requests by socket, finished worker
jobs by pipe, signals by wake-up pipe. Deadlines set the poll timeout. On systems other than Linux
other descriptors say the same; looking for edits of files wakes a thread every second there.

One round handles all ready descriptors inside one store transaction. Runs spawned in a round are
held back by their wrapper until the transaction is committed (`_committed`), and only then are
replies sent: nothing runs or is promised that is not recorded. For the same reason the files of an
ended run are reused or deleted only after the commit of its outcome. Nothing else waits for the
disk. If the transaction fails, the loop drops all memory, and `_begin` rebuilds it from the store
as after a restart.

Clock jumps: deadlines in the store (back-off, drain, idle) are wall-clock times, because they must
survive a restart. Each round compares the wall clock with CLOCK_BOOTTIME, which cannot be set and
which keeps counting during suspend. If their offset changes, the clock was set, and all running
deadlines are shifted by the same amount. Because a sleeping poll does not notice a clock change,
it never sleeps longer than `_LONGEST_SLEEP` while a wall-clock deadline is pending. Grace periods
and timeouts inside this process use the monotonic clock and need none of this.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from traceback import format_exception

from gascity.control.adopt import adopt, kill_strays
from gascity.control.finish import RunFinisher, SessionStopper
from gascity.control.housekeeping import Housekeeping
from gascity.control.launch import write_programs
from gascity.control.live_state import CONTROLLER, LiveState, by_runtime
from gascity.control.lost_store import check_store
from gascity.control.notify import Notifier
from gascity.control.observe import StoreEvents
from gascity.control.poll import open_poll, wakeup_pipe
from gascity.control.reload import ConfigReloader
from gascity.control.schedule import Scheduler
from gascity.control.server import (
    STORE_DELETED,
    ControlServer,
    Ownership,
    RequestHandlers,
    acquire_lock,
)
from gascity.control.start import SessionStarter
from gascity.control.terminals import TerminalWatch
from gascity.control.workers import portion
from gascity.model.values import JsonObject
from gascity.model.work import LIVE
from gascity.prompts import Machine
from gascity.runtimes import open_runtimes
from gascity.runtimes.port import Runtime
from gascity.store import open_store
from gascity.store.port import Store, StoreError

_CLOCK_JUMP = 5.0  # a larger change of the clock offset means that the clock was set
_LONGEST_SLEEP = 60.0  # while a wall-clock deadline is pending: the clock may be set meanwhile
_RETRY = 1.0  # after a failed write, or for a run whose state is unknown
_DEBOUNCE = 0.1  # edits come in bursts
_SHORTEST_GRACE = 0.01  # 0 means "kill at once" and is reserved for a second stop request
_MAX_ERRORS, _ERROR_WINDOW = 5, 60.0  # more internal errors than this end the controller
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# macOS has no CLOCK_BOOTTIME; there CLOCK_MONOTONIC keeps counting during suspend.
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

Log = Callable[[str], None]


def serve(root: str, environ: Mapping[str, str], machine: Callable[[], Machine], log: Log) -> None:
    """Run the city's controller until it is stopped; CityError if one is already running."""
    lock = acquire_lock(root)
    log(f"controller of {root}, pid {os.getpid()}")
    try:
        os.chdir(root)  # the caller's directory may be deleted
        environ = dict(environ)  # shared by everything below; `city reload` replaces its PATH
        check_store(root, environ)
        store = open_store(root)
        runtimes = open_runtimes(root, environ)
        write_programs(root)
        controller = Controller(root, environ, store, runtimes, machine, log)
        controller.requests.since = time.time()
        controller.run()
        for runtime in runtimes.values():
            runtime.close()
        store.close()
    finally:
        lock.release()


class Controller:
    """Runs one city. The caller holds the controller lock."""

    def __init__(
        self,
        root: str,
        environ: dict[str, str],
        store: Store,
        runtimes: Mapping[str, Runtime],
        machine: Callable[[], Machine],
        log: Log,
    ) -> None:
        self.store = store
        self.log = log
        self.reloader = ConfigReloader(root, environ, store, machine)
        self.live = LiveState(root, environ, store, runtimes, self.reloader.run_config)
        self.workers = self.live.workers
        self.stopper = SessionStopper(self.live)
        self.finisher = RunFinisher(self.live)
        self.starter = SessionStarter(self.live)
        self.scheduler = Scheduler(self.live, self.starter, self.stopper, log)
        self.store_events = StoreEvents(self.live, self.stopper, self.scheduler.observer)
        self.terminals = TerminalWatch(self.live)
        self.housekeeping = Housekeeping(self.live, log, self.terminals.logs_grew)
        self.notifier = Notifier(root, environ, store, log)
        self.notifier.configure(self.reloader.run_config.city)
        self.requests = RequestHandlers(self)
        self.poll = open_poll()
        self.server = ControlServer(root, self.poll)
        self.run_fds: dict[int, str] = {}  # descriptor that reports the end of a run: its session
        self.wakeups = store.subscribe()
        self.exit_mode = ""  # stop: end the sessions, then exit; keep: exit and leave them running
        self.reload_at: float | None = None
        self._check_again: dict[str, float] = {}  # sessions whose run has no usable descriptor
        self.ownership = Ownership(root, store)
        self._clock_offset = _clock_offset(time.time())
        self._signal_fd = -1
        self._error_times: list[float] = []
        self._read_grace()
        self._store_error = ""  # the last one logged

    def run(self) -> None:
        """Run until a stop is requested and, unless sessions are kept, all of them have ended."""
        self._open()
        try:
            self._guarded(self._begin)
            while not self._finished():
                self._guarded(lambda: self._round(self._wait()))
            self._end()
        finally:
            self._close()

    def _open(self) -> None:
        self._signal_fd, wakeup = wakeup_pipe()
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        watched = (self.wakeups.fd, self.reloader.watch.fd, self.housekeeping.watch.fd)
        for fd in (self._signal_fd, self.workers.fd, *watched, self.server.listener.fileno()):
            self.poll.watch(fd)

    def _close(self) -> None:
        self.workers.close()
        self.notifier.close()
        self.server.shutdown()
        for fd in self.run_fds:
            os.close(fd)
        self.poll.close()

    def _finished(self) -> bool:
        if self.exit_mode != "stop":
            return bool(self.exit_mode)
        return not (self.live.active_runs or self.finisher.reading)

    # Waiting

    def _wait(self) -> set[int]:
        """Sleep until a descriptor is ready or a deadline passes; return the ready descriptors."""
        now = time.monotonic()
        deadlines = (
            self.stopper.next_at(),
            self.starter.next_at(),
            self.reload_at,
            self.housekeeping.next_at,
            self.housekeeping.backup_at,
            self.terminals.next_at(),
            min(self._check_again.values(), default=None),
        )
        timeouts = [at - now for at in deadlines if at is not None]
        if self.live.ended:
            timeouts.append(0.0)
        if self.wakeups.recheck is not None:
            timeouts.append(self.wakeups.recheck)
        wake_at = self.scheduler.next_at() if not self.exit_mode else None
        if wake_at is not None:
            timeouts.append(min(wake_at - time.time(), _LONGEST_SLEEP))
        return self.poll.wait(max(0.0, min(timeouts)) if timeouts else None)

    def _update_clocks(self) -> None:
        """Read both clocks for this round, and shift all deadlines if the wall clock was set."""
        live = self.live
        live.now, live.monotonic = time.time(), time.monotonic()
        offset = _clock_offset(time.time())
        jump = offset - self._clock_offset
        if abs(jump) > _CLOCK_JUMP:
            self.log(f"the clock was set by {jump:+.0f} seconds")
            self.scheduler.shift_clock(jump)
        self._clock_offset = offset
        if self.reloader.machine() != self.reloader.loaded_for and self.reload_at is None:
            self.reload_at = live.monotonic  # prompts contain the date

    # One round

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run one step; after an error drop all memory and rebuild it from the store.

        Internal errors that keep recurring end the controller; its sessions keep running.
        """
        while True:
            try:
                step()
                self._log_store_error("")
                return
            except StoreError as error:
                self._log_store_error(error.message)
                if error.code == "store-missing":
                    self._interrupted_before_retry()
                    if self._check_ownership(confirmed=True):
                        self._leave()
                        return
            except Exception as error:
                now = time.monotonic()
                recent = [at for at in self._error_times if at > now - _ERROR_WINDOW]
                self._error_times = [*recent, now]
                if len(self._error_times) > _MAX_ERRORS:
                    raise
                trace = "".join(format_exception(error))
                self.log(f"internal error (this is a bug in city), starting over: {trace}")
            if self._interrupted_before_retry():
                self.exit("keep")  # ending the sessions could not be recorded
                return
            self._reset()
            step = self._begin

    def _interrupted_before_retry(self) -> bool:
        """Wait before the next try; return True if a signal asks the controller to exit."""
        if not select.select([self._signal_fd], [], [], _RETRY)[0]:
            return False
        numbers = os.read(self._signal_fd, 64)
        return any(number in (signal.SIGINT, signal.SIGTERM) for number in numbers)

    def _log_store_error(self, message: str) -> None:
        """Log a store error once when it appears, and once when it is over.

        To the log, not as an event: the store could not record it.
        """
        before, self._store_error = self._store_error, message
        if message and message != before:
            self.log(f"{message}; trying again")
        elif before and not message:
            self.log(f"recovered from: {before}")

    def _reset(self) -> None:
        for fd in list(self.run_fds):
            self._unwatch(fd)
        self.requests.drop()
        self.live.reset()
        self.finisher.reset()
        self.scheduler.reset()
        self.housekeeping.reset()
        self.terminals.reset()
        self._check_again = {}

    def _begin(self) -> None:
        """Adopt the recorded sessions and reconcile every agent."""
        self._update_clocks()
        self.store_events.skip()
        with self.store.transaction():
            adopted = adopt(self.live, self.finisher, self.stopper)
            data: JsonObject = {
                "pid": os.getpid(),
                "going": adopted.running,
                "ended": adopted.ended,
                "strays": adopted.strays,
            }
            self.store.record_event(
                "controller.started", "controller", self.live.now, data, CONTROLLER
            )
            self.store_events.catch_up()
            self.scheduler.mark_all_dirty()
            self.scheduler.reconcile_dirty()
            self.housekeeping.prune()
            self.housekeeping.schedule_backup()
            self.terminals.run()
        self._committed()
        if any(adopted):
            self.log(
                f"adopted {adopted.running} running sessions; {adopted.ended} had ended, "
                f"{adopted.strays} stray processes killed"
            )

    def _check_ownership(self, *, confirmed: bool = False) -> bool:
        """Exit if the city was deleted or another controller took over; return whether so."""
        reason, exit_mode = self.ownership.lost(confirmed)
        if reason and not self.exit_mode:
            self.log(reason)
            self.exit(exit_mode)
            if reason == STORE_DELETED:
                self._rescue_store()
        return bool(reason)

    def _leave(self) -> None:
        """Drop everything: nothing can be recorded any more. End the runs of a deleted city."""
        if self.exit_mode == "stop":
            for runtime, handles in by_runtime(list(self.live.active_runs.values())):
                runtime.kill_all(handles)
            kill_strays(self.live, ())
        self._reset()
        self.exit("keep")

    def _rescue_store(self) -> None:
        """Save what the open store holds. The user decides what becomes the new one."""
        try:
            path = self.store.rescue(time.time())
            self.log(f"saved its content to {path}; `city doctor --fix` restores it")
        except StoreError as error:
            self.log(f"its content could not be saved: {error.message}")

    def _round(self, ready: set[int]) -> None:
        self._update_clocks()
        self._check_ownership()
        if self._signal_fd in ready:
            self._handle_signals(os.read(self._signal_fd, 64))
        if self.server.listener.fileno() in ready:
            self.server.accept()
        for fd in ready & self.server.connections.keys():
            self.requests.receive(self.server.connections[fd])
        if self.requests.waiting or self.reloader.watch.fd in ready:
            self._check_files(look=self.requests.waiting)
        if self.wakeups.fd in ready:
            self.wakeups.drain()
        if self.housekeeping.watch.fd in ready:
            self.housekeeping.logs_changed()
            # Ignore log writes until housekeeping ran: a busy log would wake the loop all the time.
            self.poll.pause(self.housekeeping.watch.fd)
        with self.store.transaction():
            self._write_round(ready)
        self._committed()

    def _check_files(self, *, look: bool) -> None:
        """Schedule a reload if files have changed.

        With `look`, a watch that polls looks now: a user who edits a file and then slings expects
        the edit.
        """
        if look:
            self.reloader.watch.look()
        if self.reloader.files_changed():
            self.reload_at = self.live.monotonic + _DEBOUNCE

    def _write_round(self, ready: set[int]) -> None:
        """Do everything that a round writes to the store."""
        now = self.live.monotonic
        finished = self.workers.collect()
        for callback in finished:
            callback()
        if finished:
            self.reloader.watch_prepared_files()
        ended = [self._unwatch(fd) for fd in ready & self.run_fds.keys()]
        self.finisher.look(ended)
        for session in self._next_ended(ended):
            self._check_run(session)
        for session in [id for id, at in self._check_again.items() if at <= now]:
            del self._check_again[session]
            self._check_run(session)
        self.stopper.escalate_due()
        self.starter.fail_overdue()
        requested = self.store.changed() and self.store_events.read()
        if requested:
            self._check_files(look=True)  # a new session may be of a new agent
        if self.reload_at is not None and (requested or self.requests.waiting):
            self.reload()  # as above
        self.requests.answer()
        if self.reload_at is not None and self.reload_at <= now:
            self.reload()
        self._do_housekeeping()
        self.notifier.save()
        if self.exit_mode == "stop":
            self._stop_all()
        else:
            self.scheduler.start_restarted(self.finisher)
            self.scheduler.reconcile_dirty()
            self.terminals.run()

    def _do_housekeeping(self) -> None:
        housekeeping = self.housekeeping
        if housekeeping.backup_at is not None and housekeeping.backup_at <= self.live.monotonic:
            housekeeping.back_up()
        if housekeeping.next_at is not None and housekeeping.next_at <= self.live.monotonic:
            housekeeping.run()
            self.poll.watch(housekeeping.watch.fd)
        housekeeping.add_finished(self.finisher.take_finished())

    def _next_ended(self, ended: list[str]) -> list[str]:
        """Return the sessions whose ended runs this round records, out of all that ended.

        Runs that follow in one round start together at its commit, so they would also end together,
        time and again, and wait for each other. A quarter at a time, they spread out.
        """
        live = self.live
        live.ended += ended
        count = portion(len(live.ended))
        now, live.ended = live.ended[:count], live.ended[count:]
        return now

    def _check_run(self, session: str) -> None:
        unknown = self.finisher.check(session)
        if unknown or session in self.live.active_runs:
            wait = self.finisher.look_again_in(session)
            self._check_again[session] = self.live.monotonic + (_RETRY if wait is None else wait)

    def _unwatch(self, fd: int) -> str:
        self.poll.forget(fd)
        os.close(fd)
        return self.run_fds.pop(fd)

    def _committed(self) -> None:
        """Release the recorded runs, watch them, and send the replies."""
        live = self.live
        unreleased, live.unreleased = live.unreleased, []
        for _, active in unreleased:
            active.runtime.release(active.handle)
        self.terminals.committed()
        self.housekeeping.committed()
        if len(self.run_fds) != len(live.active_runs):
            watched = set(self.run_fds.values())
            unwatched = live.active_runs.keys() - watched - self._check_again.keys()
            for session in unwatched.difference(live.ended):
                self._watch_run(session)
        self.requests.send_replies()
        self.notifier.committed(live.now)

    def _watch_run(self, session: str) -> None:
        active = self.live.active_runs[session]
        fd = active.runtime.exit_fd(active.handle)
        if fd is None:
            self._check_again[session] = self.live.monotonic
            return
        self.run_fds[fd] = session
        self.poll.watch(fd)

    # Requests to the controller itself

    def _handle_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGHUP:
                self.reload_at = self.live.monotonic
            elif number in (signal.SIGINT, signal.SIGTERM):
                if self.exit_mode == "stop":
                    self.stopper.grace = 0.0  # the second request: kill at once
                self.exit("stop")

    def exit(self, mode: str) -> None:
        """Exit after ending all sessions (`stop`), or at once, leaving them running (`keep`)."""
        self.exit_mode = mode
        self.live.stopping_city = mode == "stop"

    def reload(self) -> JsonObject:
        """Load the city again and reconcile every agent; return what the `reload` request says."""
        self.reload_at = None
        result = self.reloader.reload(self.live.now)
        if result.outcome == "failed":
            if not self._check_ownership():
                self.log(
                    "the city cannot be loaded; keeping the last valid configuration: "
                    f"{result.problems[0].message}"
                )
        else:
            self.live.run_config = self.reloader.run_config
            self.notifier.configure(self.reloader.run_config.city)
            self._read_grace()
            self.live.prepared.clear()
            self.live.start_failures.clear()
            self.scheduler.reloaded()
        return {
            "outcome": result.outcome,
            "changed": list(result.changed),
            "stale": self.reloader.run_config.stale,
            "messages": [problem.message for problem in result.problems],
        }

    def _read_grace(self) -> None:
        timeout = self.live.run_config.city.session.shutdown_timeout
        self.stopper.grace = max(timeout, _SHORTEST_GRACE)

    def _stop_all(self) -> None:
        """Start nothing and end every live session."""
        for session in list(self.live.sessions):
            if session.state in LIVE and session.id not in self.live.stopping:
                self.stopper.begin_stop(session, "stop", "the city was stopped")
        if self.stopper.grace == 0.0:
            self.stopper.escalate_due(at_once=True)
        self.live.write_decisions()

    def _end(self) -> None:
        """Record the exit and kill any process that sessions left behind."""
        with suppress(StoreError), self.store.transaction():
            if self.exit_mode == "stop":
                self.housekeeping.add_finished(self.finisher.take_finished())
                self.housekeeping.run()
                kill_strays(self.live, ())
            data = {"pid": os.getpid(), "sessions": self.exit_mode}
            self.store.record_event(
                "controller.stopped", "controller", time.time(), data, CONTROLLER
            )


def _clock_offset(wall: float) -> float:
    """Return the wall clock's offset from CLOCK_BOOTTIME; it changes when the clock is set."""
    return wall - time.clock_gettime(_BOOT_CLOCK)
