"""`city status`: controller, queue and sessions."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator

import click

from gascity.cli.command import command
from gascity.cli.context import CommandContext, json_option, pass_context
from gascity.cli.output import (
    YELLOW,
    Column,
    json_row,
    plural,
    styled,
    table_lines,
    time_ago,
    timestamp,
)
from gascity.cli.problems import problems_json
from gascity.cli.session.rows import session_row
from gascity.cli.status.snapshot import AgentStatus, CityStatus, StatusReader
from gascity.cli.work.rows import status_text
from gascity.control.client import ControllerState
from gascity.control.status import is_over
from gascity.model.work import CANCELLED, CLAIMED, DONE, FAILED, OPEN
from gascity.paths import CITY_FILE

_COLUMNS: tuple[Column[AgentStatus], ...] = (
    Column("name", lambda agent: agent.name, "AGENT"),
    Column("live", lambda agent: agent.live, "LIVE"),
    Column("min", lambda agent: agent.minimum, "MIN"),
    Column("max", lambda agent: agent.maximum, "MAX"),
    Column("queued", lambda agent: agent.queued, "QUEUED"),
    Column("reason", lambda agent: agent.reason, "REASON", lambda agent: agent.reason),
)


@command(
    examples=(
        "city status",
        "city status --watch",
        "city status --until-idle",
    ),
    page="how-to/controller",
)
@click.option(
    "--watch", is_flag=True, help="Watch for changes; in a pipe, print one line per change."
)
@click.option(
    "--until-idle", is_flag=True, help="Watch until no work is queued or running, then exit."
)
@json_option
@pass_context
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
    context.output(lambda: _answer(context, current), lambda: _lines(context, current))
    if not context.as_json:
        context.print_problems(current.problems)
        context.note_errors(reader.city.problems if reader.city else ())
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
        "sessions": [
            session_row(session, context.root)
            for session in current.sessions
            if not is_over(session)
        ],
        "decisions": [
            {**decision._asdict(), "at": timestamp(decision.at)} for decision in current.decisions
        ],
        "problems": problems_json(current.problems, context.locator()),
    }


def _lines(context: CommandContext, current: CityStatus) -> Iterator[str]:
    text = controller_text(current.controller, time.time())
    style = YELLOW if not current.controller.running else ""
    yield "Controller: " + styled(text, style, context.colour and bool(style))
    yield f"Work:       {work_counts(current)}"
    states = Counter(session.state for session in current.sessions if not is_over(session))
    yield "Sessions:   " + (", ".join(f"{n} {state}" for state, n in states.items()) or "none")
    busy = [agent for agent in current.agents if not agent.idle]
    if busy:
        yield ""
        yield from table_lines(_COLUMNS, busy, context.width, context.colour)
    idle = len(current.agents) - len(busy)
    if idle:
        yield ""
        yield f"{plural(idle, 'agent')} idle."


def controller_text(controller: ControllerState, now: float) -> str:
    """Return whether the controller runs and since when, or how to start it."""
    if not controller.running:
        return "not running; run `city start` to start it"
    age = time_ago(controller.since, now) if controller.since else "now"
    since = "" if age == "now" else f", for {age}"
    return f"running, pid {controller.pid}{since}"


def work_counts(current: CityStatus) -> str:
    """Return the number of work items per status; cancelled ones only if there are any."""
    counts = [
        f"{current.counts[status]} {status_text(status)}"
        for status in (OPEN, CLAIMED, DONE, FAILED)
    ]
    cancelled = current.counts.get(CANCELLED)
    return ", ".join([*counts, f"{cancelled} {CANCELLED}"] if cancelled else counts)
