"""Overlay files of agents: reads them, selects those an agent gets, and returns wanted paths.

Higher layers win over lower ones; files for a provider only count for agents of that provider.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from gascity.compose.asset_dirs import AGENT_ORIGIN, AssetDir
from gascity.model.city import Agent
from gascity.model.document_text import DocumentError
from gascity.model.names import did_you_mean
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Provider
from gascity.model.secrets import agent_secrets, secret_forms
from gascity.model.wanted import (
    DOCUMENT,
    FILE,
    PER_PROVIDER,
    Overlay,
    OverlayFile,
    WantedPath,
)
from gascity.prompts import Prompts
from gascity.source.catalogues import read_overlay
from gascity.source.disk import bad_utf8


class LayeredFile(NamedTuple):
    """One path and its files, lowest layer first; several only if they are merged."""

    path: str
    files: tuple[OverlayFile, ...]
    origins: tuple[str, ...]
    pack: str

    @property
    def file(self) -> OverlayFile:
        return self.files[-1]

    @property
    def origin(self) -> str:
        return self.origins[-1]


class SkippedFile(NamedTuple):
    """A file that is not used; `by` is the source of the file used instead, if any."""

    path: str
    source: str
    by: str


class OverlaySelection(NamedTuple):
    """The selected files by path, those overridden, and fallback files that are not needed."""

    files: dict[str, LayeredFile]
    shadowed: tuple[SkippedFile, ...] = ()
    kept: tuple[SkippedFile, ...] = ()


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
        shared = _shared_files(self.city.every_provider)
        self._globs = [pattern for pattern in shared if "*" in pattern]
        self._endings = tuple(pattern.rpartition("*")[2] for pattern in self._globs)
        self._names = shared.difference(self._globs)

    def of(self, agent: Agent, unmanaged: Callable[[str], bool]) -> AgentOverlay:
        """Return an agent's files. `unmanaged`: whether a path exists that apply did not write."""
        provider = self.city.provider_of(agent)
        overlays = self._overlays(agent)
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
        return unknown_slots(self._overlays(agent), known)

    def is_merged(self, path: str) -> bool:
        """Return whether a file is merged key by key instead of replaced."""
        if path in self._names:
            return True
        if not path.endswith(self._endings):
            return False
        from fnmatch import fnmatchcase

        return any(fnmatchcase(path, pattern) for pattern in self._globs)

    def _overlays(self, agent: Agent) -> list[Overlay]:
        """Return the overlays an agent sees, lowest layer first."""
        own = bool(agent.settings.overlay_dir) and agent.accepted
        hooks: tuple[AssetDir, ...] = ()
        if self.prompts.refreshed_sections(agent):
            from gascity.hud.sections import built_in_directory

            hooks = (built_in_directory(),)
        return [
            self._list(asset_dir, agent)
            for asset_dir in (*hooks, *self.prompts.asset_dirs(agent))
            if "overlay" in asset_dir.catalogues or (own and asset_dir.origin == AGENT_ORIGIN)
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
        if not file.template:  # there may be thousands of plain files: no keyword arguments
            mode, source, copy_of = file.mode, file.source, file.absolute
            return WantedPath(path, FILE, source, origin, name, mode, None, copy_of, file.stamp)
        data = self._rendered(file, agent, layered.pack, problems)
        if data is None:
            return None
        mode = 0o600 | (file.mode & 0o100) if contains_secret(data, agent) else file.mode
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
            secret = secret or contains_secret(data, agent)
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
        problems += self.disk.take_problems(before)
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


def _shared_files(providers: Iterable[Provider]) -> frozenset[str]:
    """Return files that overlays share with a provider: its settings and its MCP servers."""
    paths: set[str] = set()
    for provider in providers:
        paths.update(provider.facts.overlay.merge_files)
        mcp = provider.facts.mcp
        if mcp.format == "json":
            paths.update((mcp.target or "", *mcp.also_targets))
    return frozenset(paths)


def contains_secret(data: bytes, agent: Agent) -> bool:
    """Return whether a template put a secret of the agent's environment into a text."""
    secrets = agent_secrets(agent.settings.env).values()
    return any(text.encode() in data for secret in secrets for text in secret_forms(secret))


# Selection


def select_files(
    overlays: Sequence[Overlay],
    providers: Sequence[str],
    fallbacks: Collection[str],
    unmanaged: Callable[[str], bool],
    is_merged: Callable[[str], bool],
) -> OverlaySelection:
    """Combine layers. `providers` are the names of the provider's family and of the provider.

    A provider's fallback file never replaces an existing one: neither a file of a lower layer nor
    a file in the working directory for which `unmanaged` returns True.
    """
    files: dict[str, LayeredFile] = {}
    shadowed: list[SkippedFile] = []
    kept: list[SkippedFile] = []
    for overlay in overlays:
        for provider in ("", *dict.fromkeys(providers)):
            for file in overlay.files:
                if file.provider != provider:
                    continue
                path = file.path
                if provider and path in fallbacks and (path in files or unmanaged(path)):
                    by = files[path].file.source if path in files else ""
                    kept.append(SkippedFile(path, file.source, by))
                    continue
                _add(file, overlay, files, shadowed, is_merged)
    _resolve_nesting(files, shadowed)
    return OverlaySelection(files, tuple(shadowed), tuple(kept))


def _add(
    file: OverlayFile,
    overlay: Overlay,
    files: dict[str, LayeredFile],
    shadowed: list[SkippedFile],
    is_merged: Callable[[str], bool],
) -> None:
    path = file.path
    below = files.pop(path, None)
    if below is not None and is_merged(path):
        origins = (*below.origins, overlay.origin)
        files[path] = LayeredFile(path, (*below.files, file), origins, overlay.pack)
        return
    if below is not None:
        shadowed.append(SkippedFile(path, below.file.source, file.source))
    files[path] = LayeredFile(path, (file,), (overlay.origin,), overlay.pack)


def _resolve_nesting(files: dict[str, LayeredFile], shadowed: list[SkippedFile]) -> None:
    """Keep the later layer where one has a file and another a directory."""
    order = {path: index for index, path in enumerate(files)}
    for path in list(files):
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files and path in files:
                loser, winner = (parent, path) if order[parent] < order[path] else (path, parent)
                skipped = SkippedFile(loser, files[loser].file.source, files[winner].file.source)
                shadowed.append(skipped)
                del files[loser]
            parent = parent.rpartition("/")[0]


def unknown_slots(overlays: Sequence[Overlay], known: Collection[str]) -> list[Problem]:
    """Warn about directories under per-provider/ that match no provider."""
    problems = {}
    for overlay in overlays:
        for name in overlay.providers:
            if name not in known:
                source = next(file.source for file in overlay.files if file.provider == name)
                home = source.index(f"{PER_PROVIDER}/{name}/")
                place = source[: home + len(PER_PROVIDER) + 1] + name
                problems[place] = warning(
                    "unknown-slot",
                    f"no provider is named `{name}`: these files are not used",
                    Place(place),
                    did_you_mean(name, known),
                )
    return list(problems.values())


def fallback_notes(selection: OverlaySelection) -> list[Problem]:
    """Warn about fallback files that are not used because the file exists."""
    return [
        warning(
            "fallback-skipped",
            f"`{skipped.path}` already exists"
            + (f", from {skipped.by}" if skipped.by else "")
            + "; this file is only a fallback",
            Place(skipped.source, line=1, col=1),
        )
        for skipped in selection.kept
    ]
