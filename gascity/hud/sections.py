"""Finds the HUD sections of an agent: `hud/` of packs, city and agent, and the built-in ones."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from gascity.compose.asset_dirs import BUILT_IN_ORIGIN, AssetDir
from gascity.compose.city import packs_of
from gascity.model.city import Agent
from gascity.model.hud import HudSection, read_section, section_name, selected, sort_key
from gascity.model.problems import Problem
from gascity.resources import data_dir
from gascity.source.catalogues import read_text

if TYPE_CHECKING:
    from gascity.prompts import Prompts

HUD = "hud"


class ShadowedSection(NamedTuple):
    """A section that another one of the same name overrides."""

    name: str
    source: str
    by: str


class AgentSections(NamedTuple):
    """The sections that reach an agent, in the order of a prompt, and those overridden."""

    sections: tuple[HudSection, ...] = ()
    shadowed: tuple[ShadowedSection, ...] = ()


@cache
def built_in_directory() -> AssetDir:
    """Return the directory with the built-in sections, and the overlay with the hooks."""
    home = f"{data_dir('system_agents')}/_hud"
    return AssetDir(BUILT_IN_ORIGIN, home, frozenset((HUD, "overlay")), home)


def agent_sections(prompts: "Prompts", agent: Agent) -> AgentSections:
    """Return the sections that reach an agent, selected or not; the nearest of each name."""
    best: dict[str, HudSection] = {}
    shadowed = []
    for asset_dir in (built_in_directory(), *prompts.asset_dirs(agent)):
        for section in _read(prompts, asset_dir) if HUD in asset_dir.catalogues else ():
            if not asset_dir.is_own(agent):  # the user cannot fix the files of an imported pack
                problems = tuple(problem.softened() for problem in section.problems)
                section = section._replace(problems=problems, own=False)
            if section.name in best:
                below = best[section.name]
                shadowed.append(ShadowedSection(section.name, below.file, section.file))
            best[section.name] = section
    return AgentSections(tuple(sorted(best.values(), key=sort_key)), tuple(shadowed))


def is_selected(section: HudSection, agent: Agent) -> bool:
    """Return whether the fragment `hud` of an agent includes a section."""
    default = section.layer != BUILT_IN_ORIGIN
    return is_for(section, agent) and selected(section.name, agent.settings.hud, default=default)


def is_allowed(section: HudSection, agent: Agent) -> bool:
    """Return whether a prompt may include a section by its own name, such as `hud-git`."""
    return is_for(section, agent) and selected(section.name, agent.settings.hud, default=True)


def is_for(section: HudSection, agent: Agent) -> bool:
    """Return whether the section's own list of agents has this one."""
    names = (str(agent.name), agent.name.without_rig, agent.name.bare)
    return any(selected(name, section.agents, default=True) for name in names)


def _read(prompts: "Prompts", asset_dir: AssetDir) -> tuple[HudSection, ...]:
    """Return the sections of one directory; each is read once for all agents."""
    directory = asset_dir.path(HUD)
    if directory not in prompts.hud_files:
        prompts.hud_files[directory] = tuple(_read_files(prompts, asset_dir, directory))
    return prompts.hud_files[directory]


def _read_files(prompts: "Prompts", asset_dir: AssetDir, directory: str) -> Iterator[HudSection]:
    disk = prompts.disk
    files = [name for name in disk.names(disk.absolute(directory)) if name[0] not in "._"]
    files = [name for name in files if name.endswith(".md")]
    refused = {pack.root for pack in packs_of(prompts.city) if not pack.accepted}
    for name in sorted(files, key=lambda file: (section_name(file), file.endswith(".template.md"))):
        file = f"{directory}/{name}"
        text = read_text(disk, file)
        if text is None:
            continue
        section = read_section(file, text)
        if f"{section.name}.md" in files and section.is_template:
            message = f"`{section.name}.md` in the same directory is the same section"
            clash = Problem("bad-hud", message, section.place(), "keep one of the two files")
            section = section._replace(problems=(*section.problems, clash))
        yield section._replace(
            layer=asset_dir.origin,
            pack=asset_dir.pack,
            accepted=asset_dir.pack not in refused,
            lenient=asset_dir.pack in prompts.lenient,
        )
