"""`city formula`: the formulas that the city and its packs bring."""

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.groups import Group


@click.group(cls=Group)
def formula() -> None:
    """The formulas that the city and its packs bring."""


@formula.command("list")
@json_option
@pass_context
def list_formulas(context: Context) -> int:
    """List formulas and where they come from. This version does not run them."""
    from gascity.cli.carried import list_kind

    return list_kind(context, "formula", "formulas")
