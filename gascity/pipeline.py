"""The one place that wires the stages: from a root to a city, and to what one agent is."""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gascity.compose.catalogues import (
    AGENT_ORIGIN,
    Shelf,
    agent_shelves,
    city_shelves,
    every_shelf,
)
from gascity.compose.city import at_rig, compose
from gascity.model.city import Agent, City
from gascity.model.names import near, parse_name, resolve, several
from gascity.model.pack import CATALOGUES, AgentDir, Import
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.model.scope import allowed
from gascity.places import cache_home, config_home
from gascity.providers.registry import provider_files
from gascity.resources import data_dir
from gascity.source.catalogues import Skill, entry_names, read_skills
from gascity.source.disk import Disk
from gascity.source.load import load
from gascity.source.providers import Surroundings

if TYPE_CHECKING:
    from gascity.plan.skills import SkillClaim


def surroundings(environ: Mapping[str, str]) -> Surroundings:
    """What of this machine and this installation a city is read with."""
    files, looked = provider_files()
    system = data_dir("system_agents")
    return Surroundings(
        user_agents=os.path.join(config_home(environ), "gascity", "agents"),
        system_agents=system,
        builtin_packs=os.path.join(system, "_packs"),
        provider_files=files,
        looked=looked,
        cache=os.path.join(cache_home(environ), "gascity"),
    )


def open_city(
    root: str,
    environ: Mapping[str, str],
    *,
    only: str | None = None,
    all_providers: bool = False,
    disk: Disk | None = None,
    dialects: bool = False,
) -> City:
    """Read and compose a city; with `only`, just the agents of that bare name.

    With `dialects`, the city's own files may be written in another layout than today's.
    """
    around = surroundings(environ)
    sources = load(
        disk or Disk(root), around, only=only, all_providers=all_providers, dialects=dialects
    )
    return compose(sources, around.provider_files)


def open_agent(root: str, environ: Mapping[str, str], reference: str) -> tuple[City, Agent]:
    """One agent and as much of its city as defines it, at a cost that does not grow with the city.

    Raises CityError when the name means nothing or several agents.
    """
    city = open_city(root, environ, only=parse_name(reference).bare)
    agent = find_agent(city, reference)
    if agent is None:
        raise CityError(*_not_found(root, environ, reference))
    return city, agent


def find_agent(city: City, reference: str) -> Agent | None:
    """The agent a reference means, placed in the rig it names; None if there is none."""
    found = resolve(reference, city.named())
    if found.candidates:
        raise CityError(several(reference, found.candidates))
    if found.found is not None:
        return found.found
    wanted = parse_name(reference)
    if wanted.rig is not None and any(rig.name == wanted.rig for rig in city.rigs):
        agent = find_agent(city, wanted.without_rig)
        if agent is not None and agent.name.rig is None and agent.value("scope") is None:
            return at_rig(agent, wanted.rig)
        return None
    return city.spare.get(reference)


def _not_found(root: str, environ: Mapping[str, str], reference: str) -> tuple[Problem, ...]:
    """Why a name means nothing: its city's broken files first, else names like it."""
    city = open_city(root, environ)
    bare = parse_name(reference).bare
    alike = near(bare, {agent.name.bare for agent in city.agents})
    names = near(reference, [str(agent.name) for agent in city.agents])
    names = names or [str(agent.name) for agent in city.agents if agent.name.bare in alike][:3]
    words = " or ".join(f"`{name}`" for name in names)
    hint = f"did you mean {words}?" if names else "`city agent list` shows what there is"
    home = f"agents/{bare}"
    homeless = [one.place.file for one in city.problems if one.code == "no-rigs" and one.place]
    if any(file.startswith(f"{home}/") for file in homeless):
        hint = "it lives in rigs, and the city has none: `city rig add PATH` adds one"
    unreadable = [p for p in city.problems if p.is_error and p.place and p.place.file == home]
    unreadable += _unread_imports(city, reference)
    return (*unreadable, Problem("unknown-agent", f"there is no agent `{reference}`", None, hint))


def _unread_imports(city: City, reference: str) -> list[Problem]:
    """Why the import is not there whose agent a name means, or could mean."""
    binding = parse_name(reference).binding
    rigs = (one for imports in city.rig_imports.values() for one in imports)
    if all(one.pack for one in (*city.pack.imports, *rigs) if binding in (None, one.binding)):
        return []
    return [one for one in city.problems if one.code.startswith(("import-", "pack-changed"))]


SkillsRead = dict[str, tuple[Skill, ...]]  # by the directory they lie in


class ShelvedSkill(NamedTuple):
    """A skill, where it comes from, and the skills of its name it covers.

    `reason` says why the agent that was asked about does not get it.
    """

    skill: Skill
    origin: str
    shadows: tuple[str, ...] = ()
    reason: str = ""


def list_skills(city: City, disk: Disk, agent: Agent | None = None) -> list[ShelvedSkill]:
    """The skills one agent gets; without an agent, all there are, each agent's own apart."""
    if agent is not None:
        return [one for one in agent_skills(city, disk, agent) if not one.reason]
    return [
        *_effective(every_shelf(city), disk),
        *(one for shelf in _own_shelves(city) for one in _effective([shelf], disk)),
    ]


def agent_skills(
    city: City, disk: Disk, agent: Agent, read: SkillsRead | None = None
) -> list[ShelvedSkill]:
    """The skills within an agent's reach, those it does not get with the reason.

    One that providers would drop still covers those of its name: another of that name in its
    place would not be what was written. `read` keeps what was read for the next agent.
    """
    allow, deny = agent.value("skills_filter.allow"), agent.value("skills_filter.deny")
    found = []
    for one in _effective(agent_shelves(city, agent), disk, read):
        reason = "" if allowed((one.skill.name,), allow, deny) else "`skills_filter` leaves it out"
        faults = [problem.message for problem in one.skill.problems if problem.is_error]
        found.append(one._replace(reason=reason or (faults[0] if faults else "")))
    return found


def every_skill(city: City, disk: Disk) -> list[ShelvedSkill]:
    """All skills of the city, its imports and its agents, those that others cover too."""
    shelves = [*every_shelf(city), *_own_shelves(city)]
    return [one for shelf in shelves for one in _effective([shelf], disk)]


def skill_claim(
    city: City, disk: Disk, agent: Agent, read: SkillsRead | None = None
) -> "SkillClaim":
    """What an agent wants in the directory where its provider looks for skills."""
    from gascity.plan.skills import ClaimedSkill, SkillClaim

    provider = city.providers.get(agent.provider)
    return SkillClaim(
        agent=str(agent.name),
        provider=agent.provider,
        sink=provider.text("skills.directory") if provider else "",
        links=provider.text("skills.links") if provider else "",
        copies=agent.value("execution") == "container",
        skills=tuple(
            ClaimedSkill(
                one.skill.name,
                disk.absolute(one.skill.path),
                one.skill.path,
                one.origin,
                disk.absolute(one.skill.pack),
            )
            for one in agent_skills(city, disk, agent, read)
            if not one.reason
        ),
    )


def _own_shelves(city: City) -> list[Shelf]:
    return [Shelf(AGENT_ORIGIN, one.directory, one.catalogues, one.pack) for one in _homes(city)]


def _homes(city: City) -> list[AgentDir]:
    """Agent directories, each once: an agent of rigs has several rows and one directory."""
    return list({agent.home.directory: agent.home for agent in city.agents}.values())


def _effective(
    shelves: list[Shelf], disk: Disk, read: SkillsRead | None = None
) -> list[ShelvedSkill]:
    read = {} if read is None else read
    best: dict[str, ShelvedSkill] = {}
    for shelf in shelves:
        if "skills" not in shelf.catalogues:
            continue
        directory = shelf.path("skills")
        if directory not in read:
            read[directory] = tuple(read_skills(disk, directory, shelf.pack))
        for skill in read[directory]:
            below = best.get(skill.name)
            shadows = (below.skill.path, *below.shadows) if below else ()
            best[skill.name] = ShelvedSkill(skill, shelf.origin, shadows)
    return [best[name] for name in sorted(best)]


def list_additions(city: City, disk: Disk) -> list[dict[str, object]]:
    """What each import of the city puts before agents that are not its own."""
    return [
        {"binding": one.binding, "adds": list(_additions(city, disk, one))}
        for one in city.pack.imports
        if one.pack is not None
    ]


def _additions(city: City, disk: Disk, one: Import) -> Iterator[dict[str, object]]:
    others = [
        agent
        for agent in city.agents
        if agent.name.binding != one.binding
        and any(shelf.origin == one.binding for shelf in city_shelves(city, agent))
    ]
    if not others:
        return
    for kind in CATALOGUES:
        winners: dict[str, str] = {}
        for shelf in city_shelves(city):
            if kind in shelf.catalogues:
                names = entry_names(disk, shelf.path(kind), kind)
                winners |= dict.fromkeys(names, shelf.origin)
        for name in sorted(name for name, origin in winners.items() if origin == one.binding):
            yield {
                "kind": kind.removeprefix("template-"),
                "name": name,
                "agents": [str(a.name) for a in others],
            }
