"""What must not grow or stay: logs past their size, processes that runs left, old records."""

import os
from collections.abc import Callable
from contextlib import suppress

from gascity.control.crew import CONTROLLER, Crew, Going
from gascity.control.desk import Desk
from gascity.control.places import controller_log, log_directory
from gascity.runtimes.logs import bound
from gascity.watch import WRITES, Watch

_LOGS = 1.0  # logs that grow are looked at this often
_LEFT = 1.0  # what runs left behind is looked for this long after they ended
TYPING = 1.0  # how often it is seen whether a terminal is ready to be typed into
_DAY = 86400.0
_OWN_LOG = 5_000_000


class Upkeep:
    """Comes round when there is something to see to, and not otherwise."""

    def __init__(self, crew: Crew, desk: Desk, say: Callable[[str], None]) -> None:
        self.crew = crew
        self.desk = desk
        self.say = say
        self.after: list[Going] = []  # ended runs that may have left something
        self.next_at: float | None = None
        self.watch = Watch()
        self._grown: set[str] = set()
        self._pruned = 0.0
        self._watch_logs()

    def _watch_logs(self) -> None:
        """Also after somebody removed them all."""
        directory = log_directory(self.crew.root)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self.watch.add(directory, WRITES)

    def start_over(self) -> None:
        """Forget runs whose end could not be put on record: they are found again."""
        self.after = []

    def soon(self, wait: float) -> None:
        at = self.crew.steady + wait
        self.next_at = at if self.next_at is None else min(self.next_at, at)

    def written(self) -> None:
        """Logs have grown, or are gone."""
        self._grown |= self.watch.read()
        self._watch_logs()
        self.soon(_LOGS)

    def ended(self, runs: list[Going]) -> None:
        self.after += runs
        if runs:
            self.soon(_LEFT)

    def see(self) -> None:
        """See to everything that there is to see to."""
        self.next_at = None
        self._bound_logs()
        self._sweep()
        self._type()
        if self.crew.now - self._pruned > _DAY:
            self.prune()

    def prune(self) -> None:
        """Let go of old records, and of the logs that belong to them."""
        self._pruned = self.crew.now
        with suppress(OSError):
            bound(controller_log(self.crew.root), _OWN_LOG)
        for path in self.crew.store.prune(self.crew.now):
            with suppress(OSError):
                os.unlink(path)

    def _bound_logs(self) -> None:
        grown, self._grown = self._grown, set()
        for going in list(self.crew.going.values()):
            if going.run.log in grown:
                self._bound_log(going)
        for going in self.after:  # the end of a log is written faster than it is looked at
            self._bound_log(going)

    def _bound_log(self, going: Going) -> None:
        crew = self.crew
        session = crew.roster.get(going.run.session) or crew.store.session(going.run.session)
        post = self.desk.post(session.agent) if session else None
        gone = bound(going.run.log, post.log_bytes if post else 10_000_000)
        if not gone or session is None:
            return
        run = going.run._replace(lost_bytes=going.run.lost_bytes + gone)
        if crew.going.get(session.id) is going:
            crew.going[session.id] = going._replace(run=run)
        crew.store.set_run(run.id, {"lost_bytes": run.lost_bytes})
        told: dict[str, object] = {"agent": session.agent, "bytes": gone}
        crew.store.record("session.log-cut", session.id, crew.now, told, CONTROLLER)

    def _sweep(self) -> None:
        """End what ended runs left behind."""
        after, self.after = self.after, []
        for runtime in {id(one.runtime): one.runtime for one in after}.values():
            handles = [one.handle for one in after if one.runtime is runtime]
            left = {one: pids for one, pids in runtime.leftovers_of(handles).items() if pids}
            if left:
                self.say(f"ended {sum(map(len, left.values()))} processes that runs left behind")
                runtime.kill_all(list(left))
        for path in (path for one in after for path in (one.run.exit_file, *one.files)):
            with suppress(OSError):
                os.unlink(path)

    def _type(self) -> None:
        """Tell sessions in terminals what waits for them, where they are ready for it."""
        crew = self.crew
        for id in list(crew.typing):
            session, going = crew.roster.get(id), crew.going.get(id)
            if session is None or going is None or not session.interactive:
                crew.typing.discard(id)
                continue
            post = self.desk.post(session.agent)
            prefix = post.agent.text("ready_prompt_prefix") if post else ""
            # Without a prompt to be seen, Enter might answer a question that nobody has read.
            if not prefix or not going.runtime.ready(going.handle, prefix):
                continue
            for nudge in crew.store.nudges(id):
                if not going.runtime.send(going.handle, nudge.text):
                    break
                crew.store.mark_nudges([nudge.id], crew.now)
                break  # one at a time: the next when it is ready again
            if not crew.store.nudges(id):
                crew.typing.discard(id)
        if crew.typing:
            self.soon(TYPING)
