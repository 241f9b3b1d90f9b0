"""`city pack list`."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, completion_context
from gascity.cli.output import plural, print_stderr
from gascity.model.problems import CityError

if TYPE_CHECKING:
    from gascity.model.pack import Sources


@json_command(
    "list",
    examples=("city pack list", "city pack list --tree"),
    page="how-to/packs",
)
@click.option("--tree", is_flag=True, help="Show the imports as a tree.")
def list_packs(context: CommandContext, tree: bool) -> int:
    """List imports and where they come from.

    Includes the imports of packs.
    """
    from gascity.cli.pack.rows import list_lines, row_json, rows_of, tree_lines
    from gascity.packs.graph import rigs_of

    sources = read(context)
    rows = rows_of(sources.pack, rigs_of(sources), sources.problems)

    def answer() -> Mapping[str, object]:
        from gascity.cli.pack.extras import all_extras

        extras = all_extras(context, sources.pack, rigs_of(sources))
        return {"imports": [row_json(row) for row in rows], "carried": extras}

    def lines() -> Iterator[str]:
        return tree_lines(sources, context) if tree else list_lines(rows, context)

    context.output(answer, lines)
    unread = sum(row.state != "ok" for row in rows)
    if unread:
        print_stderr(unread_note(unread))
    return 0


def unread_note(count: int) -> str:
    """Return the note about imports that cannot be read."""
    return f"city: cannot read {plural(count, 'import')}; run `city pack check` to see why"


def read(context: CommandContext) -> "Sources":
    """Read the imports of the city."""
    from gascity.packs.graph import read_imports
    from gascity.source.disk import Disk

    return read_imports(Disk(context.root), context.environ)


def complete_binding(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete import names; a broken city completes nothing."""
    from gascity.packs.graph import edges, rigs_of

    del parameter
    try:
        sources = read(completion_context(ctx))
    except CityError:
        return []
    names = {imported.binding for _, imported, _ in edges(sources.pack, rigs_of(sources))}
    return sorted(name for name in names if name.startswith(incomplete))
