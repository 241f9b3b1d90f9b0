"""What a project provides to an agent by itself, and what of it hides the city's or is hidden.

An agent of a rig works in a checkout, or in a worktree of it, whose own files its provider reads
besides those that city writes. `Projects` lists them, from the files of the rig's checkout, and
compares them with what the city wants in the agent's directory.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.location import IN_PLACE, WORKTREE, Site
from gascity.mcp.delivery import FILE as BY_FILE
from gascity.mcp.delivery import LAUNCH
from gascity.model.plan import FILE, LINK, ServerEntry, WantedPath
from gascity.model.problems import CityError, Place, Problem, warning
from gascity.model.provider import Provider
from gascity.source.disk import Disk, read_plain
from gascity.workdir.decide.merged_files import same_server
from gascity.workdir.decide.project import server_files
from gascity.workdir.decide.skills import skill_directories
from gascity.workdir.planner import launch_file
from gascity.workdir.project_files import (
    AGENT,
    COMMAND,
    INSTRUCTIONS,
    SERVER,
    SKILL,
    SKILL_FILE,
    Project,
    ProjectItem,
    ProjectPlace,
    instruction_names,
    is_same_tree,
    read_project,
)
from gascity.workdir.wanted import CityContent, Requirements, collect
from gascity.workdir.write.ledger import Ledgers

_MATTERS = (SKILL, SERVER, AGENT)  # a city's definition of these that is hidden is a warning


class Projects:
    """The projects of one city. Reads each project once for all agents of a provider."""

    def __init__(self, content: CityContent) -> None:
        self.content = content
        self.city = content.prompts.city
        self.disk: Disk = content.prompts.disk
        self._read: dict[tuple[str, ...], Project] = {}

    def of(self, site: Site, requirements: Requirements | None = None) -> Project:
        """Return what an agent's project provides; nothing for an agent that is in no rig.

        `requirements` are those of the agent's directory, if they are known already.
        """
        return self._project(site, requirements, ask_git=True)

    def problems_of(self, site: Site, requirements: Requirements) -> tuple[Problem, ...]:
        """Return the warnings about a project. Asks git only if something of the city's is hidden:
        an untracked file hides nothing in a worktree."""
        project = self._project(site, requirements, ask_git=False)
        if any(item.hides for item in project.items):
            project = self._project(site, requirements, ask_git=True)
        return project.problems

    def _project(self, site: Site, requirements: Requirements | None, ask_git: bool) -> Project:
        provider = self.city.provider_of(site.agent)
        place = self._place(site)
        if provider is None or place is None:
            return Project()
        project = self._read_once(provider, place, ask_git)
        if not project.items:
            return project
        if requirements is None:
            requirements = collect(self.content, [site], lambda _: False, ask_git=False)
        overlap = _Overlap(self, site, provider, requirements)
        items = tuple(overlap.compared(project.items))
        problems = (*project.problems, *_hidden(items, site.agent.name.rig or ""))
        return project._replace(items=items, problems=problems)

    def _read_once(self, provider: Provider, place: ProjectPlace, ask_git: bool) -> Project:
        key = (provider.name, place.root, place.workdir, "tracked" if ask_git else "")
        if key not in self._read:
            tracked = self._tracked(place) if ask_git and place.is_worktree else None
            self._read[key] = read_project(provider, self.disk, place, tracked)
        return self._read[key]

    def _place(self, site: Site) -> ProjectPlace | None:
        """Return where to read; None for a directory that is no project."""
        if site.agent.name.rig is None or site.kind not in (WORKTREE, IN_PLACE):
            return None
        is_worktree = site.kind == WORKTREE
        root = site.rig if is_worktree else site.workdir
        if not root or not self.disk.is_directory(root):
            return None
        try:
            managed = Ledgers(self.city.root).read(os.path.realpath(root)).paths
        except CityError:  # a damaged ledger stops what writes, not what lists
            managed = {}
        return ProjectPlace(root, site.workdir, is_worktree, managed)

    def _tracked(self, place: ProjectPlace) -> Callable[[Sequence[str]], Sequence[str]]:
        """Return a filter of paths: a worktree has only the files that git tracks."""

        def only_tracked(paths: Sequence[str]) -> Sequence[str]:
            from gascity import git

            self.disk.exists(f"{place.root}/.git/index")  # a cached answer depends on it
            arguments = ["--literal-pathspecs", "ls-files", "-z", "--", *paths]
            try:
                return git.run(arguments, place.root, self.content.environ).names
            except git.GitError:
                return paths

        return only_tracked


class _CitySkill(NamedTuple):
    """A skill that the city gives an agent: as shown, its directory, and whether it is copied."""

    source: str
    directory: str
    copied: bool


class _Overlap:
    """What of a project and what of the city's has the same name, for one agent."""

    def __init__(
        self, projects: Projects, site: Site, provider: Provider, requirements: Requirements
    ) -> None:
        self.projects = projects
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
        skill = self._skills().get(item.name)
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

        disk, inside = self.projects.disk, f"{self.root}/{directory}"
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
                file = launch_file(self.projects.city.root, self.agent, self.site.suffix)
                by = self.sources[item.name] if projected else self.projects.disk.shown(file)
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
