"""Shell completion of names in a city, and the options and arguments that use it."""

from collections.abc import Callable, Iterator

import click

from gascity.cli.context import CommandContext, F, completes, completion_context
from gascity.model.problems import CityError

_MOST = 200  # work items that are offered


def _providers(context: CommandContext) -> Iterator[str]:
    yield from context.city(all_providers=True).providers


def complete_work(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete ids of work items, newest first; a broken store completes nothing."""
    from gascity.cli.identity import access, authorize
    from gascity.store.port import StoreError

    del parameter
    try:
        context = completion_context(ctx)
        authorize(context, "work list")
        store = context.store_if_any()
        items = store.list_work(limit=_MOST) if store is not None else []
        seen = [item.id for item in items if access(context).sees(item.agent)]
    except (CityError, StoreError):
        return []
    return [id for id in seen if id.startswith(incomplete)]


def complete_setting(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete `FIELD=VALUE` of an agent: the name of a setting, or one of its choices."""
    del ctx, parameter
    from gascity.model.fields import AGENT, Kind

    name, equals, start = incomplete.partition("=")
    if not equals:
        return [f"{key}=" for key in AGENT.fields if key.startswith(incomplete)]
    field = AGENT.fields.get(name)
    choices = field.choices if field is not None else ()
    choices = choices or (("true", "false") if field and field.kind is Kind.BOOLEAN else ())
    return [f"{name}={choice}" for choice in choices if choice and choice.startswith(start)]


def complete_field(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of an agent's setting."""
    del ctx, parameter
    from gascity.model.fields import AGENT

    return [key for key in AGENT.fields if key.startswith(incomplete)]


complete_provider = completes(_providers)
complete_rig = completes(lambda context: [rig.name for rig in context.city().rigs])


def rig_option(help: str = "Filter by rig.") -> Callable[[F], F]:
    """Return the `--rig` option with completion."""
    return click.option("--rig", metavar="RIG", shell_complete=complete_rig, help=help)
