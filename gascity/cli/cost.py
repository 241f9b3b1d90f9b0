"""`city cost`: tokens and cost of runs by agent, rig or day."""

import time
from collections.abc import Iterator

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import write_content
from gascity.cli.tables import Column, json_row
from gascity.control.costs import KEYS, CostRow, sum_costs
from gascity.model.values import parse_duration

_FIRST = ("key", "runs", "tokens", "cost")


def _cost(row: CostRow) -> str:
    text = "-" if row.cost is None else f"${row.cost:,.2f}"
    return f"{text} ({row.unpriced} without)" if row.cost is not None and row.unpriced else text


_COLUMNS: tuple[Column[CostRow], ...] = (
    Column("key", lambda row: row.key, "KEY", shrink=True),
    Column("runs", lambda row: row.runs, "RUNS"),
    Column("tokens", lambda row: row.tokens, "TOKENS", lambda row: f"{row.tokens:,}"),
    Column("cost", lambda row: row.cost, "COST", _cost),
    Column("usage", lambda row: dict(row.usage)),
    Column("unpriced", lambda row: row.unpriced),
)


def _start(ctx: click.Context, _: click.Parameter, value: str | None) -> float:
    """Return the time that `--since` means: a duration before now, or a day in UTC."""
    if value is None:
        return 0.0
    length = parse_duration(value)
    if length is not None:
        return time.time() - length
    from calendar import timegm

    try:
        return float(timegm(time.strptime(value, "%Y-%m-%d")))
    except ValueError:
        message = "expected a day such as 2026-11-01, or a duration such as 24h or 7d"
        raise click.BadParameter(message, ctx) from None


@json_command(
    "cost",
    examples=("city cost", "city cost --by day --since 7d", "city cost --by rig --csv > cost.csv"),
    page="how-to/cost",
)
@click.option(
    "--by",
    type=click.Choice(tuple(KEYS)),
    default="agent",
    show_default=True,
    help="Sum by agent, rig or day (UTC).",
)
@click.option(
    "--since",
    metavar="TIME",
    callback=_start,
    help="Count runs of the last 24h, 7d, or from a day.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Output CSV.")
def cost(context: CommandContext, by: str, since: float, as_csv: bool) -> int:
    """Show tokens and cost of runs.

    Counts ended runs, except those of deleted sessions. The cost is what providers report.
    """
    if as_csv and context.as_json:
        raise click.UsageError("--csv and --json exclude each other")
    store = context.store_if_any()
    rows, total = sum_costs(store.run_usage(since) if store is not None else (), by)
    if as_csv:
        write_content(_csv(rows))
        return 0

    def lines() -> Iterator[str]:
        yield from context.table(
            (_COLUMNS[0]._replace(heading=by.upper()), *_COLUMNS[1:]),
            [*rows, total] if rows else [],
            "No runs have ended.",
        )

    return context.output(
        lambda: {
            "by": by,
            "since": since or None,
            "rows": [json_row(_COLUMNS, row) for row in rows],
            "total": {
                key: value for key, value in json_row(_COLUMNS, total).items() if key != "key"
            },
        },
        lines,
    )


def _csv(rows: list[CostRow]) -> str:
    """Return a table for spreadsheets, with a column for each kind of tokens."""
    import csv
    from io import StringIO

    kinds = sorted({kind for row in rows for kind in row.usage})
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_FIRST, *kinds))
    for row in rows:
        key = f"'{row.key}" if row.key[:1] in "=+-@" else row.key  # not a formula
        price = "" if row.cost is None else row.cost
        writer.writerow((key, row.runs, row.tokens, price, *(row.usage.get(k, 0) for k in kinds)))
    return text.getvalue()
