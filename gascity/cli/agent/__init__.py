"""`city agent`: list, explain and edit agents."""

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "list": (".agent.list", "list_agents", "List agents."),
    "show": (".agent.show", "show_agent", "Show an agent's settings, tools and prompt."),
    "emit": (".agent.show", "emit_agent", "Print an agent's rendered prompt."),
    "explain": (".agent.explain", "explain_agent", "Explain where each setting comes from."),
    "new": (".agent.edit", "new_agent", "Create an agent."),
    "set": (".agent.edit", "set_agent", "Change an agent's settings."),
    "remove": (".agent.edit", "remove_agent", "Remove an agent of this city."),
    "export": (".agent.export", "export_agents", "Write agents as files of other tools."),
    "rename": (".agent.edit", "rename_agent", "Rename an agent and update references to it."),
}

agent = LazyGroup(
    "agent",
    help="List, explain and edit agents.",
    commands_at=_COMMANDS,
    examples=("city agent list", "city agent explain mayor model"),
    page="how-to/agents",
)
