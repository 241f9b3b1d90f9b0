"""Fragments the program itself provides, included or appended by name and never otherwise."""

from collections.abc import Sequence

from gascity.model.city import Agent, City
from gascity.model.scope import may_sling
from gascity.render.variables import Scene

RESERVED = ("available-agents", "skills", "environment")


def available_agents(city: City, agent: Agent) -> str:
    """The other agents this one may hand work to, as `- name: Display Name - description`."""
    lines = [_line(other) for other in city.agents if _may_see(city, agent, other)]
    if not lines:
        return "There are no other agents to hand work to."
    return "\n".join(
        (
            "Available agents you can hand work to:",
            *sorted(lines),
            "",
            'Use `city sling AGENT "TEXT"` to give one of them a task.',
        )
    )


def _line(agent: Agent) -> str:
    shown = agent.text("display_name") or agent.name.bare
    about = agent.text("description")
    return f"- {agent.name}: {shown}" + (f" - {about}" if about else "")


def _may_see(city: City, agent: Agent, other: Agent) -> bool:
    """Is `other` visible to `agent`, and allowed by its filter?"""
    if other.name == agent.name or other.broken or other.value("hidden"):
        return False
    if other.value("mode") == "primary" or other.value("suspended"):
        return False
    provider = city.providers.get(other.provider)
    return may_sling(
        (str(other.name), other.name.without_rig, other.name.bare),
        agent.value("agents_filter.allow"),
        agent.value("agents_filter.deny"),
        script=provider is not None and provider.value("script") is True,
    )


def skill_list(skills: Sequence[tuple[str, str]]) -> str:
    """Names and descriptions of the skills an agent has."""
    if not skills:
        return "There are no skills."
    return "\n".join(("Skills you have:", *(f"- {name}: {about}" for name, about in skills)))


def environment(agent: Agent, scene: Scene) -> str:
    """Facts of the session, the date last: what changes least often comes first."""
    facts = (
        ("Provider", agent.provider),
        ("Working directory", scene.work_dir),
        ("Rig", agent.name.rig or ""),
        ("Branch", scene.branch),
        ("Platform", scene.platform),
        ("Date", scene.date),
    )
    return "\n".join(f"- {name}: {value}" for name, value in facts if value)
