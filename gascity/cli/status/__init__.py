"""`city status`: controller, queue and sessions, from the controller, else from files and store."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, machine
from gascity.cli.fast_sling import sender
from gascity.cli.identity import access
from gascity.cli.output import YELLOW, plural, styled, time_ago, timestamp, wrap
from gascity.cli.problems import store_problem
from gascity.cli.records import decision_row, session_name, session_row, work_row
from gascity.cli.tables import Column, T, json_row
from gascity.control.client import (
    ControllerState,
    controller_state,
    is_outdated,
    is_starting,
    send_request,
    silent_controller,
)
from gascity.control.status import (
    EMPTY_SNAPSHOT,
    is_over,
    limited_status,
    listed_agents,
    read_store_snapshot,
    status_object,
)
from gascity.model.problems import CityError, Problem
from gascity.model.values import JsonObject
from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    DONE,
    FAILED,
    OPEN,
    Decision,
    Session,
    Work,
    status_word,
)
from gascity.paths import CITY_FILE
from gascity.store.port import Store, StoreError

if TYPE_CHECKING:
    from gascity.control.decide.types import Pool
    from gascity.model.city import City


_MOST_FAILED = 5  # failed work items to list
_MOST_NAMES = 8  # names of sessions to list per state


class AgentStatus(NamedTuple):
    """One agent's sessions and queue; a `max` of None is no limit."""

    name: str
    live: int
    min: int
    max: int | None
    queued: int
    reason: str

    @property
    def idle(self) -> bool:
        """Return whether it has neither sessions nor work."""
        return not (self.live or self.queued or self.min)


class CityStatus(NamedTuple):
    """The state of a city at one moment."""

    name: str
    controller: ControllerState
    agents: tuple[AgentStatus, ...]
    counts: Mapping[str, int]
    sessions: tuple[Session, ...] = ()
    decisions: tuple[Decision, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def unreadable(self) -> Problem | None:
        """Why the store could not be read; then nothing is known about work and sessions."""
        return next((p for p in self.problems if p.code.startswith("store-")), None)


def _decode_status(answer: Mapping[str, Any], problems: Sequence[Problem] = ()) -> CityStatus:
    """Decode a `status_object`, as the controller sends it in JSON."""
    return CityStatus(
        str(answer.get("name", "")),
        ControllerState(**answer["controller"]),
        _decode(AgentStatus, AgentStatus._fields, answer["agents"]),
        answer["counts"],
        _decode(Session, Session._fields, answer["sessions"]),
        _decode(Decision, Decision._fields, answer["decisions"]),
        (*_decode(Problem, ("code", "message"), answer["problems"]), *problems),
    )


def _decode(
    record: Callable[..., T], fields: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> tuple[T, ...]:
    """Decode the known fields of each row: the controller may be an older or newer version."""
    return tuple(record(**{key: row[key] for key in fields if key in row}) for row in rows)


class StatusReader:
    """Reads the state repeatedly, and the city's files at most once."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._root = context.root
        self._controller = controller_state(self._root)
        self._store: Store | None = None
        self._pools: list[Pool] | None = None
        self._config: tuple[Problem, ...] = ()
        self.city: City | None = None  # set if it had to be read

    def changed(self) -> bool:
        """Return whether the state may have changed; cheap."""
        pid, store = self._controller.pid, self._store
        self._controller = controller_state(self._root)
        self._open_store()
        other = self._controller.pid != pid or self._store is not store
        return (self._store is not None and self._store.changed()) or other

    def read(self) -> CityStatus:
        """Return the current state; what cannot be read is among its problems."""
        request = {"op": "status", **sender(self._context.environ)}
        answer = send_request(self._root, request) if self._controller.running else None
        if answer is not None and "agents" in answer:
            return _decode_status(answer)
        self._controller.responding = silent_controller(self._root) is None
        self._controller.starting = is_starting(self._root)
        pools = self._read_pools()
        errors = self._open_store()
        snapshot = EMPTY_SNAPSHOT
        try:
            if self._store is not None:
                snapshot = read_store_snapshot(pools, self._store)
        except StoreError as error:
            errors = (store_problem(error),)
        name = self.city.name if self.city is not None else os.path.basename(self._root)
        answer = status_object(name, pools, snapshot, self._controller)
        answer = limited_status(answer, self._store, access(self._context))
        current = _decode_status(answer, (*self._config, *errors))
        current.controller.starting = self._controller.starting
        return current

    def _open_store(self) -> tuple[Problem, ...]:
        try:
            self._store = self._store or self._context.store_if_any()
        except StoreError as error:
            return (store_problem(error),)
        return ()

    def _read_pools(self) -> "list[Pool]":
        """Return every agent's pool with what blocks it on this machine."""
        if self._pools is None:
            from gascity.control.blocked import agent_obstacles
            from gascity.control.run_config import RunConfig

            try:
                self.city = self._context.city()
            except CityError as error:
                self._pools, self._config = [], error.problems
                return self._pools
            run_config = RunConfig(self.city, self._context.environ, machine())
            self._open_store()
            try:
                names = listed_agents(run_config, self._store)
            except StoreError:  # read() reports it
                names = listed_agents(run_config, None)
            self._pools = [
                config.pool._replace(blocked=agent_obstacles(run_config, config))
                for config in map(run_config.agent, names)
                if config
            ]
        return self._pools


_COLUMNS: tuple[Column[AgentStatus], ...] = (
    Column("name", lambda agent: agent.name, "AGENT"),
    Column("live", lambda agent: agent.live, "LIVE"),
    Column("min", lambda agent: agent.min, "MIN"),
    Column("max", lambda agent: agent.max, "MAX"),
    Column("queued", lambda agent: agent.queued, "QUEUED"),
    Column("reason", lambda agent: agent.reason, "REASON", lambda agent: agent.reason),
)


@json_command(
    "status",
    examples=("city status", "city status --watch", "city status --until-idle"),
    page="how-to/controller",
)
@click.option(
    "-w", "--watch", is_flag=True, help="Watch for changes; in a pipe, print one line per change."
)
@click.option(
    "--until-idle", is_flag=True, help="Watch until no work is queued or running, then exit."
)
def status(context: CommandContext, watch: bool, until_idle: bool) -> int:
    """Show controller, queue and session status.

    Works without a controller. Press q to quit the live view.
    """
    if watch or until_idle:
        if context.as_json:
            raise click.UsageError("pass --json or --watch, not both")
        from gascity.cli.status.watch import watch_lines, watch_screen

        capable = context.environ.get("TERM", "dumb") != "dumb"
        terminal = capable and sys.stdout.isatty() and sys.stdin.isatty()
        return (watch_screen if terminal else watch_lines)(context, until_idle)
    if not os.path.exists(f"{context.root}/{CITY_FILE}"):
        context.city()  # raises that there is no city
    reader = StatusReader(context)
    current = reader.read()
    failed = [] if current.unreadable else _failed_work(context)
    context.output(
        lambda: _answer(context, current, failed),
        lambda: _lines(context, current, failed),
        current.problems,
    )
    if reader.city is not None and not context.as_json:
        context.note_errors(reader.city.problems)
    return int(current.unreadable is not None)


def _failed_work(context: CommandContext) -> list[Work]:
    """Return the newest failed work items that the caller may see."""
    store, limits = context.store_if_any(), access(context)
    if store is None:
        return []
    limit = _MOST_FAILED if limits.unlimited else None
    failed = store.list_work(status=(FAILED,), limit=limit)
    return [work for work in failed if limits.sees(work.agent)][:_MOST_FAILED]


def _answer(context: CommandContext, current: CityStatus, failed: Sequence[Work]) -> JsonObject:
    controller = current.controller
    # null, not 0: without the store nobody knows.
    unknown: JsonObject = {"live": None, "queued": None} if current.unreadable else {}
    return {
        "name": current.name,
        "root": context.root,
        "controller": {
            "running": controller.running,
            "responding": controller.responding,
            "pid": controller.pid,
            "since": timestamp(controller.since),
        },
        "agents": [json_row(_COLUMNS, agent) | unknown for agent in current.agents],
        "counts": dict.fromkeys(current.counts) if unknown else dict(current.counts),
        "sessions": [session_row(session, context.root) for session in _not_over(current)],
        "failed": [work_row(work, context.root) for work in failed],
        "decisions": [decision_row(decision) for decision in current.decisions],
        "problems": context.problems_json(current.problems),
    }


def _lines(context: CommandContext, current: CityStatus, failed: Sequence[Work]) -> Iterator[str]:
    text = controller_text(current.controller, time.time())
    yield f"City:       {current.name} ({context.root})"
    outdated = is_outdated(current.controller)
    style = YELLOW if outdated or not current.controller.responding else ""
    yield "Controller: " + styled(text, style, context.colour and bool(style))
    if outdated:
        yield "            older than the installed program; run `city start` to replace it"
    yield f"Work:       {work_counts(current)}"
    if current.unreadable:
        yield "Sessions:   unknown"
        return
    names: dict[str, list[str]] = {}
    for session in _not_over(current):
        names.setdefault(session.state, []).append(session_name(session))
    states = [f"{len(known)} {state} ({_some(known)})" for state, known in names.items()]
    first, *rest = wrap(", ".join(states) or "none", context.width - 12)
    yield f"Sessions:   {first}"
    yield from (f"            {line}" for line in rest)
    busy = [agent for agent in current.agents if not agent.idle]
    if busy:
        yield ""
        yield from context.table(_COLUMNS, busy)
    if failed:
        yield ""
        yield "Failed:"
        yield from context.table(_failed_columns(time.time()), failed)
        if current.counts[FAILED] > len(failed):
            yield f"{current.counts[FAILED] - len(failed)} more: `city work list --status failed`"
    idle = len(current.agents) - len(busy)
    if idle:
        yield ""
        yield f"{plural(idle, 'agent')} idle."


def _failed_columns(now: float) -> tuple[Column[Work], ...]:
    return (
        Column("", lambda work: work.id, "ID"),
        Column("", lambda work: work.agent, "AGENT", shrink=True),
        Column("", lambda work: time_ago(work.updated, now), "AGE"),
        Column("", lambda work: work.title, "TITLE", width=40, shrink=True),
        Column("", lambda work: work.reason, "REASON"),
    )


def _some(names: Sequence[str]) -> str:
    """Return names as a list, the first few if there are many."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _not_over(current: CityStatus) -> list[Session]:
    return [session for session in current.sessions if not is_over(session)]


def controller_text(controller: ControllerState, now: float) -> str:
    """Return whether the controller runs and since when, or how to start it."""
    if not controller.running:
        return "starting" if controller.starting else "not running; run `city start` to start it"
    if not controller.responding:
        return f"not responding (pid {controller.pid}); run `city restart` to replace it"
    age = time_ago(controller.since, now) if controller.since else "now"
    since = "" if age == "now" else f", for {age}"
    return f"running, pid {controller.pid}{since}"


def work_counts(current: CityStatus) -> str:
    """Return the number of work items per status; cancelled ones only if there are any."""
    if current.unreadable:
        return "unknown (the store cannot be read)"
    statuses = [OPEN, CLAIMED, DONE, FAILED]
    statuses += [CANCELLED] if current.counts.get(CANCELLED) else []
    return ", ".join(f"{current.counts[status]} {status_word(status)}" for status in statuses)
