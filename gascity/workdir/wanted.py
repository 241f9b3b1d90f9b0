"""Collects what the agents of one working directory need in it: overlays, skills, MCP servers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from gascity.compose.asset_dirs import left_out
from gascity.location import Site
from gascity.mcp.delivery import NONE, Delivery, ServerRequest, TargetFile, decide_deliveries
from gascity.mcp.gateway_entry import capability_problems
from gascity.mcp.server_files import ServerFile
from gascity.mcp.servers import ServerResolver, target_owners
from gascity.mcp.types import AgentServers, McpServer
from gascity.model.city import Agent, City
from gascity.model.document_text import DocumentError
from gascity.model.problems import Place, Problem
from gascity.model.provider import Provider
from gascity.model.session_context import SessionContext
from gascity.model.wanted import DOCUMENT, FILE, WantedPath
from gascity.pipeline import SkillsRead, agent_skills
from gascity.prompts import Prompts
from gascity.source.catalogues import files_of
from gascity.source.disk import Disk
from gascity.workdir.decide.skills import ClaimedSkill, SkillClaim, SkillPlan, sink_plan
from gascity.workdir.overlays import AgentOverlay, Overlays

if TYPE_CHECKING:
    from gascity.workdir.agent_files import OwnFile


class Requirements:
    """Everything the agents of one directory need in it, and their problems."""

    def __init__(self) -> None:
        self.wanted: dict[str, WantedPath] = {}
        self.problems: dict[str, list[Problem]] = {}  # by agent
        self.overlays: dict[str, AgentOverlay] = {}
        self.servers: dict[str, AgentServers] = {}
        self.deliveries: dict[str, Delivery] = {}
        self.skills: SkillPlan | None = None
        self.agent_files: dict[str, OwnFile] = {}  # of the agents' own sessions
        self.file_subjects: dict[str, str] = {}  # by agent file: the agent it describes
        self.blocked: set[str] = set()  # agents with errors: nothing is written for them

    def report(self, agent: str, problems: Iterable[Problem]) -> None:
        """Add problems that do not stop the agent."""
        self.problems.setdefault(agent, []).extend(problems)

    def report_blocking(self, agent: str, problems: Iterable[Problem]) -> None:
        """Add problems; an error among them blocks the agent, whose needs are then incomplete."""
        problems = list(problems)
        self.report(agent, problems)
        if any(problem.is_error for problem in problems):
            self.blocked.add(agent)

    def add(self, new: WantedPath) -> None:
        """Add a wanted path. Report a conflict if two agents want different contents there."""
        existing = self.wanted.get(new.path)
        if existing is None:
            self.wanted[new.path] = new
        elif _same_content(new, existing):
            agents = tuple(sorted({*existing.agents, *new.agents}))
            self.wanted[new.path] = existing._replace(agents=agents)
        else:
            self.report_conflict(new, existing)

    def report_conflict(self, new: WantedPath, existing: WantedPath) -> None:
        problem = _conflict(new, existing)
        for agent in (*new.agents, *existing.agents):
            self.report_blocking(agent, [problem])


def _same_content(new: WantedPath, existing: WantedPath) -> bool:
    """Return whether both would write the same; different sources may have the same content."""
    if _without_origin(new) == _without_origin(existing):
        return True
    plain = new.kind == existing.kind == FILE and not (new.entries or existing.entries)
    return plain and new.mode == existing.mode and _content(new) == _content(existing)


def _without_origin(wanted: WantedPath) -> WantedPath:
    return wanted._replace(agents=(), source="", layer="")


def _content(wanted: WantedPath) -> bytes:
    if wanted.data is not None:
        return wanted.data
    with open(wanted.copy_of, "rb") as file:
        return file.read()


def _conflict(new: WantedPath, existing: WantedPath) -> Problem:
    first, second = existing.agents[0], new.agents[0]
    if first == second:
        message = f"{existing.source} and {new.source} cannot both be at {new.path}"
        return Problem("overlay-conflict", message, None, "keep one of them")
    return Problem(
        "overlay-conflict",
        f"agents `{first}` and `{second}` share a working directory and want different content "
        f"at {new.path}: {existing.source}, {new.source}",
        None,
        "give one of them its own `work_dir`",
    )


class CityContent(NamedTuple):
    """The prompts, overlays, servers and skills of one city, each read once for all agents."""

    prompts: Prompts
    overlays: Overlays
    servers: ServerResolver
    owners: Mapping[str, Provider]  # by name, including those whose file another one writes
    environ: Mapping[str, str]
    skills: SkillsRead

    @classmethod
    def of(
        cls,
        prompts: Prompts,
        environ: Mapping[str, str],
        valid_servers: dict[str, ServerFile] | None = None,
    ) -> "CityContent":
        """`valid_servers` are those of ServerResolver."""
        owners = target_owners(prompts.city, prompts.disk)
        servers = ServerResolver(prompts, valid_servers)
        return cls(prompts, Overlays(prompts), servers, owners, environ, {})

    def for_session(self, scene: SessionContext | None) -> "CityContent":
        """Return the same content rendered with one session's values, if there are any."""
        if scene is None:
            return self
        prompts = self.prompts.for_session(scene)
        overlays, servers = copy(self.overlays), copy(self.servers)
        overlays.prompts = servers.prompts = prompts
        return self._replace(prompts=prompts, overlays=overlays, servers=servers)


def collect(
    content: CityContent,
    sites: Sequence[Site],
    unmanaged: Callable[[str], bool],
    scenes: Mapping[str, SessionContext] = {},
    *,
    ask_git: bool = True,
) -> Requirements:
    """Collect what all agents of one directory need.

    `unmanaged` says whether a path exists there that apply did not write. `scenes` has the values
    of sessions by agent; other agents get those of their first session.
    """
    requirements = Requirements()
    if not sites:
        return requirements
    for site in sites:
        name = str(site.agent.name)
        requirements.report_blocking(name, site.problems)
        overlay = content.for_session(scenes.get(name)).overlays.of(site.agent, unmanaged)
        requirements.overlays[name] = overlay
        requirements.report_blocking(name, overlay.problems)
        requirements.report(name, left_out(content.prompts.city, site.agent))
        in_git = overlay.secret & site.tracked if overlay.secret and ask_git else frozenset()
        for wanted in overlay.wanted:
            if wanted.path in in_git:
                requirements.report(name, [_secret_in_git(wanted)])
            else:
                requirements.add(wanted)
    _collect_skills(content, sites, requirements)
    collect_servers(content, sites, requirements, ask_git, scenes)
    _collect_agent_files(content, sites, requirements, scenes)
    _refuse_nesting(requirements)
    return requirements


def _refuse_nesting(requirements: Requirements) -> None:
    """Report paths below a path at which a file or a link is wanted."""
    for path, wanted in requirements.wanted.items():
        parent = path.rpartition("/")[0]
        while parent:
            if parent in requirements.wanted:
                requirements.report_conflict(wanted, requirements.wanted[parent])
            parent = parent.rpartition("/")[0]


def _secret_in_git(wanted: WantedPath) -> Problem:
    return Problem(
        "secret-in-tracked-file",
        f"`{wanted.path}` would contain a secret and is tracked by git: not written",
        Place(wanted.source, line=1, col=1),
        "write it to a file that git does not track",
    )


def _collect_agent_files(
    content: CityContent,
    sites: Sequence[Site],
    requirements: Requirements,
    scenes: Mapping[str, SessionContext],
) -> None:
    city = content.prompts.city
    sites = [site for site in sites if needs_agent_files(city, site.agent)]
    if not sites:
        return
    from gascity.workdir.agent_files import collect_agent_files

    for site in sites:
        own_prompts = content.for_session(scenes.get(str(site.agent.name))).prompts
        home = content.environ.get("HOME", "")
        collect_agent_files(content.prompts, own_prompts, site, requirements, home)


def needs_agent_files(city: City, agent: Agent) -> bool:
    """Return whether an agent's directory may get agent files."""
    if agent.settings.native_subagents:
        return True
    provider = city.provider_of(agent)
    return provider is not None and provider.facts.agents.deliver == "file"


def _collect_skills(
    content: CityContent, sites: Sequence[Site], requirements: Requirements
) -> None:
    city, disk = content.prompts.city, content.prompts.disk
    claims = [skill_claim(city, disk, site.agent, content.skills) for site in sites]
    packs = {skill.directory: skill.pack for claim in claims for skill in claim.skills}
    plan = sink_plan(claims, sites[0].workdir, files_of(disk, packs.items()))
    requirements.skills = plan
    for agent, problems in plan.problems.items():
        requirements.report(agent, problems)
    for wanted in plan.wanted:
        requirements.add(wanted)


def collect_servers(
    content: CityContent,
    sites: Sequence[Site],
    requirements: Requirements,
    ask_git: bool,
    scenes: Mapping[str, SessionContext] = {},
) -> None:
    """Collect the agents' MCP servers and decide how each agent gets them."""
    city = content.prompts.city
    claims = []
    for site in sites:
        name = str(site.agent.name)
        provider = city.provider_of(site.agent)
        if provider is None:
            continue
        effective = content.for_session(scenes.get(name)).servers.of(site.agent)
        requirements.servers[name] = effective
        if provider.facts.mcp.target:  # other providers do not use the servers
            requirements.report_blocking(name, effective.problems)
        skills_only = _collect_server_skills(content, site.agent, effective.servers, requirements)
        if not skills_only:
            unenforced = list(capability_problems(provider, site.agent, effective.servers))
            if unenforced:
                from gascity.render.flags import as_required

                requirements.report_blocking(name, as_required(city, unenforced))
        claims.append(ServerRequest(name, provider, effective.servers, skills_only))
    ask_git = ask_git and any(claim.servers for claim in claims)
    tracked = sites[0].tracked if ask_git else frozenset()
    requirements.deliveries = decide_deliveries(claims, content.owners, tracked)
    for name, delivery in requirements.deliveries.items():
        blocking = delivery.mode == NONE
        report = requirements.report_blocking if blocking else requirements.report
        report(name, delivery.problems)
        for target in delivery.targets:
            _add_target(requirements, target, name)


def _collect_server_skills(
    content: CityContent,
    agent: Agent,
    servers: Sequence[McpServer],
    requirements: Requirements,
) -> bool:
    """Collect the skills that offer an agent its servers; return whether it gets nothing else."""
    exposure = agent.settings.tools.exposure
    provider = content.prompts.city.provider_of(agent)
    if exposure == "tools" or provider is None or not provider.facts.skills.directory:
        return False
    from gascity.workdir.server_skills import server_skills

    skills = server_skills(content.prompts.disk, provider, agent, servers)
    requirements.report(str(agent.name), skills.problems)
    for wanted in skills.wanted:
        requirements.add(wanted)
    return exposure == "skills"


def _add_target(requirements: Requirements, target: TargetFile, agent: str) -> None:
    """Add a file with servers: a new one, or the agent's own overlay file with servers in it."""
    first = next(iter(target.entries.values()))
    overlay = requirements.wanted.get(target.path)
    own = overlay is not None and agent in overlay.agents
    if overlay is None or not own or overlay.kind not in (FILE, DOCUMENT):
        wanted = WantedPath(target.path, DOCUMENT, first.source, first.layer, (agent,), target.mode)
    else:
        wanted = overlay._replace(mode=0o600 if target.mode == 0o600 else overlay.mode)
    wanted = wanted._replace(shape=target.shape, entries=target.entries)
    if wanted.kind == FILE and overlay is not None and overlay.entries is None:
        try:
            wanted = _with_servers(wanted, target)
        except DocumentError as error:
            problem = Problem(
                "bad-overlay",
                f"cannot add MCP servers to this file: {error}",
                Place(wanted.source, line=error.line, col=error.col),
                "fix the overlay file",
            )
            requirements.report_blocking(agent, [problem])
            return
    if own:
        requirements.wanted[target.path] = wanted
    else:
        requirements.add(wanted)


def _with_servers(wanted: WantedPath, target: TargetFile) -> WantedPath:
    """Return an overlay file with the servers added to its text. Raises DocumentError."""
    from gascity.mcp.documents import edit_servers

    puts = {name: entry.value for name, entry in target.entries.items()}
    try:
        text = edit_servers(_content(wanted).decode(), target.shape, puts, ())
    except UnicodeDecodeError as error:
        raise DocumentError(str(error)) from None
    return wanted._replace(data=text.encode(), copy_of="", stamp=None)


def skill_claim(city: City, disk: Disk, agent: Agent, read: SkillsRead | None = None) -> SkillClaim:
    """Return the skills an agent wants in its provider's skill directory."""
    provider = city.provider_of(agent)
    return SkillClaim(
        agent=str(agent.name),
        provider=agent.provider,
        sink=provider.facts.skills.directory or "" if provider else "",
        links=provider.facts.skills.links if provider else "",
        copies=agent.settings.execution == "container",
        skills=tuple(
            ClaimedSkill(
                agent_skill.skill.name,
                disk.absolute(agent_skill.skill.path),
                agent_skill.skill.path,
                agent_skill.origin,
                disk.absolute(agent_skill.skill.pack),
            )
            for agent_skill in agent_skills(city, disk, agent, read)
            if not agent_skill.reason
        ),
    )
