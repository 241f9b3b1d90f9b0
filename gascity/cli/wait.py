"""Waits for the controller: until it runs, has acted on a session, or has finished a work item."""

import os
import sys
import time
from collections.abc import Callable

from gascity.cli.context import CommandContext
from gascity.cli.fast_sling import sender
from gascity.cli.identity import access
from gascity.cli.output import display_path, print_stderr
from gascity.cli.problems import city_error
from gascity.control.blocked import ControllerAbsence
from gascity.control.client import (
    controller_state,
    ensure_controller,
    is_starting,
    launch_controller,
    not_responding,
    send_request,
    silent_controller,
)
from gascity.control.decide.reasons import city_stopped, controller_hung, no_controller
from gascity.control.decide.types import Blocked
from gascity.control.paths import controller_log
from gascity.model.capabilities import CONTROL
from gascity.model.problems import CityError
from gascity.model.values import TableView, as_integer
from gascity.model.work import FINISHED, OPEN, WAITING, Session, Work
from gascity.store.port import Store

START_TIMEOUT = 20.0  # seconds until a new controller answers
_POLL = 0.02  # seconds between two checks whether the store changed
_RECHECK = 1.0  # seconds after which records are read again even if the store looks unchanged
_CONTROLLER_START = 5.0  # seconds that a controller may take to start


def wait_until(condition: Callable[[], bool], timeout: float, pause: float = 0.01) -> bool:
    """Poll a condition; return False at the timeout."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def wait_for_write(store: Store, timeout: float = _RECHECK) -> None:
    """Wait until another process writes to the store, but not longer than the timeout."""
    wait_until(store.changed, timeout, _POLL)


def launch_and_wait(context: CommandContext) -> int:
    """Start a controller in the background, wait until it answers, and return its pid."""
    root = context.root
    log = controller_log(root)
    before = os.path.getsize(log) if os.path.exists(log) else 0
    pid = launch_controller(root, context.environ)

    answers: list[int] = []

    def up() -> bool:
        nonlocal pid
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            ended = True  # another controller got the lock first, and this one exited
        if ended and not controller_state(root).running:
            if not _lost_the_lock(log, before):
                raise _start_failure(log, before)
            pid = launch_controller(root, context.environ)  # the one that had it has exited since
        reply = send_request(root, {"op": "ping", **sender(context.environ)}, again=True)
        answering = as_integer(reply.get("pid")) if reply is not None else None
        answers.extend([] if answering is None else [answering])
        return reply is not None

    if not wait_until(up, START_TIMEOUT):
        raise _start_failure(log, before)
    # Its own answer: it may exit right after, and then nothing else knows its pid.
    return answers[-1] if answers else pid


def _lost_the_lock(log: str, before: int) -> bool:
    """Return whether a controller exited because another one was running."""
    return any("[controller-running]" in message for message in _messages(log, before)[-1:])


def _messages(log: str, before: int) -> list[str]:
    """Return what controllers have logged after the first `before` bytes, without hints."""
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            file.seek(before)
            lines = [line.strip() for line in file.read().splitlines()]
    except OSError:
        return []
    return [line for line in lines if line and not line.startswith("hint:")]


def _start_failure(log: str, before: int) -> CityError:
    messages = _messages(log, before)
    reason = messages[-1].removeprefix("city: error: ") if messages else ""
    message = "the controller failed to start" + (f": {reason}" if reason else "")
    hint = f"run `city start --foreground` to see why; log: {log}"
    return city_error("controller-failed", message, hint)


def unresponsive_controller(context: CommandContext) -> CityError | None:
    """Return the error of a controller that does not respond; None if it does or none is running.

    Waits for at most two seconds.
    """
    send_request(context.root, {"op": "ping", **sender(context.environ)})
    pid = silent_controller(context.root)
    return None if pid is None else hung_error(pid)


def hung_error(pid: int) -> CityError:
    """Return the error of a controller that does not respond."""
    hint = "run `city restart` to replace it; sessions keep running"
    return city_error("controller-hung", not_responding(pid), hint)


def start_controller(context: CommandContext) -> None:
    """Start a controller if none is running; a session must be allowed to."""
    if access(context).has(CONTROL):
        ensure_controller(context.root, context.environ)


def wait_for_session(
    context: CommandContext,
    session: Session,
    condition: Callable[[Session], bool],
    timeout: float,
    doing: str,
) -> Session:
    """Return the session once the condition holds, at the timeout, or when it is deleted.

    Raises CityError if no controller runs that could act on it, or it does not respond.
    """
    store = context.store()
    start = controller_seen = time.monotonic()
    notified = not sys.stderr.isatty()
    while not condition(session):
        now = time.monotonic()
        if now - start > timeout:
            break
        if now - start > 1 and not notified:
            notified = True
            print_stderr(f"city: waiting: {doing} …")
        if now - start > _RECHECK and (error := unresponsive_controller(context)) is not None:
            raise error
        if controller_state(context.root).running:
            controller_seen = now
        elif now - controller_seen > _CONTROLLER_START:
            log = display_path(context.root, controller_log(context.root))
            hint = f"see {log}; `city start` starts it again"
            raise city_error("no-controller", "the controller was started but has exited", hint)
        wait_for_write(store, min(timeout, _RECHECK))
        current = store.session(session.id)
        if current is None:
            break
        session = current
    return session


def lasting_blocks(context: CommandContext, work: str | None = None) -> dict[str, Blocked]:
    """Return why queued items stay blocked until a user acts; empty if one may still start.

    Asks about one item, or about all. The controller must be running.
    """
    request = {"op": "stuck", "work": work, **sender(context.environ)}
    reply = TableView(send_request(context.root, request))
    reasons = reply.named_tables("stuck")
    return {id: Blocked(reason.text("code"), reason.text("message")) for id, reason in reasons}


class WorkWaiter:
    """Waits for one work item.

    `start_controller`: start one if it is killed meanwhile. `first_event` is the last event before
    the item was enqueued. `timeout`: seconds to wait at most; None: no limit.
    """

    def __init__(
        self,
        context: CommandContext,
        id: str,
        start_controller: bool,
        first_event: int,
        timeout: float | None = None,
    ) -> None:
        self.context = context
        self.id = id
        self._end = None if timeout is None else time.monotonic() + timeout
        self.start_controller = start_controller
        self._first_event = first_event
        self._absence = ControllerAbsence(context.root)
        self._told = ""  # what its session waits for, as printed last
        self._told_hung = False

    def wait(self) -> tuple[Work, Blocked | None]:
        """Return the item once it finished, or with the reason why it stays blocked.

        At the timeout, return it as it is.
        """
        checked_at = -_RECHECK
        while (work := self.work()).status not in FINISHED:
            now = time.monotonic()
            left = _RECHECK if self._end is None else min(_RECHECK, self._end - now)
            if left <= 0:
                break
            if now - checked_at >= _RECHECK:
                checked_at = now
                blocked = self._blocked(work)
                if blocked is not None:
                    return work, blocked
            wait_for_write(self.context.store(), left)
        return work, None

    def work(self) -> Work:
        """Return the item as it is now; CityError if it was deleted."""
        work = self.context.store().work(self.id)
        if work is None:
            raise city_error("unknown-work", f"{self.id} was deleted")
        return work

    def _blocked(self, work: Work) -> Blocked | None:
        absent = self._absence.lasts()  # also when it runs: resets the grace period
        if not controller_state(self.context.root).running:
            return self._without_controller(absent)
        if work.status == OPEN:
            blocks = lasting_blocks(self.context, work.id)
            self._tell_if_hung()
            return blocks.get(work.id)
        self._tell_if_waiting(work)
        return None

    def _tell_if_hung(self) -> None:
        """Print once that the controller does not respond; it may recover, so keep waiting."""
        pid = silent_controller(self.context.root)
        if pid is not None and not self._told_hung:
            self._told_hung = True
            print_stderr(f"{self.id}: {controller_hung(pid).message}")

    def _tell_if_waiting(self, work: Work) -> None:
        """Print once that the session of a running item needs its user."""
        session = self.context.store().session(work.session)
        waits = session is not None and session.state == WAITING
        reason = f"{work.id}: {session.alias} is {session.reason}" if session and waits else ""
        if reason and reason != self._told:
            print_stderr(reason)
        self._told = reason

    def _without_controller(self, absent: bool) -> Blocked | None:
        """Start the controller again if it was killed, but not if a user stopped it."""
        if is_starting(self.context.root):
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
        while events := self.context.store().events(after):
            after = events[-1].seq
            for event in events:
                if event.type == "controller.started":
                    mode = ""
                elif event.type == "controller.stopped":
                    mode = str(event.data.get("sessions"))
        return mode
