"""Waits until the controller has acted on a session."""

import sys
import time
from collections.abc import Callable

from gascity.cli.context import CommandContext
from gascity.cli.identity import actor, caller
from gascity.cli.output import display_path, print_stderr
from gascity.cli.problems import city_error
from gascity.control.client import controller_state, ensure_controller
from gascity.control.paths import controller_log
from gascity.model.work import Session

_POLL = 0.05  # seconds between two checks whether the store changed
_CONTROLLER_START = 5.0  # seconds that a controller may take to start
_REREAD = 1.0  # seconds after which a session is read again even if the store looks unchanged


def request_action(context: CommandContext, session: Session, action: str) -> Session:
    """Ask the controller to do something with a session; start a controller if none runs."""
    changed = context.store().update_session(
        session.id,
        {"asked": action},
        time.time(),
        event="session.asked",
        data={"what": action},
        actor=actor(caller(context.environ)),
    )
    ensure_controller(context.root, context.environ)
    return changed


def wait_until(
    context: CommandContext,
    session: Session,
    condition: Callable[[Session], bool],
    timeout: float,
    doing: str,
) -> Session:
    """Return the session once the condition holds, at the timeout, or when it is deleted.

    Raises CityError if no controller runs that could act on it.
    """
    store = context.store()
    start = last_read = controller_seen = time.monotonic()
    notified = not sys.stderr.isatty()
    while not condition(session):
        now = time.monotonic()
        if now - start > timeout:
            break
        if now - start > 1 and not notified:
            notified = True
            print_stderr(f"city: waiting: {doing} …")
        if store.changed() or now - last_read > _REREAD:
            controller_seen = now if controller_state(context.root).running else controller_seen
            last_read = now
            current = store.session(session.id)
            if current is None:
                break
            session = current
        elif now - controller_seen > _CONTROLLER_START:
            log = display_path(context.root, controller_log(context.root))
            hint = f"see {log}; `city start` starts it again"
            raise city_error("no-controller", "the controller was started but has exited", hint)
        else:
            time.sleep(_POLL)
    return session
