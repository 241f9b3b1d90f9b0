"""`city agent explain`: where each setting comes from and what it overrides."""

from collections.abc import Iterator, Mapping

import click

from gascity.cli.agent.settings import may_reveal, reveal_option, setting_json, value_text, where
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, agent_argument
from gascity.cli.output import BOLD, DIM, styled, wrap
from gascity.cli.problems import Locator, city_error
from gascity.model.city import Agent
from gascity.model.fields import AGENT
from gascity.model.layers import Setting
from gascity.model.names import did_you_mean


@json_command(
    "explain",
    examples=("city agent explain mayor", "city agent explain mayor model"),
    page="explanation/layers",
)
@agent_argument
@click.argument("field", required=False)
@reveal_option
def explain_agent(context: CommandContext, agent: str, field: str | None, reveal: bool) -> int:
    """Explain where each setting comes from.

    Shows the file and line of every value, and the values it overrides.
    """
    _, selected = context.agent(agent)
    revealed = may_reveal(reveal)
    chains = _chains(selected, field)
    locator = context.locator()
    context.output(
        lambda: {
            "name": str(selected.name),
            "fields": {
                name: [setting_json(setting, locator, revealed) for setting in chain]
                for name, chain in chains.items()
            },
        },
        lambda: _explain_lines(context, chains, locator, revealed),
    )
    return 0


def _chains(agent: Agent, field: str | None) -> dict[str, list[Setting]]:
    """Return the override chain of one field, or of every field that is set."""
    if field is None:
        return {
            name: agent.setting(name).chain() for name, s in agent.all_settings().items() if s.layer
        }
    name = AGENT.aliases.get(field, field)
    if name in AGENT.fields:
        return {name: agent.setting(name).chain()}
    parts = [known for known in AGENT.fields if known.startswith(field + ".")]
    if parts:
        return {name: agent.setting(name).chain() for name in parts}
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
