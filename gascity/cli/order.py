"""`city order`: the orders that the city and its packs bring."""

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.groups import Group


@click.group(cls=Group)
def order() -> None:
    """The orders that the city and its packs bring."""


@order.command("list")
@json_option
@pass_context
def list_orders(context: Context) -> int:
    """List orders, what sets them off and where they come from. This version runs none."""
    from gascity.cli.carried import list_kind

    return list_kind(context, "order", "orders")
