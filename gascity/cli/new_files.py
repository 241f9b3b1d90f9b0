"""`city pack new`, `skill new` and `mcp new`: create files with what the user gives."""

import os

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.cli.edit import editing, write_if_valid
from gascity.cli.problems import city_error
from gascity.model.names import is_name
from gascity.toml.edit import set_fields

_SKILL = """\
---
name: {name}
description: {description}
---

# {title}
"""
_description = click.option(
    "--description", metavar="TEXT", required=True, help="What it is for, in one line."
)


@json_command(
    "new",
    examples=("city pack new crew", "city pack new crew --description 'Our shared agents.'"),
    page="how-to/packs",
)
@click.argument("name")
@click.option("--description", metavar="TEXT", default="", help="What it is for, in one line.")
def new_pack(context: CommandContext, name: str, description: str) -> int:
    """Create a pack in packs/."""
    fields = {"pack.name": name, "pack.schema": 2, "pack.description": description or None}
    text = set_fields("[pack]\n", {key: value for key, value in fields.items() if value})
    file = f"packs/{_checked(name)}/pack.toml"
    return _create(context, name, file, text, f"`city pack add packs/{name}`")


@json_command(
    "new",
    examples=(
        "city skill new release --description 'Make a release.'",
        "city skill new release --description 'Make a release.' --agent mayor",
    ),
    page="how-to/skills",
)
@click.argument("name")
@_description
@agent_option("Agent of this city that gets it (default: all agents).")
def new_skill(context: CommandContext, name: str, description: str, agent: str | None) -> int:
    """Create a skill."""
    title = name.replace("-", " ").capitalize()
    text = _SKILL.format(name=_checked(name), description=_quoted(description), title=title)
    file = f"{_home(context, agent)}skills/{name}/SKILL.md"
    return _create(context, name, file, text, f"write its instructions in {file}")


@json_command(
    "new",
    examples=(
        "city mcp new files --command 'npx -y @acme/files' --description 'Reads files.'",
        "city mcp new news --url https://news.example.org/mcp --description 'News.'",
    ),
    page="how-to/mcp",
)
@click.argument("name")
@click.option("--command", "command_line", metavar="COMMAND", help="Program and its arguments.")
@click.option("--url", metavar="URL", help="URL of a running server.")
@_description
@agent_option("Agent of this city that gets it (default: all agents).")
def new_server(
    context: CommandContext,
    name: str,
    command_line: str | None,
    url: str | None,
    description: str,
    agent: str | None,
) -> int:
    """Create the definition of an MCP server."""
    from shlex import split

    if bool(command_line) == bool(url):
        raise click.UsageError("pass --command or --url")
    program, *args = split(command_line) if command_line else [""]
    fields: dict[str, object] = {"name": _checked(name), "description": description}
    fields |= {"url": url} if url else {"command": program}
    fields |= {"args": args} if args else {}
    text = set_fields("", fields)
    file = f"{_home(context, agent)}mcp/{name}.toml"
    return _create(context, name, file, text, "`city mcp check`")


def _checked(name: str) -> str:
    if not is_name(name):
        hint = "use letters, digits, - and _; start with a letter or digit"
        raise city_error("bad-name", f"invalid name `{name}`", hint)
    return name


def _quoted(text: str) -> str:
    """Return a text for YAML: quoted if it is not plain."""
    import json

    plain = text.isprintable() and text[:1].isalnum() and not any(mark in text for mark in ":#")
    return text if plain else json.dumps(text, ensure_ascii=False)


def _home(context: CommandContext, agent: str | None) -> str:
    """Return the directory of an agent of this city, with a slash; "" for the city."""
    if agent is None:
        return ""
    _, selected = context.agent(agent)
    if selected.layer != "city":
        message = f"`{selected.name}` is not defined by this city"
        raise city_error("not-your-agent", message, "leave out --agent")
    return f"{selected.home.directory}/"


def _create(context: CommandContext, name: str, file: str, text: str, next_step: str) -> int:
    """Write a new file if the city is valid with it; CityError if it exists."""
    with editing(context) as city:
        if os.path.lexists(os.path.join(city.root, file)):
            raise city_error("duplicate-name", f"{file} already exists")
        write_if_valid(context, city, {file: text})
    return context.output(
        {"name": name, "created": [file]},
        lambda: ["Created:", f"  {file}", f"Next: {next_step}"],
    )
