"""`city work`: list, show and finish work items."""

import os
import time
from collections.abc import Iterator

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.completers import complete_work, rig_option
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.fast_sling import send_with_environment, sender
from gascity.cli.identity import access, actor, caller, held_work
from gascity.cli.lists import list_options, output_list, read_pages, row_limit
from gascity.cli.output import display_path, plural, print_stderr, text_lines, time_ago, timestamp
from gascity.cli.problems import city_error
from gascity.cli.records import LABEL, find_work, state_facts, whole_row, work_row, work_table
from gascity.cli.session.find import find_agent_name
from gascity.cli.tables import fact_lines
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
    STATUS_OF_WORD,
    Work,
    WorkResult,
)
from gascity.store.port import Store

_PAGE = "how-to/work"


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
@rig_option()
@click.option(
    "--status",
    "statuses",
    multiple=True,
    metavar="STATUS",
    type=click.Choice((*STATUS_OF_WORD, OPEN, CLAIMED)),
    help=f"Filter by status, repeatable: {', '.join(STATUS_OF_WORD)}.",
)
@list_options
def list_work(
    context: CommandContext,
    agent: str | None,
    rig: str | None,
    statuses: tuple[str, ...],
    limit: int | None,
) -> int:
    """List work items, newest first."""
    wanted = tuple(STATUS_OF_WORD.get(status, status) for status in statuses)
    store = context.store_if_any()
    agents = _selected_agents(context, store, agent, rig)
    most = row_limit(context, limit)

    def read(last: Work | None, size: int) -> list[Work]:
        before = last.id if last is not None else ""
        if store is None:
            return []
        return store.list_work(agents=agents, status=wanted, limit=size, before=before)

    items = read_pages(read, most)
    total = store.count_work(agents=agents, status=wanted) if store is not None and most else 0
    return output_list(
        context,
        "work",
        (work_row(item, context.root) for item in items),
        lambda: work_table(context, list(items)),
        max(0, total - (most or 0)),
    )


def _selected_agents(
    context: CommandContext, store: Store | None, agent: str | None, rig: str | None
) -> list[str] | None:
    """Return the agents whose work is listed; None for all.

    The store knows neither rigs nor what a session may see.
    """
    name = find_agent_name(context, agent) if agent is not None else None
    seen = access(context)
    if name is None and rig is None and seen.unlimited:
        return None
    working = store.work_agents() if store is not None else []
    agents = [other for other in working if name in (None, other) and seen.sees(other)]
    if rig is not None:
        agents = [other for other in agents if parse_name(other).rig == rig]
        known = [rig] if agents else [known.name for known in context.city().rigs]
        if rig not in known:
            raise CityError(unknown_rig(rig, known))
    return agents


@json_command("show", examples=("city work show w-1", "city work show w-1 --json"), page=_PAGE)
@click.argument("id", metavar="WORK", shell_complete=complete_work)
def show_work(context: CommandContext, id: str) -> int:
    """Show a work item."""
    item = find_work(context, id)
    return context.output(
        lambda: {
            "work": [
                {
                    **whole_row(item, context.root, context.store()),
                    "branch_exists": _branch_exists(context, item),
                }
            ]
        },
        lambda: _show_lines(context, item),
    )


def _show_lines(context: CommandContext, work: Work) -> Iterator[str]:
    """Yield everything about one work item, its text last."""
    age = time_ago(work.created, time.time())
    facts = [
        ("Work", work.id),
        ("Title", work.title),
        ("Agent", work.agent),
        *state_facts(work, context.store()),
        ("Priority", str(work.priority)),
        ("Created", f"{timestamp(work.created)} ({age})"),
        ("Starts from", work.start_from),
        ("Branch", _branch_text(context, work)),
        ("Directory", _path_text(context, work.workdir)),
        ("Log", _path_text(context, work.log)),
        *_result_facts(work.result),
    ]
    yield from fact_lines(facts, LABEL, context.width, "Work", context.colour)
    if work.body.strip() and work.body.strip() != work.title.strip():
        yield ""
        yield from text_lines(work.body)


def _branch_text(context: CommandContext, work: Work) -> str:
    commits = f" ({plural(work.commits, 'commit')})" if work.commits else ""
    gone = " (deleted)" if _branch_exists(context, work) is False else ""
    return f"{work.branch}{gone or commits}" if work.branch else ""


def _branch_exists(context: CommandContext, work: Work) -> bool | None:
    """Return whether the item's branch still exists; None without a branch or a repository."""
    from gascity import git

    if not work.branch:
        return None
    repository: str | None = work.workdir
    if not repository or not os.path.isdir(repository):
        name = parse_name(work.agent).rig
        repository = next((rig.path for rig in context.city().rigs if rig.name == name), None)
    if not repository or not os.path.isdir(repository):
        return None
    try:
        return bool(git.commit_of(repository, f"refs/heads/{work.branch}", context.environ))
    except git.GitError:
        return None


def _path_text(context: CommandContext, path: str) -> str:
    shown = display_path(context.root, path)
    return shown if not path or os.path.lexists(path) else f"{shown} (deleted)"


def _result_facts(result: WorkResult | None) -> Iterator[tuple[str, str]]:
    if result is not None:
        yield "Result", result.summary
        yield "Exit code", "" if result.exit_code is None else str(result.exit_code)
        yield "Cost", "" if result.cost is None else f"${result.cost:.2f}"


@json_command(
    "done", examples=("city work done w-1", "city work done --summary 'tests pass'"), page=_PAGE
)
@click.argument("id", metavar="[WORK]", required=False, shell_complete=complete_work)
@click.option("--summary", metavar="TEXT", default="", help="Summary of the result.")
def done(context: CommandContext, id: str | None, summary: str) -> int:
    """Mark a work item as done.

    Inside a session, WORK defaults to the session's item; a session can finish no
    other.
    """
    return _finish(context, id, DONE, WorkResult(summary=summary), "")


@json_command(
    "fail",
    examples=("city work fail w-1 --reason 'no access to the API'", "city work fail w-1"),
    page=_PAGE,
)
@click.argument("id", metavar="[WORK]", required=False, shell_complete=complete_work)
@click.option("--reason", metavar="TEXT", default="", help="Reason to record.")
def fail(context: CommandContext, id: str | None, reason: str) -> int:
    """Mark a work item as failed.

    Inside a session, WORK defaults to the session's item; a session can finish no
    other.
    """
    return _finish(context, id, FAILED, WorkResult(summary=reason), reason)


@json_command(
    "cancel",
    examples=("city work cancel w-1", "city work cancel w-1 --tree --reason 'no longer needed'"),
    page=_PAGE,
)
@click.argument("id", metavar="WORK", shell_complete=complete_work)
@click.option("--reason", metavar="TEXT", default="", help="Reason to record.")
@click.option("--tree", "whole_tree", is_flag=True, help="Also cancel what was delegated from it.")
def cancel(context: CommandContext, id: str, reason: str, whole_tree: bool) -> int:
    """Cancel a work item and stop it if it runs."""
    if not whole_tree:
        return _finish(context, id, CANCELLED, None, reason)
    from gascity.control.delegation import descendants

    item, store, now = find_work(context, id), context.store(), time.time()
    access(context).check_owner(item.agent, "", item.id)
    why, by = reason or f"cancelled with {item.id}", actor(caller(context))
    with store.transaction():
        items = [item, *descendants(store, item)]
        cancelled = [
            store.finish(each.id, CANCELLED, None, now, token=None, reason=why, actor=by)
            for each in items
            if each.status not in FINISHED
        ]
    return context.output(
        lambda: {"work": [work_row(each, context.root) for each in cancelled]},
        lambda: [f"{each.id} is cancelled" for each in cancelled] or ["nothing was unfinished"],
    )


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


@json_command("retry", examples=("city work retry w-1", "city work retry w-1 --json"), page=_PAGE)
@click.argument("id", metavar="WORK", shell_complete=complete_work)
def retry(context: CommandContext, id: str) -> int:
    """Queue a failed or cancelled work item again.

    An item that waits for its next attempt starts at once. Your PATH and the variables
    that its agent refers to are used for its runs.
    """
    item = find_work(context, id)
    if item.status == DONE:
        raise _already_finished(item)
    if item.status == CLAIMED:
        message = f"{item.id} is running in session {item.session}"
        raise city_error("still-running", message, f"run `city work cancel {item.id}` to stop it")
    who = caller(context)
    by = "user" if who is None else f"session {who.session}"
    request = {"op": "pass-environment", "work": item.id, **sender(context.environ)}
    send_with_environment(context.root, request, context.environ)
    store = context.store()
    with store.transaction():
        current = store.work(item.id)
        if current is not None and current.status == CLAIMED:  # it has just started by itself
            return _answer(context, current, f"{item.id} is running")
        queued = store.reopen(
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
        "diff": ("gascity.cli.work_branch", "diff", "Show what a work item changed."),
        "merge": (
            "gascity.cli.merge",
            "merge_work",
            "Merge the branch of a work item into the rig's default branch.",
        ),
        "open": ("gascity.cli.work_branch", "open_work", "Open the worktree of a work item."),
        "move": (
            "gascity.cli.work_branch",
            "move_work",
            "Give a queued work item to another agent.",
        ),
        "tree": (
            "gascity.cli.work_tree",
            "tree",
            "Show a work item and everything that was delegated from it.",
        ),
        "logs": (
            "gascity.cli.session.logs",
            "work_logs",
            "Show the log of a work item's last run.",
        ),
    },
    help="List and manage work items.",
    examples=("city work list --status failed", "city work logs w-1 -f"),
    page=_PAGE,
)
