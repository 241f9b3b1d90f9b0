"""`city work tree`, and the descendants of a work item: what was delegated while working on it."""

import time
from collections.abc import Iterator
from typing import Any

import click

from gascity.cli.command import json_command
from gascity.cli.completers import complete_work
from gascity.cli.context import CommandContext
from gascity.cli.identity import access
from gascity.cli.records import find_work
from gascity.control.permissions import Access
from gascity.model.work import Work, status_word
from gascity.store.port import Store


@json_command(
    "tree",
    examples=("city work tree w-1", "city work tree w-1 --json"),
    page="how-to/agents-together",
)
@click.argument("id", metavar="WORK", shell_complete=complete_work)
def tree(context: CommandContext, id: str) -> int:
    """Show a work item and everything that was delegated from it."""
    item = find_work(context, id)
    root = _node(context.store(), item, access(context), time.time())
    return context.output(root, lambda: _lines(root))


def descendants(store: Store, work: Work) -> Iterator[Work]:
    """Yield everything that was delegated from an item, the nearest first."""
    level = [work]
    while level:
        level = store.children([parent.id for parent in level])
        yield from level


def _node(store: Store, work: Work, seen: Access, now: float) -> dict[str, Any]:
    """Return an item with its descendants; those that the caller may not see are left out."""
    runs = store.runs(work=work.id)
    costs = [run.cost for run in runs if run.cost is not None]
    return {
        "work": work.id,
        "title": work.title,
        "agent": work.agent,
        "depth": work.depth,
        "status": work.status,
        "seconds": round(sum((run.ended or now) - run.started for run in runs), 3),
        "cost": sum(costs) if costs else None,
        "children": [
            _node(store, child, seen, now)
            for child in store.children([work.id])
            if seen.sees(child.agent)
        ],
    }


def _lines(node: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Yield a line per item, indented by its depth below the first."""
    facts = [status_word(node["status"]), f"{node['seconds']:.0f} s"]
    facts += [f"${node['cost']:.2f}"] if node["cost"] is not None else []
    yield f"{indent}{node['work']}  {node['agent']}  {', '.join(facts)}  {node['title']}"
    for child in node["children"]:
        yield from _lines(child, indent + "  ")
