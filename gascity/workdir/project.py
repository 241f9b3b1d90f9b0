"""Assets that a project provides to an agent itself, and which of them hide the city's.

An agent of a rig works in a checkout, or in a worktree of it, whose own files its provider reads
besides those that city writes. `Projects` lists them, from the files of the rig's checkout, and
compares them with what the city wants in the agent's directory.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gascity.location import IN_PLACE, WORKTREE, Site
from gascity.model.city import City
from gascity.model.problems import CityError, Problem
from gascity.model.provider import Provider
from gascity.source.disk import Disk
from gascity.workdir.project_files import Project, ProjectPlace, read_project

# What the city wants is collected only for a project that has something to compare with it.
if TYPE_CHECKING:
    from gascity.model.plan import PathRecord
    from gascity.workdir.wanted import CityContent, Requirements


class Projects:
    """The projects of one city. Reads each project once for all agents of a provider."""

    def __init__(
        self,
        city: City,
        disk: Disk,
        environ: Mapping[str, str],
        content: "Callable[[], CityContent]",
    ) -> None:
        """`content` is called only if the requirements of an agent are not known."""
        self.city = city
        self.disk = disk
        self.environ = environ
        self.content = content
        self._read: dict[tuple[str, ...], Project] = {}
        self._managed_paths: dict[str, Mapping[str, PathRecord]] = {}

    def of(self, site: Site, requirements: "Requirements | None" = None) -> Project:
        """Return what an agent's project provides; nothing for an agent that is in no rig.

        `requirements` are those of the agent's directory, if they are known already.
        """
        return self._project(site, requirements, ask_git=True)

    def problems_of(self, site: Site, requirements: "Requirements") -> tuple[Problem, ...]:
        """Return the warnings about a project. Asks git only if something of the city's is hidden:
        an untracked file hides nothing in a worktree."""
        project = self._project(site, requirements, ask_git=False)
        if any(item.hides for item in project.items):
            project = self._project(site, requirements, ask_git=True)
        return project.problems

    def _project(self, site: Site, requirements: "Requirements | None", ask_git: bool) -> Project:
        provider = self.city.provider_of(site.agent)
        place = self._place(site)
        if provider is None or place is None:
            return Project()
        project = self._read_once(provider, place, ask_git)
        if not project.items:
            return project
        if requirements is None:
            from gascity.workdir.wanted import collect

            requirements = collect(self.content(), [site], lambda _: False, ask_git=False)
        from gascity.workdir.project_overlap import compare

        return compare(project, self.city, self.disk, site, requirements)

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
        return ProjectPlace(root, site.workdir, is_worktree, lambda: self._managed(root))

    def _managed(self, root: str) -> "Mapping[str, PathRecord]":
        """Return the paths of a directory that city wrote. Read only if there is a file at all."""
        if root not in self._managed_paths:
            from gascity.workdir.write.ledger import Ledgers

            try:
                ledger = Ledgers(self.city.root).read(os.path.realpath(root))
                self._managed_paths[root] = ledger.paths
            except CityError:  # a damaged ledger stops what writes, not what lists
                self._managed_paths[root] = {}
        return self._managed_paths[root]

    def _tracked(self, place: ProjectPlace) -> Callable[[Sequence[str]], Sequence[str]]:
        """Return a filter of paths: a worktree has only the files that git tracks."""

        def only_tracked(paths: Sequence[str]) -> Sequence[str]:
            from gascity import git

            self.disk.exists(f"{place.root}/.git/index")  # a cached answer depends on it
            arguments = ["--literal-pathspecs", "ls-files", "-z", "--", *paths]
            try:
                return git.run(arguments, place.root, self.environ).names
            except git.GitError:
                return paths

        return only_tracked
