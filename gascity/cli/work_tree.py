"""`city work tree`: a work item and everything that was delegated while working on it."""

import time
from collections.abc import Iterator

import click

from gascity.cli.command import json_command
from gascity.cli.completers import complete_work
from gascity.cli.context import CommandContext
from gascity.cli.identity import access
from gascity.cli.records import find_work
from gascity.control.delegation import DelegatedItem, read_tree
from gascity.model.values import JsonObject
from gascity.model.work import status_word


@json_command(
    "tree",
    examples=("city work tree w-1", "city work tree w-1 --json"),
    page="how-to/agents-together",
)
@click.argument("id", metavar="WORK", shell_complete=complete_work)
def tree(context: CommandContext, id: str) -> int:
    """Show a work item and everything that was delegated from it."""
    item = find_work(context, id)
    root = read_tree(context.store(), item, time.time(), sees=access(context).sees)
    return context.output(lambda: _node(root), lambda: _lines(root))


def _node(item: DelegatedItem) -> JsonObject:
    return {
        "work": item.work.id,
        "title": item.work.title,
        "agent": item.work.agent,
        "depth": item.work.depth,
        "status": item.work.status,
        "seconds": round(item.seconds, 3),
        "cost": item.cost,
        "children": [_node(child) for child in item.children],
    }


def _lines(item: DelegatedItem, indent: str = "") -> Iterator[str]:
    """Yield a line per item, indented by its depth below the first."""
    facts = [status_word(item.work.status), f"{item.seconds:.0f} s"]
    facts += [f"${item.cost:.2f}"] if item.cost is not None else []
    yield f"{indent}{item.work.id}  {item.work.agent}  {', '.join(facts)}  {item.work.title}"
    for child in item.children:
        yield from _lines(child, indent + "  ")
