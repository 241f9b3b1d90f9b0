"""Open a city: the one place that connects reading and composing.

From a root directory to a `City`:

1. `external_paths` collects what a city depends on outside its root: provider files, the user's
   own agents, built-in agents and packs, the pack cache.
2. `source.load` reads the city's files, its imported packs and its agent directories. It decodes
   and validates them, and makes no decisions: the result is a set of layers with their files.
3. `compose` merges the layers by precedence into agents, rigs and providers. It does no I/O.

With `only`, step 2 reads just the agents of one bare name, which makes commands about one agent
independent of the size of the city. Problems never stop this: they are collected in the city.
Rendering prompts (`prompts`), resolving MCP servers (`mcp`) and planning working directories
(`workdir`) start from the City.
"""

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gascity.compose.asset_dirs import (
    AGENT_ORIGIN,
    AssetDir,
    agent_asset_dirs,
    all_asset_dirs,
)
from gascity.compose.city import compose, packs_of
from gascity.model.city import Agent, City
from gascity.model.names import allowed, near, parse_name, resolve, several
from gascity.model.problems import CityError, Problem
from gascity.paths import cache_home, config_home, git_top, main_repository
from gascity.providers.registry import provider_files
from gascity.resources import data_dir
from gascity.source.catalogues import Skill, read_skills
from gascity.source.disk import Disk, is_below
from gascity.source.load import load
from gascity.source.providers import ExternalPaths

KNOWLEDGE = "templates/knowledge"  # starter knowledge of a pack, one directory for each type
BUILTIN_KNOWLEDGE = "_knowledge"  # in the directory of built-in agents


def external_paths(environ: Mapping[str, str]) -> ExternalPaths:
    """Return the paths outside the city that it is read with."""
    files, looked = provider_files()
    system = data_dir("system_agents")
    return ExternalPaths(
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
    provider: str = "",
    disk: Disk | None = None,
    dialects: bool = False,
) -> City:
    """Read and compose a city; with `only`, just the agents of that bare name.

    The shipped providers are those that the city mentions, and `provider`. With `dialects`, the
    city's own files may use another layout, such as v1's.
    """
    external = external_paths(environ)
    providers = external.provider_files if all_providers else (provider,)
    sources = load(disk or Disk(root), external, only=only, providers=providers, dialects=dialects)
    return compose(sources, external.provider_files)


def open_agent(
    root: str, environ: Mapping[str, str], reference: str, directory: str = ""
) -> tuple[City, Agent]:
    """Open one agent and the part of its city that defines it.

    The cost does not grow with the city. The agents of the rig that contains `directory` come
    first. Raises CityError if the reference matches no agent or several.
    """
    city = open_city(root, environ, only=parse_name(reference).bare)
    agent = find_agent(city, reference, rig_at(city, directory) if directory else None)
    if agent is None:
        raise CityError(*_not_found(root, environ, reference))
    return city, agent


def rig_at(city: City, directory: str) -> str | None:
    """Return the rig that contains a directory, also if it is in one of the rig's worktrees.

    The innermost rig wins. The city's own state directory belongs to no rig, although it may lie
    inside one.
    """
    if not any(rig.path for rig in city.rigs):
        return None
    directory = os.path.realpath(directory)
    top = git_top(directory)
    inside = (main_repository(top) if top else None) or directory
    if is_below(inside, f"{os.path.realpath(city.root)}/.gc"):
        return None
    paths = {
        os.path.realpath(os.path.join(city.root, rig.path)): rig.name
        for rig in city.rigs
        if rig.path
    }
    around = [path for path in paths if is_below(inside, path)]
    return paths[max(around, key=len)] if around else None


def find_agent(city: City, reference: str, rig_first: str | None = None) -> Agent | None:
    """Return the agent a reference names, in the rig it names; None if there is none.

    A reference without a rig means an agent of `rig_first` if that rig has one; `/name` means the
    city's.
    """
    if rig_first is not None and "/" not in reference:
        agent = find_agent(city, f"{rig_first}/{reference}")
        if agent is not None:
            return agent
    match = resolve(reference, city.named())
    if match.candidates:
        raise CityError(several(reference, match.candidates))
    if match.found is not None:
        return match.found
    name = parse_name(reference)
    rig = next((rig for rig in city.rigs if rig.name == name.rig), None)
    if rig is not None:
        agent = find_agent(city, name.without_rig)
        if agent is not None and agent.name.rig is None and agent.settings.scope is None:
            problems = (*agent.problems, *rig.errors)
            return agent.replace(name=agent.name.in_rig(rig.name), problems=problems)
        return None
    return city.unconfigured.get(reference)


def _not_found(root: str, environ: Mapping[str, str], reference: str) -> tuple[Problem, ...]:
    """Return why there is no such agent: unreadable files first, else similar names."""
    city = open_city(root, environ)
    bare = parse_name(reference).bare
    similar = near(bare, {agent.name.bare for agent in city.agents})
    names = near(reference, [str(agent.name) for agent in city.agents])
    names = names or [str(agent.name) for agent in city.agents if agent.name.bare in similar][:3]
    suggestion = " or ".join(f"`{name}`" for name in names)
    hint = f"did you mean {suggestion}?" if names else "to list the agents: `city agent list`"
    home = f"agents/{bare}"
    placed = [(problem, problem.place) for problem in city.problems if problem.place]
    if any(p.code == "no-rigs" and place.file.startswith(f"{home}/") for p, place in placed):
        hint = "it needs a rig, and the city has none; to add one: `city rig add PATH`"
    unreadable = [problem for problem, place in placed if problem.is_error and place.file == home]
    unreadable += _unread_imports(city, reference)
    return (*unreadable, Problem("unknown-agent", f"there is no agent `{reference}`", None, hint))


def _unread_imports(city: City, reference: str) -> list[Problem]:
    """Return the problems of imports that could not be read and may define the agent."""
    binding = parse_name(reference).binding
    rigs = (each for imports in city.rig_imports.values() for each in imports)
    if all(each.pack for each in (*city.pack.imports, *rigs) if binding in (None, each.binding)):
        return []
    return [each for each in city.problems if each.code.startswith(("import-", "pack-changed"))]


def with_starter_knowledge(city: City, agents: Iterable[Agent]) -> list[Agent]:
    """Return the agents for whose type there is starter knowledge."""
    types = knowledge_types(city)
    return [agent for agent in agents if not agent.broken and knowledge_type(agent) in types]


def knowledge_types(city: City, disk: Disk | None = None) -> set[str]:
    """Return the types that have starter knowledge: in the city, its packs, or built in.

    Most cities have none of their own, so this only lists directories.
    """
    places = [pack.root for pack in packs_of(city) if pack.accepted]
    roots = [os.path.join(city.root, place, KNOWLEDGE) for place in places]
    disk = disk or Disk(city.root)
    before, types = len(disk.problems), set[str]()
    for directory in (os.path.join(data_dir("system_agents"), BUILTIN_KNOWLEDGE), *roots):
        types.update(name for name in disk.names(directory) if name[0] not in "._")
    disk.take_problems(before)  # a file of that name belongs to the project
    return types


def knowledge_type(agent: Agent) -> str:
    """Return the type whose starter knowledge an agent gets."""
    return agent.settings.type or agent.name.bare


SkillsRead = dict[str, tuple[Skill, ...]]  # by directory


class ResolvedSkill(NamedTuple):
    """A skill, its origin, and the skills of the same name that it overrides.

    `reason` is why the agent does not get it, empty if it does.
    """

    skill: Skill
    origin: str
    shadows: tuple[str, ...] = ()
    reason: str = ""


def list_skills(city: City, disk: Disk, agent: Agent | None = None) -> list[ResolvedSkill]:
    """Return the skills of one agent, or all of the city with each agent's own separately."""
    if agent is not None:
        return [skill for skill in agent_skills(city, disk, agent) if not skill.reason]
    return [
        *_effective(all_asset_dirs(city), disk),
        *(skill for asset_dir in _own_asset_dirs(city) for skill in _effective([asset_dir], disk)),
    ]


def agent_skills(
    city: City, disk: Disk, agent: Agent, read: SkillsRead | None = None
) -> list[ResolvedSkill]:
    """Return the skills that an agent sees, with the reason for those it does not get.

    An invalid skill still overrides those of its name, because the agent must not get another
    skill than the nearest one. `read` caches the directories for the next agent.
    """
    names = agent.settings.skills_filter
    skills = []
    for resolved in _effective(agent_asset_dirs(city, agent), disk, read):
        errors = [problem.message for problem in resolved.skill.problems if problem.is_error]
        if not allowed((resolved.skill.name,), names):
            errors.insert(0, "excluded by `skills_filter`")
        skills.append(resolved._replace(reason=errors[0] if errors else ""))
    return skills


def every_skill(city: City, disk: Disk) -> list[ResolvedSkill]:
    """Return all skills of the city, its imports and its agents, overridden ones included."""
    asset_dirs = [*all_asset_dirs(city), *_own_asset_dirs(city)]
    return [skill for asset_dir in asset_dirs for skill in _effective([asset_dir], disk)]


def _own_asset_dirs(city: City) -> list[AssetDir]:
    # An agent with several rigs has one row per rig, but only one directory.
    agents = [agent for agent in city.agents if agent.accepted]
    homes = {agent.home.directory: agent.home for agent in agents}.values()
    return [AssetDir(AGENT_ORIGIN, home.directory, home.catalogues, home.pack) for home in homes]


def _effective(
    asset_dirs: list[AssetDir], disk: Disk, read: SkillsRead | None = None
) -> list[ResolvedSkill]:
    """Return the skills of the directories, the last of each name, sorted by name."""
    read = {} if read is None else read
    best: dict[str, ResolvedSkill] = {}
    for asset_dir in asset_dirs:
        if "skills" not in asset_dir.catalogues:
            continue
        directory = asset_dir.path("skills")
        if directory not in read:
            read[directory] = tuple(read_skills(disk, directory, asset_dir.pack))
        for skill in read[directory]:
            overridden = best.get(skill.name)
            shadows = (overridden.skill.path, *overridden.shadows) if overridden else ()
            best[skill.name] = ResolvedSkill(skill, asset_dir.origin, shadows)
    return [best[name] for name in sorted(best)]
