"""`city provider`: list and show providers, the agent CLIs that city can run."""

import click

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "list": ("gascity.cli.provider.commands", "list_providers", "List providers."),
    "show": (
        "gascity.cli.provider.commands",
        "show_provider",
        "Show a provider's settings and their files.",
    ),
    "check": (
        "gascity.cli.provider.check",
        "check_provider",
        "Check a provider's program and what it loads.",
    ),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS, page="how-to/providers")
def provider() -> None:
    """Manage providers (the agent CLIs city can run)."""
