"""Built-in fragments: added to a prompt only where it includes or appends them by name."""

from collections.abc import Sequence

from gascity.model.city import Agent, City
from gascity.model.names import may_sling
from gascity.render.variables import SessionContext

BUILTIN_FRAGMENTS = ("available-agents", "skills", "environment")


def available_agents(city: City, agent: Agent) -> str:
    """List the agents this one may sling work to, as `- name: Display Name - description`."""
    lines = [_line(other) for other in city.agents if _is_available(city, agent, other)]
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
    title = agent.settings.display_name or agent.name.bare
    description = agent.settings.description
    return f"- {agent.name}: {title}" + (f" - {description}" if description else "")


def _is_available(city: City, agent: Agent, other: Agent) -> bool:
    """Return whether `other` is visible to `agent` and allowed by its filter."""
    if other.name == agent.name or other.broken or other.settings.hidden:
        return False
    if other.settings.mode == "primary" or other.settings.suspended:
        return False
    provider = city.providers.get(other.provider)
    return may_sling(
        (str(other.name), other.name.without_rig, other.name.bare),
        agent.settings.agents_filter,
        script=provider is not None and provider.facts.script,
    )


def skill_list(skills: Sequence[tuple[str, str]]) -> str:
    """List an agent's skills with their descriptions."""
    if not skills:
        return "There are no skills."
    return "\n".join(
        ("Skills you have:", *(f"- {name}: {description}" for name, description in skills))
    )


def environment(agent: Agent, session: SessionContext) -> str:
    """List facts about the session; the date comes last, so that prompt caches stay valid."""
    facts = (
        ("Provider", agent.provider),
        ("Working directory", session.work_dir),
        ("Rig", agent.name.rig or ""),
        ("Branch", session.branch),
        ("Platform", session.platform),
        ("Date", session.date),
    )
    return "\n".join(f"- {name}: {value}" for name, value in facts if value)
