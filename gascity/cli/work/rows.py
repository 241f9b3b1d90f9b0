"""Work items as JSON objects, table rows and text."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from gascity.cli.output import (
    Column,
    display_path,
    fact_lines,
    json_row,
    plural,
    printable,
    table_lines,
    time_ago,
    timestamp,
)
from gascity.cli.problems import city_error
from gascity.cli.session.rows import session_name
from gascity.model.names import did_you_mean, parse_name
from gascity.model.work import CLAIMED, OPEN, Work, WorkResult
from gascity.store.port import Store

LABEL = 14  # width of labels
STATUS_WORDS = {OPEN: "queued", CLAIMED: "running"}
_REMINDER = "system-reminder"
_SIMILAR = 500  # latest items among which similar ids are searched


def find_work(store: Store | None, id: str) -> Work:
    """Return a work item by id; CityError if there is none."""
    work = store.work(id) if store is not None else None
    if work is None:
        known = [item.id for item in store.list_work(limit=_SIMILAR)] if store is not None else []
        # A different number is not a typo.
        similar = (
            None if id.rpartition("-")[2].isdecimal() and "-" in id else did_you_mean(id, known)
        )
        hint = similar or "run `city work list` to see the work items"
        raise city_error("unknown-work", f"there is no work item `{id}`", hint)
    return work


def status_text(status: str) -> str:
    """Return the word for a status in text output; JSON keeps `open` and `claimed`."""
    return STATUS_WORDS.get(status, status)


def _columns(root: str, now: float) -> tuple[Column[Work], ...]:
    return (
        Column("id", lambda w: w.id, "ID"),
        Column("", lambda w: status_text(w.status), "STATUS"),
        Column("agent", lambda w: w.agent, "AGENT"),
        Column("rig", lambda w: parse_name(w.agent).rig),
        Column("", lambda w: time_ago(w.updated, now), "AGE"),
        Column("title", lambda w: w.title, "TITLE", lambda w: w.title),
        Column("status", lambda w: w.status),
        Column("reason", lambda w: w.reason),
        Column("priority", lambda w: w.priority),
        Column("attempts", lambda w: w.attempts),
        Column("failures", lambda w: w.failures),
        Column("created", lambda w: timestamp(w.created)),
        Column("updated", lambda w: timestamp(w.updated)),
        Column("not_before", lambda w: timestamp(w.not_before)),
        Column("session", lambda w: w.session or None),
        Column("depends_on", lambda w: list(w.depends_on)),
        Column("branch", lambda w: w.branch or None),
        Column("workdir", lambda w: display_path(root, w.workdir) or None),
        Column("commits", lambda w: w.commits),
        Column("result", lambda w: result_row(w.result)),
        Column("log", lambda w: display_path(root, w.log) or None),
        Column("sender", lambda w: w.sender),
        Column("parent", lambda w: w.parent or None),
        Column("depth", lambda w: w.depth),
    )


def work_row(work: Work, root: str) -> dict[str, object]:
    """Return a work item as its JSON object."""
    return json_row(_columns(root, 0.0), work)


def result_row(result: WorkResult | None) -> dict[str, object] | None:
    """Return the result of a work item as its JSON object."""
    if result is None:
        return None
    return {
        "exit_code": result.exit_code,
        "summary": result.summary,
        "usage": dict(result.usage) if result.usage is not None else None,
        "cost": result.cost,
    }


def whole_row(work: Work, root: str, store: Store, now: float) -> dict[str, object]:
    """Return the JSON object with the text, the queue position and dependencies."""
    waiting = work.status == OPEN
    return {
        **work_row(work, root),
        "body": work.body,
        "position": store.position(work.id, now) if waiting else None,
        "waits_for": [item.id for item in store.unfinished_dependencies(work.id)]
        if waiting
        else [],
    }


def work_lines(items: Sequence[Work], width: int, colour: bool) -> Iterator[str]:
    """Yield the table of work items."""
    if not items:
        yield "No work."
        return
    yield from table_lines(_columns("", time.time()), items, width, colour)


def state_facts(
    work: Work, store: Store, now: float, word: Callable[[str], str] = status_text
) -> Iterator[tuple[str, str]]:
    """Yield labelled facts about the state of a work item; `word` names statuses."""
    status = word(work.status)
    yield "Status", f"{status}: {work.reason}" if work.reason else status
    if work.status == OPEN:
        yield from _queue_facts(work, store, now, word)
    if work.session:
        session = store.session(work.session)
        name = f"{session_name(session)} ({session.id})" if session is not None else work.session
        yield ("Reserved for" if work.status == OPEN else "Session"), name
    if work.attempts:
        failures = f", {work.failures} failed" if work.failures else ""
        yield "Attempts", f"{work.attempts}{failures}"


def _queue_facts(
    work: Work, store: Store, now: float, word: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield what a queued item waits for; its position only if it waits for nothing else."""
    waits = [f"{item.id} ({word(item.status)})" for item in store.unfinished_dependencies(work.id)]
    delayed = work.not_before is not None and work.not_before > now
    if waits:
        yield "Waits for", ", ".join(waits)
    if delayed:
        yield "Not before", str(timestamp(work.not_before))
    if not waits and not delayed:
        ahead = store.position(work.id, now)
        yield "Queue", f"{ahead} ahead" if ahead else "next"


def show_lines(work: Work, store: Store, root: str, width: int, colour: bool) -> Iterator[str]:
    """Yield everything about one work item, its text last."""
    now = time.time()
    facts = [
        ("Work", work.id),
        ("Title", work.title),
        ("Agent", work.agent),
        *state_facts(work, store, now),
        ("Priority", str(work.priority)),
        ("Created", f"{timestamp(work.created)} ({time_ago(work.created, now)})"),
        ("Branch", _branch(work)),
        ("Directory", display_path(root, work.workdir)),
        ("Log", display_path(root, work.log)),
        *_result_facts(work.result),
    ]
    yield from fact_lines(facts, LABEL, width, "Work", colour)
    if work.body.strip() and work.body.strip() != work.title.strip():
        yield ""
        yield printable(work.body).rstrip("\n")


def _branch(work: Work) -> str:
    commits = f" ({plural(work.commits, 'commit')})" if work.commits else ""
    return f"{work.branch}{commits}" if work.branch else ""


def _result_facts(result: WorkResult | None) -> Iterator[tuple[str, str]]:
    if result is not None:
        yield "Result", result.summary
        yield "Exit code", "" if result.exit_code is None else str(result.exit_code)
        yield "Cost", "" if result.cost is None else f"${result.cost:.2f}"


def work_text(work: Work) -> Iterator[str]:
    """Yield the title and the text of an item, for the agent that works on it."""
    yield printable(f"{work.id}: {work.title}")
    yield ""
    yield printable(work.body).rstrip("\n")


def reminder(lines: Iterable[str]) -> list[str]:
    """Wrap lines for a provider's hook in a block that their text cannot close."""
    safe = (" ".join(printable(line).replace(f"</{_REMINDER}", "").split()) for line in lines)
    return [f"<{_REMINDER}>", *safe, f"</{_REMINDER}>"]
