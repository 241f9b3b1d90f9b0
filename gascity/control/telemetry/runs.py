"""Selects the ended runs that were not exported yet, and their places in traces.

Runs do not end in the order of their ids, and a controller may record the end of one long after it.
So the progress is neither a time nor a single id: it is the last id that was read, and the ids up
to it whose runs had not ended by then. It is a note in the store, and a restart continues there.

The ids of traces and spans are hashes. A child item's run often ends before its parent's, so the
parent's id must be known before its span is sent; and a span that is sent twice, because the
process was killed before it saved its progress, is the same span for the collector.
"""

import json
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_hex
from typing import NamedTuple

from gascity.control.start import REFLECTION
from gascity.model.names import parse_name
from gascity.model.work import Run
from gascity.store.port import Store

PAGE = 500  # runs per request to the collector
_NOTE = "telemetry"


class ExportProgress(NamedTuple):
    """Progress of the export, with totals that outlive deleted runs."""

    city: str  # random, so that two cities with a w-1 have two traces
    since: float  # when the totals started
    last: int = 0  # the highest id of a run that was read
    open: tuple[int, ...] = ()  # runs up to `last` that had not ended
    tokens: Mapping[str, Mapping[str, int]] = {}  # by agent and kind
    cost: Mapping[str, float] = {}  # by agent, in dollars


class RunSpan(NamedTuple):
    """An ended run and its place in a trace."""

    trace: int
    span: int
    parent: int  # the span of the run that slung its work item; 0: none
    agent: str
    run: Run


def load_progress(store: Store, now: float) -> ExportProgress:
    """Return the saved progress; at the first export, save and return an empty one."""
    text = store.get_note(_NOTE)
    if text:
        values = json.loads(text)
        return ExportProgress(**{**values, "open": tuple(values["open"])})
    progress = ExportProgress(token_hex(16), now)
    save_progress(store, progress)
    return progress


def save_progress(store: Store, progress: ExportProgress) -> None:
    """Save the progress after the collector has accepted what it counts."""
    store.set_note(_NOTE, json.dumps(progress._asdict()))


def next_runs(
    store: Store, progress: ExportProgress, limit: int = PAGE
) -> tuple[list[RunSpan], ExportProgress]:
    """Return ended runs that were not exported, and the progress once they are.

    If the progress stays the same, there are no more.
    """
    page = store.runs_after(progress.last, limit)
    runs = [run for run in map(store.run, progress.open) if run is not None] + page
    agents = {key.id: key.agent for key in store.sessions_by_id([run.session for run in runs])}
    spans = [
        _span(store, progress.city, agents[run.session], run)
        for run in runs
        if run.ended is not None and run.session in agents  # not deleted a moment ago
    ]
    tokens, cost = _totals(progress, spans)
    return spans, progress._replace(
        last=page[-1].id if page else progress.last,
        open=tuple(run.id for run in runs if run.ended is None),
        tokens=tokens,
        cost=cost,
    )


def span_attributes(span: RunSpan) -> dict[str, str | int | float]:
    """Return what the collector learns of a run: never a prompt, a title or output."""
    run = span.run
    values: dict[str, str | int | float | None] = {
        "gascity.agent": span.agent,
        "gascity.rig": parse_name(span.agent).rig,
        "gascity.work.id": _work_id(run),
        "gascity.session.id": run.session,
        "gascity.run.id": run.id,
        "gascity.outcome": run.outcome,
        "process.exit.code": run.exit_code,
        "gascity.cost": run.cost,
        **{f"gascity.tokens.{kind}": count for kind, count in (run.usage or {}).items()},
    }
    return {key: value for key, value in values.items() if value is not None and value != ""}


def _totals(
    progress: ExportProgress, spans: list[RunSpan]
) -> tuple[dict[str, dict[str, int]], dict[str, float]]:
    """Return tokens and cost by agent, with those of these runs."""
    tokens = {agent: Counter(counts) for agent, counts in progress.tokens.items()}
    cost = dict(progress.cost)
    for _, _, _, agent, run in spans:
        if run.usage:
            tokens.setdefault(agent, Counter()).update(run.usage)
        if run.cost is not None:
            cost[agent] = cost.get(agent, 0.0) + run.cost
    return {agent: dict(counts) for agent, counts in tokens.items()}, cost


def _span(store: Store, city: str, agent: str, run: Run) -> RunSpan:
    item = _work_id(run)
    trace = _hash(16, city, "work", _chain(store, item)) if item else _hash(16, city, *_key(run))
    parent = _parent_run(store, item)
    above = 0 if parent is None else _hash(8, city, *_key(parent))
    return RunSpan(trace, _hash(8, city, *_key(run)), above, agent, run)


def _work_id(run: Run) -> str:
    """Return the item that a run works on, or thinks about after it is done."""
    kind, _, item = run.about.partition(" ")
    return run.work or (item if kind == REFLECTION else "")


def _chain(store: Store, item: str) -> str:
    """Return the item that the chain of slung items started with."""
    while (work := store.work(item)) is not None and work.parent:
        item = work.parent
    return item


def _parent_run(store: Store, item: str) -> Run | None:
    """Return the run of the parent item in which this item was slung, if it still exists."""
    work = store.work(item) if item else None
    if work is None or not work.parent:
        return None
    runs = store.runs(work=work.parent)  # latest first
    return next((run for run in runs if run.started <= work.created), None)


def _key(run: Run) -> tuple[str, ...]:
    """Return what identifies a run, also after the store was restored and its id is used again."""
    return (f"run {run.id}", repr(run.started))


def _hash(size: int, *words: str) -> int:
    """Return a number of `size` bytes that is not 0, which would be an invalid id."""
    return int.from_bytes(sha256("\0".join(words).encode()).digest()[:size]) or 1
