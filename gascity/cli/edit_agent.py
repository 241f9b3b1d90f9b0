"""`city edit`: open the file that defines an agent or one of its settings."""

import os

import click

from gascity.cli.command import command
from gascity.cli.completers import complete_field
from gascity.cli.context import CommandContext, agent_argument, pass_context
from gascity.cli.editor import open_editor
from gascity.cli.problems import city_error
from gascity.model.city import Agent
from gascity.model.fields import AGENT
from gascity.model.layers import PROVIDER_LAYER
from gascity.model.names import did_you_mean
from gascity.model.problems import Place


@command("edit", examples=("city edit mayor", "city edit mayor model"), page="how-to/edit")
@agent_argument
@click.argument("field", required=False, shell_complete=complete_field)
@pass_context
def edit_agent(context: CommandContext, agent: str, field: str | None) -> int:
    """Open an agent's definition in $EDITOR.

    With FIELD, opens the file at the line that sets it, as `city agent explain` shows.
    """
    city, selected = context.agent(agent)
    place = _place(selected, field)
    path = os.path.normpath(os.path.join(city.root, place.file))
    if not path.startswith(f"{city.root}/") or path.startswith(f"{city.root}/.gc/system/"):
        message = f"{place.file} is not a file of this city"
        hint = f"run `city agent set {selected.name} {field or 'FIELD'}=VALUE`, which adds a patch"
        raise city_error("not-your-agent", message, hint)
    line, _ = context.locator().line_col(place)
    return open_editor(context, path, line)


def _place(agent: Agent, field: str | None) -> Place:
    """Return where a setting is written; where it would be, if no file sets it."""
    own = Place(f"{agent.home.directory}/agent.toml")
    if field is None:
        return own
    name = AGENT.aliases.get(field, field)
    if name not in AGENT.fields:
        hint = did_you_mean(field, AGENT.fields)
        raise city_error("unknown-field", f"`{field}` is not an agent setting", hint)
    setting = agent.named_setting(name)
    inherited = setting.place is None or setting.kind == PROVIDER_LAYER
    return own if inherited or setting.place is None else setting.place
