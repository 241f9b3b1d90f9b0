"""Contents of packs: `city pack show`, and `list` of `city formula` and `city order`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from gascity.cli.command import LazyGroup, json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import BOLD, DIM, plural, styled, wrap
from gascity.cli.pack.accept import executable_lines, executables_json
from gascity.cli.pack.list import SEE_IMPORTS, complete_binding, shown_source
from gascity.cli.problems import Locator, city_error, problems_json
from gascity.cli.tables import Entry, fact_lines
from gascity.model.city import City
from gascity.model.names import did_you_mean
from gascity.model.pack import CATALOGUES, Import, Pack
from gascity.model.problems import CityError, Problem
from gascity.model.values import JsonObject
from gascity.source.catalogues import entry_names, read_skills
from gascity.source.disk import Disk
from gascity.source.executables import Executable, list_executables
from gascity.source.pack_extras import (
    COMMAND,
    ORDER,
    CityExtra,
    Extra,
    PackUse,
    city_extras,
    extras_of_packs,
    packs_of_import,
)

_KEYS = {"formula": "formulas", "order": "orders", "command": "commands", "doctor": "doctor"}
_HEADINGS = {
    "agents": "Agents",
    "overlay": "Overlay",
    "skills": "Skills",
    "mcp": "MCP servers",
    "fragments": "Fragments",
    "hud": "HUD",
    "memory": "Memory",
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


class _Content(NamedTuple):
    """Something that a pack provides: its JSON object, and its text in the list."""

    row: JsonObject
    text: str

    @property
    def name(self) -> str:
        return str(self.row["name"])


@json_command("show", examples=("city pack show crew", "city pack show"), page="how-to/packs")
@click.argument("binding", required=False, shell_complete=complete_binding)
def show(context: CommandContext, binding: str | None) -> int:
    """Show what a pack provides.

    BINDING is the name of an import, or RIG/BINDING for an import of a rig. Without
    it, shows what the city itself provides.
    """
    city = context.city()
    target = _target(city, binding)
    disk = Disk(city.root)
    extras, problems = extras_of_packs(target.packs, disk)
    problems += [problem for each in extras for problem in each.extra.problems]
    contents = _contents(target, disk)
    for each in extras:
        texts = (_order_text(each.extra), each.extra.description)
        content = _Content(_extra_row(each, context.locator()), "; ".join(filter(None, texts)))
        contents[_KEYS[each.extra.kind]].append(content)
    executes = _executables(target, disk)
    head = _head(city, target)
    rows = {key: [content.row for content in listed] for key, listed in contents.items()}
    listed = [row for root, each in executes for row in executables_json((each,), root)]
    wrong = {"run": False, "executes": listed, "problems": context.problems_json(problems)}

    def lines() -> Iterator[str]:
        yield from _lines(head, contents, context)
        yield from _executable_lines(context, target, executes)

    context.output({**head, **rows, **wrong}, lines, problems)
    context.note_errors(city.problems)
    return 0


def _executables(target: _PackTarget, disk: Disk) -> list[tuple[str, Executable]]:
    """Return what the pack and those it imports can execute, each with its pack's root."""
    return [
        (use.pack.root, entry)
        for use in reversed(target.packs)
        for entry in list_executables(disk, disk.absolute(use.pack.root), own=use.pack.own)
    ]


def _executable_lines(
    context: CommandContext, target: _PackTarget, executes: Sequence[tuple[str, Executable]]
) -> Iterator[str]:
    if not executes:
        return
    yield ""
    yield styled("It can execute or reach:", BOLD, context.colour)
    names = {use.pack.root: use.pack.name for use in target.packs if not use.pack.own}
    rows = []
    for root, entry in executes:
        own = target.imported is not None and root == target.pack.root
        name = target.imported.binding if own and target.imported else names.get(root, "")
        rows.append((f"{name}//" if name else "", entry))
    yield from executable_lines(context, rows)
    waiting = [use.pack.name for use in target.packs if not use.pack.accepted]
    if waiting and target.imported is not None:
        name = f"{target.rig}/" if target.rig else ""
        name += target.imported.binding
        yield ""
        yield f"Not accepted, so not used. To accept it: `city pack accept {name}`"


def _target(city: City, binding: str | None) -> _PackTarget:
    if binding is None:
        return _PackTarget(city.pack, [PackUse(city.pack)])
    named: dict[str, tuple[str | None, Import]] = {
        target.binding: (None, target) for target in city.pack.imports
    }
    for rig, imports in city.rig_imports.items():
        named |= {f"{rig}/{target.binding}": (rig, target) for target in imports}
    meant = [binding] if binding in named else [n for n in named if n.endswith(f"/{binding}")]
    if len({named[name][1].directory for name in meant}) > 1:
        message = ", ".join(f"`{name}`" for name in meant)
        raise CityError(Problem("ambiguous-name", f"`{binding}` may mean {message}"))
    if not meant:
        message = f"nothing is imported as `{binding}`"
        raise city_error("unknown-pack", message, did_you_mean(binding, named) or SEE_IMPORTS)
    of_rig, imported = named[meant[0]]
    if imported.pack is None:
        errors = [p for p in city.problems if p.is_error]
        missing = Problem("import-missing", f"cannot read the pack of `{binding}`", imported.place)
        raise CityError(*(errors or (missing,)))
    return _PackTarget(imported.pack, packs_of_import(imported, of_rig), imported, of_rig)


def _head(city: City, target: _PackTarget) -> JsonObject:
    imported = target.imported
    locked = imported.locked if imported else None
    return {
        "binding": imported.binding if imported else None,
        "rig": target.rig,
        "name": target.pack.name or (city.name if imported is None else ""),
        "description": target.pack.description,
        "source": shown_source(imported) if imported else None,
        "version": (imported.version or None) if imported else None,
        "commit": locked.commit if locked else None,
        "path": target.pack.root,
        "accepted": all(use.pack.accepted for use in target.packs),
        "imports": [inner.binding for inner in target.pack.imports],
    }


def _contents(target: _PackTarget, disk: Disk) -> dict[str, list[_Content]]:
    """Return agents and catalogues by JSON key; the lists of extras are still empty."""
    contents: dict[str, list[_Content]] = {key: [] for key in _HEADINGS}
    for use in target.packs:
        contents["agents"] += _agents(use)
        for kind in CATALOGUES:
            for directory in _directories(use.pack, kind):
                listed = _catalogue(disk, directory, kind, use.pack.root)
                contents[kind.removeprefix("template-")] += listed
    return {key: sorted(listed, key=lambda each: each.name) for key, listed in contents.items()}


def _content(name: str, file: str, description: str = "") -> _Content:
    return _Content({"name": name, "file": file, "description": description}, description)


def _agents(use: PackUse) -> Iterator[_Content]:
    for agent in use.pack.agents:
        name = f"{use.binding}.{agent.name}" if use.binding else agent.name
        descriptions = [layer.values.get("description") for layer in agent.layers]
        description = next((str(text) for text in reversed(descriptions) if text), "")
        yield _content(name, agent.directory, description)


def _directories(pack: Pack, kind: str) -> Iterator[str]:
    if kind in pack.catalogues:
        yield kind if pack.root == "." else f"{pack.root}/{kind}"
    yield from (directory for name, directory in pack.extra_asset_dirs if name == kind)


def _catalogue(disk: Disk, directory: str, kind: str, pack: str) -> Iterator[_Content]:
    if kind == "skills":
        for skill in read_skills(disk, directory, pack):
            yield _content(skill.name, skill.path, skill.description)
        return
    files = disk.names(disk.absolute(directory))
    for name in entry_names(disk, directory, kind):
        file = name if kind == "overlay" else next(f for f in files if f.startswith(f"{name}."))
        yield _content(name, f"{directory}/{file}")


def _lines(
    head: Mapping[str, object],
    contents: Mapping[str, Sequence[_Content]],
    context: CommandContext,
) -> Iterator[str]:
    title = f"{head['binding']} ({head['name']})" if head["binding"] else f"{head['name']} (city)"
    labels = {label: label.lower() for label in ("Rig", "Source", "Version", "Commit", "Path")}
    facts = [(label, str(head[key] or "")) for label, key in labels.items()]
    facts = [("Pack", title), *facts, ("About", str(head["description"]))]
    yield from fact_lines(facts, 12, context.width, "Pack", context.colour)
    for key, listed in contents.items():
        if listed:
            yield ""
            yield styled(f"{_HEADINGS[key]}:", BOLD, context.colour)
            entries = [Entry(content.name, (content.text,)) for content in listed]
            yield from context.entries(entries, spaced=False)
    not_run = [_HEADINGS[key].lower() for key in _KEYS.values() if contents[key]]
    if not_run:
        yield ""
        message = f"Listed only; this version does not run {', '.join(not_run)}."
        yield from wrap(message, context.width)
    elif not any(contents.values()):
        yield ""
        yield "It is empty."


def _extra_row(extra: CityExtra, locator: Locator) -> JsonObject:
    """Return one formula, order, command or doctor entry as its JSON object."""
    entry = extra.extra
    row: JsonObject = {
        "kind": entry.kind,
        "name": entry.name,
        "binding": extra.binding,
        "rig": extra.rig,
        "file": entry.file,
        "description": entry.description,
        "shadows": list(extra.shadows),
        "problems": problems_json(entry.problems, locator),
    }
    if entry.kind == ORDER:
        keys = ("trigger", "when", "action", "formula")
        row |= {key: getattr(entry, key) or None for key in keys}
    if entry.kind == COMMAND:
        row["words"] = list(entry.words)
    return row


def _order_text(extra: Extra) -> str:
    """Return an order's trigger and action; empty for other kinds."""
    when = " ".join(filter(None, (extra.trigger, extra.when)))
    action = f"formula {extra.formula}" if extra.formula else extra.action
    return ": ".join(filter(None, (when, action)))


def all_extras(
    context: CommandContext, pack: Pack, rigs: Mapping[str, Iterable[Import]]
) -> list[JsonObject]:
    """Return what the city and its packs provide and this version does not run."""
    extras, _ = city_extras(pack, rigs, Disk(context.root))
    return [_extra_row(extra, context.locator()) for extra in extras]


@json_command(
    "list", examples=("city formula list", "city formula list --json"), page="how-to/packs"
)
def list_formulas(context: CommandContext) -> int:
    """List formulas and where they come from.

    This version does not run formulas.
    """
    return _list_kind(context, "formula")


@json_command("list", examples=("city order list", "city order list --json"), page="how-to/packs")
def list_orders(context: CommandContext) -> int:
    """List orders, their triggers and where they come from.

    This version does not run orders.
    """
    return _list_kind(context, "order")


def _list_kind(context: CommandContext, kind: str) -> int:
    city = context.city()
    extras, problems = city_extras(city.pack, city.rig_imports, Disk(city.root), (kind,))
    problems += [problem for each in extras for problem in each.extra.problems]
    locator, key = context.locator(), _KEYS[kind]

    def lines() -> Iterator[str]:
        if not extras:
            yield f"No {key}."
            return
        yield f"{plural(len(extras), kind)} (listed only; this version does not run {key}):"
        yield from context.entries([_entry(extra) for extra in extras])

    def answer() -> Mapping[str, object]:
        rows = [_extra_row(extra, locator) for extra in extras]
        return {key: rows, "run": False, "problems": problems_json(problems, locator)}

    context.output(answer, lines, problems)
    context.note_errors(city.problems)
    return 0


def _entry(extra: CityExtra) -> Entry:
    texts = tuple(filter(None, (_order_text(extra.extra), extra.extra.description)))
    origin = extra.binding or "city"
    origin += f", in rig {extra.rig}" if extra.rig else ""
    details = (f"{origin}: {extra.extra.file}", *(f"overrides {file}" for file in extra.shadows))
    return Entry(
        extra.extra.name,
        texts or ("(no description)",),
        details=tuple((detail, DIM) for detail in details),
    )


formula = LazyGroup(
    "formula",
    (list_formulas,),
    help="List formulas provided by packs.",
    examples=("city formula list", "city formula list --json"),
    page="how-to/packs",
)
order = LazyGroup(
    "order",
    (list_orders,),
    help="List orders provided by packs.",
    examples=("city order list", "city order list --json"),
    page="how-to/packs",
)
