"""Resolve the MCP servers of an agent: read its directories, expand templates, report problems."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from gascity.compose.asset_dirs import AssetDir
from gascity.mcp.server_files import (
    ServerDirectory,
    ServerFile,
    ServerResult,
    expand_server,
    read_server_files,
)
from gascity.mcp.types import AgentServers, ShadowedServer, is_city_server
from gascity.model.city import Agent, City
from gascity.model.names import allowed
from gascity.model.problems import Problem
from gascity.model.provider import Provider
from gascity.model.secrets import agent_secrets, filled
from gascity.prompts import Prompts
from gascity.providers.registry import provider_files
from gascity.source.disk import Disk
from gascity.source.providers import read_provider


class ServerResolver:
    """Resolves the servers of a city's agents; each directory is read once for all of them."""

    def __init__(self, prompts: Prompts, valid: dict[str, ServerFile] | None = None) -> None:
        """`valid` has the last valid version of each file, which replaces an invalid one.

        It is updated; `notes` says which files are replaced, and why. None: report errors only.
        """
        self.prompts = prompts
        self.notes: list[str] = []
        self._valid = valid
        self._read: dict[str, tuple[ServerDirectory, list[ServerFile]]] = {}

    def of(self, agent: Agent) -> AgentServers:
        """Return the servers of an agent by name, of each name the nearest definition.

        An invalid definition still overrides those below it, so that no agent gets another
        server than the one that was meant.
        """
        nearest: dict[str, tuple[ServerDirectory, ServerFile]] = {}
        overridden: list[ServerFile] = []
        for home, files in self._directories(agent):
            for file in files:
                overridden += [nearest[file.name][1]] if file.name in nearest else []
                nearest[file.name] = (home, file)
        names = agent.settings.mcp_filter
        chosen = [nearest[name] for name in sorted(nearest) if allowed((name,), names)]
        results = [self._placed(result) for result in self._results(agent, chosen)]
        winners = {file.name: file.file for _, file in chosen}
        return AgentServers(
            tuple(result.server for result in results if result.server is not None),
            tuple(
                ShadowedServer(file.name, file.file, winners[file.name])
                for file in overridden
                if file.name in winners
            ),
            tuple(dict.fromkeys(problem for result in results for problem in result.problems)),
        )

    def _placed(self, result: ServerResult) -> ServerResult:
        """Return the result with the decision whether its server is behind the gateway."""
        server = result.server
        if server is None:
            return result
        wanted = server.gateway
        if wanted is None:
            # The city's own server checks its callers itself.
            wanted = self.prompts.city.security.gateway and not is_city_server(server)
        return result._replace(server=server._replace(gateway=wanted))

    def names(self, agent: Agent) -> set[str]:
        """Return the names of all servers that reach an agent, before its filter."""
        return {file.name for _, files in self._directories(agent) for file in files}

    def _directories(self, agent: Agent) -> Iterator[tuple[ServerDirectory, list[ServerFile]]]:
        for asset_dir in self.prompts.asset_dirs(agent):
            if "mcp" in asset_dir.catalogues:
                yield self._files_of(asset_dir, agent)

    def _files_of(
        self, asset_dir: AssetDir, agent: Agent
    ) -> tuple[ServerDirectory, list[ServerFile]]:
        directory = asset_dir.path("mcp")
        if directory not in self._read:
            home = ServerDirectory(
                directory, asset_dir.pack, asset_dir.origin, asset_dir.is_own(agent)
            )
            files = read_server_files(self.prompts.disk, home)
            self._read[directory] = (home, [self._last_valid(file) for file in files])
        return self._read[directory]

    def _last_valid(self, file: ServerFile) -> ServerFile:
        """Return the file, or its last valid version if it has errors."""
        if self._valid is None:
            return file
        if not file.has_errors:
            self._valid[file.file] = file
        elif file.file in self._valid:
            error = next(problem for problem in file.problems if problem.is_error)
            self.notes.append(f"{file.file}: {error.message}; its last valid version stays in use")
            self._valid[file.file] = self._valid[file.file]._replace(replaces=error.message)
            return self._valid[file.file]
        return file

    def _results(
        self, agent: Agent, chosen: list[tuple[ServerDirectory, ServerFile]]
    ) -> list[ServerResult]:
        """Return the servers of the chosen files; templates are expanded for this agent."""
        results = [ServerResult(file.server, _soften(home, file.problems)) for home, file in chosen]
        if not any(file.template for _, file in chosen):
            return results
        from gascity.render.templates import TemplateContext
        from gascity.render.variables import functions, variables

        city = self.prompts.city
        session, session_problems = self.prompts.session_context(agent)
        known, calls = variables(city, agent, session), functions()
        secrets = agent_secrets(agent.settings.env)
        provider = city.provider_of(agent)
        supported = provider is not None and bool(provider.facts.mcp.target)
        for i, (home, file) in enumerate(chosen):
            if file.template:
                context = TemplateContext(known, calls, home.pack in self.prompts.lenient)
                expanded = expand_server(self.prompts.disk, home, file, context, secrets)
                # Problems of the expansion matter only if the provider gets the result.
                more = (*session_problems, *_soften(home, expanded.problems)) if supported else ()
                results[i] = ServerResult(expanded.server, (*results[i].problems, *more))
        return results


def _soften(home: ServerDirectory, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Turn errors of imported packs into warnings: the user cannot fix them."""
    return tuple(problem if home.own else problem.softened() for problem in problems)


def launch_value(agent: Agent, environ: Mapping[str, str]) -> Callable[[str], str | None]:
    """Return the look-up of a launch's variables: the agent's own `env`, then the host's.

    The agent's own may refer to the host's; with an unset reference they are unset too.
    """
    own = agent.settings.env

    def resolve(name: str) -> str | None:
        if name not in own:
            return environ.get(name)
        value, unset = filled(own[name], environ.get)
        return None if unset else value

    return resolve


def launch_environment(agent: Agent, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the host's environment overridden by the agent's own, without unset variables."""
    resolve = launch_value(agent, environ)
    own = {name: resolve(name) for name in agent.settings.env}
    return {**environ, **{name: value for name, value in own.items() if value is not None}}


def target_owners(city: City, disk: Disk) -> dict[str, Provider]:
    """Return the city's providers, and the others whose file one of them also writes."""
    owners = dict(city.providers)
    paths = {path for provider in owners.values() for path in provider.facts.mcp.also_targets}
    paths -= {provider.facts.mcp.target for provider in owners.values()}
    for name, path in provider_files()[0].items() if paths else ():
        layer = read_provider(disk, path) if name not in owners else None
        if layer is not None and layer.values.get("mcp.target") in paths:
            owners[name] = Provider(name, name, (layer,), {})
    return owners


def merged_problems(found: Iterable[tuple[Agent, Problem]]) -> list[Problem]:
    """Return each problem once; one of a template names the agents it occurs for."""
    agents: dict[Problem, list[str]] = {}
    for agent, problem in found:
        agents.setdefault(problem, []).append(str(agent.name))
    merged = []
    for problem, names in agents.items():
        if problem.code == "template-failed":
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            message = f"{problem.message} for agent `{names[0]}`{more}"
            problem = problem._replace(message=message)
        merged.append(problem)
    return merged
