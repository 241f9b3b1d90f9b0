"""`city status`: controller, queue and sessions, from the controller, else from files and store."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, machine
from gascity.cli.fast_sling import sender
from gascity.cli.identity import access
from gascity.cli.output import YELLOW, Column, T, json_row, plural, styled, time_ago, timestamp
from gascity.cli.records import decision_row, session_row
from gascity.control.client import ControllerState, controller_state, send_request
from gascity.control.status import (
    EMPTY_SNAPSHOT,
    is_over,
    limited_status,
    listed_agents,
    read_store_snapshot,
    status_object,
)
from gascity.model.problems import CityError, Problem
from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    DONE,
    FAILED,
    OPEN,
    Decision,
    Session,
    status_word,
)
from gascity.paths import CITY_FILE
from gascity.store.port import Store, StoreError

if TYPE_CHECKING:
    from gascity.control.decide.types import Pool
    from gascity.model.city import City


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

    controller: ControllerState
    agents: tuple[AgentStatus, ...]
    counts: Mapping[str, int]
    sessions: tuple[Session, ...] = ()
    decisions: tuple[Decision, ...] = ()
    problems: tuple[Problem, ...] = ()


def _decode_status(answer: Mapping[str, Any], problems: Sequence[Problem] = ()) -> CityStatus:
    """Decode a `status_object`, as the controller sends it in JSON."""
    return CityStatus(
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
        pools = self._read_pools()
        errors = self._open_store()
        snapshot = EMPTY_SNAPSHOT
        try:
            if self._store is not None:
                snapshot = read_store_snapshot(pools, self._store)
        except StoreError as error:
            errors = (Problem(error.code, error.message),)
        answer = status_object(pools, snapshot, self._controller)
        answer = limited_status(answer, self._store, access(self._context))
        return _decode_status(answer, (*self._config, *errors))

    def _open_store(self) -> tuple[Problem, ...]:
        try:
            self._store = self._store or self._context.store_if_any()
        except StoreError as error:
            return (Problem(error.code, error.message),)
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
    "--watch", is_flag=True, help="Watch for changes; in a pipe, print one line per change."
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
    context.output(
        lambda: _answer(context, current), lambda: _lines(context, current), current.problems
    )
    if reader.city is not None and not context.as_json:
        context.note_errors(reader.city.problems)
    return int(any(problem.code.startswith("store-") for problem in current.problems))


def _answer(context: CommandContext, current: CityStatus) -> dict[str, object]:
    controller = current.controller
    return {
        "controller": {
            "running": controller.running,
            "pid": controller.pid,
            "since": timestamp(controller.since),
        },
        "agents": [json_row(_COLUMNS, agent) for agent in current.agents],
        "counts": dict(current.counts),
        "sessions": [session_row(session, context.root) for session in _not_over(current)],
        "decisions": [decision_row(decision) for decision in current.decisions],
        "problems": context.problems_json(current.problems),
    }


def _lines(context: CommandContext, current: CityStatus) -> Iterator[str]:
    text = controller_text(current.controller, time.time())
    style = YELLOW if not current.controller.running else ""
    yield "Controller: " + styled(text, style, context.colour and bool(style))
    yield f"Work:       {work_counts(current)}"
    states = Counter(session.state for session in _not_over(current))
    yield "Sessions:   " + (", ".join(f"{n} {state}" for state, n in states.items()) or "none")
    busy = [agent for agent in current.agents if not agent.idle]
    if busy:
        yield ""
        yield from context.table(_COLUMNS, busy)
    idle = len(current.agents) - len(busy)
    if idle:
        yield ""
        yield f"{plural(idle, 'agent')} idle."


def _not_over(current: CityStatus) -> list[Session]:
    return [session for session in current.sessions if not is_over(session)]


def controller_text(controller: ControllerState, now: float) -> str:
    """Return whether the controller runs and since when, or how to start it."""
    if not controller.running:
        return "not running; run `city start` to start it"
    age = time_ago(controller.since, now) if controller.since else "now"
    since = "" if age == "now" else f", for {age}"
    return f"running, pid {controller.pid}{since}"


def work_counts(current: CityStatus) -> str:
    """Return the number of work items per status; cancelled ones only if there are any."""
    statuses = [OPEN, CLAIMED, DONE, FAILED]
    statuses += [CANCELLED] if current.counts.get(CANCELLED) else []
    return ", ".join(f"{current.counts[status]} {status_word(status)}" for status in statuses)
