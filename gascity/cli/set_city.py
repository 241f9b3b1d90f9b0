"""`city set`: change settings of the city itself."""

import click

from gascity.cli.agent.edit import known_key, parse_value, wants_text
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.edit import editing, read_text, write_if_valid
from gascity.cli.problems import city_error
from gascity.model.names import did_you_mean
from gascity.model.tables import WORKSPACE
from gascity.toml.edit import set_fields

_FILE = "city.toml"
_TABLES = ("workspace", "agent_defaults")


def _complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    del ctx
    from gascity.model.fields import AGENT

    keys = [f"workspace.{key}=" for key in WORKSPACE.fields]
    keys += [f"agent_defaults.{key}=" for key in AGENT.fields]
    return [key for key in keys if key.startswith(incomplete)]


@json_command(
    "set",
    examples=(
        "city set workspace.provider=codex",
        "city set agent_defaults.max_active_sessions=2",
        "city set --unset workspace.provider",
    ),
    page="how-to/edit",
)
@click.argument("assignments", nargs=-1, metavar="KEY=VALUE...", shell_complete=_complete)
@click.option("--unset", multiple=True, metavar="KEY", help="Remove the setting.")
def set_city(context: CommandContext, assignments: tuple[str, ...], unset: tuple[str, ...]) -> int:
    """Change settings of the city.

    KEY is workspace.FIELD, or agent_defaults.FIELD for all agents. Values are TOML;
    a bare word is a string. Edits city.toml.
    """
    changes: dict[str, object | None] = {_known(key): None for key in unset}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"expected KEY=VALUE, got `{assignment}`")
        table, _, field = _known(key.strip()).partition(".")
        as_text = table == "agent_defaults" and wants_text(field)
        changes[f"{table}.{field}"] = parse_value(text.strip(), as_text)
    if not changes:
        raise click.UsageError("nothing to change; pass KEY=VALUE or --unset KEY")
    with editing(context) as city:
        write_if_valid(context, city, {_FILE: set_fields(read_text(city.root, _FILE), changes)})
    names = ", ".join(changes)
    return context.output(
        {"file": _FILE, "fields": list(changes)}, lambda: [f"{_FILE}: updated {names}"]
    )


def _known(key: str) -> str:
    """Return a key of a table that can be set; CityError otherwise."""
    table, _, field = key.partition(".")
    if table == "agent_defaults" and field:
        return f"{table}.{known_key(field)}"
    if table == "workspace" and field in WORKSPACE.keys:
        return key
    known = [f"workspace.{name}" for name in WORKSPACE.keys]
    hint = did_you_mean(key, known) if table in _TABLES else None
    hint = hint or "the keys are workspace.FIELD and agent_defaults.FIELD"
    raise city_error("unknown-field", f"`{key}` is not a setting of the city", hint)
