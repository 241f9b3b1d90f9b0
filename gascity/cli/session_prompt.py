"""The prompt of an agent as one of its sessions sees it, with live values."""

from typing import TYPE_CHECKING

from gascity.cli.context import CommandContext, machine

if TYPE_CHECKING:
    from gascity.model.city import Agent, City
    from gascity.model.work import Session
    from gascity.prompts import Prompts


def command_prompts(
    context: CommandContext, city: "City", agent: "Agent", session: "Session | None" = None
) -> "Prompts":
    """Return the renderer of an agent's prompt: for a session, else for the agent's first one."""
    from gascity.prompts import session_prompts

    return session_prompts(city, agent, session, context.environ, machine())
