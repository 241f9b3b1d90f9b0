"""Work: the list, one item with its log and decisions, and the diff of its branch."""

import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request

from gascity.cli.context import CommandContext
from gascity.control.blocked import blocked_as_shown
from gascity.control.decide.types import Blocked
from gascity.model.work import (
    CANCELLED,
    FAILED,
    FINISHED,
    OPEN,
    STATUS_OF_WORD,
    Decision,
    Run,
    Session,
    Work,
)
from gascity.store.port import Store
from gascity.web.commands import searched_command, shown_command
from gascity.web.patches import parse_patch
from gascity.web.site import PAGE, CitySite, Page, not_found, words_of

_DECISIONS = 50


class WorkPage(NamedTuple):
    """One page of a list; `older` is where the next begins."""

    items: Sequence[Work]
    total: int
    older: str


async def work_list(site: CitySite, request: Request) -> Page:
    """Return the list of work, filtered by status, agent and words, newest first."""
    query = request.query_params
    word, agent, before = query.get("status", ""), query.get("agent", ""), query.get("before", "")
    status = (STATUS_OF_WORD[word],) if word in STATUS_OF_WORD else ()
    words = words_of(request)

    def read(_: CommandContext, store: Store) -> WorkPage:
        names = [agent] if agent else None
        items = store.list_work(
            agents=names, status=status, limit=PAGE + 1, before=before, words=words
        )
        counted = words or agent or status
        total = (
            store.count_work(agents=names, status=status, words=words)
            if counted
            else sum(store.work_counts().values())
        )
        return WorkPage(items[:PAGE], total, items[PAGE - 1].id if len(items) > PAGE else "")

    listed = await site.reader.read(read, WorkPage((), 0, ""))
    filters = {"status": word if status else "", "agent": agent, "q": " ".join(words)}
    older = urlencode({**_given(filters), "before": listed.older}) if listed.older else ""
    command = ["work", "list"]
    command += ["--status", word] if status else []
    command += ["--agent", agent] if agent else []
    command += ["--limit", "0"] if words else []
    values = {
        "listed": listed,
        "filters": filters,
        "statuses": list(STATUS_OF_WORD),
        "older": older,
        "first": urlencode(_given(filters)) if before else "",
        "paged": bool(before),
        "links": {
            name: urlencode(_given({**filters, "status": name})) for name in ("", *STATUS_OF_WORD)
        },
    }
    return Page("work_list.html", "Work", "work", searched_command(words, *command), values)


def _given(filters: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value}


class WorkFacts(NamedTuple):
    """One item and what explains it."""

    work: Work
    session: Session | None
    runs: Sequence[Run]
    decisions: Sequence[Decision]
    blocked: Sequence[Blocked]
    position: int
    children: int


def _read_work(context: CommandContext, store: Store, id: str) -> WorkFacts | None:
    work = store.work(id)
    if work is None:
        return None
    waiting = work.status == OPEN
    # As in `city why`: the agent's decisions explain a queued item, not a finished one.
    about = (id, work.agent) if waiting else tuple(filter(None, (id, work.session)))
    decisions = [each for each in store.decisions(about, _DECISIONS) if each.at >= work.created]
    return WorkFacts(
        work,
        store.session(work.session) if work.session else None,
        store.runs(work=id),
        decisions,
        blocked_as_shown(store, context.root, work.agent, work) if waiting else (),
        store.position(id, time.time()) if waiting else 0,
        store.child_count(id),
    )


async def work_page(site: CitySite, request: Request) -> Page:
    """Return the page of one item: state, log, decisions and actions."""
    id = request.path_params["id"]
    facts = await site.reader.read(lambda c, s: _read_work(c, s, id), None)
    command = shown_command("work", "show", id)
    if facts is None:
        message = f"There is no work item {id}."
        return not_found("Unknown work item", message, "work", "city work list")
    work = facts.work
    values = {
        "facts": facts,
        "work": work,
        "can_retry": work.status in (FAILED, CANCELLED) or _waits(work),
        "can_cancel": work.status not in FINISHED,
        "can_merge": _can_merge(work),
        "has_diff": bool(work.branch),
        "why": shown_command("why", id),
        "log_command": shown_command("work", "logs", id),
        "cost": sum(run.cost or 0.0 for run in facts.runs) or None,
    }
    return Page("work.html", f"{id} {work.title}", "work", command, values)


def _can_merge(work: Work) -> bool:
    return bool(work.branch and work.commits and work.status in FINISHED)


def _waits(work: Work) -> bool:
    return work.status == OPEN and work.not_before is not None


async def diff_page(site: CitySite, request: Request) -> Page:
    """Return the diff of an item's branch, with the form that merges it."""
    id = request.path_params["id"]
    work = await site.reader.read(lambda _, store: store.work(id), None)
    command = shown_command("work", "diff", id)
    if work is None:
        message = f"There is no work item {id}."
        return not_found("Unknown work item", message, "work", "city work list")
    answer = await site.commands.json("work", "diff", id)
    patch = parse_patch(str(answer.value.get("patch", "")).split("\n")[:-1])
    values = {
        "work": work,
        "patch": patch,
        "files": answer.value.get("files", ()),
        "base": str(answer.value.get("base", ""))[:8],
        "problems": answer.problems,
        "can_merge": _can_merge(work),
    }
    return Page("diff.html", f"Diff of {id}", "work", command, values)
