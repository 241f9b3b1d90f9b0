"""`city sling`: queue work for an agent."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from gascity.cli.command import json_command
from gascity.cli.completers import complete_rig, complete_work
from gascity.cli.context import CommandContext, complete_agent, machine
from gascity.cli.fast_sling import (
    FILE,
    FLAG,
    LIST,
    MANY,
    OPTIONS,
    PAIRS,
    PRIORITIES,
    PRIORITY,
    TIME,
    new_key,
    print_result,
    result_lines,
    send_with_environment,
    sender,
)
from gascity.cli.identity import access, caller
from gascity.cli.output import (
    display_path,
    plural,
    print_json,
    print_stderr,
    print_stdout,
    text_lines,
    verbatim,
)
from gascity.cli.session.find import complete_session
from gascity.cli.wait import WorkWaiter, start_controller
from gascity.control.client import controller_state, silent_controller
from gascity.model.capabilities import CONTROL
from gascity.model.names import parse_name, unknown_rig
from gascity.model.problems import CityError, Problem
from gascity.model.values import JsonObject

if TYPE_CHECKING:
    from gascity.control.decide.types import Blocked
    from gascity.control.enqueue import SlingResult
    from gascity.control.run_config import RunConfig
    from gascity.model.work import Work

Command = Callable[..., Any]
_MOST_COMMITS = 10  # commits and files listed at the end of --wait
_SHORT = 8  # characters of a commit's id
_LOG_SLACK = 200  # a log this much longer than the summary was cut


def _parse_time(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    from gascity.model.values import parse_duration

    seconds = parse_duration(text)
    if text is not None and not seconds:
        raise click.BadParameter(f"`{text}` is not a duration; write 90s, 10m or 1h30m")
    return seconds


def _parse_context(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    if wrong := [pair for pair in pairs if "=" not in pair]:
        raise click.BadParameter(f"`{wrong[0]}` is not KEY=VALUE")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def _sling_options(command: Command) -> Command:
    """Add all options of the shared table to a click command."""
    lowest, highest, default = PRIORITIES
    by_kind: dict[str, dict[str, Any]] = {
        FLAG: {"is_flag": True},
        FILE: {"type": click.Path(dir_okay=False)},
        PRIORITY: {"type": click.IntRange(lowest, highest), "default": default},
        LIST: {"multiple": True},
        TIME: {"callback": _parse_time},
        PAIRS: {"multiple": True, "callback": _parse_context},
    }
    by_name: dict[str, dict[str, Any]] = {
        "rig": {"shell_complete": complete_rig},
        "session": {"shell_complete": complete_session},
        "after": {"shell_complete": complete_work},
        "on": {"shell_complete": complete_work},
    }
    for name, kind, metavar, text in reversed(OPTIONS):
        attributes = {**by_kind.get(kind, {}), **by_name.get(name, {})}
        variable = {MANY: "source", PAIRS: "context_pairs"}.get(kind)
        names = (f"--{name}", variable) if variable else (f"--{name}",)
        command = click.option(*names, metavar=metavar or None, help=text, **attributes)(command)
    return command


@json_command(
    "sling",
    examples=(
        "city sling mayor fix the login test",
        "city sling web/builder --file task.md --priority 1",
        "city sling shell 'make test' --wait --timeout 10m",
        'city sling reviewer "review the change" --on w-3',
        "city sling builder --from tasks.jsonl",
        "city sling @reviewer 'look at this' --context branch=main",
    ),
    page="how-to/work",
)
@click.argument("agent", shell_complete=complete_agent)
@click.argument("words", nargs=-1, metavar="[TEXT]...")
@_sling_options
def sling(
    context: CommandContext,
    agent: str,
    words: tuple[str, ...],
    stdin: bool,
    file: str | None,
    source: str | None,
    session: str | None,
    rig: str | None,
    priority: int,
    after: tuple[str, ...],
    on: str | None,
    context_pairs: dict[str, str],
    anyway: bool,
    wait: bool,
    timeout: float | None,
    no_reflection: bool,
    no_start: bool,
) -> int:
    """Queue work for an agent.

    The work item is stored before the command returns. Several words are joined. With
    --from, each line is an item: its text, or a JSON object with title, text,
    priority, after and on. All items are stored, or none.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait")
    text = " ".join(words) if words else None
    request: JsonObject = {
        "op": "sling",
        "agent": agent.removeprefix("@"),
        "text": "" if source is not None else _read_text(text, stdin, file, context_pairs),
        "rig": rig,
        "directory": context.cwd,
        "priority": priority,
        "after": list(after),
        "session": session or "",
        "key": new_key(),
        "anyway": anyway,
        "on": on or "",
        "wait": wait,
        "no_reflection": no_reflection,
        **sender(context.environ),
    }
    if source is not None:
        if text is not None or stdin or file is not None or wait:
            raise click.UsageError("--from takes neither a text nor --stdin, --file or --wait")
        return _sling_many(context, request, source, no_start)
    first_event = context.store().last_event() if wait else 0
    result = _enqueue(context, request, no_start)
    if not wait:
        print_result(result, context.as_json)
        return 0
    if not context.as_json:
        print_stderr(*result_lines(result))
    may_start = not no_start and access(context).has(CONTROL)
    waiter = WorkWaiter(context, str(result["work"]), may_start, first_event, timeout)
    return _wait(context, result, waiter)


def _enqueue(context: CommandContext, request: JsonObject, no_start: bool) -> JsonObject:
    """Enqueue through the controller; here if none answers, and start one unless told not to."""
    reply: JsonObject | None = send_with_environment(context.root, request, context.environ)
    if reply is not None and "work" in reply:
        return reply
    result = _enqueue_here(context, request)
    if not no_start:
        start_controller(context)
    return result.as_object(_controller_obstacles(context, no_start))


def _sling_many(context: CommandContext, request: JsonObject, source: str, no_start: bool) -> int:
    """Queue an item for each line of a file, in one transaction."""
    from gascity.control.enqueue import SlingRequest, sling_all
    from gascity.control.work_lines import read_work_lines

    name = "<stdin>" if source == "-" else source
    if source == "-":
        data = sys.stdin.buffer.read()
    else:
        with open(context.path(source), "rb") as file:
            data = file.read()
    text = _decode(data, name)
    context.draft_texts = {name: text}
    items = read_work_lines(text, name, SlingRequest.of(request, caller(context)))
    results = sling_all(_run_config(context, request), context.store(), items, time.time())
    if not no_start:
        start_controller(context)
    obstacles = _controller_obstacles(context, no_start)
    rows = [result.as_object(obstacles) for result in results]
    return context.output(
        {"items": rows}, lambda: [line for row in rows for line in result_lines(row)]
    )


def _controller_obstacles(context: CommandContext, no_start: bool) -> list[dict[str, str]]:
    """Return why no controller takes the item soon, in JSON: none is running, or it is hung."""
    from gascity.control.decide.reasons import controller_hung, no_controller

    pid = silent_controller(context.root)
    if pid is not None:
        return [controller_hung(pid)._asdict()]
    running = controller_state(context.root).running
    expected = not (no_start or caller(context))  # it was started, and may not be running yet
    return [] if running or expected else [no_controller()._asdict()]


def _read_text(text: str | None, stdin: bool, file: str | None, context: dict[str, str]) -> str:
    """Return the text from its one source, after its context line."""
    if sum((text is not None, stdin, file is not None)) != 1:
        raise click.UsageError("give the text once: as TEXT, with --stdin or with --file")
    if stdin:
        text = _decode(sys.stdin.buffer.read(), "<stdin>")
    elif file is not None:
        with open(file, "rb") as source:
            text = _decode(source.read(), file)
    if not context or not (text or "").strip():
        return text or ""  # an empty text is reported, also after a context line
    from gascity.control.message_context import with_context

    return with_context(text or "", context)


def _decode(data: bytes, name: str) -> str:
    """Decode UTF-8; CityError otherwise, because the text is shown and passed on as text."""
    from gascity.source.disk import bad_utf8

    problem = bad_utf8(data, name)
    if problem is not None:
        raise CityError(problem)
    return data.decode().replace("\r\n", "\n")


def _enqueue_here(context: CommandContext, request: JsonObject) -> "SlingResult":
    """Enqueue without a controller."""
    from gascity.control.enqueue import SlingRequest, sling

    run_config = _run_config(context, request)
    wanted = SlingRequest.of(request, caller(context))
    return sling(run_config, context.store(), wanted, time.time())


def _run_config(context: CommandContext, request: JsonObject) -> "RunConfig":
    """Load what decides about a request: one agent, or the city if a session sends it."""
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
    return RunConfig(city, context.environ, machine())


def _wait(context: CommandContext, result: JsonObject, waiter: WorkWaiter) -> int:
    """Wait for the enqueued item and print its result; exit code 0 if it is done."""
    from gascity.model.work import DONE, FINISHED, status_word

    id = str(result["work"])
    cancel = f"to cancel: `city work cancel {id}`"
    try:
        work, blocked = waiter.wait()
    except KeyboardInterrupt:
        print_stderr(f"{id} is still queued or running ({cancel})")
        if not context.as_json:
            raise
        # The item exists, so a program needs its id as well as the reason for the exit code.
        interrupted = context.problems_json([Problem("interrupted", "interrupted", None, cancel)])
        print_json({**_finished(context, result, waiter.work(), None), "problems": interrupted})
        return 130  # as for every interrupted command
    status = status_word(work.status)
    if context.as_json:
        print_json(_finished(context, result, work, blocked))
    elif blocked is not None:
        print_stdout(f"{id} {status}, blocked: {blocked.message} [{blocked.code}]")
        print_stderr(f"{id} stays {status} until this is fixed ({cancel})")
    elif work.status not in FINISHED:
        print_stdout(f"{id} is still {status}")
        print_stderr(cancel)
    else:
        summary = work.result.summary if work.result else ""
        reason = work.reason if work.status != DONE and work.reason != summary else ""
        print_stdout(f"{id} {status}" + (f": {reason}" if reason else ""))
        if summary:
            print_stdout(*map(verbatim, text_lines(summary)))
        if _is_cut(context, work, summary):
            print_stderr(f"output truncated; full log: `city work logs {id}`")
        print_stderr(*_branch_lines(context, work))
    return 0 if work.status == DONE else 1


def _finished(
    context: CommandContext, result: JsonObject, work: "Work", blocked: "Blocked | None"
) -> JsonObject:
    """Return the reply to the request with the current state of the item, for JSON."""
    answer = {**result, "session": work.session or None, "status": work.status}
    answer |= {"blocked_by": [blocked._asdict()]} if blocked else {}
    answer["result"] = work.result._asdict() if work.result is not None else None
    answer["workdir"] = display_path(context.root, work.workdir) or None
    answer |= {"branch": work.branch or None, "commits": work.commits}
    return answer


def _branch_lines(context: CommandContext, work: "Work") -> Iterator[str]:
    """Yield where the changes of an item in a repository are, and what to do with them."""
    if not work.branch:
        return
    from gascity.git import GitError
    from gascity.workdir.merge import commits_between
    from gascity.workdir.session_directory import uncommitted

    yield f"Directory: {display_path(context.root, work.workdir)}"
    yield f"Branch: {work.branch} ({plural(work.commits, 'commit')})"
    try:
        ref = f"refs/heads/{work.branch}"
        commits = commits_between(work.workdir, work.base, ref, context.environ)
        files = uncommitted(context.root, work.workdir, context.environ)
    except GitError:  # another item or the user has changed it meanwhile
        return
    shown = commits[:_MOST_COMMITS]
    yield from (f"  {commit.id[:_SHORT]} {commit.subject}" for commit in shown)
    if len(commits) > len(shown):
        yield f"  … and {len(commits) - len(shown)} more"
    if files:
        yield f"Not committed: {', '.join(files[:_MOST_COMMITS])}"
    if commits:
        yield f"Next: city work diff {work.id}, then city work merge {work.id}"
    elif files:
        yield f"Next: city work open {work.id}"


def _is_cut(context: CommandContext, work: "Work", summary: str) -> bool:
    """Return whether the summary is only the end of the log. A model's answer is never cut."""
    if not summary or not work.log:
        return False
    from gascity.cli.session.logs import logs_of_work

    logs = logs_of_work(context, work)
    longer = (logs.size(work.log) or 0) > len(summary) + _LOG_SLACK
    return longer and logs.tail(work.log, 1).strip() == summary.splitlines()[-1].strip()
