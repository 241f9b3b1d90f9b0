"""A whole city as the plain files of one provider: agents, skills, MCP servers and overlay files.

All agents share one directory then. Where two of them see different things under one name, the
first agent's is exported and the other is reported as lost.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gascity.compose.asset_dirs import BUILT_IN_ORIGIN
from gascity.mcp.documents import edit_servers
from gascity.mcp.native import native_server
from gascity.mcp.servers import ServerResolver
from gascity.mcp.shapes import shape_of
from gascity.mcp.types import McpServer
from gascity.model.city import Agent
from gascity.model.document_text import DocumentError
from gascity.model.problems import Problem
from gascity.model.provider import Provider
from gascity.model.wanted import DOCUMENT, FILE, WantedPath
from gascity.pipeline import ResolvedSkill, SkillsRead, agent_skills
from gascity.prompts import Prompts
from gascity.render.agent_files import agents_directory, has_agent_files
from gascity.source.catalogues import files_of
from gascity.source.disk import is_below
from gascity.workdir.export.agents import agent_files
from gascity.workdir.export.write import wanted_file
from gascity.workdir.overlays import LayeredFile, Overlays

AGENT, SKILL, SERVER, OVERLAY = "agent", "skill", "server", "overlay"
_DIFFERS = "another agent's of this name is exported"


class CityLoss(NamedTuple):
    """Something that the files do not carry: of an agent a setting, else the thing itself."""

    kind: str
    name: str
    field: str
    value: str
    reason: str


class CityFile(NamedTuple):
    """A file of the export, and what it is of."""

    kind: str
    name: str
    wanted: WantedPath


class CityFiles(NamedTuple):
    """The files of a whole city for one provider, what they do not carry, and problems."""

    files: tuple[CityFile, ...]
    lost: tuple[CityLoss, ...]
    exported: tuple[str, ...]
    broken: frozenset[str]
    problems: tuple[Problem, ...]


def city_files(prompts: Prompts, agents: Sequence[Agent], provider: Provider) -> CityFiles:
    """Return the files of a city's agents for a provider that may not be theirs."""
    export = _CityExport(prompts, provider)
    export.add_agents(agents)
    usable = [agent for agent in agents if str(agent.name) not in export.broken]
    export.add_skills(usable)
    export.add_overlays(usable)
    export.add_servers(usable)
    return CityFiles(
        tuple(CityFile(*file) for file in export.files.values()),
        tuple(dict.fromkeys(export.lost)),
        tuple(str(agent.name) for agent in usable),
        frozenset(export.broken),
        tuple(dict.fromkeys(export.problems)),
    )


class _CityExport:
    """Collects the files; of each path the first one."""

    def __init__(self, prompts: Prompts, provider: Provider) -> None:
        self.prompts = prompts
        self.provider = provider
        self.product = provider.facts.display_name or provider.name
        self.files: dict[str, tuple[str, str, WantedPath]] = {}
        self.lost: list[CityLoss] = []
        self.broken: set[str] = set()
        self.problems: list[Problem] = []

    def lose(self, kind: str, name: str, reason: str) -> None:
        self.lost.append(CityLoss(kind, name, "", "", reason))

    def add(self, kind: str, name: str, wanted: WantedPath) -> None:
        first = self.files.setdefault(wanted.path, (kind, name, wanted))
        if _content(first[2]) != _content(wanted):
            self.lose(kind, name, _DIFFERS)

    def add_agents(self, agents: Sequence[Agent]) -> None:
        if not has_agent_files(self.provider):
            for agent in agents:
                self.lose(AGENT, str(agent.name), f"{self.product} has no agent files")
            return
        made = agent_files(self.prompts, agents, self.provider.name)
        self.problems += made.problems
        self.broken |= made.broken
        home = agents_directory(self.provider)
        for file in made.files:
            [name] = file.agents
            wanted = wanted_file(f"{home}/{file.path}", file.text, file.agents, AGENT)
            self.add(AGENT, name, wanted)
            self.lost += (CityLoss(AGENT, name, *loss) for loss in file.lost[name])

    def add_skills(self, agents: Iterable[Agent]) -> None:
        city, disk = self.prompts.city, self.prompts.disk
        sink = (self.provider.facts.skills.directory or "").removeprefix("./").rstrip("/")
        first: dict[str, ResolvedSkill] = {}
        read: SkillsRead = {}
        for agent in agents:
            for resolved in agent_skills(city, disk, agent, read):
                skill = resolved.skill
                if resolved.reason:
                    continue
                if not sink:
                    self.lose(SKILL, skill.name, f"{self.product} has no skills")
                elif first.setdefault(skill.name, resolved).skill.path != skill.path:
                    self.lose(SKILL, f"{skill.name} ({skill.path})", _DIFFERS)
        for name, resolved in first.items():
            directory = disk.absolute(resolved.skill.path)
            roots = [(directory, disk.absolute(resolved.skill.pack))]
            for file in files_of(disk, roots)(directory):
                wanted = WantedPath(
                    f"{sink}/{name}/{file.path}",
                    FILE,
                    f"{resolved.skill.path}/{file.path}",
                    SKILL,
                    mode=file.mode,
                    copy_of=file.absolute,
                )
                self.add(SKILL, name, wanted)

    def add_overlays(self, agents: Iterable[Agent]) -> None:
        overlays = Overlays(self.prompts)
        for agent in agents:
            as_provider = agent.replace(provider=self.provider.name)
            overlay = overlays.of(as_provider, lambda _: False)
            self.problems += overlay.problems
            for layered in overlay.selection.files.values():
                own = _without_built_in(layered)
                wanted = overlays.wanted_path(own, as_provider) if own.files else None
                if wanted is None:
                    continue
                if wanted.private:
                    self.lose(OVERLAY, wanted.path, "it contains a secret")
                else:
                    self.add(OVERLAY, wanted.path, _as_file(wanted)._replace(agents=()))

    def add_servers(self, agents: Iterable[Agent]) -> None:
        resolver = ServerResolver(self.prompts)
        servers: dict[str, McpServer] = {}
        for agent in agents:
            effective = resolver.of(agent)
            self.problems += effective.problems
            for server in effective.servers:
                if servers.setdefault(server.name, server) != server:
                    self.lose(SERVER, server.name, _DIFFERS)
        entries = dict(self._entries(servers.values()))
        target = self.provider.facts.mcp.target
        if not entries or not target:
            return
        file = self.files.get(target)
        text = _content(file[2]).decode() if file else ""
        try:
            text = edit_servers(text, shape_of(self.provider), entries, ())
        except DocumentError as error:
            for name in entries:
                self.lose(SERVER, name, f"{target} cannot be written: {error.message}")
            return
        name = ", ".join(entries)
        self.files[target] = (SERVER, name, wanted_file(target, text, (), SERVER))

    def _entries(self, servers: Iterable[McpServer]) -> Iterator[tuple[str, object]]:
        for server in servers:
            native = native_server(server, self.provider)
            if not self.provider.facts.mcp.target:
                self.lose(SERVER, server.name, f"{self.product} has no file for MCP servers")
            elif native.entry is None:
                self.lose(SERVER, server.name, native.reason)
            elif native.literal_secret:
                reason = "it contains a secret; write a reference such as ${NAME}"
                self.lose(SERVER, server.name, reason)
            else:
                if is_below(server.command, self.prompts.city.root):
                    reason = "the program stays in the city"
                    loss = CityLoss(SERVER, server.name, "command", server.command, reason)
                    self.lost.append(loss)
                yield server.name, native.entry


def _without_built_in(layered: LayeredFile) -> LayeredFile:
    """Return a file without the built-in layer, which only sessions of a city need."""
    pairs = zip(layered.files, layered.origins, strict=True)
    own = [(file, origin) for file, origin in pairs if origin != BUILT_IN_ORIGIN]
    return layered._replace(
        files=tuple(file for file, _ in own), origins=tuple(origin for _, origin in own)
    )


def _as_file(wanted: WantedPath) -> WantedPath:
    """Return a document of merged settings as a file; any other path unchanged."""
    if wanted.kind != DOCUMENT:
        return wanted
    text = json.dumps(wanted.settings, indent=2, ensure_ascii=False) + "\n"
    return wanted._replace(kind=FILE, data=text.encode(), settings=None)


def _content(wanted: WantedPath) -> bytes:
    if wanted.data is not None:
        return wanted.data
    with open(wanted.copy_of, "rb") as file:
        return file.read()
