"""`city sling`: work handed to an agent."""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from gascity.cli.context import Context, complete_agent, json_option, machine, pass_context
from gascity.cli.control import launch_and_wait
from gascity.cli.output import complain, say, to_json
from gascity.control.client import ask, controller_state, ensure_controller
from gascity.model.names import parse_name
from gascity.model.problems import CityError, Problem
from gascity.model.work import DONE, SETTLED, Work
from gascity.slung import lines, new_key, tell

_LOOKS = 50  # at the store, between two at whether there is a controller
_MORE = 200  # bytes of a log beyond what is told of it


@click.command()
@click.argument("agent", shell_complete=complete_agent)
@click.argument("text", required=False)
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the text from standard input.")
@click.option("--file", type=click.Path(dir_okay=False), help="Read the text from a file.")
@click.option("--session", metavar="WHICH", help="latest, create, latest-or-create, or a session.")
@click.option("--rig", metavar="RIG", help="The rig to work in.")
@click.option(
    "--priority", type=click.IntRange(0, 4), default=2, help="0 is most urgent; 2 is usual."
)
@click.option("--after", multiple=True, metavar="WORK", help="Only when this is done.")
@click.option("--wait", is_flag=True, help="Come back when it is settled.")
@click.option("--no-start", is_flag=True, help="Start no controller if none runs.")
@json_option
@pass_context
def sling(
    context: Context,
    agent: str,
    text: str | None,
    from_stdin: bool,
    file: str | None,
    session: str | None,
    rig: str | None,
    priority: int,
    after: tuple[str, ...],
    wait: bool,
    no_start: bool,
) -> int:
    """Hand AGENT something to do. It is kept before this returns, whatever happens then.

    Several words need quotes: city sling claude "fix the login test"
    """
    body = _text(text, from_stdin, file)
    request: dict[str, object] = {
        "op": "sling",
        "agent": agent,
        "text": body,
        "rig": rig,
        "priority": priority,
        "after": list(after),
        "session": session or "",
        "key": new_key(),
    }
    request |= _identity(context)
    slung = ask(context.root, request)
    if slung is None or "work" not in slung:
        slung = _alone(context, request)
        if not no_start:
            ensure_controller(context.root, context.environ)
        elif not controller_state(context.root).running:
            none = {"code": "no-controller", "message": "no controller runs: `city start`"}
            slung["blocked_by"].append(none)
    if not wait:
        tell(slung, context.as_json)
        return 0
    if not context.as_json:
        complain("\n".join(lines(slung)))
    return _await(context, slung, not no_start)


def _text(text: str | None, from_stdin: bool, file: str | None) -> str:
    if sum((text is not None, from_stdin, file is not None)) != 1:
        raise click.UsageError("give the text in one way: as TEXT, with --stdin or with --file")
    if from_stdin:
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    if file is not None:
        with open(file, encoding="utf-8", errors="replace") as source:
            return source.read()
    return text or ""


def _identity(context: Context) -> dict[str, object]:
    """From which session it is slung, if from one."""
    from gascity.cli.identity import caller

    found = caller(context.environ)
    if found is None:
        return {}
    return {"token": [found.session, found.generation], "parent": found.work}


def _alone(context: Context, request: dict[str, object]) -> dict[str, Any]:
    """Keep it without a controller: what one would have said is worked out here."""
    from gascity.control.desk import Desk
    from gascity.control.slinging import Request, sling

    if "token" in request:
        city = context.city()  # who slings has a say in it too
    else:
        named = parse_name(str(request["agent"]))
        city, _ = context.agent(str(named.in_rig(str(request["rig"])) if request["rig"] else named))
    desk = Desk(city, context.environ, machine())
    return sling(desk, context.store(), Request.of(request), time.time()).as_object()


def _await(context: Context, slung: dict[str, object], starts: bool) -> int:
    """Wait until the item is settled, then say what came of it."""
    from gascity.cli.work_rows import result_row

    store = context.store()
    work = store.work(str(slung["work"]))
    try:
        while work is not None and work.status not in SETTLED:
            _pause(context, store.changed, starts)
            work = store.work(work.id)
    except KeyboardInterrupt:
        complain(f"{slung['work']} goes on; `city work cancel {slung['work']}` would end it")
        raise
    if work is None:
        raise CityError(Problem("unknown-work", f"{slung['work']} is gone"))
    if context.as_json:
        ended = {"session": work.session or None, "status": work.status}
        say(to_json({**slung, **ended, "result": result_row(work.result)}))
    else:
        _say_result(work)
    return 0 if work.status == DONE else 1


def _pause(context: Context, changed: Callable[[], bool], starts: bool) -> None:
    """Until somebody writes to the store; who would do the work has to be there meanwhile."""
    for _ in range(_LOOKS):
        if changed():
            return
        time.sleep(0.02)
    if starts and not controller_state(context.root).running:
        launch_and_wait(context)


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
