"""Finds what is wrong with HUD sections, and sections that no prompt shows."""

from collections.abc import Collection, Iterable, Iterator

from gascity.hud.in_prompt import problems_of
from gascity.hud.sections import agent_sections
from gascity.model.city import Agent
from gascity.model.hud import ON_DEMAND, HudSection
from gascity.model.problems import Place, Problem, warning
from gascity.prompts import Prompts
from gascity.render.ignored_settings import dead_patterns
from gascity.render.prompt_text import HUD, RenderedPrompt

_INCLUDE = 'add `{{ template "hud" . }}` to a template prompt, or `hud` to `append_fragments`'


def check_sections(
    prompts: Prompts, agents: Iterable[Agent], included: Collection[str]
) -> Iterator[tuple[str, Problem]]:
    """Yield the problems of all sections that reach an agent, with the path of each file.

    `included` are the fragments that the prompts of the agents include.
    """
    sections: dict[str, HudSection] = {}
    for agent in agents:
        for section in agent_sections(prompts, agent).sections:
            sections.setdefault(section.file, section)
    for section in sections.values():
        yield from ((section.file, problem) for problem in problems_of(prompts, section))
        is_used = f"{HUD}-{section.name}" in included or section.refresh == ON_DEMAND
        if section.own and section.body.strip() and not section.is_broken and not is_used:
            yield (
                section.file,
                warning(
                    "unused-hud",
                    f"no prompt includes HUD section `{section.name}`",
                    section.place(),
                    _INCLUDE,
                ),
            )


def check_selection(prompts: Prompts, agent: Agent, rendered: RenderedPrompt) -> Iterator[Problem]:
    """Yield problems of an agent's setting `hud`: patterns without a section, or no effect."""
    names = [section.name for section in agent_sections(prompts, agent).sections]
    yield from dead_patterns(agent, HUD, "HUD section", names)
    if agent.settings.hud and not rendered.hud and not prompts.names_hud(agent):
        yield warning(
            "unused-hud",
            "`hud` has no effect: the prompt does not include the fragment `hud`",
            agent.setting("hud").place,
            _INCLUDE,
        )


def volatile_before_stable(rendered: RenderedPrompt) -> Iterator[Problem]:
    """Yield a warning if text follows a refreshed section: providers then cannot cache it."""
    volatile = {text.file: text.name for text in rendered.hud if text.volatile}
    names: dict[str, None] = {}
    follows = None  # the first text after a refreshed section
    for piece in rendered.pieces:
        if piece.kind == HUD and piece.file in volatile:
            names[volatile[piece.file]] = None
        elif names and rendered.text[piece.start : piece.end].strip():
            follows = piece
            break
    if follows is None:
        return
    listed = ", ".join(f"`{name}`" for name in names)
    yield warning(
        "volatile-before-stable",
        f"refreshed HUD sections ({listed}) come before text that stays the same, which a provider "
        "then cannot cache",
        Place(follows.file, line=follows.line, col=1),
        "put the HUD at the end of the prompt, for example with `append_fragments`, or give the "
        "sections `refresh: once`",
    )
