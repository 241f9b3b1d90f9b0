"""Work as rows: the JSON object of the contract and the lines people read."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gascity.cli.output import BOLD, ago, clean, moment, paint, table, wrap
from gascity.cli.session_rows import called, shown_path
from gascity.model.names import did_you_mean, parse_name
from gascity.model.problems import CityError, Problem
from gascity.model.work import OPEN, Result, Work
from gascity.store.port import Store

_HEADS = ("ID", "STATUS", "AGENT", "AGE", "TITLE")
_MARK = "system-reminder"
_NEAR = 500  # of the latest items are looked at for what an id may have meant


def find_work(store: Store | None, id: str) -> Work:
    """The work of that id, or the problem that there is none."""
    work = store.work(id) if store is not None else None
    if work is None:
        known = [one.id for one in store.list_work(limit=_NEAR)] if store is not None else []
        # One number is not a misspelling of another.
        meant = None if id.rpartition("-")[2].isdecimal() and "-" in id else did_you_mean(id, known)
        hint = meant or "`city work list` shows what there is"
        raise CityError(Problem("unknown-work", f"there is no work `{id}`", None, hint))
    return work


def work_row(work: Work, root: str) -> dict[str, object]:
    """The object `W` of the JSON contract."""
    return {
        "id": work.id,
        "agent": work.agent,
        "rig": parse_name(work.agent).rig,
        "title": work.title,
        "status": work.status,
        "reason": work.reason,
        "priority": work.priority,
        "attempts": work.attempts,
        "failures": work.failures,
        "created": moment(work.created),
        "updated": moment(work.updated),
        "not_before": moment(work.not_before),
        "session": work.session or None,
        "depends_on": list(work.depends_on),
        "branch": work.branch or None,
        "workdir": shown_path(root, work.workdir) or None,
        "commits": work.commits,
        "result": result_row(work.result),
        "log": shown_path(root, work.log) or None,
        "sender": work.sender,
        "parent": work.parent or None,
        "depth": work.depth,
    }


def result_row(result: Result | None) -> dict[str, object] | None:
    """What came of work, as contracts have it."""
    if result is None:
        return None
    return {
        "exit_code": result.exit_code,
        "summary": result.summary,
        "usage": dict(result.usage) if result.usage is not None else None,
        "cost": result.cost,
    }


def whole_row(work: Work, root: str, store: Store, now: float) -> dict[str, object]:
    """`W` with what it takes to do the work, and what it waits for."""
    waiting = work.status == OPEN
    return {
        **work_row(work, root),
        "body": work.body,
        "position": store.position(work.id, now) if waiting else None,
        "waits_for": [one.id for one in store.waits_for(work.id)] if waiting else [],
    }


def work_lines(found: Sequence[Work], columns: int, colour: bool) -> Iterator[str]:
    """One line an item, newest first."""
    if not found:
        yield "No work."
        return
    now = time.time()
    rows = [[one.id, one.status, one.agent, ago(one.updated, now), one.title] for one in found]
    head, *lines = table(rows, _HEADS, columns)
    yield paint(head, BOLD, colour)
    yield from lines


def standing(work: Work, store: Store, now: float) -> Iterator[tuple[str, str]]:
    """How work stands, as headings with a few words each; what says nothing is left out."""
    yield "Status", f"{work.status}: {work.reason}" if work.reason else work.status
    if work.status == OPEN:
        yield from _waiting(work, store, now)
    if work.session:
        session = store.session(work.session)
        name = f"{called(session)} ({session.id})" if session is not None else work.session
        yield ("Only for" if work.status == OPEN else "Session"), name
    if work.attempts:
        failures = f", {work.failures} failed" if work.failures else ""
        yield "Starts", f"{work.attempts}{failures}"


def _waiting(work: Work, store: Store, now: float) -> Iterator[tuple[str, str]]:
    """What work waits for; its turn only where it is nothing else."""
    waits = [f"{one.id} ({one.status})" for one in store.waits_for(work.id)]
    due = work.not_before is not None and work.not_before > now
    if waits:
        yield "Waits for", ", ".join(waits)
    if due:
        yield "Not before", str(moment(work.not_before))
    if not waits and not due:
        before = store.position(work.id, now)
        yield "Queue", f"{before} before it" if before else "it is next"


def show_lines(work: Work, store: Store, root: str, columns: int, colour: bool) -> Iterator[str]:
    """Everything about one item, its text last."""
    now = time.time()
    facts = {
        "Work": work.id,
        "Title": work.title,
        "Agent": work.agent,
        **dict(standing(work, store, now)),
        "Priority": str(work.priority),
        "Created": f"{moment(work.created)} ({ago(work.created, now)})",
        "Branch": _branch(work),
        "Directory": shown_path(root, work.workdir),
        "Log": shown_path(root, work.log),
        **_outcome(work.result),
    }
    for name, fact in facts.items():
        if fact:
            first, *rest = [one for line in fact.splitlines() for one in wrap(line, columns - 12)]
            yield f"{name + ':':<11} {paint(first, BOLD, colour and name == 'Work')}"
            yield from (" " * 12 + line for line in rest)
    if work.body.strip() and work.body.strip() != work.title.strip():
        yield ""
        yield clean(work.body).rstrip("\n")


def _branch(work: Work) -> str:
    commits = f" ({work.commits} commit{'' if work.commits == 1 else 's'})" if work.commits else ""
    return f"{work.branch}{commits}" if work.branch else ""


def _outcome(result: Result | None) -> Mapping[str, str]:
    if result is None:
        return {}
    return {
        "Result": result.summary,
        "Exit code": "" if result.exit_code is None else str(result.exit_code),
        "Cost": "" if result.cost is None else f"${result.cost:.2f}",
    }


def work_text(work: Work) -> Iterator[str]:
    """An item as whoever does it wants to read it: what it is called, then all of it."""
    yield clean(f"{work.id}: {work.title}")
    yield ""
    yield clean(work.body).rstrip("\n")


def reminder(lines: Iterable[str]) -> list[str]:
    """Lines as a provider's hook puts them before its model; none of them can end the block."""
    told = (" ".join(clean(line).replace(f"</{_MARK}", "").split()) for line in lines)
    return [f"<{_MARK}>", *told, f"</{_MARK}>"]
