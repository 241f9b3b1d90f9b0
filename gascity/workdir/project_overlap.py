"""Compares what a project provides with what the city wants in an agent's directory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from gascity.location import WORKTREE, Site
from gascity.mcp.delivery import FILE as BY_FILE
from gascity.mcp.delivery import LAUNCH
from gascity.mcp.shapes import server_files
from gascity.model.city import City
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Provider
from gascity.model.wanted import FILE, LINK, ServerEntry, WantedPath
from gascity.source.disk import Disk, read_plain
from gascity.workdir.decide.merged_files import same_server
from gascity.workdir.decide.skills import skill_directories
from gascity.workdir.project_files import (
    AGENT,
    COMMAND,
    INSTRUCTIONS,
    SERVER,
    SKILL,
    SKILL_FILE,
    Project,
    ProjectItem,
    instruction_names,
    is_same_tree,
)
from gascity.workdir.wanted import Requirements

_MATTERS = (SKILL, SERVER, AGENT)  # a city's definition of these that is hidden is a warning


def compare(
    project: Project, city: City, disk: Disk, site: Site, requirements: Requirements
) -> Project:
    """Return a project with what of it hides the city's definitions, and is hidden by them."""
    provider = city.provider_of(site.agent)
    if provider is None:
        return project
    overlap = _Overlap(city, disk, site, provider, requirements)
    items = tuple(overlap.compared(project.items))
    hidden = _hidden(items, site.agent.name.rig or "")
    return project._replace(items=items, problems=(*project.problems, *hidden))


class _CitySkill(NamedTuple):
    """A skill that the city gives an agent: as shown, its directory, and whether it is copied."""

    source: str
    directory: str
    copied: bool


class _Overlap:
    """Assets of a project and of the city that have the same name, for one agent."""

    def __init__(
        self, city: City, disk: Disk, site: Site, provider: Provider, requirements: Requirements
    ) -> None:
        self.city = city
        self.disk = disk
        self.site = site
        self.provider = provider
        self.agent = str(site.agent.name)
        self.wanted = {
            path: item for path, item in requirements.wanted.items() if self.agent in item.agents
        }
        self.delivery = requirements.deliveries.get(self.agent)
        servers = requirements.servers.get(self.agent)
        self.sources = {server.name: server.file for server in servers.servers} if servers else {}
        # Files may replace tracked ones in a worktree; in a checkout the user's are kept.
        covers = site.agent.settings.overlay_tracked == "cover"
        self.covers = site.kind == WORKTREE and covers
        self.root = site.rig if site.kind == WORKTREE else site.workdir

    def compared(self, items: Iterable[ProjectItem]) -> Iterator[ProjectItem]:
        by_kind: Mapping[str, Callable[[ProjectItem], ProjectItem]] = {
            SERVER: self._server,
            SKILL: self._skill,
            INSTRUCTIONS: self._instructions,
            AGENT: self._file,
            COMMAND: self._file,
        }
        for item in items:
            compare = by_kind.get(item.kind)
            yield compare(item) if compare else item

    def _file(self, item: ProjectItem) -> ProjectItem:
        wanted = self.wanted.get(item.relative)
        if wanted is None or wanted.kind != FILE:
            return item
        if self._content(wanted) == read_plain(f"{self.root}/{item.relative}"):
            return item._replace(same_as=wanted.source)
        return _against(item, wanted.source, city_wins=self.covers)

    def _content(self, wanted: WantedPath) -> bytes | None:
        return wanted.data if wanted.data is not None else read_plain(wanted.copy_of)

    def _instructions(self, item: ProjectItem) -> ProjectItem:
        """Compare with the city's file, or with one that the provider reads instead."""
        names = instruction_names(self.provider)
        if self.provider.facts.project.instructions == "first" and item.relative in names:
            for name in names[: names.index(item.relative)]:
                if name in self.wanted:
                    return item._replace(shadowed_by=self.wanted[name].source, shadows=())
        return self._file(item)

    @cached_property
    def _skills(self) -> dict[str, _CitySkill]:
        sink = (skill_directories(self.provider) or ("",))[0]
        skills = {}
        for path, item in self.wanted.items():
            directory, _, name = path.rpartition("/")
            if item.kind == LINK and directory == sink:
                skills[name] = _CitySkill(item.source, item.target, False)
            elif item.kind == FILE and name == SKILL_FILE and _parent(directory) == sink:
                source, target = _parent(item.source), _parent(item.copy_of)
                skills[directory.rpartition("/")[2]] = _CitySkill(source, target, True)
        return skills

    def _skill(self, item: ProjectItem) -> ProjectItem:
        skill = self._skills.get(item.name)
        if skill is None:
            return item
        directory = _parent(item.relative)
        if self._is_same_skill(directory, skill):
            return item._replace(same_as=skill.source)
        directories = skill_directories(self.provider)
        if _parent(directory) == directories[0]:
            return _against(item, skill.source, city_wins=self.covers and skill.copied)
        rule = self.provider.facts.project.same_skill
        return item if rule == "both" else _against(item, skill.source, rule == "first")

    def _is_same_skill(self, directory: str, skill: _CitySkill) -> bool:
        from gascity.source.catalogues import read_files

        disk, inside = self.disk, f"{self.root}/{directory}"
        files, problems = read_files(disk, inside, self.root)
        paths = [f"{directory}/{file.path}" for file in files]
        return not problems and is_same_tree(
            paths,
            directory,
            disk,
            skill.directory,
            lambda path: read_plain(f"{self.root}/{path}") or b"",
        )

    def _server(self, item: ProjectItem) -> ProjectItem:
        delivery = self.delivery
        if delivery is None or delivery.mode not in (BY_FILE, LAUNCH):
            return item
        projected = item.name in delivery.projected
        if delivery.mode == LAUNCH:
            mode = self.provider.facts.project.launch
            if mode == "replace":
                from gascity.workdir.planner import launch_file

                file = launch_file(self.city.root, self.agent, self.site.suffix)
                by = self.sources[item.name] if projected else self.disk.shown(file)
                return item._replace(shadowed_by=by, shadows=())
            source = self.sources[item.name] if projected else ""
            return _against(item, source, mode == "override") if projected else item
        targets = {target.path: target for target in delivery.targets}
        entry = _entry(targets[path].entries.get(item.name) for path in targets)
        if entry is None or item.definition is None:
            return item
        if same_server(item.definition, entry):
            return item._replace(same_as=entry.source)
        order = [path for path, _ in server_files(self.provider)]
        written = [order.index(path) for path in targets if path in order]
        wins = item.relative in targets or min(written, default=0) < order.index(item.relative)
        return _against(item, entry.source, city_wins=wins)


def _entry(entries: Iterable[ServerEntry | None]) -> ServerEntry | None:
    return next((entry for entry in entries if entry is not None), None)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _against(item: ProjectItem, source: str, city_wins: bool) -> ProjectItem:
    """Return an item that hides the city's definition, or is hidden by it."""
    if item.shadowed_by:
        return item  # another of the project's hides it already
    if city_wins:
        return item._replace(shadowed_by=source)
    return item._replace(shadows=(*item.shadows, source), hides=source)


def _hidden(items: Iterable[ProjectItem], rig: str) -> Iterator[Problem]:
    """Yield a warning for each definition of the city that a project's own hides."""
    for item in items:
        if item.hides and item.kind in _MATTERS:
            what = "MCP server" if item.kind == SERVER else item.kind
            message = f"{what} `{item.name}` has no effect in rig `{rig}`, which has its own: "
            hint = "rename one of them, or remove the city's"
            yield warning("hidden-by-project", message + item.where, Place(item.hides), hint)
