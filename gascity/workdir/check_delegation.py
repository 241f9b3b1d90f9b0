"""Finds agents that can delegate in a circle, and agents that no caller can give work to."""

from collections.abc import Iterator, Mapping

from gascity.model.city import Agent, City
from gascity.model.layers import CITY_DEFAULTS, PACK_DEFAULTS
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
    Only names count that were written for these agents: not globs, and not defaults for all agents,
    which say nothing about a pair of them. The circle must be within `limits.delegation_depth`.
    """
    named = _named_agents(city)
    targets = {name: agents for name, (_, agents) in named.items()}
    seen: set[frozenset[str]] = set()
    for agent, _ in named.values():
        circle = _shortest_circle(agent, targets)
        members = frozenset(str(each.name) for each in circle)
        if circle and members not in seen:
            seen.add(members)
            yield _cycle_problem([*circle, agent])


def _named_agents(city: City) -> dict[str, tuple[Agent, list[Agent]]]:
    """Return the agents with a filter of their own, and the agents that each of them names."""
    by_name: dict[str, list[Agent]] = {}
    for agent in city.agents:
        if _takes_work_of_agents(agent):
            for name in dict.fromkeys(_names(agent)):
                by_name.setdefault(name, []).append(agent)
    named = {}
    for agent in city.agents:
        filter = agent.settings.agents_filter
        if agent.broken or not filter.allow:
            continue
        if agent.setting("agents_filter.allow").kind in (PACK_DEFAULTS, CITY_DEFAULTS):
            continue
        found = {str(t.name): t for name in filter.allow for t in by_name.get(name, ())}
        found.pop(str(agent.name), None)  # `limits.delegation_self` decides about itself
        targets = [target for target in found.values() if allowed(_names(target), filter)]
        named[str(agent.name)] = (agent, targets)
    return named


def _shortest_circle(start: Agent, targets: Mapping[str, list[Agent]]) -> list[Agent]:
    """Return the agents of the shortest way back to `start` that the depth limits allow."""
    before: dict[str, Agent] = {}
    layer, depth = [start], 1
    reached = {str(start.name)}
    while layer:
        following: dict[str, Agent] = {}
        for agent in layer:
            if agent.settings.limits.delegation_depth < depth:
                continue
            for target in targets.get(str(agent.name), ()):
                name = str(target.name)
                if target.name == start.name:
                    return _way(start, agent, before)
                if name not in reached:
                    reached.add(name)
                    following[name] = target
                    before[name] = agent
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
