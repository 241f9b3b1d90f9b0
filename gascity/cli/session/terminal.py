"""The state of a session's terminal, and what its provider can do in a terminal."""

from typing import TYPE_CHECKING

from gascity.cli.context import CommandContext
from gascity.cli.problems import city_error
from gascity.model.problems import CityError
from gascity.model.work import Session
from gascity.runtimes.port import handle_of

if TYPE_CHECKING:
    from gascity.model.city import Agent
    from gascity.model.provider import Provider
    from gascity.render.terminal import ScreenState, TerminalRules


def find_provider(
    context: CommandContext, session: Session
) -> "tuple[Agent, Provider] | tuple[None, None]":
    """Return the session's agent and its provider; None if either no longer exists."""
    try:
        city, agent = context.agent(session.agent, exact=True)
    except CityError:
        return None, None
    provider = city.providers.get(agent.provider)
    return (agent, provider) if provider is not None else (None, None)


def cannot_type(context: CommandContext, session: Session) -> str:
    """Return why city cannot type into the session's terminal; "" if it can, or has none."""
    rules = _rules(context, session) if session.interactive else None
    if rules is None or rules.can_type:
        return ""
    agent, _ = find_provider(context, session)
    name = agent.provider if agent is not None else session.agent
    return f"city cannot nudge {name} in a terminal: it does not know its input line"


def require_typing(context: CommandContext, session: Session) -> None:
    """Raise CityError if city cannot type into the terminals of the session's provider."""
    if message := cannot_type(context, session):
        hint = f"nothing was queued; attach to it: `city session attach {session.alias}`"
        raise city_error("cannot-nudge", message, hint)


def screen_state(context: CommandContext, session: Session) -> "ScreenState | None":
    """Return what the session's terminal shows now; None if that is not known."""
    run = context.store().run(session.run) if session.run else None
    screen = context.runtime(session.runtime).screen(handle_of(run)) if run is not None else None
    rules = _rules(context, session)
    return rules.state(screen) if screen is not None and rules is not None else None


def _rules(context: CommandContext, session: Session) -> "TerminalRules | None":
    from gascity.render.terminal import terminal_rules

    agent, provider = find_provider(context, session)
    return terminal_rules(provider, agent) if provider is not None and agent is not None else None
