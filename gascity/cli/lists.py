"""Commands that list records of the store: `--limit`, `--jsonl`, and lists of any size.

A list is written while it is read: JSON row by row, in pages of the store. A command that another
program reads prints everything unless `--limit` says otherwise; a table shows the newest rows and
says how many it leaves out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import click

from gascity.cli.context import CommandContext, F
from gascity.cli.output import print_stdout, to_json_text
from gascity.cli.terminal import write_json

NEWEST = 50  # rows of a table without --limit
PAGE = 500  # records that are read at once
MOST = (1 << 63) - 1  # that a record can store

T = TypeVar("T")


class RecordNumber(click.types.IntParamType):
    """A number that a record can store. Help does not show its limits, unlike an IntRange's."""

    def __init__(self, lowest: int = 0) -> None:
        self._range = click.IntRange(lowest, MOST)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = self._range.convert(value, param, ctx)
        return number


def list_options(function: F) -> F:
    """Add `--limit` and `--jsonl`."""
    lines = click.option(
        "--jsonl",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_json_lines,
        help="Output one JSON object per line.",
    )
    limit = click.option(
        "--limit",
        metavar="N",
        type=RecordNumber(),
        help=f"Show at most N, 0 for all (default: {NEWEST}; with JSON output all).",
    )
    return limit(lines(function))


def _set_json_lines(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    context = ctx.find_object(CommandContext)
    if context is not None and value:
        context.as_json = context.as_json_lines = True


def row_limit(context: CommandContext, limit: int | None) -> int | None:
    """Return how many rows to show for the value of `--limit`; None for all."""
    if limit is None:
        return None if context.as_json else NEWEST
    return limit or None


def read_pages(read: Callable[[T | None, int], list[T]], limit: int | None) -> Iterator[T]:
    """Yield records, newest first, in pages; `read` gets the last record so far and a number."""
    last: T | None = None
    left = limit
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        page = read(last, size)
        yield from page
        if len(page) < size:
            return
        last = page[-1]
        left = None if left is None else left - size


def output_list(
    context: CommandContext,
    key: str,
    rows: Iterable[Mapping[str, object]],
    lines: Callable[[], Iterable[str]],
    left_out: int,
) -> int:
    """Print a list: as one JSON object with `more`, as JSON lines, or as text."""
    if context.as_json_lines:
        import json

        for row in rows:
            write_json(json.dumps({"schema": 1, **row}, ensure_ascii=False))
    elif context.as_json:
        _write_object(key, rows, more=left_out > 0)
    else:
        print_stdout(*lines())
        if left_out:
            print_stdout(more_line(left_out))
    return 0


def more_line(left_out: int) -> str:
    """Return the last line of a table that does not show everything."""
    return f"{left_out} more (`--limit 0`)"


def _write_object(key: str, rows: Iterable[Mapping[str, object]], *, more: bool) -> None:
    """Write the text that `print_json` would, without keeping all rows in memory."""
    before = f'{{\n  "schema": 1,\n  "{key}": ['
    for row in rows:
        indented = to_json_text(row).replace("\n", "\n    ")
        write_json(f"{before}\n    {indented}", end="")
        before = ","
    end = "\n  ]" if before == "," else f"{before}]"
    write_json(f'{end},\n  "more": {"true" if more else "false"}\n}}')
