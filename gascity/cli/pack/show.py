"""`city pack show`: what a pack, or the city itself, provides."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import BOLD, Entry, entry_lines, printable, styled, wrap
from gascity.cli.pack.extras import Row, extra_row, order_text
from gascity.cli.pack.list import complete_binding
from gascity.cli.pack.rows import shown_source
from gascity.cli.problems import city_error, problems_json
from gascity.model.city import City
from gascity.model.names import did_you_mean
from gascity.model.pack import CATALOGUES, AgentDir, Import, Pack
from gascity.model.problems import CityError, Problem
from gascity.source.catalogues import entry_names, read_skills
from gascity.source.disk import Disk
from gascity.source.pack_extras import PackUse, extras_of_packs, packs_of_import

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


class _PackTarget(NamedTuple):
    """The pack to show; `imported` is None for the city itself."""

    pack: Pack
    packs: Sequence[PackUse]
    imported: Import | None = None
    rig: str | None = None


@json_command(
    "show",
    examples=("city pack show crew", "city pack show"),
    page="how-to/packs",
)
@click.argument("binding", required=False, shell_complete=complete_binding)
def show(context: CommandContext, binding: str | None) -> int:
    """Show what a pack provides.

    BINDING is the name of an import, or RIG/BINDING for an import of a rig. Without
    it, shows what the city itself provides.
    """
    city = context.city()
    disk = Disk(city.root)
    target = _target(city, binding)
    found, problems = extras_of_packs(target.packs, disk)
    problems += [problem for one in found for problem in one.extra.problems]
    contents = _contents(target, disk)
    for one in found:
        contents[_KEYS[one.extra.kind]].append(extra_row(one, context.locator()))
    head = _head(city, target)
    wrong = {"run": False, "problems": problems_json(problems, context.locator())}
    context.output({**head, **contents, **wrong}, lambda: _lines(head, contents, context))
    if not context.as_json:
        context.print_problems(problems)
    context.note_errors(city.problems)
    return 0


def _imports(city: City) -> Iterator[tuple[str, str | None, Import]]:
    """Yield every import with its name on the command line."""
    for one in city.pack.imports:
        yield one.binding, None, one
    for rig, imports in city.rig_imports.items():
        for one in imports:
            yield f"{rig}/{one.binding}", rig, one


def _target(city: City, binding: str | None) -> _PackTarget:
    if binding is None:
        return _PackTarget(city.pack, [PackUse(city.pack)])
    named = {name: (rig, one) for name, rig, one in _imports(city)}
    meant = [binding] if binding in named else [n for n in named if n.endswith(f"/{binding}")]
    if len({named[name][1].directory for name in meant}) > 1:
        message = ", ".join(f"`{name}`" for name in meant)
        raise CityError(Problem("ambiguous-name", f"`{binding}` may mean {message}"))
    if not meant:
        hint = did_you_mean(binding, named) or "run `city pack list` to see the imports"
        message = f"nothing is imported as `{binding}`"
        raise city_error("unknown-pack", message, hint)
    rig, one = named[meant[0]]
    if one.pack is None:
        errors = [p for p in city.problems if p.is_error]
        missing = Problem("import-missing", f"cannot read the pack of `{binding}`", one.place)
        raise CityError(*(errors or (missing,)))
    return _PackTarget(one.pack, packs_of_import(one, rig), one, rig)


def _head(city: City, target: _PackTarget) -> dict[str, object]:
    one, values = target.imported, target.pack.values
    locked = one.locked if one else None
    return {
        "binding": one.binding if one else None,
        "rig": target.rig,
        "name": target.pack.name or (city.name if one is None else ""),
        "description": str(values.get("description") or ""),
        "source": shown_source(one) if one else None,
        "version": (one.version or None) if one else None,
        "commit": locked.commit if locked else None,
        "path": target.pack.root,
        "imports": [inner.binding for inner in target.pack.imports],
    }


def _contents(target: _PackTarget, disk: Disk) -> dict[str, list[dict[str, object]]]:
    """Return agents and catalogues by JSON key; the lists of extras are still empty."""
    found: dict[str, list[dict[str, object]]] = {key: [] for key in _HEADINGS}
    for use in target.packs:
        pack = use.pack
        found["agents"] += [_agent(one, use) for one in pack.agents]
        for kind in CATALOGUES:
            rows = found[kind.removeprefix("template-")]
            for directory in _directories(pack, kind):
                rows += _catalogue_rows(disk, directory, kind, pack.root)
    return {key: sorted(rows, key=lambda row: str(row["name"])) for key, rows in found.items()}


def _agent(one: AgentDir, use: PackUse) -> dict[str, object]:
    descriptions = [layer.values.get("description") for layer in one.layers]
    return {
        "name": f"{use.binding}.{one.name}" if use.binding else one.name,
        "file": one.directory,
        "description": next((str(text) for text in reversed(descriptions) if text), ""),
    }


def _directories(pack: Pack, kind: str) -> Iterator[str]:
    if kind in pack.catalogues:
        yield kind if pack.root == "." else f"{pack.root}/{kind}"
    yield from (directory for name, directory in pack.extra_asset_dirs if name == kind)


def _catalogue_rows(
    disk: Disk, directory: str, kind: str, pack: str
) -> Iterator[dict[str, object]]:
    if kind == "skills":
        for one in read_skills(disk, directory, pack):
            yield {"name": one.name, "file": one.path, "description": one.description}
        return
    files = disk.names(disk.absolute(directory))
    for name in entry_names(disk, directory, kind):
        file = name if kind == "overlay" else next(f for f in files if f.startswith(f"{name}."))
        yield {"name": name, "file": f"{directory}/{file}", "description": ""}


def _lines(
    head: Mapping[str, object], contents: Mapping[str, Sequence[Row]], context: CommandContext
) -> Iterator[str]:
    title = f"{head['binding']} ({head['name']})" if head["binding"] else f"{head['name']} (city)"
    yield f"Pack:       {styled(title, BOLD, context.colour)}"
    for label in ("Rig", "Source", "Version", "Commit", "Path"):
        if head[label.lower()]:
            yield printable(f"{label + ':':<11} {head[label.lower()]}")
    about = wrap(str(head["description"]), context.width - 12) if head["description"] else ()
    for number, line in enumerate(about):
        yield f"{'' if number else 'About:':<11} {line}"
    for key, rows in contents.items():
        if rows:
            yield ""
            yield styled(f"{_HEADINGS[key]}:", BOLD, context.colour)
            yield from entry_lines(_entries(rows), context.width, context.colour, spaced=False)
    carried = [_HEADINGS[key].lower() for key in _KEYS.values() if contents[key]]
    if carried:
        yield ""
        message = f"Listed only; this version does not run {', '.join(carried)}."
        yield from wrap(message, context.width)
    elif not any(contents.values()):
        yield ""
        yield "It is empty."


def _entries(rows: Iterable[Row]) -> list[Entry]:
    return [
        Entry(
            str(row["name"]),
            ("; ".join(part for part in (order_text(row), str(row["description"])) if part),),
        )
        for row in rows
    ]
