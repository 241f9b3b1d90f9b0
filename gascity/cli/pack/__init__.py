"""`city pack`: list imported packs and their pinned commits."""

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "add": ("gascity.cli.pack.edit", "add_pack", "Import a pack."),
    "remove": ("gascity.cli.pack.edit", "remove_pack", "Remove an import."),
    "list": ("gascity.cli.pack.list", "list_packs", "List imports and where they come from."),
    "show": ("gascity.cli.pack.show", "show", "Show what a pack provides."),
    "install": ("gascity.cli.pack.edit", "install", "Fetch missing packs and pin them."),
    "update": ("gascity.cli.pack.edit", "update", "Update pinned commits to the newest allowed."),
    "why": ("gascity.cli.pack.list", "why_pack", "Show which imports pull in a pack."),
    "check": ("gascity.cli.pack.check", "check_packs", "Check imports, packs.lock and the cache."),
}

pack = LazyGroup(
    "pack",
    help="Manage imported packs and their pinned commits.",
    commands_at=_COMMANDS,
    page="how-to/packs",
)
