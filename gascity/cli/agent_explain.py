"""`city agent explain`: where each value comes from, and what it covers."""

from collections.abc import Iterator, Mapping

import click

from gascity.cli.context import Context, agent_argument, json_option, pass_context
from gascity.cli.output import BOLD, DIM, paint, wrap
from gascity.cli.problems import Locator
from gascity.cli.settings import may_reveal, reveal_option, setting_json, value_text, where
from gascity.model.city import Agent
from gascity.model.fields import AGENT
from gascity.model.layers import Setting
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem


@click.command("explain")
@agent_argument
@click.argument("field", required=False)
@json_option
@reveal_option
@pass_context
def explain_agent(context: Context, agent: str, field: str | None, reveal: bool) -> int:
    """Say where each setting of an agent comes from, and what it covers there."""
    _, one = context.agent(agent)
    open_ = may_reveal(reveal)
    chains = _chains(one, field)
    locator = context.locator()
    context.say(
        lambda: {
            "name": str(one.name),
            "fields": {
                name: [setting_json(setting, locator, open_) for setting in chain]
                for name, chain in chains.items()
            },
        },
        lambda: _explain_lines(context, chains, locator, open_),
    )
    return 0


def _chains(one: Agent, field: str | None) -> dict[str, list[Setting]]:
    """The whole history of one field, or of every field somebody wrote."""
    if field is None:
        return {name: one.setting(name).chain() for name, s in one.settings().items() if s.layer}
    name = AGENT.aliases.get(field, field)
    if name in AGENT.fields:
        return {name: one.setting(name).chain()}
    parts = [known for known in AGENT.fields if known.startswith(field + ".")]
    if parts:
        return {name: one.setting(name).chain() for name in parts}
    raise CityError(
        Problem(
            "unknown-field",
            f"`{field}` is not an agent setting",
            None,
            did_you_mean(field, AGENT.fields),
        )
    )


def _explain_lines(
    context: Context, chains: Mapping[str, list[Setting]], locator: Locator, reveal: bool
) -> Iterator[str]:
    if not chains:
        yield "Nothing is written; every setting is at its default."
    for at, (name, chain) in enumerate(chains.items()):
        if at:
            yield ""
        for setting in chain:
            head = f"{name} =" if setting is chain[0] else "  covers"
            first, *rest = wrap(f"{head.strip()} {value_text(setting, reveal)}", context.width - 6)
            indent = head[: len(head) - len(head.lstrip())]
            yield indent + first.replace(name, paint(name, BOLD, context.colour), 1)
            yield from (f"      {line}" for line in rest)
            yield "    " + paint(where(setting, locator), DIM, context.colour)
