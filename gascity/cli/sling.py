"""`city sling`: queue work for an agent."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, complete_agent, machine
from gascity.cli.fast_sling import (
    FILE,
    FLAG,
    LIST,
    OPTIONS,
    PRIORITIES,
    PRIORITY,
    new_key,
    print_result,
    result_lines,
    sender,
)
from gascity.cli.identity import access, caller
from gascity.cli.output import print_json, print_stderr, print_stdout, text_lines, verbatim
from gascity.cli.wait import start_controller
from gascity.control.client import controller_state, send_request
from gascity.control.permissions import CONTROL
from gascity.model.names import parse_name, unknown_rig
from gascity.model.problems import CityError

if TYPE_CHECKING:
    from gascity.model.work import Work

Command = Callable[..., Any]
_LOG_SLACK = 200  # a log this much longer than the summary was cut


def _sling_options(command: Command) -> Command:
    """Add all options of the shared table to a click command."""
    lowest, highest, default = PRIORITIES
    by_kind: dict[str, dict[str, Any]] = {
        FLAG: {"is_flag": True},
        FILE: {"type": click.Path(dir_okay=False)},
        PRIORITY: {"type": click.IntRange(lowest, highest), "default": default},
        LIST: {"multiple": True},
    }
    for name, kind, metavar, text in reversed(OPTIONS):
        attributes = by_kind.get(kind, {})
        command = click.option(f"--{name}", metavar=metavar or None, help=text, **attributes)(
            command
        )
    return command


@json_command(
    "sling",
    examples=(
        'city sling mayor "fix the login test"',
        "city sling web/builder --file task.md --priority 1",
        "city sling shell 'make test' --wait",
    ),
    page="how-to/work",
)
@click.argument("agent", shell_complete=complete_agent)
@click.argument("text", required=False)
@_sling_options
def sling(
    context: CommandContext,
    agent: str,
    text: str | None,
    stdin: bool,
    file: str | None,
    session: str | None,
    rig: str | None,
    priority: int,
    after: tuple[str, ...],
    anyway: bool,
    wait: bool,
    no_start: bool,
) -> int:
    """Queue work for an agent.

    The work item is stored before the command returns. Quote a text of several words:
    city sling claude "fix the login test"
    """
    request: dict[str, object] = {
        "op": "sling",
        "agent": agent,
        "text": _read_text(text, stdin, file),
        "rig": rig,
        "priority": priority,
        "after": list(after),
        "session": session or "",
        "key": new_key(),
        "anyway": anyway,
        **sender(context.environ),
    }
    first_event = context.store().last_event() if wait else 0
    result = send_request(context.root, request)
    if result is None or "work" not in result:
        result = _enqueue_here(context, request)
        if not no_start:
            start_controller(context)
        if (no_start or caller(context)) and not controller_state(context.root).running:
            from gascity.control.decide.reasons import no_controller

            result["blocked_by"].append(no_controller()._asdict())
    if not wait:
        print_result(result, context.as_json)
        return 0
    if not context.as_json:
        print_stderr(*result_lines(result))
    return _wait(context, result, not no_start and access(context).has(CONTROL), first_event)


def _read_text(text: str | None, stdin: bool, file: str | None) -> str:
    if sum((text is not None, stdin, file is not None)) != 1:
        raise click.UsageError("give the text once: as TEXT, with --stdin or with --file")
    if stdin:
        return _decode(sys.stdin.buffer.read(), "<stdin>")
    if file is not None:
        with open(file, "rb") as source:
            return _decode(source.read(), file)
    return text or ""


def _decode(data: bytes, name: str) -> str:
    """Decode UTF-8; CityError otherwise, because the text is shown and passed on as text."""
    from gascity.source.disk import bad_utf8

    problem = bad_utf8(data, name)
    if problem is not None:
        raise CityError(problem)
    return data.decode().replace("\r\n", "\n")


def _enqueue_here(context: CommandContext, request: dict[str, object]) -> dict[str, Any]:
    """Enqueue without a controller, and compute the reply that it would have sent."""
    from gascity.control.enqueue import SlingRequest, sling
    from gascity.control.run_config import RunConfig

    if caller(context) is not None:
        city = context.city()  # the settings of the sending agent are needed, too
    else:
        name, rig = parse_name(str(request["agent"])), request["rig"]
        try:
            city, _ = context.agent(str(name.in_rig(str(rig)) if rig else name))
        except CityError:
            known = [rig.name for rig in context.city().rigs] if rig else []
            if rig and rig not in known:
                raise CityError(unknown_rig(str(rig), known)) from None
            raise
    run_config = RunConfig(city, context.environ, machine())
    wanted = SlingRequest.of(request, caller(context))
    return sling(run_config, context.store(), wanted, time.time()).as_object()


def _wait(
    context: CommandContext, result: dict[str, Any], start_controller: bool, first_event: int
) -> int:
    """Wait for the enqueued item and print its result; exit code 0 if it is done."""
    from gascity.cli.wait import WorkWaiter
    from gascity.model.work import DONE, status_word

    id = str(result["work"])
    cancel = f"to cancel: `city work cancel {id}`"
    try:
        work, blocked = WorkWaiter(context, id, start_controller, first_event).wait()
    except KeyboardInterrupt:
        print_stderr(f"{id} is still queued or running ({cancel})")
        raise
    status = status_word(work.status)
    if context.as_json:
        answer = {**result, "session": work.session or None, "status": work.status}
        answer |= {"blocked_by": [blocked._asdict()]} if blocked else {}
        answer["result"] = work.result._asdict() if work.result is not None else None
        print_json(answer)
    elif blocked is not None:
        print_stdout(f"{id} {status}, blocked: {blocked.message} [{blocked.code}]")
        print_stderr(f"{id} stays {status} until this is fixed ({cancel})")
    else:
        summary = work.result.summary if work.result else ""
        reason = work.reason if work.status != DONE and work.reason != summary else ""
        print_stdout(f"{id} {status}" + (f": {reason}" if reason else ""))
        if summary:
            print_stdout(*map(verbatim, text_lines(summary)))
        if _is_cut(context, work, summary):
            print_stderr(f"output truncated; full log: `city work logs {id}`")
    return 0 if work.status == DONE else 1


def _is_cut(context: CommandContext, work: "Work", summary: str) -> bool:
    """Return whether the summary is only the end of the log. A model's answer is never cut."""
    if not summary or not work.log:
        return False
    from gascity.cli.session.logs import logs_of_work

    logs = logs_of_work(context, work)
    longer = (logs.size(work.log) or 0) > len(summary) + _LOG_SLACK
    return longer and logs.tail(work.log, 1).strip() == summary.splitlines()[-1].strip()
