"""`city status`: is a controller running, who works, what waits, and why."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.output import YELLOW, ago, moment, paint, table
from gascity.cli.problems import problems_json
from gascity.cli.session_rows import session_row
from gascity.cli.status_look import AgentRow, Look, Lookout
from gascity.control.client import ControllerState
from gascity.control.inspect import is_over
from gascity.model.work import CANCELLED, CLAIMED, DONE, FAILED, OPEN
from gascity.places import MARK


@click.command()
@click.option("--watch", is_flag=True, help="Show it live; in a pipe, a line for every change.")
@click.option("--until-idle", is_flag=True, help="Watch until no work waits or runs, then end.")
@json_option
@pass_context
def status(context: Context, watch: bool, until_idle: bool) -> int:
    """Show how the city stands: its controller, its agents' sessions, and the work.

    Works without a controller too. In the live view, q quits.
    """
    if watch or until_idle:
        if context.as_json:
            raise click.UsageError("--json shows one moment: leave --watch out")
        from gascity.cli.status_watch import watch_lines, watch_screen

        able = context.environ.get("TERM", "dumb") != "dumb"
        terminal = able and sys.stdout.isatty() and sys.stdin.isatty()
        return (watch_screen if terminal else watch_lines)(context, until_idle)
    if not os.path.exists(f"{context.root}/{MARK}"):
        context.city()  # says that there is none
    lookout = Lookout(context)
    found = lookout.look()
    context.say(lambda: _answer(context, found), lambda: _lines(context, found))
    if not context.as_json:
        context.print_problems(found.problems)
        context.mention(lookout.city.problems if lookout.city else ())
    return int(any(problem.code.startswith("store-") for problem in found.problems))


def _answer(context: Context, found: Look) -> dict[str, object]:
    controller = found.controller
    return {
        "controller": {
            "running": controller.running,
            "pid": controller.pid,
            "since": moment(controller.since),
        },
        "agents": [
            {
                "name": one.name,
                "live": one.live,
                "min": one.least,
                "max": one.most,
                "queued": one.queued,
                "reason": one.reason,
            }
            for one in found.agents
        ],
        "counts": dict(found.counts),
        "sessions": [session_row(one, context.root) for one in found.sessions if not is_over(one)],
        "decisions": [{**one._asdict(), "at": moment(one.at)} for one in found.decisions],
        "problems": problems_json(found.problems, context.locator()),
    }


def _lines(context: Context, found: Look) -> Iterator[str]:
    now = time.time()
    words = controller_words(found.controller, now)
    yield "Controller: " + paint(words, YELLOW, context.colour and not found.controller.running)
    yield f"Work:       {work_words(found)}"
    states = Counter(one.state for one in found.sessions if not is_over(one))
    yield "Sessions:   " + (", ".join(f"{n} {state}" for state, n in states.items()) or "none")
    rows = [_row(one) for one in found.agents if not one.quiet]
    if rows:
        yield ""
        yield from table(rows, ("AGENT", "LIVE", "MIN", "MAX", "QUEUED", "REASON"), context.width)
    quiet = sum(one.quiet for one in found.agents)
    if quiet:
        others = "other " if rows else ""
        yield ""
        yield f"{quiet} {others}agent{'s have' if quiet > 1 else ' has'} nothing to do."


def controller_words(controller: ControllerState, now: float) -> str:
    """Whether one runs, since when, and what to do if none does."""
    if not controller.running:
        return "not running; `city start` starts it"
    age = ago(controller.since, now) if controller.since else "now"
    since = "" if age == "now" else f", for {age}"
    return f"running, pid {controller.pid}{since}"


def work_words(found: Look) -> str:
    """How much work there is; what was cancelled only if something was."""
    told = [f"{found.counts[kind]} {kind}" for kind in (OPEN, CLAIMED, DONE, FAILED)]
    cancelled = found.counts.get(CANCELLED)
    return ", ".join([*told, f"{cancelled} {CANCELLED}"] if cancelled else told)


def _row(one: AgentRow) -> list[str]:
    most = "-" if one.most is None else str(one.most)
    return [one.name, str(one.live), str(one.least), most, str(one.queued), one.reason]
