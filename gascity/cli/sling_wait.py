"""`city sling --wait`: until the work is settled, or will not be unless a person does something."""

import os
import time

from gascity.cli.context import Context
from gascity.cli.control import launch_and_wait
from gascity.cli.output import complain, say, to_json
from gascity.cli.work_rows import result_row
from gascity.control.client import ask, controller_state, is_starting
from gascity.control.world import Blocked
from gascity.model.problems import CityError, Problem
from gascity.model.work import DONE, OPEN, SETTLED, Work

_AGAIN = 1.0  # seconds between two questions whether it may go on
_ALONE = 2.0  # for which there may be no controller, while somebody restarts it
_MORE = 200  # bytes of a log beyond what is told of it


def wait(context: Context, slung: dict[str, object], starts: bool, began: int) -> int:
    """Say what came of slung work; `starts`: who would do it is started if nobody is there.

    `began` is the last event before it was slung.
    """
    vigil = Vigil(context, str(slung["work"]), starts, began)
    try:
        work, why = vigil.keep()
    except KeyboardInterrupt:
        complain(f"{slung['work']} goes on; `city work cancel {slung['work']}` would end it")
        raise
    if context.as_json:
        ended = {"session": work.session or None, "status": work.status}
        blocked = {"blocked_by": [why._asdict()]} if why else {}
        say(to_json({**slung, **ended, **blocked, "result": result_row(work.result)}))
    elif why is not None:
        say(f"{work.id} {work.status}: {why.message} [{why.code}]")
        complain(f"it is kept until that is mended; `city work cancel {work.id}` takes it back")
    else:
        _say_result(work)
    return 0 if work.status == DONE else 1


class Vigil:
    """Waits for one item."""

    def __init__(self, context: Context, id: str, starts: bool, began: int) -> None:
        self.context = context
        self.root = context.root
        self.store = context.store()
        self.id = id
        self.starts = starts
        self._began = began
        self._alone: float | None = None  # since when there has been no controller

    def keep(self) -> tuple[Work, Blocked | None]:
        """The item when it is settled, or with what keeps it from ever being so."""
        work, asked = self._work(), -_AGAIN
        while work.status not in SETTLED:
            now = time.monotonic()
            if now - asked >= _AGAIN:
                asked = now
                why = self._in_the_way(work)
                if why is not None:
                    return work, why
            while not self.store.changed() and time.monotonic() - now < _AGAIN:
                time.sleep(0.02)
            work = self._work()
        return work, None

    def _work(self) -> Work:
        work = self.store.work(self.id)
        if work is None:
            raise CityError(Problem("unknown-work", f"{self.id} is gone"))
        return work

    def _in_the_way(self, work: Work) -> Blocked | None:
        if not controller_state(self.root).running:
            return self._without_controller()
        self._alone = None
        told = ask(self.root, {"op": "stuck", "work": work.id}) if work.status == OPEN else None
        found = (told or {}).get("stuck", {}).get(work.id)
        return Blocked(found["code"], found["message"]) if found else None

    def _without_controller(self) -> Blocked | None:
        """Whoever stopped the city does not want it started again; one that was killed is."""
        if is_starting(self.root):
            return None
        stopped = self._stopped()
        if stopped == "stop":
            return Blocked("no-controller", "the city was stopped; `city start` starts it again")
        if self.starts and not stopped:
            launch_and_wait(self.context)
            return None
        now = time.monotonic()
        self._alone = self._alone or now
        if now - self._alone < _ALONE:
            return None
        return Blocked("no-controller", "no controller runs; `city start` starts one")

    def _stopped(self) -> str:
        """How its last controller ended, because somebody said so: with its sessions, or without.

        Nothing if it was killed, or was not there before.
        """
        found, after = "", self._began
        while events := self.store.events(after):
            after = events[-1].seq
            for one in events:
                if one.type == "controller.started":
                    found = ""
                elif one.type == "controller.stopped":
                    found = str(one.data.get("sessions"))
        return found


def _say_result(work: Work) -> None:
    summary = work.result.summary if work.result else ""
    told = work.status != DONE and work.reason != summary
    say(f"{work.id} {work.status}" + (f": {work.reason}" if told and work.reason else ""))
    if summary:
        say(summary)
    if _is_cut(work, summary):
        complain(f"this is the end of it; `city work logs {work.id}` shows all of it")


def _is_cut(work: Work, summary: str) -> bool:
    """Is it only the end of what was printed? What a model says is not cut."""
    if not summary or not work.log or not os.path.exists(work.log):
        return False
    from gascity.runtimes.logs import tail

    longer = os.path.getsize(work.log) > len(summary) + _MORE
    return longer and tail(work.log, 1).strip() == summary.splitlines()[-1].strip()
