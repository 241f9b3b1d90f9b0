"""`city provider`: what can run an agent, and how."""

import os
from collections.abc import Iterator

import click

from gascity.cli.agent import value_text, where
from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.output import BOLD, DIM, paint, table
from gascity.cli.problems import Locator
from gascity.model.city import City
from gascity.model.layers import Setting
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem
from gascity.model.provider import Provider
from gascity.model.secrets import masked


@click.group()
def provider() -> None:
    """The coding agents that can be run."""


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
    def cells(row: dict[str, object]) -> list[str]:
        name = str(row["name"])
        mark = "configured" if name in city.configured else ""
        return [
            name,
            "yes" if row["installed"] else "-",
            "yes" if row["headless"] else "-",
            str(row["mcp"] or "-"),
            str(row["skills"] or "-"),
            mark,
        ]

    heads = ("PROVIDER", "INSTALLED", "HEADLESS", "MCP", "SKILLS", "CITY")
    lines = table([cells(row) for row in rows], heads, context.width)
    yield paint(lines[0], BOLD, context.colour)
    yield from lines[1:]


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
    answer = {
        **_row(one, context),
        "providers": [_row(one, context)],
        "family": one.family or None,
        "fields": {key: _field(setting, locator) for key, setting in settings.items()},
    }
    context.say(answer, lambda: _show_lines(one, settings, locator, context))
    return 0


def _field(setting: Setting, locator: Locator) -> dict[str, object]:
    line, _ = locator.line_col(setting.place)
    return {
        "value": masked(setting.value, setting.key),
        "file": setting.place.file if setting.place else None,
        "line": line,
        "layer": setting.kind,
    }


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
        words = ", ".join(f"{v} (default)" if v == option.default else v for v in option.values)
        yield f"Option:    {option.key}: {words}" + (", or any other" if option.flag else "")
    for name, setting in settings.items():
        if setting.layer is not None and name != "options_schema":
            yield f"  {name} = {value_text(setting)}"
            yield "      " + paint(where(setting, locator), DIM, context.colour)
