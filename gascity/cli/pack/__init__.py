"""`city pack`: manage imported packs and their pinned commits."""

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "new": (".new_files", "new_pack", "Create a pack in packs/."),
    "add": (".pack.edit", "add_pack", "Import a pack."),
    "remove": (".pack.edit", "remove_pack", "Remove an import."),
    "list": (".pack.list", "list_packs", "List imports and where they come from."),
    "show": (".pack.show", "show", "Show what a pack provides."),
    "install": (".pack.update", "install", "Fetch missing packs and pin them."),
    "accept": (".pack.accept", "accept_packs", "Accept what imported packs can execute."),
    "update": (".pack.update", "update", "Update pinned commits to the newest allowed."),
    "why": (".pack.list", "why_pack", "Show which imports pull in a pack."),
    "check": (".pack.check", "check_packs", "Check imports, packs.lock and the cache."),
}

pack = LazyGroup(
    "pack",
    help="Manage imported packs and their pinned commits.",
    commands_at=_COMMANDS,
    examples=("city pack list", "city pack add builtin:roles"),
    page="how-to/packs",
)
