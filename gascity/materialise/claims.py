"""Everything the agents of one working directory want in it, put together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy

from gascity.materialise.overlays import Laid, Overlays
from gascity.model.mcp import Effective
from gascity.model.plan import DOCUMENT, FILE, Wanted
from gascity.model.problems import Place, Problem
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.pipeline import SkillsRead, skill_claim
from gascity.plan.mcp import NONE, Claim, Delivery, Target, decide
from gascity.plan.skills import SkillPlan, sink_plan
from gascity.prompts import Prompts
from gascity.render.faults import DocumentFault
from gascity.render.variables import Scene
from gascity.servers import Servers, launch_value, target_owners
from gascity.sites import Site
from gascity.source.skill_files import files_of


class Claims:
    """What should stand in a directory, who says so, and what is wrong with it."""

    def __init__(self) -> None:
        self.wanted: dict[str, Wanted] = {}
        self.problems: dict[str, list[Problem]] = {}
        self.overlays: dict[str, Laid] = {}
        self.servers: dict[str, Effective] = {}
        self.deliveries: dict[str, Delivery] = {}
        self.skills: SkillPlan | None = None
        self.stuck: set[str] = set()  # agents with faults: nothing is written for them

    def note(self, agent: str, problems: Iterable[Problem]) -> None:
        self.problems.setdefault(agent, []).extend(problems)

    def hold(self, agent: str, problems: Iterable[Problem]) -> None:
        """Note problems; an error among them means that half of what is wanted is unknown."""
        found = list(problems)
        self.note(agent, found)
        if any(problem.is_error for problem in found):
            self.stuck.add(agent)

    def add(self, one: Wanted) -> None:
        """One more wish. Two agents that want different things at one path are told so."""
        other = self.wanted.get(one.path)
        if other is None:
            self.wanted[one.path] = one
        elif _same(one, other):
            self.wanted[one.path] = other._replace(agents=_union(other.agents, one.agents))
        else:
            fault = _conflict(one, other)
            for agent in (*one.agents, *other.agents):
                self.hold(agent, [fault])


def _union(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({*one, *other}))


def _same(one: Wanted, other: Wanted) -> bool:
    """Would both put the same there? Two sources may well say the same."""
    if _nameless(one) == _nameless(other):
        return True
    plain = one.kind == other.kind == FILE and not (one.entries or other.entries)
    return plain and one.mode == other.mode and _bytes(one) == _bytes(other)


def _nameless(one: Wanted) -> Wanted:
    return one._replace(agents=(), source="", layer="")


def _bytes(one: Wanted) -> bytes:
    if one.data is not None:
        return one.data
    with open(one.copy_of, "rb") as file:
        return file.read()


def _conflict(one: Wanted, other: Wanted) -> Problem:
    first, second = other.agents[0], one.agents[0]
    if first == second:
        words = f"{other.source} and {one.source} cannot both be at {one.path}"
        return Problem("overlay-conflict", words, None, "keep one of them")
    return Problem(
        "overlay-conflict",
        f"agents `{first}` and `{second}` work in one directory and want different things at "
        f"{one.path}: {other.source}, {one.source}",
        None,
        "give one of them a `work_dir` of its own",
    )


class Materials(NamedTuple):
    """The catalogues of one city, each read once for all agents."""

    prompts: Prompts
    overlays: Overlays
    servers: Servers
    owners: Mapping[str, Provider]  # providers by name, those too whose file another one fills
    environ: Mapping[str, str]
    skills: SkillsRead

    @classmethod
    def of(cls, prompts: Prompts, environ: Mapping[str, str]) -> "Materials":
        owners = target_owners(prompts.city, prompts.disk)
        return cls(prompts, Overlays(prompts), Servers(prompts), owners, environ, {})

    def seen_from(self, scene: Scene | None) -> "Materials":
        """The same with one session's own values; without any, these."""
        if scene is None:
            return self
        prompts = self.prompts.seen_from(scene)
        overlays, servers = copy(self.overlays), copy(self.servers)
        overlays.prompts = servers.prompts = prompts
        return self._replace(prompts=prompts, overlays=overlays, servers=servers)


def gather(
    materials: Materials,
    sites: Sequence[Site],
    foreign: Callable[[str], bool],
    scenes: Mapping[str, Scene] = {},
    *,
    ask_git: bool = True,
) -> Claims:
    """Ask every agent of one directory; `foreign` tells of files there that are not from us.

    `scenes` has the values of sessions, by their agents; other agents have those of their first.
    """
    claims = Claims()
    if not sites:
        return claims
    for site in sites:
        name = str(site.agent.name)
        claims.hold(name, site.problems)
        laid = materials.seen_from(scenes.get(name)).overlays.of(site.agent, foreign)
        claims.overlays[name] = laid
        claims.hold(name, laid.problems)
        told = laid.secret & site.tracked if laid.secret and ask_git else frozenset()
        for one in laid.wanted:
            if one.path in told:
                claims.note(name, [_secret_in_git(one)])
            else:
                claims.add(one)
    _gather_skills(materials, sites, claims)
    gather_servers(materials, sites, claims, ask_git, scenes)
    _refuse_nesting(claims)
    return claims


def _refuse_nesting(claims: Claims) -> None:
    """Nothing can stand below a path at which a file or a link is wanted."""
    for path, one in claims.wanted.items():
        head = path.rpartition("/")[0]
        while head:
            if head in claims.wanted:
                fault = _conflict(one, claims.wanted[head])
                for agent in (*one.agents, *claims.wanted[head].agents):
                    claims.hold(agent, [fault])
            head = head.rpartition("/")[0]


def _secret_in_git(one: Wanted) -> Problem:
    return Problem(
        "secret-in-tracked-file",
        f"`{one.path}` would hold a secret, and git tracks it: it is left out",
        Place(one.source, line=1, col=1),
        "write it to a file that git does not track",
    )


def _gather_skills(materials: Materials, sites: Sequence[Site], claims: Claims) -> None:
    city, disk = materials.prompts.city, materials.prompts.disk
    asked = [skill_claim(city, disk, site.agent, materials.skills) for site in sites]
    packs = {skill.directory: skill.pack for one in asked for skill in one.skills}
    lister = files_of(disk, packs.items())
    plan = sink_plan(asked, sites[0].workdir, lister)
    claims.skills = plan
    for agent, problems in plan.problems.items():
        claims.note(agent, problems)
    for one in plan.wanted:
        claims.add(one)


def gather_servers(
    materials: Materials,
    sites: Sequence[Site],
    claims: Claims,
    ask_git: bool,
    scenes: Mapping[str, Scene] = {},
) -> None:
    """Find out which servers the agents have, and how each gets them."""
    city = materials.prompts.city
    asked = []
    for site in sites:
        name = str(site.agent.name)
        provider = city.providers.get(site.agent.provider)
        if provider is None:
            continue
        effective = materials.seen_from(scenes.get(name)).servers.of(site.agent)
        claims.servers[name] = effective
        if provider.text("mcp.target"):  # to others it is nothing that a server is faulty
            claims.hold(name, effective.problems)
        asked.append(
            Claim(name, provider, effective.servers, launch_value(site.agent, materials.environ))
        )
    needed = ask_git and any(one.servers for one in asked)
    tracked = sites[0].tracked if needed else frozenset()
    claims.deliveries = decide(asked, materials.owners, tracked)
    for name, delivery in claims.deliveries.items():
        (claims.hold if delivery.mode == NONE else claims.note)(name, delivery.problems)
        for target in delivery.targets:
            _add_target(claims, target, name)


def _add_target(claims: Claims, target: Target, agent: str) -> None:
    """Servers go into a file of their own, beside settings, or into an overlay's file."""
    first = next(iter(target.entries.values()))
    below = claims.wanted.get(target.path)
    mine = below is not None and agent in below.agents
    if below is None or not mine or below.kind not in (FILE, DOCUMENT):
        one = Wanted(target.path, DOCUMENT, first.source, first.layer, (agent,), target.mode)
    else:
        one = below._replace(mode=0o600 if target.mode == 0o600 else below.mode)
    one = one._replace(shape=target.shape, entries=target.entries)
    if one.kind == FILE and below is not None and below.entries is None:
        try:
            one = _with_servers(one, target)
        except (DocumentFault, UnicodeDecodeError) as fault:
            claims.hold(agent, [_bad_overlay(one, fault)])
            return
    if mine:
        claims.wanted[target.path] = one
    else:
        claims.add(one)


def _bad_overlay(one: Wanted, fault: DocumentFault | UnicodeDecodeError) -> Problem:
    line, col = (fault.line, fault.col) if isinstance(fault, DocumentFault) else (1, 1)
    return Problem(
        "bad-overlay",
        f"servers cannot be put into this file: {fault}",
        Place(one.source, line=line, col=col),
        "mend the overlay file",
    )


def _with_servers(one: Wanted, target: Target) -> Wanted:
    """A file of the overlay's with the servers in it."""
    from gascity.render.documents import edit_servers

    puts = {name: entry.value for name, entry in target.entries.items()}
    text = edit_servers(_bytes(one).decode(), target.shape, puts, ())
    return one._replace(data=text.encode(), copy_of="", stamp=None)
