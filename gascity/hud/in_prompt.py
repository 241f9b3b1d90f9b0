"""The HUD sections in one prompt: with live values, or as they are written."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gascity.hud.data import LiveData, command_problem
from gascity.hud.sections import AgentSections, agent_sections, is_allowed, is_selected
from gascity.model.city import Agent
from gascity.model.hud import ON_DEMAND, HudSection
from gascity.model.problems import Problem
from gascity.model.session_context import SessionContext
from gascity.render.hud import ParsedSection, RenderedSection, render_section
from gascity.render.templates import HudText, HudTexts
from gascity.render.variables import variables

if TYPE_CHECKING:
    from gascity.prompts import Prompts


def prompt_sections(
    prompts: "Prompts", agent: Agent, session: SessionContext, mentions: Callable[[str], bool]
) -> HudTexts:
    """Return the sections that a prompt may include; `mentions` says if it names a fragment.

    Without live values, the texts are those of the files. Checks, plans and fingerprints use them:
    they must not run commands, nor change with every commit.
    """
    found = agent_sections(prompts, agent)
    whole = mentions("hud")
    shown: dict[str, HudSection] = {}  # others that are named are empty
    texts = []
    for section in found.sections:
        included = whole and is_selected(section, agent) and section.refresh != ON_DEMAND
        named = mentions(f"hud-{section.name}")
        if included or (named and is_allowed(section, agent) and section.refresh != ON_DEMAND):
            shown[section.name] = section
        if included or named:
            texts.append(
                HudText(section.name, section.file, section.line, "", included, section.is_volatile)
            )
    if prompts.live is None:
        bodies = {name: section.body.strip() for name, section in shown.items()}
        known = variables(prompts.city, agent, session)
        problems = [each for section in shown.values() for each in problems_of(prompts, section)]
        problems += (each for section in shown.values() for each in _unknown_names(section, known))
    else:
        rendered = render_sections(prompts, agent, session, shown.values())
        bodies = {each.section.name: each.text for each in rendered}
        problems = [problem for each in rendered for problem in each.problems]
    filled = tuple(text._replace(text=bodies.get(text.name, "")) for text in texts)
    return HudTexts(filled, tuple(dict.fromkeys(problems)))


def problems_of(prompts: "Prompts", section: HudSection) -> list[Problem]:
    """Return what is wrong with a section's file, whatever agent it is for."""
    parsed = ParsedSection(section)
    refusal = command_problem(section, prompts.city.root)
    problems = [*section.problems, *_softened(section, parsed.problems)]
    return problems + ([refusal] if refusal is not None else [])


def _unknown_names(section: HudSection, known: Iterable[str]) -> list[Problem]:
    return _softened(section, ParsedSection(section).undefined(known))


def _softened(section: HudSection, problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems as warnings if the user cannot edit the file."""
    return [problem if section.own else problem.softened() for problem in problems]


def render_sections(
    prompts: "Prompts", agent: Agent, session: SessionContext, sections: Iterable[HudSection]
) -> list[RenderedSection]:
    """Render sections with live values."""
    data = LiveData(prompts, agent, session, prompts.live or {})
    known = variables(prompts.city, agent, session)
    rendered = []
    try:
        prepared = [(parsed, data.of(parsed)) for parsed in map(ParsedSection, sections)]
        for parsed, (values, age, failures) in prepared:
            section = parsed.section
            unknown = _unknown_names(section, known)
            result = RenderedSection(section, "")
            if not any(problem.is_error for problem in unknown):
                result = render_section(parsed, values, data.percentage, age)
            problems = [*section.problems, *_softened(section, parsed.problems), *unknown]
            problems += (*failures, *result.problems)
            rendered.append(result._replace(problems=tuple(problems)))
    finally:
        data.close()
    return rendered


def refreshed_sections(prompts: "Prompts", agent: Agent) -> tuple[HudSection, ...]:
    """Return the sections in an agent's prompt that are refreshed while a session runs."""
    names = {text.name for text in prompts.without_live_values().of(agent).hud if text.volatile}
    if not names:
        return ()
    found: AgentSections = agent_sections(prompts, agent)
    return tuple(section for section in found.sections if section.name in names)
