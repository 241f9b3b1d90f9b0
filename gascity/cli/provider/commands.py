"""The short subcommands of `city provider`."""

from collections.abc import Iterator, Mapping

import click

from gascity.cli.agent.settings import setting_json, value_text, where
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.output import BOLD, DIM, Column, fact_lines, json_row, styled, table_lines
from gascity.cli.problems import Locator, city_error
from gascity.model.city import City
from gascity.model.layers import Setting
from gascity.model.names import did_you_mean
from gascity.model.provider import Option, Provider
from gascity.paths import which


def find_provider(city: City, name: str) -> Provider:
    """Return a provider by name; CityError if there is none."""
    found = city.providers.get(name)
    if found is None:
        hint = did_you_mean(name, city.providers) or "run `city provider list` to see them"
        raise city_error("unknown-provider", f"there is no provider `{name}`", hint)
    return found


@json_command(
    "list", examples=("city provider list", "city provider list --json"), page="how-to/providers"
)
def list_providers(context: CommandContext) -> int:
    """List providers.

    A star marks those that the city configures.
    """
    city = context.city(all_providers=True)
    providers = [provider for _, provider in sorted(city.providers.items())]
    columns = _columns(context, city)
    context.output(
        lambda: {"providers": [json_row(columns, provider) for provider in providers]},
        lambda: (
            *table_lines(columns, providers, context.width, context.colour),
            "* configured in this city",
        ),
    )
    context.note_errors(city.problems)
    return 0


def _columns(context: CommandContext, city: City) -> tuple[Column[Provider], ...]:
    def path(provider: Provider) -> str | None:
        program = provider.facts.path_check or provider.facts.command or ""
        return which(program, context.environ, context.cwd)

    def name(provider: Provider) -> str:
        return f"{provider.name}{'*' if provider.name in city.configured else ''}"

    return (
        Column("name", lambda p: p.name, "PROVIDER", name),
        Column("display_name", lambda p: p.facts.display_name or p.name),
        Column("command", lambda p: p.facts.command or None),
        Column("path", path),
        Column("installed", lambda p: path(p) is not None, "INSTALLED", lambda p: _yes(path(p))),
        Column("headless", lambda p: p.headless, "HEADLESS", lambda p: _yes(p.headless)),
        Column("mcp", lambda p: p.facts.mcp.target or None),
        Column("skills", lambda p: p.facts.skills.directory or None, "SKILLS"),
        Column("", lambda p: p.facts.mcp.target, "MCP"),
    )


def _yes(value: object) -> str:
    return "yes" if value else "-"


@json_command(
    "show",
    examples=("city provider show claude", "city provider show codex --json"),
    page="how-to/providers",
)
@click.argument("name")
def show_provider(context: CommandContext, name: str) -> int:
    """Show a provider's settings and their files."""
    city = context.city(all_providers=True)
    provider = find_provider(city, name)
    locator = context.locator()
    settings = provider.all_settings()
    row = json_row(_columns(context, city), provider)
    context.output(
        lambda: {
            **row,
            "providers": [row],
            "family": provider.family or None,
            "fields": {
                key: setting_json(setting, locator, reveal=False)
                for key, setting in settings.items()
            },
        },
        lambda: _show_lines(provider, row, settings, locator, context),
    )
    return 0


def _show_lines(
    provider: Provider,
    row: Mapping[str, object],
    settings: dict[str, Setting],
    locator: Locator,
    context: CommandContext,
) -> Iterator[str]:
    name = styled(provider.name, BOLD, context.colour)
    yield f"Provider:  {name} ({row['display_name']})"
    program = row["path"] or f"{row['command']} (not installed)"
    yield f"Program:   {program if row['command'] else 'none'}"
    if provider.family and provider.family != provider.name:
        yield f"Based on:  {provider.family}"
    options = [("Option", _option_text(provider, one)) for one in provider.options.values()]
    yield from fact_lines(options, 11, context.width)
    for key, setting in settings.items():
        if setting.layer is not None and key != "options_schema":
            yield f"  {key} = {value_text(setting)}"
            yield "      " + styled(where(setting, locator), DIM, context.colour)


def _option_text(provider: Provider, option: Option) -> str:
    chosen = provider.facts.option_defaults.get(option.key, option.default)
    values = [f"{value} (default)" if value == chosen else value for value in option.values]
    if chosen is not None and chosen not in option.values:
        values.append(f"{chosen} (default)")
    if option.flag:
        values.append("any other" if values else "any")
    return f"{option.key}: {', '.join(values)}"
