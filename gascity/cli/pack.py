"""`city pack`: where the packs come from that the city imports, and which commit of them."""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.groups import LazyGroup
from gascity.cli.output import complain
from gascity.model.problems import CityError

if TYPE_CHECKING:
    from gascity.model.pack import Sources

_COMMANDS = {
    "add": ("gascity.cli.pack_edit", "add_pack", "Import a pack: a directory or a repository."),
    "remove": ("gascity.cli.pack_edit", "remove_pack", "Take an import out of the city."),
    "list": ("gascity.cli.pack", "list_packs", "List what is imported, and from where."),
    "show": ("gascity.cli.pack_show", "show", "Show what an import brings."),
    "install": ("gascity.cli.pack_sync", "install", "Fetch and pin whatever is missing here."),
    "update": ("gascity.cli.pack_sync", "update", "Pin newer commits where imports allow them."),
    "why": ("gascity.cli.pack_why", "why_pack", "Show every way by which a pack gets in."),
    "check": ("gascity.cli.pack_check", "check_packs", "Check imports, the lock and the cache."),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS)
def pack() -> None:
    """The packs that the city imports, and what packs.lock pins them to."""


@click.command("list")
@click.option("--tree", is_flag=True, help="Draw who imports what.")
@json_option
@pass_context
def list_packs(context: Context, tree: bool) -> int:
    """List every import, those of packs too: version, commit, and where it comes from."""
    from gascity.cli.pack_rows import row_json, rows_of, table_lines, tree_lines
    from gascity.packs.graph import rigs_of

    sources = read(context)
    rows = rows_of(sources.pack, rigs_of(sources), sources.problems)

    def answer() -> Mapping[str, object]:
        from gascity.cli.carried import everything_carried

        carried = everything_carried(context, sources.pack, rigs_of(sources))
        return {"imports": [row_json(row) for row in rows], "carried": carried}

    def lines() -> Iterator[str]:
        return tree_lines(sources, context) if tree else table_lines(rows, context)

    context.say(answer, lines)
    unread = sum(row.state != "ok" for row in rows)
    if unread:
        packs = "1 import" if unread == 1 else f"{unread} imports"
        complain(f"city: {packs} cannot be read; `city pack check` says why")
    return 0


def read(context: Context) -> "Sources":
    """The city as far as its imports go."""
    from gascity.packs.reading import read_imports
    from gascity.source.disk import Disk

    return read_imports(Disk(context.root), context.environ)


def complete_binding(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Names of imports for the shell; a broken city completes nothing."""
    from gascity.packs.graph import edges, rigs_of

    del parameter
    ours = Context(os.environ, os.getcwd(), context.find_root().params.get("chosen"))
    try:
        sources = read(ours)
    except CityError:
        return []
    names = {one.binding for _, one, _ in edges(sources.pack, rigs_of(sources))}
    return sorted(name for name in names if name.startswith(incomplete))
