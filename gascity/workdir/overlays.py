"""Reads the overlay files of a city and turns them into wanted paths for an agent."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gascity.compose.asset_dirs import AGENT_ORIGIN, BUILT_IN_ORIGIN, AssetDir
from gascity.model.city import Agent
from gascity.model.document_text import DocumentError
from gascity.model.plan import DOCUMENT, FILE, Overlay, OverlayFile, WantedPath
from gascity.model.problems import Place, Problem
from gascity.model.provider import Provider
from gascity.model.secrets import agent_secrets, secret_forms
from gascity.prompts import Prompts
from gascity.resources import data_dir
from gascity.source.catalogues import read_overlay
from gascity.source.disk import bad_utf8
from gascity.workdir.decide.overlay import (
    LayeredFile,
    OverlaySelection,
    fallback_notes,
    select_files,
    unknown_slots,
)


class AgentOverlay(NamedTuple):
    """The overlay files of one agent."""

    wanted: tuple[WantedPath, ...]
    selection: OverlaySelection
    problems: tuple[Problem, ...] = ()
    secret: frozenset[str] = frozenset()  # paths whose content holds a secret of the agent


class Overlays:
    """The overlay files of one city. Each directory is listed once for all agents."""

    def __init__(self, prompts: Prompts) -> None:
        self.prompts = prompts
        self.city = prompts.city
        self.disk = prompts.disk
        self._listed: dict[str, Overlay] = {}
        shared = _shared_files(self.city.providers.values())
        self._globs = [pattern for pattern in shared if "*" in pattern]
        self._endings = tuple(pattern.rpartition("*")[2] for pattern in self._globs)
        self._names = shared.difference(self._globs)

    def of(self, agent: Agent, unmanaged: Callable[[str], bool]) -> AgentOverlay:
        """Return an agent's files. `unmanaged`: whether a path exists that apply did not write."""
        provider = self.city.providers.get(agent.provider)
        overlays = [self._list(asset_dir, agent) for asset_dir in self._asset_dirs(agent)]
        family = provider.family if provider else ""
        fallbacks = provider.facts.overlay.fallback_files if provider else ()
        selection = select_files(
            overlays,
            [name for name in (family, agent.provider) if name],
            fallbacks,
            unmanaged,
            self.is_merged,
        )
        problems = [problem for overlay in overlays for problem in overlay.problems]
        problems += fallback_notes(selection)
        name = (str(agent.name),)
        paths = [self._wanted(file, agent, name, problems) for file in selection.files.values()]
        wanted = tuple(path for path in paths if path is not None)
        templates = {path for path, file in selection.files.items() if file.file.template}
        secret = frozenset(path.path for path in wanted if path.path in templates and path.private)
        return AgentOverlay(wanted, selection, tuple(problems), secret)

    def wanted_path(self, file: LayeredFile, agent: Agent) -> WantedPath | None:
        """Return one selected file as a wanted path, ignoring problems."""
        return self._wanted(file, agent, (str(agent.name),), [])

    def unknown_slots(self, agent: Agent, known: frozenset[str]) -> list[Problem]:
        """Warn about per-provider directories of unknown providers."""
        overlays = [self._list(asset_dir, agent) for asset_dir in self._asset_dirs(agent)]
        return unknown_slots(overlays, known)

    def is_merged(self, path: str) -> bool:
        """Return whether a file is merged key by key instead of replaced."""
        if path in self._names:
            return True
        if not path.endswith(self._endings):
            return False
        from fnmatch import fnmatchcase

        return any(fnmatchcase(path, pattern) for pattern in self._globs)

    def _asset_dirs(self, agent: Agent) -> list[AssetDir]:
        home = f"{data_dir('system_agents')}/_shared"
        built_in = AssetDir(BUILT_IN_ORIGIN, home, frozenset(("overlay",)), home)
        asset_dirs = [built_in, *self.prompts.asset_dirs(agent)]
        return [
            asset_dir
            for asset_dir in asset_dirs
            if "overlay" in asset_dir.catalogues or _has_overlay_dir(asset_dir, agent)
        ]

    def _list(self, asset_dir: AssetDir, agent: Agent) -> Overlay:
        directory = asset_dir.path("overlay")
        if asset_dir.origin == AGENT_ORIGIN:
            directory = agent.settings.overlay_dir or directory
        if directory not in self._listed:
            overlay = read_overlay(self.disk, directory, asset_dir.origin, asset_dir.pack)
            if not asset_dir.is_own(agent):  # an imported pack's invalid files are skipped
                problems = tuple(problem.softened() for problem in overlay.problems)
                overlay = overlay._replace(problems=problems)
            self._listed[directory] = overlay
        return self._listed[directory]

    def _wanted(
        self, layered: LayeredFile, agent: Agent, name: tuple[str], problems: list[Problem]
    ) -> WantedPath | None:
        path, files, origins, _ = layered
        if self.is_merged(path):
            return self._settings(layered, agent, problems)
        file, origin = files[-1], origins[-1]
        if not file.template:  # fast path: there may be thousands of plain files
            mode, source = file.mode, file.source
            return WantedPath(
                path, FILE, source, origin, name, mode, None, file.absolute, file.stamp
            )
        data = self._rendered(file, agent, layered.pack, problems)
        if data is None:
            return None
        mode = 0o600 | (file.mode & 0o100) if _contains_secret(data, agent) else file.mode
        return WantedPath(path, FILE, file.source, origin, name, mode, data=data)

    def _settings(
        self, layered: LayeredFile, agent: Agent, problems: list[Problem]
    ) -> WantedPath | None:
        """Merge the JSON settings of all layers into one document."""
        from gascity.mcp import documents
        from gascity.workdir.decide import json_settings

        settings = []
        secret = False
        for file in layered.files:
            data = self._content(file, agent, layered.pack, problems)
            if data is None:
                return None
            secret = secret or _contains_secret(data, agent)
            try:
                settings.append(documents.read(data.decode(), "json"))
            except DocumentError as error:
                place = Place(file.source, line=error.line, col=error.col)
                problems.append(Problem("bad-json", error.message, place, "fix the overlay file"))
                return None
        mode = 0o600 if secret else layered.file.mode
        return WantedPath(
            layered.path,
            DOCUMENT,
            layered.file.source,
            layered.origin,
            (str(agent.name),),
            mode,
            settings=json_settings.layered(settings),
        )

    def _content(
        self, file: OverlayFile, agent: Agent, pack: str, problems: list[Problem]
    ) -> bytes | None:
        if file.template:
            return self._rendered(file, agent, pack, problems)
        before = len(self.disk.problems)
        data = self.disk.read(file.absolute)
        problems += self.disk.problems[before:]
        del self.disk.problems[before:]
        problem = bad_utf8(data, file.source) if data is not None else None
        if problem is not None:
            problems.append(problem)
            return None
        return data

    def _rendered(
        self, file: OverlayFile, agent: Agent, pack: str, problems: list[Problem]
    ) -> bytes | None:
        data = self._content(file._replace(template=False), agent, pack, problems)
        if data is None:
            return None
        rendered = self.prompts.expand(agent, file.source, data.decode(), pack)
        problems += rendered.problems
        if any(problem.is_error for problem in rendered.problems):
            return None
        return rendered.text.encode()


def _has_overlay_dir(asset_dir: AssetDir, agent: Agent) -> bool:
    return asset_dir.origin == AGENT_ORIGIN and bool(agent.settings.overlay_dir)


def _shared_files(providers: Iterable[Provider]) -> frozenset[str]:
    """Return files that overlays share with a provider: its settings and its MCP servers."""
    paths: set[str] = set()
    for provider in providers:
        paths.update(provider.facts.overlay.merge_files)
        mcp = provider.facts.mcp
        if mcp.format == "json":
            paths.update((mcp.target or "", *mcp.also_targets))
    return frozenset(paths)


def _contains_secret(data: bytes, agent: Agent) -> bool:
    """Return whether a template put a secret of the agent's environment into a text."""
    secrets = agent_secrets(agent.settings.env).values()
    return any(text.encode() in data for secret in secrets for text in secret_forms(secret))
