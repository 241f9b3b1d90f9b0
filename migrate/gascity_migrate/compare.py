"""Compares a city before and after: agents, rigs and providers, by setting and file."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.compose.asset_dirs import AGENT_ORIGIN, AssetDir, agent_asset_dirs
from gascity.model.city import Agent, City, Rig
from gascity.model.fields import AGENT, Kind
from gascity.model.layers import Layer
from gascity.model.pack import Import
from gascity.model.problems import Problem
from gascity.model.secrets import HIDDEN, is_secret
from gascity.prompts import is_template
from gascity.source.catalogues import read_fragments, read_overlay
from gascity.source.disk import Disk
from gascity_migrate.draft import Migration
from gascity_migrate.files import COPY, MOVE, Change
from gascity_migrate.v1_tables import FRAGMENTS

SESSIONS = "named sessions"
EXPANDED = "prompt is expanded"


class ExpectedChanges(NamedTuple):
    """Renamed agents, fragments that precede every agent's own, and removed named sessions."""

    renamed: Mapping[str, str] = {}
    shared: tuple[str, ...] = ()
    sessions: int = 0

    def with_new_names(self, message: str) -> str:
        """Return a message with the new names of agents."""
        return "`".join(self.renamed.get(word, word) for word in message.split("`"))

    def allows(self, key: str, was: object, now: object) -> bool:
        """Return whether the plan intends this difference."""
        if now in (was, _renamed(was, self.renamed)):
            return True
        if key == EXPANDED:  # the file name now marks the prompt as a template
            return now is True
        if key == FRAGMENTS and isinstance(was, tuple):
            return now == tuple(dict.fromkeys((*self.shared, *was)))
        if key == SESSIONS and isinstance(was, list) and isinstance(now, list):
            known = [*was, *(_renamed(session, self.renamed) for session in was)]
            return 0 <= len(was) - len(now) <= self.sessions and all(
                session in known for session in now
            )
        return False


def changes_intended_by(plan: Migration) -> ExpectedChanges:
    """Return the differences that a plan intends."""
    ended = [item for item in plan.not_carried if item.key == "named_session"]
    return ExpectedChanges(plan.renamed, plan.shared, len(ended))


def _renamed(value: object, names: Mapping[str, str]) -> object:
    """Return a value with the new names of agents."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, (tuple, list)):
        return type(value)(_renamed(item, names) for item in value)
    if isinstance(value, Mapping):
        return {key: _renamed(item, names) for key, item in value.items()}
    return value


def shared_overlays(changes: Sequence[Change]) -> dict[str, str]:
    """Return the directories that become the overlay of the city or a pack, by its root."""
    overlays = {}
    for change in changes:
        home, overlay, below = f"/{change.path}/".rpartition("/overlay/")
        home = home.strip("/")
        if overlay and change.op in (MOVE, COPY) and "agents" not in home.split("/"):
            overlays[home or "."] = change.source.removesuffix(f"/{below.strip('/')}")
    return overlays


_PATHS = frozenset(name for name, field in AGENT.fields.items() if field.kind is Kind.PATH)
_SUFFIXES = (".template.md", ".md.tmpl")

Aspects = Mapping[str, object]


class ComparedCity(NamedTuple):
    """The effective configuration of a city, with file contents as hashes instead of paths."""

    agents: Mapping[str, Aspects]
    others: Mapping[str, Aspects]
    errors: tuple[Problem, ...]
    broken: frozenset[str] = frozenset()


def read_configuration(city: City, overlays: Mapping[str, str] | None = None) -> ComparedCity:
    """Return everything that a migration must not change.

    `overlays` maps the root of a pack to the directory that becomes its overlay.
    """
    reader = _CityReader(city, overlays or {})
    others: dict[str, Aspects] = {"the city": _city(city)}
    others |= {f"rig `{rig.name}`": _rig(city, rig) for rig in city.rigs}
    others |= {
        f"provider `{name}`": {
            field: setting.value for field, setting in provider.all_settings().items()
        }
        for name, provider in city.providers.items()
    }
    return ComparedCity(
        {str(agent.name): reader.agent(agent) for agent in city.agents},
        others,
        tuple(problem for problem in city.all_problems if problem.is_error),
        frozenset(str(agent.name) for agent in city.agents if agent.broken),
    )


def _city(city: City) -> Aspects:
    return {
        "name": city.name,
        "default provider": city.default_provider,
        "configured providers": sorted(city.configured),
        SESSIONS: sorted(
            (_plain(session.settings.as_dict()) for session in city.named_sessions), key=repr
        ),
        "imports": _imports(city.pack.imports),
        **{f"[workspace] {key}": value for key, value in _values(city.layers.workspace).items()},
        **{f"[session] {key}": value for key, value in _values(city.layers.session).items()},
        **{f"[security] {key}": value for key, value in _values(city.layers.security).items()},
    }


def _rig(city: City, rig: Rig) -> Aspects:
    return {
        "path": rig.path,
        "prefix": rig.prefix,
        "imports": _imports(city.rig_imports.get(rig.name, ())),
        **_values(rig.layers),
    }


def _imports(imports: Iterable[Import]) -> object:
    return sorted((item.binding, item.pack.root if item.pack else "") for item in imports)


def _values(layers: Iterable[Layer]) -> dict[str, object]:
    values: dict[str, object] = {}
    for layer in layers:
        values |= {key: _plain(value) for key, value in layer.values.items()}
    return values


def _plain(value: object) -> object:
    """Return a value that compares equal regardless of key order and list type."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    return value


class _CityReader:
    """Reads agents' configuration; directories that several agents share are read once."""

    def __init__(self, city: City, overlays: Mapping[str, str]) -> None:
        self.city = city
        self.overlays = overlays
        self.disk = Disk(city.root)
        self._read: dict[tuple[str, str], Mapping[str, str]] = {}

    def agent(self, agent: Agent) -> Aspects:
        settings = agent.all_settings()
        aspects = {
            name: _plain(setting.value) for name, setting in settings.items() if name not in _PATHS
        }
        aspects |= {"resolved provider": agent.provider, "layer": agent.layer}
        aspects[EXPANDED] = self._expanded(agent.settings.prompt or "")
        for name in sorted(_PATHS - {"overlay_dir"}):
            aspects[name] = self._content(str(settings[name].value or ""))
        aspects |= {kind: self._catalogue(agent, kind) for kind in _READERS}
        return aspects

    def _expanded(self, file: str) -> bool:
        """Return whether the prompt contains template syntax and is treated as a template."""
        data = self.disk.read(self.disk.absolute(file)) if file else None
        return data is not None and b"{{" in data and is_template(file)

    def _content(self, file: str) -> str:
        return _digest(self.disk.absolute(file)) if file else ""

    def _catalogue(self, agent: Agent, kind: str) -> Mapping[str, str]:
        """Return the entries of one asset kind for an agent; later directories override."""
        entries: dict[str, str] = {}
        for asset_dir in agent_asset_dirs(self.city, agent):
            directory = asset_dir.path(kind) if kind in asset_dir.catalogues else ""
            if kind == "overlay" and asset_dir.origin == AGENT_ORIGIN:
                directory = agent.settings.overlay_dir or directory
            elif kind == "overlay" and asset_dir.directory in self.overlays:
                entries |= self._entries(kind, self.overlays[asset_dir.directory], asset_dir)
            if directory:
                entries |= self._entries(kind, directory, asset_dir)
        return entries

    def _entries(self, kind: str, directory: str, asset_dir: AssetDir) -> Mapping[str, str]:
        if (kind, directory) not in self._read:
            self._read[kind, directory] = dict(_READERS[kind](self.disk, directory, asset_dir))
        return self._read[kind, directory]


_Entries = Iterator[tuple[str, str]]


def _overlay(disk: Disk, directory: str, asset_dir: AssetDir) -> _Entries:
    for file in read_overlay(disk, directory, asset_dir.origin, asset_dir.pack).files:
        name = " ".join((file.path, file.provider, "template" if file.template else ""))
        yield name.rstrip(), f"{file.mode:o} {_digest(file.absolute)}"


def _fragments(disk: Disk, directory: str, asset_dir: AssetDir) -> _Entries:
    del asset_dir
    for file, text in read_fragments(disk, directory):
        name = os.path.basename(file)
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
        yield name, text


def _files(disk: Disk, directory: str, asset_dir: AssetDir) -> _Entries:
    """Yield every file in a directory; symlinks are followed unless they form a loop."""
    del asset_dir
    top = disk.absolute(directory)
    inside: list[str] = []

    def walk(place: str, below: str) -> _Entries:
        real = os.path.realpath(place)
        if real in inside:
            return
        inside.append(real)
        for name in sorted(os.listdir(place)):
            path = f"{place}/{name}"
            if os.path.isdir(path):
                yield from walk(path, f"{below}{name}/")
            elif os.path.isfile(path):
                yield f"{below}{name}", f"{os.stat(path).st_mode & 0o777:o} {_digest(path)}"
            else:
                yield f"{below}{name}", "not a file"
        inside.pop()

    yield from walk(top, "")


_READERS: Mapping[str, Callable[[Disk, str, AssetDir], _Entries]] = {
    "overlay": _overlay,
    "skills": _files,
    "mcp": _files,
    "template-fragments": _fragments,
    "hud": _files,
}


def _digest(path: str) -> str:
    from hashlib import file_digest

    try:
        with open(path, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return error.strerror or "unreadable"


# Comparing


def differences(
    before: ComparedCity, after: ComparedCity, expected: ExpectedChanges
) -> list[Problem]:
    """Return unexpected differences, field by field, and errors that are new."""
    new_names = {name: _new_name(name, expected.renamed, after.agents) for name in before.agents}
    old = {f"agent `{new_names[name]}`": aspects for name, aspects in before.agents.items()}
    new = {f"agent `{name}`": aspects for name, aspects in after.agents.items()}
    was_broken = {f"agent `{new_names[name]}`" for name in before.broken}
    empty_dirs = _empty_agent_dirs(before)
    old |= before.others
    new |= after.others
    problems: list[Problem] = []
    for subject in sorted(old.keys() | new.keys()):
        if subject not in new and subject in empty_dirs:
            continue
        if subject not in new:
            problems.append(_differs(f"{subject} would be missing"))
        elif subject not in old:
            problems.append(_differs(f"{subject} would be new"))
        else:
            problems += _compared(
                subject, old[subject], new[subject], expected, subject in was_broken
            )
    problems += [
        _differs(f"agent `{name}` would be broken")
        for name in sorted(after.broken)
        if f"agent `{name}`" in old and f"agent `{name}`" not in was_broken
    ]
    return [*problems, *_new_errors(before, after, expected)]


def _new_name(name: str, renamed: Mapping[str, str], existing: Mapping[str, Aspects]) -> str:
    """Return the new name of an agent; agents read from v1 tables may already have it."""
    return name if name in existing else renamed.get(name, name)


def _compared(
    subject: str, old: Aspects, new: Aspects, expected: ExpectedChanges, was_broken: bool
) -> Iterator[Problem]:
    """Yield differences of one subject; with `was_broken`, files that were missing may exist."""
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was_broken and _only_adds_file(key, was, now):
            continue
        if not expected.allows(key, was, now):
            yield _differs(f"{subject}: `{key}` {_describe(key, was, now)}")


def _only_adds_file(key: str, was: object, now: object) -> bool:
    """Return whether the only difference is that a missing file now exists."""
    if key == "overlay" and isinstance(was, Mapping) and isinstance(now, Mapping):
        return was.items() <= now.items()
    return key in _PATHS and not was


def _describe(key: str, was: object, now: object) -> str:
    """Describe a difference; for tables only by keys, since values may be secret or long."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        keys = sorted(item for item in {*was, *now} if was.get(item) != now.get(item))
        more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
        return f"would differ in {', '.join(f'`{item}`' for item in keys[:5])}{more}"
    if key in _PATHS:
        return (
            "would have different content" if was and now else "would be a different file or none"
        )
    if is_secret(key):
        return f"would change from {HIDDEN}"
    return f"would change from {was!r} to {now!r}"


def _differs(message: str) -> Problem:
    return Problem("migrate-differs", message)


def _empty_agent_dirs(city: ComparedCity) -> set[str]:
    """Return agents that are only a directory without any agent files, e.g. shared prompts."""
    errors = [error for error in city.errors if error.code == "no-prompt"]
    bare = {error.message.split("`")[1] for error in errors if error.place and not error.place.path}
    return {f"agent `{name}`" for name in city.agents if name.rpartition("/")[2] in bare}


def _new_errors(
    before: ComparedCity, after: ComparedCity, expected: ExpectedChanges
) -> list[Problem]:
    """Return errors that are new, compared by code and message because files and lines move."""
    known_errors = [(error.code, error.message) for error in before.errors]
    broken_names = {
        name.rpartition("/")[2]
        for name in (*before.broken, *map(expected.with_new_names, before.broken))
    }
    new = []
    for problem in after.errors:
        if problem.code == "no-prompt" and problem.message.split("`")[1] in broken_names:
            continue  # its prompt file was missing before, too
        same = [
            error
            for error in known_errors
            if problem[:2] in (error, (error[0], expected.with_new_names(error[1])))
        ]
        if same:
            known_errors.remove(same[0])
        else:
            new.append(problem)
    return new
