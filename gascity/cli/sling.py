"""`city sling`: work handed to an agent."""

import sys
import time
from typing import Any

import click

from gascity.cli.context import Context, complete_agent, json_option, machine, pass_context
from gascity.cli.output import complain
from gascity.control.client import ask, controller_state, ensure_controller
from gascity.model.names import parse_name, unknown_rig
from gascity.model.problems import CityError
from gascity.slung import lines, new_key, tell


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
    began = context.store().last_event() if wait else 0
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
    from gascity.cli.sling_wait import wait as wait_for

    return wait_for(context, slung, not no_start, began)


def _text(text: str | None, from_stdin: bool, file: str | None) -> str:
    if sum((text is not None, from_stdin, file is not None)) != 1:
        raise click.UsageError("give the text in one way: as TEXT, with --stdin or with --file")
    if from_stdin:
        return _decoded(sys.stdin.buffer.read(), "<stdin>")
    if file is not None:
        with open(file, "rb") as source:
            return _decoded(source.read(), file)
    return text or ""


def _decoded(data: bytes, name: str) -> str:
    """What is no text is refused: nobody could be told what it says."""
    from gascity.source.disk import bad_utf8

    fault = bad_utf8(data, name)
    if fault is not None:
        raise CityError(fault)
    return data.decode().replace("\r\n", "\n")


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
        named, rig = parse_name(str(request["agent"])), request["rig"]
        try:
            city, _ = context.agent(str(named.in_rig(str(rig)) if rig else named))
        except CityError:
            known = [one.name for one in context.city().rigs] if rig else []
            if rig and rig not in known:
                raise CityError(unknown_rig(str(rig), known)) from None
            raise
    desk = Desk(city, context.environ, machine())
    return sling(desk, context.store(), Request.of(request), time.time()).as_object()
