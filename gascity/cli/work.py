"""`city work`: list, show and finish work items."""

import time
from collections.abc import Iterator

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.identity import access, actor, caller, held_work
from gascity.cli.output import (
    display_path,
    fact_lines,
    plural,
    print_stderr,
    text_lines,
    time_ago,
    timestamp,
)
from gascity.cli.problems import city_error
from gascity.cli.records import LABEL, find_work, state_facts, whole_row, work_row, work_table
from gascity.cli.session.find import find_agent_name
from gascity.control.callers import Caller
from gascity.control.client import controller_state
from gascity.model.names import parse_name, unknown_rig
from gascity.model.problems import CityError
from gascity.model.work import (
    CANCELLED,
    CLAIMED,
    DONE,
    FAILED,
    FINISHED,
    OPEN,
    Work,
    WorkResult,
    status_word,
)

_PAGE = "how-to/work"
_LISTED = 50
_STATUSES = {status_word(status): status for status in (OPEN, CLAIMED, *FINISHED)}


@json_command(
    "list",
    examples=(
        "city work list",
        "city work list --agent mayor --status queued",
        "city work list --limit 10 --json",
    ),
    page=_PAGE,
)
@agent_option()
@click.option("--rig", metavar="NAME", help="Filter by rig.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    metavar="STATUS",
    type=click.Choice((*_STATUSES, OPEN, CLAIMED)),
    help=f"Filter by status, repeatable: {', '.join(_STATUSES)}.",
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Show at most N items.")
def list_work(
    context: CommandContext,
    agent: str | None,
    rig: str | None,
    statuses: tuple[str, ...],
    limit: int | None,
) -> int:
    """List work items, newest first.

    Without --json, shows the newest 50.
    """
    most = limit or (None if context.as_json else _LISTED)
    wanted = tuple(_STATUSES.get(status, status) for status in statuses)
    items = _select(context, agent, rig, wanted, None if most is None else most + 1)
    listed = items[:most]
    context.output(
        lambda: {"work": [work_row(item, context.root) for item in listed]},
        lambda: work_table(context, listed),
    )
    if len(items) > len(listed) and limit is None:
        print_stderr(f"note: showing the newest {most} items (--limit N shows more)")
    return 0


def _select(
    context: CommandContext,
    agent: str | None,
    rig: str | None,
    statuses: tuple[str, ...],
    most: int | None,
) -> list[Work]:
    store = context.store_if_any()
    name = find_agent_name(context, agent) if agent is not None else None
    seen = access(context)
    # The store knows neither rigs nor what a session may see.
    limit = most if rig is None and seen.unlimited else None
    items = store.list_work(agent=name, status=statuses, limit=limit) if store else []
    items = [item for item in items if seen.sees(item.agent)]
    if rig is not None:
        items = [item for item in items if parse_name(item.agent).rig == rig]
        known = [rig] if items else [known.name for known in context.city().rigs]
        if rig not in known:
            raise CityError(unknown_rig(rig, known))
    return items[:most]


@json_command("show", examples=("city work show w-1", "city work show w-1 --json"), page=_PAGE)
@click.argument("id", metavar="WORK")
def show_work(context: CommandContext, id: str) -> int:
    """Show a work item."""
    item = find_work(context, id)
    return context.output(
        lambda: {"work": [whole_row(item, context.root, context.store())]},
        lambda: _show_lines(context, item),
    )


def _show_lines(context: CommandContext, work: Work) -> Iterator[str]:
    """Yield everything about one work item, its text last."""
    commits = f" ({plural(work.commits, 'commit')})" if work.commits else ""
    age = time_ago(work.created, time.time())
    facts = [
        ("Work", work.id),
        ("Title", work.title),
        ("Agent", work.agent),
        *state_facts(work, context.store()),
        ("Priority", str(work.priority)),
        ("Created", f"{timestamp(work.created)} ({age})"),
        ("Branch", f"{work.branch}{commits}" if work.branch else ""),
        ("Directory", display_path(context.root, work.workdir)),
        ("Log", display_path(context.root, work.log)),
        *_result_facts(work.result),
    ]
    yield from fact_lines(facts, LABEL, context.width, "Work", context.colour)
    if work.body.strip() and work.body.strip() != work.title.strip():
        yield ""
        yield from text_lines(work.body)


def _result_facts(result: WorkResult | None) -> Iterator[tuple[str, str]]:
    if result is not None:
        yield "Result", result.summary
        yield "Exit code", "" if result.exit_code is None else str(result.exit_code)
        yield "Cost", "" if result.cost is None else f"${result.cost:.2f}"


@json_command(
    "done", examples=("city work done w-1", "city work done --summary 'tests pass'"), page=_PAGE
)
@click.argument("id", metavar="[WORK]", required=False)
@click.option("--summary", metavar="TEXT", default="", help="Summary of the result.")
def done(context: CommandContext, id: str | None, summary: str) -> int:
    """Mark a work item as done.

    Inside a session, WORK defaults to the session's item; a session can finish no
    other.
    """
    return _finish(context, id, DONE, WorkResult(summary=summary), "")


@json_command("fail", examples=("city work fail w-1 --reason 'no access to the API'",), page=_PAGE)
@click.argument("id", metavar="[WORK]", required=False)
@click.option("--reason", metavar="TEXT", default="", help="Reason to record.")
def fail(context: CommandContext, id: str | None, reason: str) -> int:
    """Mark a work item as failed.

    Inside a session, WORK defaults to the session's item; a session can finish no
    other.
    """
    return _finish(context, id, FAILED, WorkResult(summary=reason), reason)


@json_command("cancel", examples=("city work cancel w-1",), page=_PAGE)
@click.argument("id", metavar="WORK")
@click.option("--reason", metavar="TEXT", default="", help="Reason to record.")
def cancel(context: CommandContext, id: str, reason: str) -> int:
    """Cancel a work item and stop it if it runs."""
    return _finish(context, id, CANCELLED, None, reason)


def _finish(
    context: CommandContext, id: str | None, status: str, result: WorkResult | None, why: str
) -> int:
    who = caller(context)
    item = find_work(context, id or _own_work(context, who))
    mine = who is not None and (item.session, item.generation) == who.token
    if not mine:
        access(context).check_owner(item.agent, "", item.id)
    if item.status == status:
        return _answer(context, item, f"{item.id} is already {status}")
    if item.status in FINISHED:
        raise _already_finished(item)
    reason = why or ("set by its session" if mine else "set by user" if who is None else "")
    reason = reason or f"set by session {who.session if who else ''}"
    finished = context.store().finish(
        item.id,
        status,
        result,
        time.time(),
        token=who.token if who is not None and mine else None,
        reason=reason,
        actor=actor(who),
    )
    return _answer(context, finished, f"{finished.id} is {status}")


def _own_work(context: CommandContext, who: Caller | None) -> str:
    """Return the session's current work item, else the one it was started with."""
    if who is None:
        raise click.UsageError("missing WORK; run `city work list` to see the work items")
    current = held_work(context, who)
    if current is None and not who.work:
        message = "this session has no work item"
        raise city_error("no-work", message, "run `city hook --claim` to claim the next one")
    return current.id if current is not None else who.work


def _already_finished(item: Work) -> CityError:
    message = f"{item.id} is {item.status}" + (f": {item.reason}" if item.reason else "")
    again = f"run `city work retry {item.id}` to queue it again"
    hint = "run `city sling` to queue new work" if item.status == DONE else again
    return city_error("already-settled", message, hint)


@json_command("retry", examples=("city work retry w-1",), page=_PAGE)
@click.argument("id", metavar="WORK")
def retry(context: CommandContext, id: str) -> int:
    """Queue a failed or cancelled work item again.

    An item that waits for its next attempt starts at once.
    """
    item = find_work(context, id)
    if item.status == DONE:
        raise _already_finished(item)
    if item.status == CLAIMED:
        message = f"{item.id} is running in session {item.session}"
        raise city_error("still-running", message, f"run `city work cancel {item.id}` to stop it")
    who = caller(context)
    by = "user" if who is None else f"session {who.session}"
    queued = context.store().reopen(
        item.id, time.time(), token=None, reason=f"retried by {by}", actor=actor(who)
    )
    if not controller_state(context.root).running:
        print_stderr("note: the controller is not running; run `city start` to start it")
    return _answer(context, queued, f"{queued.id} is queued again")


def _answer(context: CommandContext, item: Work, line: str) -> int:
    return context.output(lambda: {"work": [work_row(item, context.root)]}, lambda: [line])


work = LazyGroup(
    "work",
    (list_work, show_work, done, fail, retry, cancel),
    commands_at={
        "logs": ("gascity.cli.session.logs", "work_logs", "Show the log of a work item's last run.")
    },
    help="List and manage work items.",
    page=_PAGE,
)
