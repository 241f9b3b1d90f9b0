"""Compares the agents of a city with those of another revision of it: the effect of a change.

Two cities are loaded, and every agent is reduced to what it gets: settings, rendered prompt,
skills, MCP servers, overlay files and tools. The other revision is written to a temporary
directory (`gascity.packs.revision`), so paths in its texts are replaced by those of the city
before anything is compared.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from gascity.files import write_new
from gascity.mcp.servers import ServerResolver
from gascity.mcp.types import McpServer
from gascity.model.city import Agent, City
from gascity.model.layers import DEFAULT, PROVIDER_LAYER, Setting
from gascity.model.problems import Problem
from gascity.model.repositories import LockedPack
from gascity.model.secrets import agent_secrets
from gascity.model.session_context import Machine
from gascity.model.wanted import WantedPath, digest
from gascity.packs.revision import Revision, write_revision
from gascity.pipeline import list_skills, open_city
from gascity.prompts import Prompts
from gascity.render.prompt_text import PromptPiece
from gascity.source.disk import Disk, read_plain
from gascity.source.lock import read_lock
from gascity.workdir.overlays import Overlays

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
# Files of this machine, which are in no commit.
_LOCAL = ("city.local.toml", ".gc/local", ".gc/system")
_MAX_SKILL_FILES = 1_000


class Fact(NamedTuple):
    """Something an agent gets, reduced to a value that can be compared, and its source file."""

    value: object
    source: str


class AgentFacts(NamedTuple):
    """Everything that one agent gets."""

    settings: Mapping[str, Setting]
    prompt: str
    spans: tuple[tuple[PromptPiece, str], ...]  # with their texts
    skills: Mapping[str, Fact]
    servers: Mapping[str, Fact]
    files: Mapping[str, Fact]
    allow: frozenset[str]
    deny: frozenset[str]
    secrets: frozenset[str]


class FieldChange(NamedTuple):
    """A setting with another value; None: the agent does not exist on that side."""

    name: str
    old: Setting | None
    new: Setting | None


class SpanChange(NamedTuple):
    """A part of a prompt that only one side has."""

    change: str
    piece: PromptPiece
    text: str


class PromptChange(NamedTuple):
    """Both texts of a prompt that differ, and the parts that only one of them has."""

    old: str
    new: str
    spans: tuple[SpanChange, ...]


class NamedChange(NamedTuple):
    """A skill, server or file that was added, removed or changed."""

    name: str
    change: str
    source: str


class AgentChange(NamedTuple):
    """The effective differences of one agent."""

    name: str
    change: str
    fields: tuple[FieldChange, ...]
    prompt: PromptChange | None
    skills: tuple[NamedChange, ...]
    servers: tuple[NamedChange, ...]
    files: tuple[NamedChange, ...]
    gained: tuple[str, ...]  # tools
    lost: tuple[str, ...]
    secrets: frozenset[str] = frozenset()  # of both sides, to be masked in texts


class PackChange(NamedTuple):
    """A pack that is pinned to another commit; empty: not imported on that side."""

    binding: str
    source: str
    old: str
    new: str


class CityChange(NamedTuple):
    """The effect of all changes since a revision."""

    agents: tuple[AgentChange, ...]
    packs: tuple[PackChange, ...]
    problems: tuple[Problem, ...]  # errors of the revision

    @property
    def is_empty(self) -> bool:
        return not self.agents and not self.packs


def compare_with(
    city: City,
    revision: Revision,
    environ: Mapping[str, str],
    machine: Machine,
    wanted: Callable[[Agent], bool] = lambda _: True,
) -> CityChange:
    """Compare a city with a revision of it; `wanted` selects agents."""
    with _opened(city, revision, environ) as (old, top):
        before = _CityFacts(old, machine, _path_replacer(old, city, {top: revision.top}))
        after = _CityFacts(city, machine, str)
        agents = _compare_agents(before, after, wanted)
        packs = _compare_packs(read_lock(before.disk), read_lock(after.disk))
        errors = [problem for problem in old.problems if problem.is_error]
        errors += [error for agent in old.agents for error in agent.problems if error.is_error]
        return CityChange(tuple(agents), tuple(packs), tuple(dict.fromkeys(errors)))


@contextmanager
def _opened(
    city: City, revision: Revision, environ: Mapping[str, str]
) -> Iterator[tuple[City, str]]:
    """Open the city of a revision in a temporary directory, which is removed at the end.

    The second value is that directory, the top of the repository's copy.
    """
    from shutil import copy2, copytree
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="city-diff-") as scratch:
        top = os.path.realpath(scratch)
        root = write_revision(revision, top)
        # Rigs at `.` look up their default branch here.
        link = os.fsencode(f"gitdir: {revision.repository.directory}\n")
        write_new(f"{top}/.git", (link,), 0o600, durable=False)
        for name in _LOCAL:
            source, target = f"{city.root}/{name}", f"{root}/{name}"
            if os.path.lexists(target) or not os.path.exists(source):
                continue
            if os.path.isdir(source):
                copytree(source, target, symlinks=True)
            else:
                copy2(source, target)
        _link_rigs(city, root)
        yield open_city(root, environ), top


def _link_rigs(city: City, copy: str) -> None:
    """Link rigs inside the city's directory, which are usually repositories that git ignores.

    Without them, every agent of such a rig would seem to work in a directory without git.
    """
    for rig in city.rigs:
        path = os.path.normpath(_absolute(city.root, rig.path)) if rig.path else ""
        if not path.startswith(f"{city.root}/"):
            continue
        target = f"{copy}{path.removeprefix(city.root)}"
        if os.path.lexists(target):  # it has files in the city's own repository
            path, target = f"{path}/.git", f"{target}/.git"
        if os.path.exists(path) and not os.path.lexists(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.symlink(path, target)


def _path_replacer(old: City, new: City, repository: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces paths of the temporary directory in a text."""
    paths = {**repository, old.root: new.root}
    now = {rig.name: rig.path for rig in new.rigs}
    for rig in old.rigs:
        known = now.get(rig.name)
        if rig.path and known:
            paths[_absolute(old.root, rig.path)] = _absolute(new.root, known)
    ordered = sorted(paths.items(), key=lambda pair: len(pair[0]), reverse=True)

    def replace(text: str) -> str:
        for path, other in ordered:
            text = text.replace(path, other)
        return text

    return replace


def _with_paths(value: object, replace: Callable[[str], str]) -> object:
    """Return a setting's value with the paths in its texts replaced."""
    match value:
        case str():
            return replace(value)
        case tuple():
            return tuple(_with_paths(item, replace) for item in value)
        case Mapping():
            return {key: _with_paths(item, replace) for key, item in value.items()}
    return value


def _absolute(root: str, path: str) -> str:
    return os.path.normpath(os.path.join(root, path))


class _CityFacts:
    """Reduces the agents of one city to facts; `replace` corrects paths in texts."""

    def __init__(self, city: City, machine: Machine, replace: Callable[[str], str]) -> None:
        self.city = city
        self.disk = Disk(city.root)
        self.agents = {str(agent.name): agent for agent in city.agents}
        self._replace = replace
        self._prompts = Prompts(city, self.disk, machine)
        self._servers = ServerResolver(self._prompts)
        self._overlays = Overlays(self._prompts)
        self._skills: dict[str, str] = {}  # hashes by directory

    def of(self, agent: Agent) -> AgentFacts:
        prompt = self._prompts.of(agent)
        tools = agent.settings.tools
        overlay = self._overlays.of(agent, lambda _: False)
        return AgentFacts(
            settings={
                name: setting._replace(value=_with_paths(setting.value, self._replace))
                for name, setting in agent.all_settings().items()
            },
            prompt=self._replace(prompt.text),
            spans=tuple(
                (
                    piece._replace(file=self._replace(piece.file)),
                    self._replace(prompt.text[piece.start : piece.end]),
                )
                for piece in prompt.pieces
            ),
            skills={
                found.skill.name: self._fact(self._skill_hash(found.skill.path), found.skill.path)
                for found in list_skills(self.city, self.disk, agent)
            },
            servers={
                server.name: self._fact(self._server(server), server.file)
                for server in self._servers.of(agent).servers
            },
            files={
                wanted.path: self._fact(self._content(wanted), wanted.source)
                for wanted in overlay.wanted
            },
            allow=frozenset(("*",) if tools.allow is None else tools.allow),
            deny=frozenset(tools.deny),
            secrets=frozenset(agent_secrets(agent.settings.env).values()),
        )

    def _fact(self, value: object, source: str) -> Fact:
        return Fact(value, self._replace(source))

    def _server(self, server: McpServer) -> object:
        """Return what the server does, without where it is defined."""
        return (
            *(server.description, server.transport, self._replace(server.command)),
            tuple(map(self._replace, server.args)),
            {name: self._replace(value) for name, value in server.env.items()},
            *(server.url, dict(server.headers), server.capabilities, server.timeout),
        )

    def _skill_hash(self, path: str) -> str:
        """Return a hash of the files of a skill."""
        directory = self.disk.absolute(path)
        directory = directory if os.path.isdir(directory) else os.path.dirname(directory)
        if directory not in self._skills:
            parts = []
            for folder, folders, names in os.walk(directory):
                folders.sort()
                for name in sorted(names):
                    file = os.path.join(folder, name)
                    parts.append(f"{file[len(directory) :]}\0{digest(read_plain(file) or b'')}")
                if len(parts) > _MAX_SKILL_FILES:
                    break
            self._skills[directory] = digest("\n".join(parts).encode(errors="surrogateescape"))
        return self._skills[directory]

    def _content(self, wanted: WantedPath) -> object:
        if wanted.settings is not None:
            return wanted.settings
        data = wanted.data
        if data is None and wanted.copy_of:
            data = read_plain(self.disk.absolute(wanted.copy_of))
        text = self._replace((data or b"").decode(errors="surrogateescape"))
        return (wanted.kind, wanted.mode, self._replace(wanted.target), text)


def _compare_agents(
    before: _CityFacts, after: _CityFacts, wanted: Callable[[Agent], bool]
) -> Iterator[AgentChange]:
    for name in sorted({*before.agents, *after.agents}):
        old, new = before.agents.get(name), after.agents.get(name)
        if not any(agent is not None and wanted(agent) for agent in (old, new)):
            continue
        change = _compare(
            name,
            before.of(old) if old is not None else None,
            after.of(new) if new is not None else None,
        )
        if change is not None:
            yield change


_NOTHING = AgentFacts({}, "", (), {}, {}, {}, frozenset(), frozenset(), frozenset())


def _compare(name: str, before: AgentFacts | None, after: AgentFacts | None) -> AgentChange | None:
    """Return the differences of one agent, None if there are none."""
    old, new = before or _NOTHING, after or _NOTHING
    change = AgentChange(
        name,
        ADDED if before is None else REMOVED if after is None else CHANGED,
        tuple(_fields(old.settings, new.settings)),
        _prompt(old, new),
        tuple(_named(old.skills, new.skills)),
        tuple(_named(old.servers, new.servers)),
        tuple(_named(old.files, new.files)),
        tuple(sorted((new.allow - old.allow) | (old.deny - new.deny))),
        tuple(sorted((old.allow - new.allow) | (new.deny - old.deny))),
        old.secrets | new.secrets,
    )
    return None if change.change == CHANGED and not any(change[2:9]) else change


def _fields(old: Mapping[str, Setting], new: Mapping[str, Setting]) -> Iterator[FieldChange]:
    """Yield the settings with another value; of a new or removed agent, those that are set."""
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            side = before or after
            if side is not None and side.kind not in (DEFAULT, PROVIDER_LAYER):
                yield FieldChange(name, before, after)
        elif before.value != after.value:
            yield FieldChange(name, before, after)


def _prompt(old: AgentFacts, new: AgentFacts) -> PromptChange | None:
    if old.prompt == new.prompt:
        return None
    kept = {_span(*span) for span in old.spans} & {_span(*span) for span in new.spans}
    sides = ((REMOVED, old.spans), (ADDED, new.spans))
    return PromptChange(
        old.prompt,
        new.prompt,
        tuple(
            SpanChange(change, piece, text)
            for change, spans in sides
            for piece, text in spans
            if _span(piece, text) not in kept
        ),
    )


def _span(piece: PromptPiece, text: str) -> tuple[str, str, str]:
    """Return what makes two parts of prompts the same: not their lines and positions."""
    return (piece.file, piece.kind, text)


def _named(old: Mapping[str, Fact], new: Mapping[str, Fact]) -> Iterator[NamedChange]:
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if after is None:
            if before is not None:
                yield NamedChange(name, REMOVED, before.source)
        elif before is None:
            yield NamedChange(name, ADDED, after.source)
        elif before.value != after.value:
            yield NamedChange(name, CHANGED, after.source)


def _compare_packs(
    old: tuple[LockedPack, ...], new: tuple[LockedPack, ...]
) -> Iterator[PackChange]:
    before = {(lock.binding, lock.source, lock.parents): lock for lock in old}
    after = {(lock.binding, lock.source, lock.parents): lock for lock in new}
    for key in sorted({*before, *after}):
        pinned = [side[key].commit if key in side else "" for side in (before, after)]
        if pinned[0] != pinned[1]:
            yield PackChange(key[0], key[1], *pinned)
