"""The loop that keeps a city at work: it sleeps until something happens, then does what that asks.

It is told of everything: children's ends by pidfd, writes to the store and edits of files by
inotify, requests by its socket, threads by a pipe, and what is due by the time it sleeps. What a
round writes is one transaction, and only after that what it spawned may run.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from traceback import format_exception

from gascity.control.adopt import adopt
from gascity.control.agenda import Agenda
from gascity.control.crew import CONTROLLER, Crew
from gascity.control.endings import Endings
from gascity.control.feed import Feed
from gascity.control.ground import Ground, wall_ahead
from gascity.control.requests import Requests
from gascity.control.server import Server
from gascity.control.sources import Sources
from gascity.control.starts import Starts
from gascity.control.stops import Stops
from gascity.control.upkeep import TYPING, Upkeep
from gascity.control.workers import Workers
from gascity.model.durations import seconds
from gascity.model.work import LIVE
from gascity.prompts import Machine
from gascity.runtimes.runtime import Runtime
from gascity.store.port import Store, StoreFault
from gascity.watch import WRITES, Watch

_JUMP = 5.0  # a clock that is off by more than this was set
_LONGEST_SLEEP = 60.0  # with something due by the wall clock, which may be set meanwhile
_AGAIN = 1.0  # when something that could not be told or written is tried again
_DEBOUNCE = 0.1  # edits come in bursts
_SHORTEST = 0.01  # no grace at all is for whoever asks twice
_TOO_OFTEN, _LATELY = 5, 60.0  # faults of ours within so many seconds
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Say = Callable[[str], None]


class Controller:
    """One city's. Whoever makes it holds the controller's lock."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        store: Store,
        runtimes: Mapping[str, Runtime],
        machine: Callable[[], Machine],
        say: Say,
    ) -> None:
        self.root = root
        self.store = store
        self.runtimes = runtimes
        self.say = say
        self.workers = Workers()
        self.sources = Sources(root, environ, store, machine)
        desk = self.sources.desk
        self.crew = Crew(root, environ, store, runtimes, self.workers)
        self.stops = Stops(self.crew)
        self.endings = Endings(self.crew, desk)
        self.starts = Starts(self.crew, desk)
        self.agenda = Agenda(self.crew, self.starts, self.stops, desk, say)
        self.feed = Feed(self.crew, self.stops, self.agenda)
        self.upkeep = Upkeep(self.crew, desk, say)
        self.server = Server(root)
        self.requests = Requests(self)
        self.poll = select.epoll()
        self.deaths: dict[int, str] = {}  # by descriptor: the session whose run it tells of
        self.writes = Watch()
        self.leaving = ""  # stop: end the sessions first; keep: leave them
        self.reload_at: float | None = None
        self._look_again: dict[str, float] = {}  # sessions that could not be seen: when next
        self.ground = Ground(root)
        self._ahead = wall_ahead(time.time())
        self._bell = -1
        self._faults: list[float] = []
        self._take_times()
        self._trouble = ""  # with the store, as it was said

    def run(self) -> None:
        """Go on until somebody says stop, and then until nothing is left to end."""
        self._open()
        try:
            self._guarded(self._begin)
            while not self._over():
                self._guarded(lambda: self._round(self._wait()))
            self._end()
        finally:
            self._close()

    def _open(self) -> None:
        self._bell, ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        if min(self.writes.fd, self.sources.watch.fd, self.upkeep.watch.fd) < 0:
            self.say("the kernel tells of no changes (too many watchers?): looking every second")
        self.writes.add(f"{self.root}/.gc", WRITES)
        for fd in (
            self._bell,
            self.workers.fd,
            self.writes.fd,
            self.sources.watch.fd,
            self.upkeep.watch.fd,
            self.server.listener.fileno(),
        ):
            if fd >= 0:
                self.poll.register(fd, select.EPOLLIN)

    def _close(self) -> None:
        self.workers.close()
        self.server.shut()
        for fd in self.deaths:
            os.close(fd)
        self.poll.close()

    def _over(self) -> bool:
        if self.leaving != "stop":
            return bool(self.leaving)
        return not (self.crew.going or self.endings.reading)

    # Sleeping

    def _wait(self) -> set[int]:
        """Sleep until something happens or is due; the descriptors that have something to say."""
        steady = time.monotonic()
        dues = (
            self.stops.next_at(),
            self.starts.next_at(),
            self.reload_at,
            self.upkeep.next_at,
            min(self._look_again.values(), default=None),
        )
        waits = [at - steady for at in dues if at is not None]
        if self.writes.fd < 0:
            waits.append(_AGAIN)  # nobody tells us of what others write
        wall = self.agenda.next_at() if not self.leaving else None
        if wall is not None:
            waits.append(min(wall - time.time(), _LONGEST_SLEEP))
        return {fd for fd, _ in self.poll.poll(max(0.0, min(waits)) if waits else None)}

    def _tell_time(self) -> None:
        crew = self.crew
        crew.now, crew.steady = time.time(), time.monotonic()
        ahead = wall_ahead(time.time())
        jump = ahead - self._ahead
        if abs(jump) > _JUMP:
            self.say(f"the clock was set by {jump:+.0f} seconds")
            self.agenda.shift(jump)
        self._ahead = ahead
        if self.sources.machine() != self.sources.made_for and self.reload_at is None:
            self.reload_at = crew.steady  # the date stands in prompts

    # Doing

    def _guarded(self, step: Callable[[], None]) -> None:
        """One step; what could not be written is thrown away and found again from the store.

        So is what a fault of ours left behind. One that comes again and again ends the controller,
        and what runs goes on without it.
        """
        while True:
            try:
                step()
                self._troubled("")
                return
            except StoreFault as fault:
                self._troubled(fault.message)
            except Exception as error:
                now = time.monotonic()
                self._faults = [at for at in self._faults if at > now - _LATELY] + [now]
                if len(self._faults) > _TOO_OFTEN:
                    raise
                self.say(f"a fault of ours, starting over: {''.join(format_exception(error))}")
            if self._told_to_end():
                self.leave("keep")  # nothing can be written down about ending them
                return
            self._start_over()
            step = self._begin

    def _told_to_end(self) -> bool:
        """Wait a little before the next try; True if a signal says that there is to be none."""
        if not select.select([self._bell], [], [], _AGAIN)[0]:
            return False
        return any(number in (signal.SIGINT, signal.SIGTERM) for number in os.read(self._bell, 64))

    def _troubled(self, words: str) -> None:
        """Say what is wrong with the store, once; and once more when it is over.

        Who could not write to the store may not have been able to write that down, either.
        """
        before, self._trouble = self._trouble, words
        if words and words != before:
            self.say(f"{words}; trying again")
        elif before and not words:
            self.say(f"going on; this is over: {before}")

    def _start_over(self) -> None:
        for fd in list(self.deaths):
            self._forget(fd)
        self.requests.drop()
        self.crew.start_over()
        self.endings.start_over()
        self.agenda.start_over()
        self.upkeep.start_over()
        self._look_again = {}

    def _begin(self) -> None:
        """Take up what is on record."""
        self._tell_time()
        self.feed.skip()
        with self.store.writing():
            found = adopt(self.crew, self.endings, self.stops)
            told: dict[str, object] = {"pid": os.getpid(), **found._asdict()}
            self.store.record("controller.started", "controller", self.crew.now, told, CONTROLLER)
            self.feed.catch_up()
            self.agenda.everything()
            self.agenda.settle()
            self.upkeep.prune()
        self._committed()
        if self.crew.typing:
            self.upkeep.soon(TYPING)
        if any(found):
            self.say(f"adopted {found.going}, {found.ended} had ended, {found.strays} strays ended")

    def _gone(self) -> bool:
        """Was the city deleted, or is another its controller? Then we leave."""
        words, how = self.ground.lost()
        if words and not self.leaving:
            self.say(words)
            self.leave(how)
        return bool(words)

    def _round(self, ready: set[int]) -> None:
        self._tell_time()
        self._gone()
        if self._bell in ready:
            self._signalled(os.read(self._bell, 64))
        if self.server.listener.fileno() in ready:
            for line in self.server.accept():
                self.poll.register(line.fileno(), select.EPOLLIN)
        for fd in ready & self.server.lines.keys():
            self.requests.hear(self.server.lines[fd])
        if self.sources.watch.fd in ready and self.sources.touched():
            self.reload_at = self.crew.steady + _DEBOUNCE
        if self.writes.fd in ready:
            self.writes.read()
        if self.upkeep.watch.fd in ready:
            self.upkeep.written()
            self.poll.modify(self.upkeep.watch.fd, 0)  # not heard again until it was seen to
        with self.store.writing():
            self._work(ready)
        self._committed()

    def _work(self, ready: set[int]) -> None:
        """All that a round writes."""
        steady = self.crew.steady
        done = self.workers.collect()
        for then, result in done:
            then(result)
        if done:
            self.sources.see_more()
        for fd in ready & self.deaths.keys():
            self._ended(self._forget(fd))
        for session in [id for id, at in self._look_again.items() if at <= steady]:
            del self._look_again[session]
            self._ended(session)
        self.stops.go_on()
        self.starts.give_up()
        wished = self.store.changed() and self.feed.read()
        if self.reload_at is not None and (wished or self.requests.waiting):
            self.reload()  # who edits a file and then wants something means the file as it is
        self.requests.answer()
        if self.reload_at is not None and self.reload_at <= steady:
            self.reload()
        self._keep_up()
        if self.leaving == "stop":
            self._send_home()
        else:
            self.agenda.restart(self.endings)
            self.agenda.settle()

    def _keep_up(self) -> None:
        upkeep = self.upkeep
        if upkeep.next_at is not None and upkeep.next_at <= self.crew.steady:
            upkeep.see()
            if upkeep.watch.fd >= 0:
                self.poll.modify(upkeep.watch.fd, select.EPOLLIN)
        upkeep.ended(self.endings.taken())
        if self.crew.typing:
            upkeep.soon(TYPING)

    def _ended(self, session: str) -> None:
        doubtful = self.endings.look(session)
        if doubtful or session in self.crew.going:
            self._look_again[session] = self.crew.steady + _AGAIN

    def _forget(self, fd: int) -> str:
        self.poll.unregister(fd)
        os.close(fd)
        return self.deaths.pop(fd)

    def _committed(self) -> None:
        """What is on record may run, and what was answered may be told."""
        crew = self.crew
        held, crew.held = crew.held, []
        for _, going in held:
            going.runtime.release(going.handle)
        if len(self.deaths) != len(crew.going):
            for session in crew.going.keys() - set(self.deaths.values()) - self._look_again.keys():
                self._watch(session)
        self.requests.tell()

    def _watch(self, session: str) -> None:
        going = self.crew.going[session]
        fd = going.runtime.death(going.handle)
        if fd is None:
            self._look_again[session] = self.crew.steady
            return
        self.deaths[fd] = session
        self.poll.register(fd, select.EPOLLIN)

    # Being told

    def _signalled(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGHUP:
                self.reload_at = self.crew.steady
            elif number in (signal.SIGINT, signal.SIGTERM):
                if self.leaving == "stop":
                    self.stops.grace = 0.0  # asked twice: no more patience
                self.leave("stop")

    def leave(self, how: str) -> None:
        """End: with the sessions (stop), or without a word to them (keep)."""
        self.leaving = how
        self.crew.leaving = how == "stop"

    def reload(self) -> dict[str, object]:
        """Read the city anew and have every session looked at."""
        self.reload_at = None
        done = self.sources.reload(self.crew.now)
        if done.outcome == "failed":
            if not self._gone():
                words = "the city cannot be read, so the last good one stays"
                self.say(f"{words}: {done.problems[0].message}")
        else:
            desk = self.sources.desk
            self.endings.desk = self.upkeep.desk = desk
            self._take_times()
            self.crew.furnished.clear()
            self.crew.obstructed.clear()
            self.agenda.reloaded(desk)
        return {
            "outcome": done.outcome,
            "changed": list(done.changed),
            "stale": self.sources.desk.stale,
            "messages": [one.message for one in done.problems],
        }

    def _take_times(self) -> None:
        """How patient the city's files say that it is."""
        desk = self.sources.desk
        grace, patience = (
            seconds(desk.session(name)) for name in ("shutdown_timeout", "startup_timeout")
        )
        self.stops.grace = 5.0 if grace is None else max(grace, _SHORTEST)
        self.crew.patience = 60.0 if patience is None else patience

    def _send_home(self) -> None:
        """Nothing new begins; everything that is there is ended."""
        for session in list(self.crew.roster):
            if session.state in LIVE and session.id not in self.crew.ending:
                self.stops.end(session, "stop", "the city was stopped")
        if self.stops.grace == 0.0:
            self.stops.go_on(at_once=True)
        self.crew.store.decide(self.crew.decisions)
        self.crew.decisions = []

    def _end(self) -> None:
        """Leave word, and look once more that nothing was left behind."""
        with suppress(StoreFault), self.store.writing():
            if self.leaving == "stop":
                self.upkeep.ended(self.endings.taken())
                self.upkeep.see()
                for runtime in self.runtimes.values():
                    runtime.kill_all(runtime.strays(self.root, frozenset()))
            told = {"pid": os.getpid(), "sessions": self.leaving}
            self.store.record("controller.stopped", "controller", time.time(), told, CONTROLLER)
