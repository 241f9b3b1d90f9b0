"""Finds agents that can delegate in a circle, and agents that no caller can give work to."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from gascity.model.city import Agent, City
from gascity.model.names import allowed, may_sling
from gascity.model.problems import Place, Problem, warning


def _names(agent: Agent) -> tuple[str, str, str]:
    return str(agent.name), agent.name.without_rig, agent.name.bare


def _takes_work_of_agents(agent: Agent) -> bool:
    settings = agent.settings
    return not (agent.broken or settings.hidden or settings.suspended or settings.mode == "primary")


def delegation_cycles(city: City) -> Iterator[Problem]:
    """Yield each circle of agents that name one another in `agents_filter.allow`.

    Such work is refused when it is slung (`delegation-cycle`), so one of the names is a mistake.
    Only names that a user wrote count, not `*`, and only circles within `limits.delegation_depth`.
    """
    senders = [a for a in city.agents if not a.broken and a.settings.agents_filter.allow]
    if not any(agent.settings.limits.delegation_depth > 1 for agent in senders):
        return
    targets = _named_targets(city, senders)
    seen: set[frozenset[str]] = set()
    for agent in senders:
        circle = _shortest_circle(agent, targets)
        members = frozenset(str(each.name) for each in circle)
        if circle and members not in seen:
            seen.add(members)
            yield _cycle_problem([*circle, agent])


def _named_targets(city: City, senders: Iterable[Agent]) -> Callable[[Agent], list[Agent]]:
    """Return a function that returns the agents an agent names; each pattern is matched once."""
    takers = [(agent, _names(agent)) for agent in city.agents if _takes_work_of_agents(agent)]
    matched: dict[str, list[Agent]] = {}
    wanted = {p for agent in senders for p in agent.settings.agents_filter.allow or () if p != "*"}
    for pattern in wanted:
        matched[pattern] = [
            agent for agent, names in takers if any(fnmatchcase(name, pattern) for name in names)
        ]

    def targets(agent: Agent) -> list[Agent]:
        names = agent.settings.agents_filter.allow or ()
        found = {str(t.name): t for pattern in names for t in matched.get(pattern, ())}
        found.pop(str(agent.name), None)  # `limits.delegation_self` decides about itself
        return [t for t in found.values() if allowed(_names(t), agent.settings.agents_filter)]

    return targets


def _shortest_circle(start: Agent, targets: Callable[[Agent], list[Agent]]) -> list[Agent]:
    """Return the agents of the shortest way back to `start` that the depth limits allow."""
    before: dict[str, Agent] = {}
    layer, depth = [start], 1
    agents: Mapping[str, Agent] = {str(start.name): start}
    while layer:
        following: dict[str, Agent] = {}
        for agent in layer:
            if agent.settings.limits.delegation_depth < depth:
                continue
            for target in targets(agent):
                name = str(target.name)
                if target.name == start.name:
                    return _way(start, agent, before)
                if name not in agents and name not in following:
                    following[name] = target
                    before[name] = agent
        agents = {**agents, **following}
        layer, depth = list(following.values()), depth + 1
    return []


def _way(start: Agent, last: Agent, before: Mapping[str, Agent]) -> list[Agent]:
    way = [last]
    while way[-1].name != start.name:
        way.append(before[str(way[-1].name)])
    return way[::-1]


def _cycle_problem(circle: list[Agent]) -> Problem:
    way = " → ".join(f"`{agent.name}`" for agent in circle)
    hint = "remove one of them from `agents_filter.allow`, or lower `limits.delegation_depth`"
    place = circle[0].setting("agents_filter.allow").place
    return warning(
        "delegation-cycle", f"the settings allow agents to delegate in a circle: {way}", place, hint
    )


def unreachable_agents(city: City) -> Iterator[Problem]:
    """Yield agents that are only for other agents and that no other agent may sling to.

    Not those that run without being given work, or that a session or another agent starts.
    """
    started = {name for agent in city.agents for name in agent.settings.depends_on}
    started |= {session.settings.template for session in city.named_sessions}
    for agent in city.agents:
        settings = agent.settings
        if settings.mode != "subagent" or agent.broken or settings.suspended:
            continue
        if settings.min_active_sessions or not started.isdisjoint(_names(agent)):
            continue
        if settings.hidden:
            message = f"`{agent.name}` gets no work: it is for agents only, and hidden from them"
            yield _unreachable(message, agent.setting("hidden").place, "remove `hidden`")
        elif not any(_may_delegate(city, other, agent) for other in city.agents):
            message = (
                f"`{agent.name}` gets no work: it is for agents only, and none may sling to it"
            )
            hint = "name it in `agents_filter.allow` of an agent, or remove `mode`"
            yield _unreachable(message, agent.setting("mode").place, hint)


def _may_delegate(city: City, agent: Agent, target: Agent) -> bool:
    settings = agent.settings
    if agent.broken or agent.name == target.name or settings.limits.delegation_depth < 1:
        return False
    provider = city.provider_of(target)
    script = provider is not None and provider.facts.script
    return may_sling(_names(target), settings.agents_filter, script=script)


def _unreachable(message: str, place: Place | None, hint: str) -> Problem:
    return warning("unreachable-agent", message, place, hint)
