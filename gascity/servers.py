"""From an agent to its MCP servers: reads its shelves, expands templates, finds what is amiss."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from gascity.compose.catalogues import Shelf
from gascity.model.city import Agent, City
from gascity.model.mcp import Effective, Shadowed
from gascity.model.problems import Problem
from gascity.model.provider import Provider
from gascity.model.references import filled
from gascity.model.scope import allowed
from gascity.model.secrets import agent_secrets
from gascity.prompts import Prompts
from gascity.providers.registry import provider_files
from gascity.render.values import Terms
from gascity.render.variables import functions, variables
from gascity.source.disk import Disk
from gascity.source.providers import read_provider
from gascity.source.servers import Catalogue, Draft, Made, expanded, read_drafts


class Servers:
    """The servers of a city's agents; each directory is read once for all of them."""

    def __init__(self, prompts: Prompts) -> None:
        self.prompts = prompts
        self._read: dict[str, tuple[Catalogue, list[Draft]]] = {}

    def of(self, agent: Agent) -> Effective:
        """The servers an agent has, nearest definition first of each name, by name.

        A faulty definition still covers those below it: nobody gets another server than the one
        that was meant.
        """
        best: dict[str, tuple[Catalogue, Draft]] = {}
        covered: list[Draft] = []
        for shelf in self.prompts.shelves(agent):
            if "mcp" not in shelf.catalogues:
                continue
            catalogue, drafts = self._on(shelf, agent)
            for draft in drafts:
                covered += [best[draft.name][1]] if draft.name in best else []
                best[draft.name] = (catalogue, draft)
        allow, deny = agent.value("mcp_filter.allow"), agent.value("mcp_filter.deny")
        kept = [best[name] for name in sorted(best) if allowed((name,), allow, deny)]
        made = self._made(agent, kept)
        servers = tuple(one.server for one in made if one.server is not None)
        problems = dict.fromkeys(problem for one in made for problem in one.problems)
        winners = {draft.name: draft.file for _, draft in kept}
        shadowed = tuple(
            Shadowed(one.name, one.file, winners[one.name])
            for one in covered
            if one.name in winners
        )
        return Effective(servers, shadowed, tuple(problems))

    def _on(self, shelf: Shelf, agent: Agent) -> tuple[Catalogue, list[Draft]]:
        directory = shelf.path("mcp")
        if directory not in self._read:
            catalogue = Catalogue(directory, shelf.pack, shelf.origin, shelf.is_own(agent))
            self._read[directory] = (catalogue, read_drafts(self.prompts.disk, catalogue))
        return self._read[directory]

    def _made(self, agent: Agent, kept: list[tuple[Catalogue, Draft]]) -> list[Made]:
        found = [Made(draft.server, _told(one, draft.problems)) for one, draft in kept]
        if not any(draft.template for _, draft in kept):
            return found
        city, disk = self.prompts.city, self.prompts.disk
        scene, faults = self.prompts.scene(agent)
        names, calls = variables(city, agent, scene), functions()
        secrets = agent_secrets(agent.value("env"))
        provider = city.providers.get(agent.provider)
        takes_any = provider is not None and bool(provider.text("mcp.target"))
        for at, (catalogue, draft) in enumerate(kept):
            if draft.template:
                terms = Terms(names, calls, catalogue.pack in self.prompts.lenient)
                done = expanded(disk, catalogue, draft, terms, secrets)
                # What is wrong for this agent alone matters only if somebody reads the result.
                more = (*faults, *_told(catalogue, done.problems)) if takes_any else ()
                found[at] = Made(done.server, (*found[at].problems, *more))
        return found


def _told(catalogue: Catalogue, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """What is wrong with a server: in an imported pack it is left out, with a warning."""
    return tuple(one if catalogue.own else one.softened() for one in problems)


def launch_value(agent: Agent, environ: Mapping[str, str]) -> Callable[[str], str | None]:
    """Looks up a variable as a launch of the agent has it: its own `env`, then the host's.

    The agent's own may refer to the host's; what is unset there is unset here.
    """
    env = agent.value("env")
    own = {str(k): str(v) for k, v in env.items()} if isinstance(env, Mapping) else {}

    def resolve(name: str) -> str | None:
        if name not in own:
            return environ.get(name)
        value, unset = filled(own[name], environ.get)
        return None if unset else value

    return resolve


def launch_environment(agent: Agent, environ: Mapping[str, str]) -> dict[str, str]:
    """The host's environment and over it the agent's own, without what is not set."""
    resolve, env = launch_value(agent, environ), agent.value("env")
    own = {str(name): resolve(str(name)) for name in (env if isinstance(env, Mapping) else ())}
    return {**environ, **{name: value for name, value in own.items() if value is not None}}


def target_owners(city: City, disk: Disk) -> dict[str, Provider]:
    """The city's providers, and those it does not name that read a file one of them fills."""
    found = dict(city.providers)
    wanted = {path for one in found.values() for path in one.strings("mcp.also_targets")}
    wanted -= {one.text("mcp.target") for one in found.values()}
    for name, path in provider_files()[0].items() if wanted else ():
        layer = read_provider(disk, path) if name not in found else None
        if layer is not None and layer.values.get("mcp.target") in wanted:
            found[name] = Provider(name, name, (layer,), {}, {})
    return found


def told_once(found: Iterable[tuple[Agent, Problem]]) -> list[Problem]:
    """Each problem once; one of a template says for which agents."""
    agents: dict[Problem, list[str]] = {}
    for agent, problem in found:
        agents.setdefault(problem, []).append(str(agent.name))
    return [
        problem._replace(message=f"{problem.message} for {_several(names)}")
        if problem.code == "template-failed"
        else problem
        for problem, names in agents.items()
    ]


def _several(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"agent `{names[0]}`{more}"
