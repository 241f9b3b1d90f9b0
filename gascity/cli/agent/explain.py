"""`city agent explain`: where each setting comes from and what it overrides.

Also settings as text and JSON, for other commands that show them.
"""

from collections.abc import Iterator, Mapping

import click

from gascity.cli.command import json_command
from gascity.cli.completers import complete_field
from gascity.cli.context import CommandContext, agent_argument, may_reveal, reveal_option
from gascity.cli.output import BOLD, DIM, styled, wrap
from gascity.cli.problems import Locator, city_error
from gascity.model.city import Agent
from gascity.model.fields import AGENT
from gascity.model.layers import Setting
from gascity.model.names import did_you_mean
from gascity.model.provider import Provider
from gascity.model.secrets import masked
from gascity.model.values import JsonObject


def setting_json(setting: Setting, locator: Locator, reveal: bool) -> JsonObject:
    """Return a setting as its JSON object."""
    line, _ = locator.line_col(setting.place)
    value = setting.value if reveal else masked(setting.value)
    return {
        "value": value,
        "file": setting.place.file if setting.place else None,
        "line": line,
        "layer": setting.kind,
    }


def value_text(setting: Setting, reveal: bool = False) -> str:
    """Return a value in TOML syntax."""
    return _toml(setting.value if reveal else masked(setting.value))


def _toml(value: object) -> str:
    match value:
        case None:
            return "(unset)"
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case list() | tuple():
            return f"[{', '.join(_toml(item) for item in value)}]"
        case Mapping():
            pairs = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
    return str(value)


def where(setting: Setting, locator: Locator) -> str:
    """Return `agents/mayor/agent.toml:3 (definition)`."""
    place = setting.place
    if place is None:
        return setting.kind
    line, _ = locator.line_col(place)
    return f"{place.file}:{line} ({setting.kind})" if line else f"{place.file} ({setting.kind})"


@json_command(
    "explain",
    examples=("city agent explain mayor", "city agent explain mayor model"),
    page="explanation/layers",
)
@agent_argument
@click.argument("field", required=False, shell_complete=complete_field)
@reveal_option
def explain_agent(context: CommandContext, agent: str, field: str | None, reveal: bool) -> int:
    """Explain where each setting comes from.

    Shows the file and line of every value, and the values it overrides. `command`
    is the program of its provider, which a pack can change for its own agents.
    """
    city, selected = context.agent(agent)
    revealed = may_reveal(reveal)
    chains = setting_chains(selected, city.provider_of(selected), field)
    locator = context.locator()
    return context.output(
        lambda: {
            "name": str(selected.name),
            "fields": {
                name: [setting_json(setting, locator, revealed) for setting in chain]
                for name, chain in chains.items()
            },
        },
        lambda: _explain_lines(context, chains, locator, revealed),
    )


def setting_chains(
    agent: Agent, provider: Provider | None, field: str | None = None
) -> dict[str, list[Setting]]:
    """Return the override chain of one field, or of every field that is set.

    The provider's command is not an agent setting, but decides what runs.
    """
    command = provider.setting("command") if provider is not None else None
    program = {"command": command.chain()} if command is not None and command.layer else {}
    if field is None:
        settings = agent.all_settings().items()
        return {
            **{name: agent.named_setting(name).chain() for name, s in settings if s.layer},
            **program,
        }
    if field == "command" and program:
        return program
    name = AGENT.aliases.get(field, field)
    if name in AGENT.fields:
        return {name: agent.named_setting(name).chain()}
    parts = [known for known in AGENT.fields if known.startswith(field + ".")]
    if parts:
        return {name: agent.named_setting(name).chain() for name in parts}
    raise city_error(
        "unknown-field", f"`{field}` is not an agent setting", did_you_mean(field, AGENT.fields)
    )


def _explain_lines(
    context: CommandContext, chains: Mapping[str, list[Setting]], locator: Locator, reveal: bool
) -> Iterator[str]:
    if not chains:
        yield "No settings; every field has its default value."
    for at, (name, chain) in enumerate(chains.items()):
        if at:
            yield ""
        for setting in chain:
            head = f"{name} =" if setting is chain[0] else "  overrides"
            first, *rest = wrap(f"{head.strip()} {value_text(setting, reveal)}", context.width - 6)
            indent = head[: len(head) - len(head.lstrip())]
            yield indent + first.replace(name, styled(name, BOLD, context.colour), 1)
            yield from (f"      {line}" for line in rest)
            yield "    " + styled(where(setting, locator), DIM, context.colour)
