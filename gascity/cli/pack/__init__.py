"""`city pack`: list imported packs and their pinned commits."""

import click

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "add": ("gascity.cli.pack.edit", "add_pack", "Import a pack."),
    "remove": ("gascity.cli.pack.edit", "remove_pack", "Remove an import."),
    "list": ("gascity.cli.pack.list", "list_packs", "List imports and where they come from."),
    "show": ("gascity.cli.pack.show", "show", "Show what a pack provides."),
    "install": ("gascity.cli.pack.sync", "install", "Fetch missing packs and pin them."),
    "update": ("gascity.cli.pack.sync", "update", "Update pinned commits to the newest allowed."),
    "why": ("gascity.cli.pack.why", "why_pack", "Show which imports pull in a pack."),
    "check": ("gascity.cli.pack.check", "check_packs", "Check imports, packs.lock and the cache."),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS, page="how-to/packs")
def pack() -> None:
    """Manage imported packs and their pinned commits."""
