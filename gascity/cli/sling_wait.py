"""`city sling --wait`: wait until the work item finishes, or stays blocked until a user acts."""

import time

from gascity.cli.context import CommandContext
from gascity.cli.controller import launch_and_wait
from gascity.cli.output import print_stderr, print_stdout, to_json
from gascity.cli.work.rows import result_row
from gascity.control.blocked import ControllerAbsence
from gascity.control.client import controller_state, is_starting, send_request
from gascity.control.decide.reasons import city_stopped, no_controller
from gascity.control.decide.types import Blocked
from gascity.model.problems import CityError, Problem
from gascity.model.work import DONE, FINISHED, OPEN, Work, status_word

_CHECK_INTERVAL = 1.0  # seconds between two checks whether the item is blocked
_POLL_INTERVAL = 0.02
_LOG_SLACK = 200  # a log this much longer than the summary was cut


def wait(
    context: CommandContext, result: dict[str, object], start_controller: bool, first_event: int
) -> int:
    """Wait for an enqueued item and print its result.

    `start_controller`: start one if it is killed meanwhile. `first_event` is the last event before
    the item was enqueued.
    """
    id = str(result["work"])
    cancel = f"to cancel: `city work cancel {id}`"
    try:
        work, blocked = WorkWaiter(context, id, start_controller, first_event).wait()
    except KeyboardInterrupt:
        print_stderr(f"{id} is still queued or running ({cancel})")
        raise
    if context.as_json:
        now = {"session": work.session or None, "status": work.status}
        reasons = {"blocked_by": [blocked._asdict()]} if blocked else {}
        print_stdout(to_json({**result, **now, **reasons, "result": result_row(work.result)}))
    elif blocked is not None:
        status = status_word(work.status)
        print_stdout(f"{id} {status}, blocked: {blocked.message} [{blocked.code}]")
        print_stderr(f"{id} stays {status} until this is fixed ({cancel})")
    else:
        _print_result(context, work)
    return 0 if work.status == DONE else 1


class WorkWaiter:
    """Waits for one work item."""

    def __init__(
        self, context: CommandContext, id: str, start_controller: bool, first_event: int
    ) -> None:
        self.context = context
        self.root = context.root
        self.store = context.store()
        self.id = id
        self.start_controller = start_controller
        self._first_event = first_event
        self._absence = ControllerAbsence(context.root)

    def wait(self) -> tuple[Work, Blocked | None]:
        """Return the item once it finished, or with the reason why it stays blocked."""
        work, checked_at = self._work(), -_CHECK_INTERVAL
        while work.status not in FINISHED:
            now = time.monotonic()
            if now - checked_at >= _CHECK_INTERVAL:
                checked_at = now
                blocked = self._blocked(work)
                if blocked is not None:
                    return work, blocked
            while not self.store.changed() and time.monotonic() - now < _CHECK_INTERVAL:
                time.sleep(_POLL_INTERVAL)
            work = self._work()
        return work, None

    def _work(self) -> Work:
        work = self.store.work(self.id)
        if work is None:
            raise CityError(Problem("unknown-work", f"{self.id} was deleted"))
        return work

    def _blocked(self, work: Work) -> Blocked | None:
        absent = self._absence.lasts()  # also when it runs: resets the grace period
        if not controller_state(self.root).running:
            return self._without_controller(absent)
        if work.status != OPEN:
            return None
        reply = send_request(self.root, {"op": "stuck", "work": work.id}) or {}
        reason = reply.get("stuck", {}).get(work.id)
        return Blocked(reason["code"], reason["message"]) if reason else None

    def _without_controller(self, absent: bool) -> Blocked | None:
        """Start the controller again if it was killed, but not if a user stopped it."""
        if is_starting(self.root):
            return None
        stopped = self._stopped_by_user()
        if stopped == "stop":
            return city_stopped()
        if self.start_controller and not stopped:
            launch_and_wait(self.context)
            return None
        return no_controller() if absent else None

    def _stopped_by_user(self) -> str:
        """Return how a user ended the last controller: `stop`, or `keep` (sessions keep running).

        Empty if it was killed, or has not run since the item was enqueued.
        """
        mode, after = "", self._first_event
        while events := self.store.events(after):
            after = events[-1].seq
            for event in events:
                if event.type == "controller.started":
                    mode = ""
                elif event.type == "controller.stopped":
                    mode = str(event.data.get("sessions"))
        return mode


def _print_result(context: CommandContext, work: Work) -> None:
    summary = work.result.summary if work.result else ""
    reason = work.reason if work.status != DONE and work.reason != summary else ""
    print_stdout(f"{work.id} {status_word(work.status)}" + (f": {reason}" if reason else ""))
    if summary:
        print_stdout(summary)
    if _is_cut(context, work, summary):
        print_stderr(f"output truncated; full log: `city work logs {work.id}`")


def _is_cut(context: CommandContext, work: Work, summary: str) -> bool:
    """Return whether the summary is only the end of the log. A model's answer is never cut."""
    if not summary or not work.log:
        return False
    from gascity.cli.session.view import logs_of_work

    logs = logs_of_work(context, work)
    longer = (logs.size(work.log) or 0) > len(summary) + _LOG_SLACK
    return longer and logs.tail(work.log, 1).strip() == summary.splitlines()[-1].strip()
