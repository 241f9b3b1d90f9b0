"""`city agent show --peers`: which agents may sling to, nudge and mail which others."""

from collections.abc import Iterator, Mapping

from gascity.cli.context import CommandContext
from gascity.cli.output import wrap
from gascity.control.callers import Caller
from gascity.control.permissions import Access
from gascity.model.city import Agent, City
from gascity.model.problems import CityError

_INDENT = 2


def show_peers(context: CommandContext, agent: Agent) -> int:
    """Print the agents that an agent may message, and those that may message it."""
    city = context.city()
    name = str(agent.name)
    # Resolving each name again takes seconds in a city of 1,000 agents.
    known = {str(each.name): each for each in city.agents}
    known[name] = agent
    others = [other for other in known if other != name]
    sends_to = [other for other in others if _may_message(city, known, name, other)]
    receives_from = [other for other in others if _may_message(city, known, other, name)]

    def lines() -> Iterator[str]:
        for head, names in (
            (f"{name} may message:", sends_to),
            (f"May message {name}:", receives_from),
        ):
            yield head
            rows = wrap(", ".join(names) or "no agent", context.width - _INDENT)
            yield from (" " * _INDENT + row for row in rows)

    return context.output(
        {"name": name, "sends_to": sends_to, "receives_from": receives_from}, lines
    )


def _may_message(city: City, known: Mapping[str, Agent], sender: str, target: str) -> bool:
    """Return whether a session of an agent may sling to, nudge or mail another agent."""
    two = {name: known[name] for name in (sender, target)}
    access = Access(Caller("", 0, sender), "sling", lambda: city, two)
    agent = access.agent(target)
    if agent is None or access.hides(target) or agent.settings.mode == "primary":
        return False
    try:
        access.check_agent(target)
    except CityError:
        return False
    return True
