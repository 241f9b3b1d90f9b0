"""The HUD of an agent as users, sessions and tools ask for it: its sections with their texts."""

from typing import TYPE_CHECKING, NamedTuple

from gascity.hud.in_prompt import render_sections
from gascity.hud.sections import (
    AgentSections,
    ShadowedSection,
    agent_sections,
    is_allowed,
    is_selected,
)
from gascity.model.city import Agent
from gascity.model.hud import HudSection
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem
from gascity.render.hud import RenderedSection

if TYPE_CHECKING:
    from gascity.prompts import Prompts


class HudView(NamedTuple):
    """The sections that have a text now, sections that others override, and problems."""

    sections: tuple[RenderedSection, ...]
    shadowed: tuple[ShadowedSection, ...]
    problems: tuple[Problem, ...]


def view_hud(prompts: "Prompts", agent: Agent, name: str | None = None) -> HudView:
    """Render the sections of an agent, or only the one of this name.

    Raises CityError if the agent has no such section.
    """
    found = agent_sections(prompts, agent)
    session, _ = prompts.session_context(agent)
    rendered = render_sections(prompts, agent, session, _choose(prompts, agent, found, name))
    problems = dict.fromkeys(problem for each in rendered for problem in each.problems)
    shown = tuple(each for each in rendered if each.text)
    return HudView(shown, found.shadowed, tuple(problems))


def _choose(
    prompts: "Prompts", agent: Agent, found: AgentSections, name: str | None
) -> list[HudSection]:
    """Return the named section, else those of the fragment `hud` and those the prompt names."""
    allowed = [section for section in found.sections if is_allowed(section, agent)]
    if name is not None:
        chosen = [section for section in allowed if section.name == name]
        if not chosen:
            names = [section.name for section in allowed]
            hint = did_you_mean(name, names) or f"its sections: {', '.join(sorted(names))}"
            message = f"`{agent.name}` has no HUD section `{name}`"
            raise CityError(Problem("unknown-section", message, None, hint))
        return chosen
    placed = {text.name for text in prompts.without_live_values().of(agent).hud}
    return [each for each in allowed if is_selected(each, agent) or each.name in placed]
