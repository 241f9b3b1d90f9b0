"""`city status --watch`: a screen to work in on a terminal, one line per change in a pipe."""

import sys
import time
from collections.abc import Iterator, Mapping

from gascity.cli.context import CommandContext
from gascity.cli.identity import access
from gascity.cli.output import print_stderr, print_stdout
from gascity.cli.records import session_name
from gascity.cli.status import CityStatus, StatusReader, work_counts
from gascity.cli.status.screen import Screen, one_line
from gascity.cli.wait import lasting_blocks
from gascity.control.blocked import ControllerAbsence
from gascity.control.client import controller_state
from gascity.control.decide.reasons import no_controller
from gascity.control.status import at_rest, is_over, under_way
from gascity.model.work import CLAIMED, FINISHED, OPEN, Work
from gascity.store.port import StoreError

_POLL = 0.2  # seconds between two checks for changes
_TICK = 1.0  # seconds after which ages are redrawn
_NAMED = 5  # items named per reason
_UNFINISHED, _FINISHED = 1000, 20  # work items shown


def watch_lines(context: CommandContext, until_idle: bool) -> int:
    """Print one line per change, until interrupted or, with `until_idle`, until idle."""
    reader = StatusReader(context)
    idle = IdleCheck(context)
    before: CityStatus | None = None
    while True:
        current = reader.read()
        for line in changes(before, current):
            print_stdout(line)
        sys.stdout.flush()
        before = current
        while True:
            ended = idle.ended(current) if until_idle else None
            if ended is not None:
                return idle.print_blocked(ended)
            if reader.changed():
                break
            time.sleep(_POLL)


def watch_screen(context: CommandContext, until_idle: bool) -> int:
    """Show the live view until q or Ctrl-C."""
    from gascity.cli.status.actions import run_command
    from gascity.cli.status.frame import frame
    from gascity.cli.status.view import QUIT, View

    reader = StatusReader(context)
    idle = IdleCheck(context)
    current = reader.read()
    work = read_work(context, current)
    drawn_at = 0.0
    screen, view = Screen(), View()
    with screen.full():
        while (ended := idle.ended(current) if until_idle else None) is None:
            now = time.time()
            rows = view.rows(current, work)
            if now - drawn_at >= _TICK or screen.resized:
                drawn_at = now
                size = screen.size()
                screen.draw(frame(current, context.root, rows, view, now, *size, context.colour))
            keys = screen.keys(_POLL)
            command = view.press_all(keys, rows)
            if command is not None and command.name == QUIT:
                return 0
            if command is not None:
                view.message = run_command(context, screen, command)
            changed = reader.changed()
            if changed:
                current = reader.read()
                work = read_work(context, current)
            if changed or keys:
                drawn_at = 0.0
    return idle.print_blocked(ended)


def read_work(context: CommandContext, current: CityStatus) -> Mapping[str, Work]:
    """Return the work items to show, by id: unfinished ones, those of sessions, the latest ended.

    A store that cannot be read is among the problems of `current`.
    """
    try:
        store = context.store_if_any()
        if store is None:
            return {}
        items = store.list_work(status=(OPEN, CLAIMED), limit=_UNFINISHED)
        items += store.list_work(status=FINISHED, limit=_FINISHED)
        found = {item.id: item for item in items}
        for id in {session.work for session in current.sessions} - found.keys() - {""}:
            item = store.work(id)
            found |= {id: item} if item is not None else {}
    except StoreError:
        return {}
    seen = access(context)
    return {id: item for id, item in found.items() if seen.sees(item.agent)}


class IdleCheck:
    """Detects that nothing more will happen: all work is done, or the rest needs the user."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._asked = -_TICK
        self._absence = ControllerAbsence(context.root)
        self._left: dict[str, str] = {}  # blocked work items and their reasons

    def ended(self, current: CityStatus) -> int | None:
        """Return the exit code; None while work can proceed."""
        if current.unreadable:
            self._left = {"": current.unreadable.message}
            return 1
        if at_rest(current.counts, current.sessions):
            return 0
        now = time.monotonic()
        if under_way(current.counts, current.sessions) or now - self._asked < _TICK:
            return None
        self._asked = now
        self._left = self._blocked()
        return 1 if self._left else None

    def _blocked(self) -> dict[str, str]:
        absent = self._absence.lasts()
        if not controller_state(self._context.root).running:
            return {"": no_controller().message} if absent else {}
        return {work: reason.message for work, reason in lasting_blocks(self._context).items()}

    def print_blocked(self, ended: int) -> int:
        """Print the blocked work items, one line per reason, and return the exit code."""
        for why in dict.fromkeys(self._left.values() if ended else ()):
            work = [item for item, reason in self._left.items() if item and reason == why]
            more = f" and {len(work) - _NAMED} more" if len(work) > _NAMED else ""
            message = f"{', '.join(work[:_NAMED])}{more} blocked: " if work else ""
            print_stderr(f"{message}{why}")
        return ended


def changes(before: CityStatus | None, after: CityStatus) -> Iterator[str]:
    """Yield one line per change of the controller, queues, sessions and work."""
    running = after.controller.running
    if before is None or before.controller.running != running:
        yield f"controller  {'running' if running else 'not running'}"
    agents = {agent.name: agent for agent in before.agents} if before else {}
    for agent in after.agents:
        was = agents.get(agent.name)
        same = was is not None and (was.live, was.queued) == (agent.live, agent.queued)
        if not same and not (was is None and agent.idle):
            words = f"{agent.live} live, {agent.queued} queued"
            yield _change_line(agent.name, words, agent.reason)
    sessions = {session.id: session for session in before.sessions} if before else {}
    for session in after.sessions:
        old = sessions.get(session.id)
        same = old is not None and (old.state, old.work) == (session.state, session.work)
        if not same and not (before is None and is_over(session)):
            words = f"{session.state} {session.work}".rstrip()
            yield _change_line(session_name(session), words, session.reason)
    if before is None or work_counts(before) != work_counts(after):
        yield f"work  {work_counts(after)}"


def _change_line(name: str, words: str, reason: str) -> str:
    return one_line(f"{name}  {words}" + (f": {reason}" if reason else ""))
