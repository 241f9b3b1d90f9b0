"""`city agent`: see agents, and why they are as they are."""

import click

from gascity.cli.groups import LazyGroup

_COMMANDS = {
    "list": ("gascity.cli.agent_list", "list_agents", "List every agent of the city."),
    "show": ("gascity.cli.agent_show", "show_agent", "Show what one agent is."),
    "emit": ("gascity.cli.agent_show", "emit_agent", "Print an agent's prompt."),
    "explain": ("gascity.cli.agent_explain", "explain_agent", "Say where settings come from."),
    "new": ("gascity.cli.agent_edit", "new_agent", "Make a folder for a new agent."),
    "set": ("gascity.cli.agent_edit", "set_agent", "Change settings of an agent."),
    "rename": ("gascity.cli.agent_edit", "rename_agent", "Rename one of your own agents."),
}


@click.group(cls=LazyGroup, commands_at=_COMMANDS)
def agent() -> None:
    """See, explain and change agents."""
