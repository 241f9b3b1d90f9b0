"""`city provider`: what can run an agent, and how."""

import os
from collections.abc import Iterator, Mapping

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.groups import Group
from gascity.cli.output import BOLD, DIM, paint, table, wrap
from gascity.cli.problems import Locator
from gascity.cli.provider_check import check_provider
from gascity.cli.settings import setting_json, value_text, where
from gascity.model.city import City
from gascity.model.layers import Setting
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem
from gascity.model.provider import Option, Provider


@click.group(cls=Group)
def provider() -> None:
    """The coding agents that can be run."""


provider.add_command(check_provider)


@provider.command("list")
@json_option
@pass_context
def list_providers(context: Context) -> int:
    """List every provider the city can name."""
    city = context.city(all_providers=True)
    rows = [_row(one, context) for _, one in sorted(city.providers.items())]
    context.say({"providers": rows}, lambda: _list_lines(rows, city, context))
    context.mention(city.problems)
    return 0


def _row(one: Provider, context: Context) -> dict[str, object]:
    path = find_program(one.text("path_check") or one.text("command"), context)
    return {
        "name": one.name,
        "display_name": one.text("display_name") or one.name,
        "command": one.text("command") or None,
        "path": path,
        "installed": path is not None,
        "headless": one.headless,
        "mcp": one.text("mcp.target") or None,
        "skills": one.text("skills.directory") or None,
    }


def find_program(command: str, context: Context) -> str | None:
    """Where a program is on PATH; a path of its own is taken as it is."""
    if not command:
        return None
    places = [""] if "/" in command else context.environ.get("PATH", "").split(":")
    for place in places:
        path = os.path.join(place or context.cwd, command)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def _list_lines(rows: list[dict[str, object]], city: City, context: Context) -> Iterator[str]:
    cells = [
        [
            f"{row['name']}{'*' if row['name'] in city.configured else ''}",
            "yes" if row["installed"] else "-",
            "yes" if row["headless"] else "-",
            str(row["skills"] or "-"),
            str(row["mcp"] or "-"),
        ]
        for row in rows
    ]
    lines = table(cells, ("PROVIDER", "INSTALLED", "HEADLESS", "SKILLS", "MCP"), context.width)
    yield paint(lines[0], BOLD, context.colour)
    yield from lines[1:]
    yield "* configured in this city"


@provider.command("show")
@click.argument("name")
@json_option
@pass_context
def show_provider(context: Context, name: str) -> int:
    """Show every fact about one provider, and the file it stands in."""
    city = context.city(all_providers=True)
    one = city.providers.get(name)
    if one is None:
        raise CityError(
            Problem(
                "unknown-provider",
                f"there is no provider `{name}`",
                None,
                did_you_mean(name, city.providers) or "`city provider list` shows them",
            )
        )
    locator = context.locator()
    settings = one.settings()
    context.say(
        lambda: {
            **_row(one, context),
            "providers": [_row(one, context)],
            "family": one.family or None,
            "fields": {
                key: setting_json(found, locator, reveal=False) for key, found in settings.items()
            },
        },
        lambda: _show_lines(one, settings, locator, context),
    )
    return 0


def _show_lines(
    one: Provider, settings: dict[str, Setting], locator: Locator, context: Context
) -> Iterator[str]:
    row = _row(one, context)
    yield f"Provider:  {paint(one.name, BOLD, context.colour)} ({row['display_name']})"
    program = row["path"] or f"{row['command']} (not installed)"
    yield f"Program:   {program if row['command'] else 'none'}"
    if one.family and one.family != one.name:
        yield f"Based on:  {one.family}"
    for option in one.options.values():
        first, *rest = wrap(_option_text(one, option), context.width - 11)
        yield f"Option:    {first}"
        yield from (" " * 11 + line for line in rest)
    for name, setting in settings.items():
        if setting.layer is not None and name != "options_schema":
            yield f"  {name} = {value_text(setting)}"
            yield "      " + paint(where(setting, locator), DIM, context.colour)


def _option_text(one: Provider, option: Option) -> str:
    defaults = one.value("option_defaults")
    chosen = defaults.get(option.key, option.default) if isinstance(defaults, Mapping) else None
    words = [f"{value} (default)" if value == chosen else value for value in option.values]
    if chosen is not None and chosen not in option.values:
        words.append(f"{chosen} (default)")
    if option.flag:
        words.append("any other" if words else "any")
    return f"{option.key}: {', '.join(words)}"
