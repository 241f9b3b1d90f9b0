"""Combines what several readers found: equal definitions become one, different ones conflict.

A repository often has the same server in `.mcp.json` and in `.cursor/mcp.json`, or the same skill
in two directories. Definitions that agree are imported once. Where two files define the same name
differently, the user chooses the file (`--prefer`) or renames one of them (`--rename`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, islice
from typing import NamedTuple, TypeVar
from unicodedata import combining, normalize

from gascity.model.names import is_name
from gascity.model.problems import Place, Problem
from gascity_migrate.importers.types import (
    Imported,
    ImportedAgent,
    ImportedFile,
    ImportedServer,
    ImportedSkill,
)

AGENT, SERVER, SKILL, FILE = "agent", "MCP server", "skill", "file"
_Definition = TypeVar("_Definition", ImportedAgent, ImportedServer, ImportedSkill)


class Choices(NamedTuple):
    """The user's choices: preferred files, and new names by old name or by file."""

    prefer: tuple[str, ...] = ()
    rename: Mapping[str, str] = {}


class Conflict(NamedTuple):
    """A name that several files define differently.

    If the city has another definition, `home` is its directory or file, the first of `files`.
    """

    kind: str
    name: str
    places: tuple[Place, ...]
    home: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(place.file for place in self.places)


class Combined(NamedTuple):
    """One definition per name. `differing` has the kinds of which files define one differently."""

    agents: tuple[ImportedAgent, ...]
    servers: tuple[ImportedServer, ...]
    skills: tuple[ImportedSkill, ...]
    files: tuple[ImportedFile, ...]
    conflicts: tuple[Conflict, ...]
    problems: tuple[Problem, ...]
    differing: frozenset[str] = frozenset()


def combine(found: Sequence[Imported], choices: Choices) -> Combined:
    """Combine the results of all readers."""
    combiner = _Combiner(choices)
    agents = combiner.unique(AGENT, (agent for one in found for agent in one.agents))
    servers = combiner.unique(SERVER, (server for one in found for server in one.servers))
    skills = combiner.unique(SKILL, (skill for one in found for skill in one.skills))
    files = combiner.unique_files(file for one in found for file in one.files)
    combiner.check_unused()
    return Combined(
        agents,
        servers,
        skills,
        files,
        tuple(combiner.conflicts),
        tuple(combiner.problems),
        frozenset(combiner.differing),
    )


class _Combiner:
    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.conflicts: list[Conflict] = []
        self.problems: list[Problem] = []
        self.differing: set[str] = set()
        self._used: set[str] = set()

    def unique(self, kind: str, found: Iterable[_Definition]) -> tuple[_Definition, ...]:
        by_name: dict[str, list[_Definition]] = {}
        for definition in found:
            name = self._renamed(definition)
            by_name.setdefault(name, []).append(_with_name(definition, name))
        self._check_names(kind, {name: same[0].place for name, same in by_name.items()})
        return tuple(self._chosen(kind, name, same) for name, same in by_name.items())

    def unique_files(self, found: Iterable[ImportedFile]) -> tuple[ImportedFile, ...]:
        by_path: dict[str, list[ImportedFile]] = {}
        for file in found:
            by_path.setdefault(file.path, []).append(file)
        chosen = []
        for path, same in by_path.items():
            options = {file.place.file: file for file in same}
            if len({file.file.data for file in same}) > 1:
                places = [file.place for file in options.values()]
                chosen.append(options[self._choose(FILE, path, places)])
            else:
                chosen.append(same[0])
        return tuple(chosen)

    def check_unused(self) -> None:
        """Report names that fit nothing: a misspelt name would be imported under its old one."""
        for word in self.choices.rename:
            if word not in self._used:
                self.problems.append(unknown_choice(word))

    def _renamed(self, definition: _Definition) -> str:
        for word, new in self.choices.rename.items():
            if word == definition.name or names_file(word, definition.place.file):
                self._used.add(word)
                return new
        return definition.name

    def _chosen(self, kind: str, name: str, same: Sequence[_Definition]) -> _Definition:
        options: dict[str, _Definition] = {}
        for definition in same:
            first = options.setdefault(definition.place.file, definition)
            if _content(first) != _content(definition):
                self._report_twice(kind, name, first.place, definition.place)
        if all(_content(other) == _content(same[0]) for other in options.values()):
            return same[0]
        return options[self._choose(kind, name, [each.place for each in options.values()])]

    def _choose(self, kind: str, name: str, places: Sequence[Place]) -> str:
        self.differing.add(kind)
        for word in self.choices.prefer:
            named = [place.file for place in places if names_file(word, place.file)]
            if named:
                return named[0]
        self.conflicts.append(Conflict(kind, name, tuple(places)))
        return places[0].file

    def _report_twice(self, kind: str, name: str, first: Place, second: Place) -> None:
        """Report a name that one file defines twice: `--prefer` cannot choose between these."""
        lines = f", on lines {first.line} and {second.line}" if first.line != second.line else ""
        message = f"{second.file} defines {kind} `{name}` twice, differently{lines}"
        hint = "remove or rename one of them in the file"
        self.problems.append(Problem("import-conflict", message, second, hint))

    def _check_names(self, kind: str, places: Mapping[str, Place]) -> None:
        folded: dict[str, str] = {}
        for name, place in places.items():
            if not is_name(name):
                hint = f"`--rename '{name}={_free_name(name, places)}'` imports it under that name"
                message = f"`{name}` cannot be the name of {_article(kind)}"
                self.problems.append(Problem("bad-name", message, place, hint))
            other = folded.setdefault(name.casefold(), name)
            if other != name:
                hint = f"`--rename {name}={_free_name(name, places)}` imports it under that name"
                message = f"`{name}` and `{other}` differ only in case"
                self.problems.append(Problem("case-clash", message, place, hint))


def unknown_choice(word: str) -> Problem:
    """Return the error for a choice that fits nothing that was found."""
    return Problem("unknown-source", f"`{word}` is neither a name nor a file of the source")


def names_file(word: str, file: str) -> bool:
    """Return whether a word names a file: its path as shown, or the end of it."""
    return file == word or file.endswith(f"/{word}")


def _with_name(definition: _Definition, name: str) -> _Definition:
    if definition.name == name:
        return definition
    if isinstance(definition, ImportedServer):
        table = {**definition.table, "name": name}
        return definition._replace(name=name, table=table)
    return definition._replace(name=name)


def _content(definition: ImportedAgent | ImportedServer | ImportedSkill) -> object:
    """Return what must be equal for two definitions to agree."""
    match definition:
        case ImportedAgent():
            return definition.settings, definition.prompt, definition.files
        case ImportedServer():
            return {key: value for key, value in definition.table.items() if key != "description"}
        case ImportedSkill():
            return {path: file.data for path, file in definition.files.items()}


def _free_name(text: str, taken: Iterable[str]) -> str:
    """Return the nearest valid name that is not taken, in any case of letters."""
    plain = "".join(char for char in normalize("NFKD", text) if not combining(char))
    words = re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-_").lower()[:90] or "agent"
    folded = {name.casefold() for name in taken}
    numbered = (f"{words}-{number}" for number in count(2))
    return next(name for name in (words, *islice(numbered, len(folded) + 1)) if name not in folded)


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aM" else f"a {kind}"
