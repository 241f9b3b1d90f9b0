"""Formulas, orders, commands and doctor entries as rows: for programs and for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gascity.cli.context import Context
from gascity.cli.output import BOLD, DIM, paint, wrap
from gascity.cli.problems import Locator, problems_json
from gascity.model.pack import Import, Pack
from gascity.model.problems import Problem
from gascity.source.carried import COMMAND, ORDER
from gascity.source.carried_graph import Found, carried_in
from gascity.source.disk import Disk

Row = Mapping[str, object]


def carried_row(found: Found, locator: Locator) -> dict[str, object]:
    """One entry as every `--json` gives it."""
    entry = found.entry
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


def everything_carried(
    context: Context, pack: Pack, rigs: Mapping[str, Iterable[Import]]
) -> list[dict[str, object]]:
    """What the city and its packs bring and this version does not run, of all kinds."""
    found, _ = carried_in(pack, rigs, Disk(context.root))
    return [carried_row(one, context.locator()) for one in found]


def list_kind(context: Context, kind: str, key: str) -> int:
    """Answer a command that lists one kind; `key` is the word for several of it."""
    city = context.city()
    found, problems = carried_in(city.pack, city.rig_imports, Disk(city.root), (kind,))
    problems += [problem for one in found for problem in one.entry.problems]
    rows = [carried_row(one, context.locator()) for one in found]
    context.say(
        lambda: {key: rows, "run": False, "problems": _wrong(problems, context)},
        lambda: _lines(rows, kind, key, context),
    )
    if not context.as_json:
        context.print_problems(problems)
    context.mention(city.problems)
    return 0


def _wrong(problems: Iterable[Problem], context: Context) -> list[dict[str, object]]:
    return problems_json(problems, context.locator())


def _lines(rows: Sequence[Row], kind: str, key: str, context: Context) -> Iterator[str]:
    if not rows:
        yield f"No {key}."
        return
    count, what = len(rows), kind if len(rows) == 1 else key
    yield f"{count} {what}, listed only: this version runs no {key}."
    names = min(max(len(str(row["name"])) for row in rows), 30)
    for row in rows:
        yield ""
        yield from _entry_lines(row, names, context)


def _entry_lines(row: Row, names: int, context: Context) -> Iterator[str]:
    indent = names + 4
    room = max(20, context.width - indent)
    name = str(row["name"])
    texts = [text for text in (order_text(row), str(row["description"])) if text]
    first, *rest = [line for text in texts for line in wrap(text, room)] or ["(no description)"]
    yield f"  {paint(name, BOLD, context.colour)}{' ' * (names - len(name))}  {first}"
    for line in rest:
        yield " " * indent + line
    yield " " * indent + paint(f"{_whose(row)}: {row['file']}", DIM, context.colour)
    shadows = row["shadows"]
    for shadow in shadows if isinstance(shadows, list) else ():
        yield " " * indent + paint(f"covers {shadow}", DIM, context.colour)


def order_text(row: Row) -> str:
    """When an order would do something, and what; nothing for anything but an order."""
    when = " ".join(str(row[key]) for key in ("trigger", "when") if row.get(key))
    what = f"formula {row['formula']}" if row.get("formula") else str(row.get("action") or "")
    return ": ".join(text for text in (when, what) if text)


def _whose(row: Row) -> str:
    binding = str(row["binding"] or "city")
    return f"{binding}, in rig {row['rig']}" if row["rig"] else binding
