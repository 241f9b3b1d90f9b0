"""An agent's overlay files as things wanted in its working directory."""

from collections.abc import Callable, Iterable

from gascity.compose.catalogues import AGENT_ORIGIN, BUILT_IN_ORIGIN, Shelf
from gascity.model.city import Agent
from gascity.model.overlay import Overlay, OverlayFile
from gascity.model.plan import DOCUMENT, FILE, Wanted
from gascity.model.problems import Place, Problem
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.model.secrets import agent_secrets, spellings
from gascity.plan.overlay import Chosen, Layered, choose, fallback_notes, unknown_slots
from gascity.prompts import Prompts
from gascity.resources import data_dir
from gascity.source.disk import bad_utf8
from gascity.source.overlay import read_overlay


class Laid(NamedTuple):
    """What overlays put into a directory for one agent."""

    wanted: tuple[Wanted, ...]
    chosen: Chosen
    problems: tuple[Problem, ...] = ()
    secret: frozenset[str] = frozenset()  # paths whose content holds a secret of the agent's


class Overlays:
    """The overlay files of one city; each directory is listed once for all agents."""

    def __init__(self, prompts: Prompts) -> None:
        self.prompts = prompts
        self.city = prompts.city
        self.disk = prompts.disk
        self._listed: dict[str, Overlay] = {}
        shared = _shared_files(self.city.providers.values())
        self._globs = [one for one in shared if "*" in one]
        self._endings = tuple(one.rpartition("*")[2] for one in self._globs)
        self._names = shared.difference(self._globs)

    def of(self, agent: Agent, foreign: Callable[[str], bool]) -> Laid:
        """What an agent gets. `foreign` tells of paths that are there and not from us."""
        provider = self.city.providers.get(agent.provider)
        overlays = [self._list(shelf, agent) for shelf in self._shelves(agent)]
        family = provider.family if provider else ""
        fallbacks = provider.strings("overlay.fallback_files") if provider else ()
        chosen = choose(
            overlays,
            [name for name in (family, agent.provider) if name],
            fallbacks,
            foreign,
            self.is_merged,
        )
        problems = [problem for overlay in overlays for problem in overlay.problems]
        problems += fallback_notes(chosen)
        name = (str(agent.name),)
        made = [self._wanted(one, agent, name, problems) for one in chosen.files.values()]
        wanted = tuple(one for one in made if one is not None)
        templates = {path for path, one in chosen.files.items() if one.file.template}
        secret = frozenset(one.path for one in wanted if one.path in templates and one.private)
        return Laid(wanted, chosen, tuple(problems), secret)

    def steady(self, one: Layered, agent: Agent) -> Wanted | None:
        """One path again, without what differs from session to session."""
        return self._wanted(one, agent, (str(agent.name),), [])

    def unknown_slots(self, agent: Agent, known: frozenset[str]) -> list[Problem]:
        """Directories for providers that do not exist."""
        overlays = [self._list(shelf, agent) for shelf in self._shelves(agent)]
        return unknown_slots(overlays, known)

    def is_merged(self, path: str) -> bool:
        """Is a file shared with its reader key by key?"""
        if path in self._names:
            return True
        if not path.endswith(self._endings):
            return False
        from fnmatch import fnmatchcase

        return any(fnmatchcase(path, one) for one in self._globs)

    def _shelves(self, agent: Agent) -> list[Shelf]:
        home = f"{data_dir('system_agents')}/_shared"
        built_in = Shelf(BUILT_IN_ORIGIN, home, frozenset(("overlay",)), home)
        found = [built_in, *self.prompts.shelves(agent)]
        return [
            shelf for shelf in found if "overlay" in shelf.catalogues or _elsewhere(shelf, agent)
        ]

    def _list(self, shelf: Shelf, agent: Agent) -> Overlay:
        directory = shelf.path("overlay")
        if shelf.origin == AGENT_ORIGIN:
            directory = agent.text("overlay_dir") or directory
        if directory not in self._listed:
            found = read_overlay(self.disk, directory, shelf.origin, shelf.pack)
            if not shelf.is_own(agent):  # whatever is wrong is left out
                found = found._replace(problems=tuple(one.softened() for one in found.problems))
            self._listed[directory] = found
        return self._listed[directory]

    def _wanted(
        self, one: Layered, agent: Agent, name: tuple[str], problems: list[Problem]
    ) -> Wanted | None:
        path, files, origins, _ = one
        if self.is_merged(path):
            return self._settings(one, agent, problems)
        file, origin = files[-1], origins[-1]
        if not file.template:  # nearly all are plain, and there may be many
            mode, source = file.mode, file.source
            return Wanted(path, FILE, source, origin, name, mode, None, file.absolute, file.stamp)
        data = self._expanded(file, agent, one.pack, problems)
        if data is None:
            return None
        mode = 0o600 | (file.mode & 0o100) if _holds_secret(data, agent) else file.mode
        return Wanted(one.path, FILE, file.source, one.origin, name, mode, data=data)

    def _settings(self, one: Layered, agent: Agent, problems: list[Problem]) -> Wanted | None:
        """JSON settings of all layers in one document; one that is no JSON is an error."""
        from gascity.render import documents, settings

        found = []
        secret = False
        for file in one.files:
            data = self._content(file, agent, one.pack, problems)
            if data is None:
                return None
            secret = secret or _holds_secret(data, agent)
            try:
                found.append(documents.read(data.decode(), "json"))
            except documents.DocumentFault as fault:
                place = Place(file.source, line=fault.line, col=fault.col)
                problems.append(Problem("bad-json", fault.message, place, "mend the overlay file"))
                return None
        mode = 0o600 if secret else one.file.mode
        return Wanted(
            one.path,
            DOCUMENT,
            one.file.source,
            one.origin,
            (str(agent.name),),
            mode,
            settings=settings.layered(found),
        )

    def _content(
        self, file: OverlayFile, agent: Agent, pack: str, problems: list[Problem]
    ) -> bytes | None:
        if file.template:
            return self._expanded(file, agent, pack, problems)
        before = len(self.disk.problems)
        data = self.disk.read(file.absolute)
        problems += self.disk.problems[before:]
        del self.disk.problems[before:]
        fault = bad_utf8(data, file.source) if data is not None else None
        if fault is not None:
            problems.append(fault)
            return None
        return data

    def _expanded(
        self, file: OverlayFile, agent: Agent, pack: str, problems: list[Problem]
    ) -> bytes | None:
        data = self._content(file._replace(template=False), agent, pack, problems)
        if data is None:
            return None
        done = self.prompts.expand(agent, file.source, data.decode(), pack)
        problems += done.problems
        if any(problem.is_error for problem in done.problems):
            return None
        return done.text.encode()


def _elsewhere(shelf: Shelf, agent: Agent) -> bool:
    return shelf.origin == AGENT_ORIGIN and bool(agent.value("overlay_dir"))


def _shared_files(providers: Iterable[Provider]) -> frozenset[str]:
    """Files that overlays share with a provider: its settings, and where it keeps its servers."""
    found: set[str] = set()
    for provider in providers:
        found.update(provider.strings("overlay.merge_files"))
        if provider.value("mcp.format") == "json":
            found.update((provider.text("mcp.target"), *provider.strings("mcp.also_targets")))
    return frozenset(found)


def _holds_secret(data: bytes, agent: Agent) -> bool:
    """Did a template put a secret of the agent's environment into a text?"""
    secrets = agent_secrets(agent.value("env")).values()
    return any(one.encode() in data for secret in secrets for one in spellings(secret))
