"""Waiting until the controller has done something about a session."""

import sys
import time
from collections.abc import Callable

from gascity.cli.context import Context
from gascity.cli.identity import actor, caller
from gascity.cli.output import complain
from gascity.cli.session_rows import shown_path
from gascity.control.client import controller_state, ensure_controller
from gascity.control.places import controller_log
from gascity.model.problems import CityError, Problem
from gascity.model.work import Session

_PAUSE = 0.05  # between two questions whether anything was written
_STARTS = 5.0  # that a controller may take to be there
_ANYWAY = 1.0  # after which a session is read again though nothing seems to have changed


def ask(context: Context, session: Session, what: str) -> Session:
    """Ask something of a session that only a controller can do, and have a controller."""
    changed = context.store().set_session(
        session.id,
        {"asked": what},
        time.time(),
        event="session.asked",
        data={"what": what},
        actor=actor(caller(context.environ)),
    )
    ensure_controller(context.root, context.environ)
    return changed


def wait_until(
    context: Context,
    session: Session,
    enough: Callable[[Session], bool],
    timeout: float,
    doing: str,
) -> Session:
    """The session once it is as wanted, or as it is when the time is over or it is gone.

    CityError if there is no controller that could do anything about it.
    """
    store = context.store()
    begun = read = seen = time.monotonic()
    told = not sys.stderr.isatty()
    while not enough(session):
        now = time.monotonic()
        if now - begun > timeout:
            break
        if now - begun > 1 and not told:
            told = True
            complain(f"city: waiting: {doing} …")
        if store.changed() or now - read > _ANYWAY:
            seen = now if controller_state(context.root).running else seen
            read = now
            found = store.session(session.id)
            if found is None:
                break
            session = found
        elif now - seen > _STARTS:
            raise CityError(_alone(context))
        else:
            time.sleep(_PAUSE)
    return session


def _alone(context: Context) -> Problem:
    words = "the controller was started, and does not run any more"
    log = shown_path(context.root, controller_log(context.root))
    return Problem("no-controller", words, None, f"{log} says why; `city start` tries again")
