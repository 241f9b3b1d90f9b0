"""`city formula` and `city order`; formulas, orders, commands and doctor entries as rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import DIM, Entry, entry_lines, plural
from gascity.cli.problems import Locator, problems_json
from gascity.model.pack import Import, Pack
from gascity.source.disk import Disk
from gascity.source.pack_extras import COMMAND, ORDER, CityExtra, city_extras

Row = Mapping[str, object]


@click.group(
    cls=LazyGroup,
    commands_at={
        "list": (
            "gascity.cli.pack.extras",
            "list_formulas",
            "List formulas and where they come from.",
        )
    },
    page="how-to/packs",
)
def formula() -> None:
    """List formulas provided by packs."""


@json_command(
    "list", examples=("city formula list", "city formula list --json"), page="how-to/packs"
)
def list_formulas(context: CommandContext) -> int:
    """List formulas and where they come from.

    This version does not run formulas.
    """
    return _list_kind(context, "formula", "formulas")


@click.group(
    cls=LazyGroup,
    commands_at={
        "list": (
            "gascity.cli.pack.extras",
            "list_orders",
            "List orders, their triggers and where they come from.",
        )
    },
    page="how-to/packs",
)
def order() -> None:
    """List orders provided by packs."""


@json_command("list", examples=("city order list", "city order list --json"), page="how-to/packs")
def list_orders(context: CommandContext) -> int:
    """List orders, their triggers and where they come from.

    This version does not run orders.
    """
    return _list_kind(context, "order", "orders")


def extra_row(found: CityExtra, locator: Locator) -> dict[str, object]:
    """Return one formula, order, command or doctor entry as its JSON object."""
    entry = found.extra
    row: dict[str, object] = {
        "kind": entry.kind,
        "name": entry.name,
        "binding": found.binding,
        "rig": found.rig,
        "file": entry.file,
        "description": entry.description,
        "shadows": list(found.shadows),
        "problems": problems_json(entry.problems, locator),
    }
    if entry.kind == ORDER:
        row |= {
            "trigger": entry.trigger or None,
            "when": entry.when or None,
            "action": entry.action or None,
            "formula": entry.formula or None,
        }
    if entry.kind == COMMAND:
        row["words"] = list(entry.words)
    return row


def all_extras(
    context: CommandContext, pack: Pack, rigs: Mapping[str, Iterable[Import]]
) -> list[dict[str, object]]:
    """Return what the city and its packs provide and this version does not run."""
    extras, _ = city_extras(pack, rigs, Disk(context.root))
    return [extra_row(extra, context.locator()) for extra in extras]


def _list_kind(context: CommandContext, kind: str, key: str) -> int:
    """Print one kind of extra; `key` is its plural, and its key in JSON."""
    city = context.city()
    extras, problems = city_extras(city.pack, city.rig_imports, Disk(city.root), (kind,))
    problems += [problem for extra in extras for problem in extra.extra.problems]
    locator = context.locator()
    rows = [extra_row(extra, locator) for extra in extras]
    context.output(
        lambda: {key: rows, "run": False, "problems": problems_json(problems, locator)},
        lambda: _lines(rows, kind, key, context),
    )
    if not context.as_json:
        context.print_problems(problems)
    context.note_errors(city.problems)
    return 0


def _lines(rows: Sequence[Row], kind: str, key: str, context: CommandContext) -> Iterator[str]:
    if not rows:
        yield f"No {key}."
        return
    yield f"{plural(len(rows), kind)} (listed only; this version does not run {key}):"
    yield from entry_lines([_entry(row) for row in rows], context.width, context.colour)


def _entry(row: Row) -> Entry:
    texts = tuple(text for text in (order_text(row), str(row["description"])) if text)
    shadows = row["shadows"]
    return Entry(
        str(row["name"]),
        texts or ("(no description)",),
        details=(
            (f"{_origin(row)}: {row['file']}", DIM),
            *(
                (f"overrides {file}", DIM)
                for file in (shadows if isinstance(shadows, list) else ())
            ),
        ),
    )


def order_text(row: Row) -> str:
    """Return an order's trigger and action; empty for other kinds."""
    when = " ".join(str(row[key]) for key in ("trigger", "when") if row.get(key))
    action = f"formula {row['formula']}" if row.get("formula") else str(row.get("action") or "")
    return ": ".join(text for text in (when, action) if text)


def _origin(row: Row) -> str:
    binding = str(row["binding"] or "city")
    return f"{binding}, in rig {row['rig']}" if row["rig"] else binding
