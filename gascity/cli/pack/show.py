"""`city pack show`: all that one import brings, or the city itself."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import click

from gascity.cli.carried import Row, carried_row, order_text
from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.output import BOLD, clean, paint, wrap
from gascity.cli.pack import complete_binding
from gascity.cli.pack_rows import shown_source
from gascity.cli.problems import problems_json
from gascity.model.city import City
from gascity.model.names import did_you_mean
from gascity.model.pack import CATALOGUES, AgentDir, Import, Pack
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.source.carried_graph import Held, carried_by, held_by
from gascity.source.catalogues import entry_names, read_skills
from gascity.source.disk import Disk

_KEYS = {"formula": "formulas", "order": "orders", "command": "commands", "doctor": "doctor"}
_HEADINGS = {
    "agents": "Agents",
    "overlay": "Overlay",
    "skills": "Skills",
    "mcp": "MCP servers",
    "fragments": "Fragments",
    "hud": "HUD",
    "formulas": "Formulas",
    "orders": "Orders",
    "commands": "Commands",
    "doctor": "Doctor entries",
}


class _Asked(NamedTuple):
    """What is to be shown; `imported` is None for the city itself."""

    pack: Pack
    packs: Sequence[Held]
    imported: Import | None = None
    rig: str | None = None


@click.command("show")
@click.argument("binding", required=False, shell_complete=complete_binding)
@json_option
@pass_context
def show(context: Context, binding: str | None) -> int:
    """Show what an import brings: agents, skills, servers, fragments, formulas and so on.

    BINDING is the name an import has in the city, or RIG/BINDING for an import of a rig. Without
    it, what the city has of its own is shown.
    """
    city = context.city()
    disk = Disk(city.root)
    asked = _asked(city, binding)
    found, problems = carried_by(asked.packs, disk)
    problems += [problem for one in found for problem in one.entry.problems]
    contents = _contents(asked, disk)
    for one in found:
        contents[_KEYS[one.entry.kind]].append(carried_row(one, context.locator()))
    head = _head(city, asked)
    wrong = {"run": False, "problems": problems_json(problems, context.locator())}
    context.say({**head, **contents, **wrong}, lambda: _lines(head, contents, context))
    if not context.as_json:
        context.print_problems(problems)
    context.mention(city.problems)
    return 0


def _imports(city: City) -> Iterator[tuple[str, str | None, Import]]:
    """Every import that can be asked for, as it is asked for."""
    for one in city.pack.imports:
        yield one.binding, None, one
    for rig, imports in city.rig_imports.items():
        for one in imports:
            yield f"{rig}/{one.binding}", rig, one


def _asked(city: City, binding: str | None) -> _Asked:
    if binding is None:
        return _Asked(city.pack, [Held(city.pack)])
    named = {name: (rig, one) for name, rig, one in _imports(city)}
    meant = [binding] if binding in named else [n for n in named if n.endswith(f"/{binding}")]
    if len({named[name][1].directory for name in meant}) > 1:
        words = ", ".join(f"`{name}`" for name in meant)
        raise CityError(Problem("ambiguous-name", f"`{binding}` may be {words}"))
    if not meant:
        hint = did_you_mean(binding, named) or "`city pack list` shows what is imported"
        words = f"nothing is imported as `{binding}`"
        raise CityError(Problem("unknown-pack", words, None, hint))
    rig, one = named[meant[0]]
    if one.pack is None:
        faults = [p for p in city.problems if p.is_error]
        lacking = Problem("import-missing", f"the pack of `{binding}` cannot be read", one.place)
        raise CityError(*(faults or (lacking,)))
    return _Asked(one.pack, held_by(one, rig), one, rig)


def _head(city: City, asked: _Asked) -> dict[str, object]:
    one, values = asked.imported, asked.pack.values
    locked = one.locked if one else None
    return {
        "binding": one.binding if one else None,
        "rig": asked.rig,
        "name": asked.pack.name or (city.name if one is None else ""),
        "description": str(values.get("description") or ""),
        "source": shown_source(one) if one else None,
        "version": (one.version or None) if one else None,
        "commit": locked.commit if locked else None,
        "path": asked.pack.root,
        "imports": [inner.binding for inner in asked.pack.imports],
    }


def _contents(asked: _Asked, disk: Disk) -> dict[str, list[dict[str, object]]]:
    """What is not merely carried, under the keys of the answer, and room for what is."""
    found: dict[str, list[dict[str, object]]] = {key: [] for key in _HEADINGS}
    for held in asked.packs:
        pack = held.pack
        found["agents"] += [_agent(one, held) for one in pack.agents]
        for kind in CATALOGUES:
            rows = found[kind.removeprefix("template-")]
            for directory in _directories(pack, kind):
                rows += _on_shelf(disk, directory, kind, pack.root)
    return {key: sorted(rows, key=lambda row: str(row["name"])) for key, rows in found.items()}


def _agent(one: AgentDir, held: Held) -> dict[str, object]:
    said = [layer.values.get("description") for layer in one.layers]
    return {
        "name": f"{held.binding}.{one.name}" if held.binding else one.name,
        "file": one.directory,
        "description": next((str(text) for text in reversed(said) if text), ""),
    }


def _directories(pack: Pack, kind: str) -> Iterator[str]:
    if kind in pack.catalogues:
        yield kind if pack.root == "." else f"{pack.root}/{kind}"
    yield from (directory for shelf, directory in pack.shelves if shelf == kind)


def _on_shelf(disk: Disk, directory: str, kind: str, pack: str) -> Iterator[dict[str, object]]:
    if kind == "skills":
        for one in read_skills(disk, directory, pack):
            yield {"name": one.name, "file": one.path, "description": one.description}
        return
    files = disk.names(disk.absolute(directory))
    for name in entry_names(disk, directory, kind):
        file = name if kind == "overlay" else next(f for f in files if f.startswith(f"{name}."))
        yield {"name": name, "file": f"{directory}/{file}", "description": ""}


def _lines(
    head: Mapping[str, object], contents: Mapping[str, Sequence[Row]], context: Context
) -> Iterator[str]:
    title = f"{head['binding']} ({head['name']})" if head["binding"] else f"{head['name']} (city)"
    yield f"Pack:       {paint(title, BOLD, context.colour)}"
    for label in ("Rig", "Source", "Version", "Commit", "Path"):
        if head[label.lower()]:
            yield clean(f"{label + ':':<11} {head[label.lower()]}")
    about = wrap(str(head["description"]), context.width - 12) if head["description"] else ()
    for number, line in enumerate(about):
        yield f"{'' if number else 'About:':<11} {line}"
    for key, rows in contents.items():
        if rows:
            yield ""
            yield paint(f"{_HEADINGS[key]}:", BOLD, context.colour)
            yield from _rows(rows, context.width)
    carried = [_HEADINGS[key].lower() for key in _KEYS.values() if contents[key]]
    if carried:
        yield ""
        words = f"Listed only, not run by this version: {', '.join(carried)}."
        yield from wrap(words, context.width)
    elif not any(contents.values()):
        yield ""
        yield "There is nothing in it."


def _rows(rows: Iterable[Row], columns: int) -> Iterator[str]:
    found = list(rows)
    names = min(max(len(str(row["name"])) for row in found), 30)
    for row in found:
        text = "; ".join(part for part in (order_text(row), str(row["description"])) if part)
        first, *rest = wrap(text, max(20, columns - names - 4))
        yield clean(f"  {row['name']!s:<{names}}  {first}".rstrip())
        yield from (" " * (names + 4) + line for line in rest)
