"""A city before and after: every agent, rig and provider, setting by setting and file by file."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.compose.catalogues import AGENT_ORIGIN, Shelf, agent_shelves
from gascity.model.city import Agent, City, Rig
from gascity.model.fields import AGENT, Kind
from gascity.model.layers import Layer
from gascity.model.pack import Import
from gascity.model.problems import Problem
from gascity.model.secrets import HIDDEN, is_secret
from gascity.model.tables import PROVIDER
from gascity.prompts import is_template
from gascity.source.disk import Disk
from gascity.source.fragments import read_fragments
from gascity.source.overlay import read_overlay
from gascity_migrate.meant import EXPANDED, SESSIONS, Meant

_PATHS = frozenset(name for name, field in AGENT.fields.items() if field.kind is Kind.PATH)
_SUFFIXES = (".template.md", ".md.tmpl")

Aspects = Mapping[str, object]


class Seen(NamedTuple):
    """What a city comes to. Contents of files are held by their hashes, wherever they lie."""

    agents: Mapping[str, Aspects]
    others: Mapping[str, Aspects]
    errors: tuple[Problem, ...]
    broken: frozenset[str] = frozenset()


def look(city: City, overlays: Mapping[str, str] | None = None) -> Seen:
    """Everything about a city that a migration may not change.

    `overlays` are directories that are meant as the overlay of a pack, by the pack's root.
    """
    looker = _Looker(city, overlays or {})
    others: dict[str, Aspects] = {"the city": _city(city)}
    others |= {f"rig `{rig.name}`": _rig(city, rig) for rig in city.rigs}
    others |= {
        f"provider `{name}`": {field: one.value(field) for field in PROVIDER.fields}
        for name, one in city.providers.items()
    }
    return Seen(
        {str(agent.name): looker.agent(agent) for agent in city.agents},
        others,
        tuple(problem for problem in city.everything_wrong if problem.is_error),
        frozenset(str(agent.name) for agent in city.agents if agent.broken),
    )


def _city(city: City) -> Aspects:
    return {
        "name": city.name,
        "default provider": city.default_provider,
        "configured providers": sorted(city.configured),
        SESSIONS: sorted((_plain(one.values) for one in city.named_sessions), key=repr),
        "imports": _imports(city.pack.imports),
        **{f"[workspace] {key}": value for key, value in _values(city.workspace).items()},
        **{f"[session] {key}": value for key, value in _values(city.session).items()},
        **{f"[security] {key}": value for key, value in _values(city.security).items()},
    }


def _rig(city: City, rig: Rig) -> Aspects:
    return {
        "path": rig.path,
        "prefix": rig.prefix,
        "imports": _imports(city.rig_imports.get(rig.name, ())),
        **_values(rig.layers),
    }


def _imports(imports: Iterable[Import]) -> object:
    return sorted((one.binding, one.pack.root if one.pack else "") for one in imports)


def _values(layers: Iterable[Layer]) -> dict[str, object]:
    found: dict[str, object] = {}
    for layer in layers:
        found |= {key: _plain(value) for key, value in layer.values.items()}
    return found


def _plain(value: object) -> object:
    """A value that does not care in which order a table was written, or how a list is held."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return tuple(_plain(one) for one in value)
    return value


class _Looker:
    """Looks at agents; what several share is read once."""

    def __init__(self, city: City, overlays: Mapping[str, str]) -> None:
        self.city = city
        self.overlays = overlays
        self.disk = Disk(city.root)
        self._read: dict[tuple[str, str], Mapping[str, str]] = {}

    def agent(self, agent: Agent) -> Aspects:
        settings = agent.settings()
        found = {
            name: _plain(setting.value) for name, setting in settings.items() if name not in _PATHS
        }
        found |= {"resolved provider": agent.provider, "layer": agent.layer}
        found[EXPANDED] = self._expanded(agent.text("prompt"))
        for name in sorted(_PATHS - {"overlay_dir"}):
            found[name] = self._content(agent.text(name))
        found |= {kind: self._catalogue(agent, kind) for kind in _READERS}
        return found

    def _expanded(self, file: str) -> bool:
        """Is there something to expand in the prompt, and will it be?"""
        data = self.disk.read(self.disk.absolute(file)) if file else None
        return data is not None and b"{{" in data and is_template(file)

    def _content(self, file: str) -> str:
        return _digest(self.disk.absolute(file)) if file else ""

    def _catalogue(self, agent: Agent, kind: str) -> Mapping[str, str]:
        """What an agent sees of one catalogue, by name: the nearest of each."""
        found: dict[str, str] = {}
        for shelf in agent_shelves(self.city, agent):
            directory = shelf.path(kind) if kind in shelf.catalogues else ""
            if kind == "overlay" and shelf.origin == AGENT_ORIGIN:
                directory = agent.text("overlay_dir") or directory
            elif kind == "overlay" and shelf.directory in self.overlays:
                found |= self._on(kind, self.overlays[shelf.directory], shelf)
            if directory:
                found |= self._on(kind, directory, shelf)
        return found

    def _on(self, kind: str, directory: str, shelf: Shelf) -> Mapping[str, str]:
        if (kind, directory) not in self._read:
            self._read[kind, directory] = dict(_READERS[kind](self.disk, directory, shelf))
        return self._read[kind, directory]


_Entries = Iterator[tuple[str, str]]


def _overlay(disk: Disk, directory: str, shelf: Shelf) -> _Entries:
    for file in read_overlay(disk, directory, shelf.origin, shelf.pack).files:
        name = " ".join((file.path, file.provider, "template" if file.template else ""))
        yield name.rstrip(), f"{file.mode:o} {_digest(file.absolute)}"


def _fragments(disk: Disk, directory: str, shelf: Shelf) -> _Entries:
    del shelf
    for file, text in read_fragments(disk, directory):
        name = os.path.basename(file)
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
        yield name, text


def _files(disk: Disk, directory: str, shelf: Shelf) -> _Entries:
    """Every file below a directory, links followed as far as they lead to something new."""
    del shelf
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


_READERS: Mapping[str, Callable[[Disk, str, Shelf], _Entries]] = {
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


def differences(before: Seen, after: Seen, meant: Meant) -> list[Problem]:
    """What a migration changed and did not mean to: field by field, and errors it brought."""
    new = {name: _name(name, meant.renamed, after.agents) for name in before.agents}
    was = {f"agent `{new[name]}`": aspects for name, aspects in before.agents.items()}
    now = {f"agent `{name}`": aspects for name, aspects in after.agents.items()}
    mended = {f"agent `{new[name]}`" for name in before.broken}
    nobody = _nobody(before)
    was |= before.others
    now |= after.others
    found: list[Problem] = []
    for subject in sorted(was.keys() | now.keys()):
        if subject not in now and subject in nobody:
            continue
        if subject not in now:
            found.append(_differs(f"{subject} is not there any more"))
        elif subject not in was:
            found.append(_differs(f"{subject} was not there before"))
        else:
            found += _compared(subject, was[subject], now[subject], meant, subject in mended)
    return [*found, *_new_errors(before, after, meant)]


def _name(name: str, renamed: Mapping[str, str], there: Mapping[str, Aspects]) -> str:
    """What an agent is called now; where tables were read, some have that name already."""
    return name if name in there else renamed.get(name, name)


def _compared(
    subject: str, old: Aspects, new: Aspects, meant: Meant, mended: bool
) -> Iterator[Problem]:
    """With `mended`, a file that could not be found before may be there now."""
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if mended and _found(key, was, now):
            continue
        if not meant.allows(key, was, now):
            yield _differs(f"{subject}: `{key}` {_told(key, was, now)}")


def _found(key: str, was: object, now: object) -> bool:
    """Is all that was there still there, and more of what a path names?"""
    if key == "overlay" and isinstance(was, Mapping) and isinstance(now, Mapping):
        return was.items() <= now.items()
    return key in _PATHS and not was


def _told(key: str, was: object, now: object) -> str:
    """The difference in words; of tables only the keys, whose values may be secrets or long."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        keys = sorted(one for one in {*was, *now} if was.get(one) != now.get(one))
        more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
        return f"differs in {', '.join(f'`{one}`' for one in keys[:5])}{more}"
    if key in _PATHS:
        return "has another content" if was and now else "is another file, or none"
    if is_secret(key):
        return f"was {HIDDEN} and would be another"
    return f"was {was!r} and would be {now!r}"


def _differs(message: str) -> Problem:
    return Problem("migrate-differs", message)


def _nobody(seen: Seen) -> set[str]:
    """Directories among the agents with nothing of an agent in them: prompts of others, say."""
    faults = [one for one in seen.errors if one.code == "no-prompt"]
    bare = {one.message.split("`")[1] for one in faults if one.place and not one.place.path}
    return {f"agent `{name}`" for name in seen.agents if name.rpartition("/")[2] in bare}


def _new_errors(before: Seen, after: Seen, meant: Meant) -> list[Problem]:
    """Errors that were not there: told apart by their words, for files and lines move."""
    left = [(one.code, one.message) for one in before.errors]
    known = {name.rpartition("/")[2] for name in (*before.broken, *map(meant.told, before.broken))}
    found = []
    for problem in after.errors:
        if problem.code == "no-prompt" and problem.message.split("`")[1] in known:
            continue  # the file that it named was not there before, either
        same = [one for one in left if problem[:2] in (one, (one[0], meant.told(one[1])))]
        if same:
            left.remove(same[0])
        else:
            found.append(problem)
    return found
