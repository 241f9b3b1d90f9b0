"""Everything `city check` reports about a loaded city, by the agent directory it depends on.

Checking a city renders every prompt and collects every overlay, server and skill, so the cost grows
with the city. Most edits change one agent, so the problems are kept by agent directory, and
`recheck` replaces those of one directory: it reads the city with only that agent in it.

This is correct only if the edit cannot change what is reported elsewhere. Checks across agents look
at names, dependencies, working directories and the fragments that prompts include; together these
are the agent's interface. `recheck` gives up if the interface changed, and for agents whose
problems depend on others in any other way; then the whole city must be checked.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.compose.city import packs_of
from gascity.location import Site, Sites, nested_problems
from gascity.mcp.delivery import Delivery, server_problems
from gascity.model.city import Agent, City
from gascity.model.names import IMPLICIT, AgentName, did_you_mean
from gascity.model.problems import Problem, once_each, warning
from gascity.model.settings import Filter
from gascity.pipeline import KNOWLEDGE, agent_skills, knowledge_types, list_skills
from gascity.prompts import Machine, Prompts, is_template
from gascity.providers.registry import provider_files
from gascity.render.flags import (
    HEADLESS,
    as_required,
    mode_problem,
    scope_problems,
)
from gascity.render.ignored_settings import (
    dead_patterns,
    ignored_provider_settings,
    ignored_settings,
)
from gascity.runtimes import headless_runtime, runtime_names
from gascity.source.disk import Disk
from gascity.workdir.wanted import CityContent, collect

# A problem of this machine, which matters when something is planned.
_NOT_HERE = ("rig-missing",)
# What may define formulas, orders, commands or doctor checks.
_WITH_EXTRAS = ("formulas", "orders", "commands", "doctor", "pack.toml")

Interface = tuple[object, ...]


class AgentFindings(NamedTuple):
    """The problems of one agent directory.

    `interface` is what checks across agents look at, as text. It is empty if the directory cannot
    be checked without the others.
    """

    problems: tuple[Problem, ...]
    interface: str


class PromptFindings(NamedTuple):
    """The problems of one prompt, and the fragments it includes, also in branches not taken."""

    problems: tuple[Problem, ...]
    fragments: frozenset[str]


class CityFindings(NamedTuple):
    """All problems of a city: of each agent directory, and those that belong to none."""

    name: str
    agents: int
    rigs: int
    packs: int
    shared: tuple[Problem, ...]
    by_directory: Mapping[str, AgentFindings]

    def map_problems(self, change: Callable[[Problem], Problem]) -> "CityFindings":
        """Return the findings with each problem changed."""
        by_directory = {
            directory: own._replace(problems=tuple(map(change, own.problems)))
            for directory, own in self.by_directory.items()
        }
        return self._replace(shared=tuple(map(change, self.shared)), by_directory=by_directory)

    @property
    def problems(self) -> list[Problem]:
        """Every problem once."""
        own = (problem for each in self.by_directory.values() for problem in each.problems)
        return list(dict.fromkeys((*self.shared, *own)))


def agent_directory(path: str) -> str:
    """Return the directory of the city's agent that a displayed path is in; empty if in none."""
    parts = path.split("/", 2)
    return f"agents/{parts[1]}" if parts[0] == "agents" and len(parts) > 1 else ""


def check_city(city: City, disk: Disk, machine: Machine) -> CityFindings:
    """Check definitions, prompts, skills, permissions and working directories."""
    before = len(disk.problems)  # the problems of loading are among the city's
    prompts = Prompts(city, disk, machine)
    agents = [agent for agent in city.agents if not agent.broken]
    found: dict[str, list[Problem]] = {agent.home.directory: [] for agent in city.agents}
    shared = [*city.problems, *ignored_provider_settings(city)]
    runtimes = runtime_names()
    for agent in city.agents:
        ignored = as_required(city, ignored_settings(city, agent))
        own = (*agent.problems, *ignored)
        found[agent.home.directory] += (*own, *_unknown_runtime(city, agent, runtimes))
    prompt_findings = {agent.name: check_prompt(prompts, agent) for agent in agents}
    for agent in agents:
        found[agent.home.directory] += prompt_findings[agent.name].problems
    included = {name for each in prompt_findings.values() for name in each.fragments}
    if any(prompts.fragments(agent, agent.home.pack) for agent in agents):
        from gascity.workdir.check_templates import unused_fragments

        shared += unused_fragments(prompts, agents, included)
    for path, problem in _skill_problems(city, disk):
        found.get(agent_directory(path), shared).append(problem)
    if _has_hud(city, agents):
        from gascity.workdir.check_hud import check_sections

        for path, problem in check_sections(prompts, agents, included):
            found.get(agent_directory(path), shared).append(problem)
    shared += _extras_problems(disk)
    sites = _group_sites(city, disk, agents)
    shared += (problem for _, problem in nested_problems([s for group in sites for s in group]))
    for agent, problems in _workdir_problems(CityContent.of(prompts, {}), sites):
        found[agent.home.directory] += problems
    for problem in disk.problems[before:]:
        place = problem.place.file if problem.place else ""
        found.get(agent_directory(place), shared).append(problem)
    for agent in agents:
        shared += _dead_agents(city, agent)
        found[agent.home.directory] += _unused_type(city, disk, agent)
    shared += _delegation_problems(city)
    interfaces = _interfaces(city, sites, prompt_findings)
    dependent = set(_dependent(city, sites, shared, found))
    return CityFindings(
        city.name,
        len(city.agents),
        len(city.rigs),
        len(packs_of(city)) - 1,
        tuple(dict.fromkeys(shared)),
        {
            directory: AgentFindings(
                tuple(dict.fromkeys(problems)),
                "" if directory in dependent else repr(interfaces.get(directory, "")),
            )
            for directory, problems in found.items()
        },
    )


def check_prompt(prompts: Prompts, agent: Agent) -> PromptFindings:
    """Render the prompt of an agent and return what is wrong with it."""
    rendered = prompts.of(agent)
    problems = [*rendered.problems, *rendered.unrelated]
    fragments = rendered.fragments.union(agent.settings.append_fragments)
    failed = any(problem.is_error for problem in rendered.problems)
    if is_template(agent.settings.prompt):
        from gascity.workdir.check_templates import included_by, undefined_variables

        fragments |= included_by(prompts, agent)
        problems += () if failed else undefined_variables(prompts, agent)
    tools = agent.settings.tools
    if not failed and "`" in rendered.text and (tools.deny or tools.allow is not None):
        from gascity.workdir.check_denied_tools import denied_tools

        problems += denied_tools(prompts.city, agent, rendered)
    if rendered.hud or agent.settings.hud is not None:
        from gascity.workdir.check_hud import check_selection, volatile_before_stable

        problems += check_selection(prompts, agent, rendered)
        problems += volatile_before_stable(rendered)
    return PromptFindings(tuple(problems), fragments)


def recheck(
    findings: CityFindings, directory: str, part: City, disk: Disk, machine: Machine
) -> CityFindings | None:
    """Replace the findings of one agent directory; None if the whole city must be checked.

    `part` is the city as it is now, with only the agents of that directory's name.
    """
    old = findings.by_directory.get(directory)
    new = check_city(part, disk, machine).by_directory.get(directory)
    if old is None or new is None or not new.interface or new.interface != old.interface:
        return None
    return findings._replace(by_directory={**findings.by_directory, directory: new})


def _skill_problems(city: City, disk: Disk) -> Iterator[tuple[str, Problem]]:
    """Yield the problems of skills with the path of each skill.

    The user cannot fix an imported pack, so its skills, which are skipped, are only warnings.
    """
    listed = [entry.skill for entry in list_skills(city, disk)]
    for skill in listed:
        if skill.pack == ".":
            yield from ((skill.path, problem) for problem in skill.problems)
    for pack in dict.fromkeys(skill.pack for skill in listed if skill.pack != "."):
        of_pack = (problem for skill in listed if skill.pack == pack for problem in skill.problems)
        outside = pack.startswith("/")  # hints there are for the author of the pack
        for problem in once_each(p.softened() for p in of_pack):
            yield pack, problem._replace(hint=None if outside else problem.hint)


def _extras_problems(disk: Disk) -> list[Problem]:
    """Return the problems of the city's own formulas, orders, commands and doctor checks.

    Users cannot fix those of imported packs.
    """
    if not any([disk.exists(f"{disk.root}/{name}") for name in _WITH_EXTRAS]):  # records them all
        return []
    from gascity.source.pack_extras import read_pack_extras

    return [p for extra in read_pack_extras(disk, ".").extras for p in extra.problems]


def _group_sites(city: City, disk: Disk, agents: Iterable[Agent]) -> list[list[Site]]:
    """Return where the agents work, those of one directory together."""
    sites = Sites(city, disk, {})
    groups: dict[str, list[Site]] = {}
    for agent in agents:
        site = sites.of(agent)
        groups.setdefault(site.workdir, []).append(site)
    return list(groups.values())


def _workdir_problems(
    content: CityContent, groups: Sequence[list[Site]]
) -> Iterator[tuple[Agent, list[Problem]]]:
    """Yield problems of overlays, servers and skills, and of the projects of rigs.

    Does not look at the agents' own working directories.
    """
    city = content.prompts.city
    providers = frozenset((*provider_files()[0], *city.providers))
    projects = None
    if any(site.agent.name.rig is not None for group in groups for site in group):
        from gascity.workdir.project import Projects

        projects = Projects(city, content.prompts.disk, content.environ, lambda: content)
    for group in groups:
        requirements = collect(content, group, lambda _: False, ask_git=False)
        for site in group:
            name = str(site.agent.name)
            problems = requirements.problems.get(name, ())
            found = [problem for problem in problems if problem.code not in _NOT_HERE]
            servers = requirements.servers.get(name)
            if servers is not None:
                found += servers.problems
                names = [server.name for server in servers.servers]
                gateways = requirements.deliveries[name].gateways
                found += scope_problems(city, site.agent, names, gateways)
                found += _uncallable_servers(city, site.agent, requirements.deliveries.get(name))
            found += _unusable_mode(city, site.agent)
            found += _dead_filters(content, site.agent)
            found += content.overlays.unknown_slots(site.agent, providers)
            found += projects.problems_of(site, requirements) if projects else ()
            yield site.agent, found


def _interfaces(
    city: City, groups: Iterable[list[Site]], prompts: Mapping[AgentName, PromptFindings]
) -> dict[str, list[Interface]]:
    """Return for each agent directory what checks across agents look at."""
    workdirs = {site.agent.name: (site.workdir, site.kind) for group in groups for site in group}
    interfaces: dict[str, list[Interface]] = {}
    for agent in city.agents:
        fragments = prompts[agent.name].fragments if agent.name in prompts else ()
        settings = agent.settings
        names, depth = settings.agents_filter, settings.limits.delegation_depth
        own = (str(agent.name), settings.depends_on, workdirs.get(agent.name), sorted(fragments))
        takes = (settings.mode, settings.hidden, settings.suspended, settings.min_active_sessions)
        gives = (names.allow, names.deny, depth, agent.broken)
        interfaces.setdefault(agent.home.directory, []).append((*own, *takes, *gives))
    return interfaces


def _dependent(
    city: City,
    groups: Iterable[list[Site]],
    shared: Iterable[Problem],
    found: Mapping[str, Collection[Problem]],
) -> Iterator[str]:
    """Yield agent directories whose problems depend on other agents."""
    yield from (agent_directory(problem.place.file) for problem in shared if problem.place)
    for group in groups:
        directories = {site.agent.home.directory for site in group}
        yield from directories if len(directories) > 1 else ()
    for directory, problems in found.items():
        if any(problem.code == "case-clash" for problem in problems):
            yield directory
    for caller in (agent for agent in city.agents if agent.settings.native_subagents):
        from gascity.workdir.agent_files import is_subagent

        yield caller.home.directory
        globs = caller.settings.native_subagents
        yield from (a.home.directory for a in city.agents if is_subagent(caller, a, globs))
    for agent in city.agents:  # a fragment there is in use if any prompt includes its name
        if "template-fragments" in agent.home.catalogues:
            yield agent.home.directory


def _delegation_problems(city: City) -> list[Problem]:
    """Return what is wrong with who may give work to whom; most cities set neither."""
    settings = [agent.settings for agent in city.agents]
    deep = any(each.limits.delegation_depth > 1 and each.agents_filter.allow for each in settings)
    if not deep and all(each.mode != "subagent" for each in settings):
        return []
    from gascity.workdir.check_delegation import delegation_cycles, unreachable_agents

    return [*delegation_cycles(city), *unreachable_agents(city)]


def _unused_type(city: City, disk: Disk, agent: Agent) -> Iterator[Problem]:
    """Yield a `type` for which there is no starter knowledge."""
    kind = agent.settings.type
    if kind and kind not in (known := knowledge_types(city, disk)):
        message = f"`type` has no effect: there is no starter knowledge for `{kind}`"
        hint = did_you_mean(kind, known) or f"write it to {KNOWLEDGE}/{kind}/"
        yield warning("not-acted-on", message, agent.setting("type").place, hint)


def _unknown_runtime(city: City, agent: Agent, known: frozenset[str]) -> Iterator[Problem]:
    """Yield the problem of a runtime that is not installed: no headless run could start."""
    configured = agent.settings.runtime or city.session.runtime
    name = headless_runtime(configured)
    if name not in known:
        place = agent.setting("runtime").place
        if not agent.settings.runtime:
            place = city.layers.session[-1].place("runtime") if city.layers.session else None
        hint = did_you_mean(name, known) or "install the package that provides it"
        yield Problem("unknown-runtime", f"there is no runtime `{name}`", place, hint)


def _has_hud(city: City, agents: Iterable[Agent]) -> bool:
    """Return whether there are HUD sections in files."""
    homes = (agent.home.catalogues for agent in agents)
    return any("hud" in each for each in (*(pack.catalogues for pack in packs_of(city)), *homes))


def _has_patterns(filter: Filter) -> bool:
    return bool(filter.allow or filter.deny)


def _dead_filters(content: CityContent, agent: Agent) -> Iterator[Problem]:
    """Yield patterns of filters that match no server or skill that reaches the agent."""
    if _has_patterns(agent.settings.mcp_filter):
        yield from dead_patterns(agent, "mcp_filter", "server", content.servers.names(agent))
    if _has_patterns(agent.settings.skills_filter):
        prompts = content.prompts
        skills = agent_skills(prompts.city, prompts.disk, agent, content.skills)
        names = [resolved.skill.name for resolved in skills]
        yield from dead_patterns(agent, "skills_filter", "skill", names)


def _dead_agents(city: City, agent: Agent) -> Iterator[Problem]:
    """Yield patterns that match no agent; these depend on all agents of the city."""
    tables = ["agents_filter"] if _has_patterns(agent.settings.agents_filter) else []
    tables += ["native_subagents"] if agent.settings.native_subagents else []
    if tables:
        names = [each.name for each in city.agents]
        # The agent of a provider that the city does not configure exists when it is addressed.
        names += [AgentName(name) for name in provider_files()[0]]
        rigs = [rig.name for rig in city.rigs]
        known = {form for name in names for form in (str(name), name.without_rig, name.bare)}
        in_rigs = {f"{rig}/{name.without_rig}" for rig in rigs for name in names}
        for table in tables:
            yield from dead_patterns(agent, table, "agent", known | in_rigs, sorted(known))


def _uncallable_servers(city: City, agent: Agent, delivery: Delivery | None) -> list[Problem]:
    """Return warnings about servers that the agent's headless runs cannot call.

    A built-in agent of a provider without servers is not one: no user gave it any.
    """
    provider = city.provider_of(agent)
    if provider is None or delivery is None:
        return []
    if not provider.facts.mcp.target and agent.rank == IMPLICIT:
        return []
    return server_problems(provider, agent, delivery)


def _unusable_mode(city: City, agent: Agent) -> Iterator[Problem]:
    """Warn about a configured permission mode that the agent's `[tools]` rule out."""
    provider = city.provider_of(agent)
    problem = mode_problem(provider, agent, HEADLESS) if provider else None
    if problem is not None and problem.place is not None:
        yield problem
