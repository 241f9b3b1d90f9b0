"""`city prune`: remove what the city no longer needs, after showing it."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, can_ask, confirm
from gascity.cli.output import display_path, plural, print_stderr, print_stdout
from gascity.cli.tables import Column, json_row
from gascity.control.prune import Prunable, Pruner, PruneResult

_UNITS = ("B", "kB", "MB", "GB", "TB")


class _Row(NamedTuple):
    """An item of the list and whether it was removed."""

    item: Prunable
    path: str
    removed: bool = False


@json_command(
    "prune",
    examples=("city prune", "city prune --yes"),
    page="how-to/merge",
)
@click.option("--yes", is_flag=True, help="Remove everything that is listed, without asking.")
def prune(context: CommandContext, yes: bool) -> int:
    """Remove worktrees, branches and sessions no longer needed.

    Lists unused worktrees, merged branches, ended sessions and cached packs, and
    asks. Without a terminal, nothing is removed unless you pass --yes.
    """
    city, store = context.city(), context.store_if_any()
    found = Pruner(city, store, context.environ, time.time()).find()
    rows = [_Row(item, display_path(context.root, item.path)) for item in found.items]
    remove = yes
    if not context.as_json:
        print_stdout(*_list_lines(context, rows, found))
        terminal = can_ask(context)
        if rows and not yes:
            remove = terminal and confirm("Remove them?")
            if not remove:
                print_stderr("Nothing was removed." + ("" if terminal else " Pass --yes to do it."))
    if remove:
        rows = [row._replace(removed=row.item.remove()) for row in rows]
    return context.output(
        lambda: {"items": [json_row(_COLUMNS, row) for row in rows]},
        lambda: _result_lines(rows) if remove and rows else (),
    )


_COLUMNS: tuple[Column[_Row], ...] = (
    Column("kind", lambda row: row.item.kind, "KIND"),
    Column("size", lambda row: row.item.size, "SIZE", lambda row: _size_text(row.item.size)),
    Column("path", lambda row: row.path, "PATH", shrink=True),
    Column("reason", lambda row: row.item.reason, "REASON", below=True),
    Column("removed", lambda row: row.removed),
)


def _list_lines(context: CommandContext, rows: Sequence[_Row], found: PruneResult) -> Iterator[str]:
    yield from context.table(_COLUMNS, rows, "Nothing to remove.")
    for reason in found.kept:
        yield f"kept {display_path(context.root, reason)}"


def _result_lines(rows: Sequence[_Row]) -> Iterator[str]:
    removed = [row for row in rows if row.removed]
    size = _size_text(sum(row.item.size for row in removed)) or "0 B"
    yield f"Removed {plural(len(removed), 'item')} ({size})."
    for row in rows:
        if not row.removed:
            yield f"kept {row.path}: it is in use again, or has changed"


def _size_text(size: int) -> str:
    """Return a size in its largest unit; empty for 0."""
    number, unit = float(size), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.0f} {_UNITS[unit]}" if size else ""
