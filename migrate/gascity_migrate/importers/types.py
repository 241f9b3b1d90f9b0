"""Types of readers: the files of a source; the agents, servers, skills and files they return.

A reader is a function `read(tree: SourceTree) -> Imported`. It reads nothing but the tree and
writes nothing. `plan.py` turns what all readers return into one set of changes to the city.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from gascity.model.problems import Place, Problem
from gascity_migrate.draft import NotCarried


class SourceFile(NamedTuple):
    """A file of the source: its bytes and its permission bits."""

    data: bytes
    mode: int = 0o644


class SourceTree(Protocol):
    """The files of a source, by path relative to it. `single` is set if it is one file."""

    single: str

    def matching(self, *patterns: str) -> list[str]:
        """Return the files that match a pattern, sorted.

        `*` matches part of a name, `**/` any number of directories.
        """

    def read(self, path: str) -> SourceFile | None:
        """Return a file; None if it does not exist."""

    def shown(self, path: str) -> str:
        """Return the path as messages show it."""


class ImportedAgent(NamedTuple):
    """An agent: its settings by dotted key, and its prompt unless it has none."""

    name: str
    settings: Mapping[str, object]
    prompt: bytes | None
    place: Place
    files: Mapping[str, SourceFile] = {}  # others of its directory


class ImportedServer(NamedTuple):
    """An MCP server: the content of its file."""

    name: str
    table: Mapping[str, object]
    place: Place


class ImportedSkill(NamedTuple):
    """A skill: the files of its directory."""

    name: str
    files: Mapping[str, SourceFile]
    place: Place


class ImportedFile(NamedTuple):
    """Another file that the city gets. `instructions` is a file that the project has anyway."""

    path: str
    file: SourceFile
    place: Place
    instructions: bool = False


class Imported(NamedTuple):
    """Result of a reader. If one of the problems is an error, nothing is imported."""

    agents: tuple[ImportedAgent, ...] = ()
    servers: tuple[ImportedServer, ...] = ()
    skills: tuple[ImportedSkill, ...] = ()
    files: tuple[ImportedFile, ...] = ()
    patches: Mapping[str, Mapping[str, object]] = {}  # of imported agents, by name
    packs: Mapping[str, str] = {}  # to import, by binding
    rig_packs: Mapping[str, NotCarried] = {}  # packs/RIG, by rig; the loss if there is no such rig
    providers: tuple[str, ...] = ()  # to configure
    lost: tuple[NotCarried, ...] = ()
    problems: tuple[Problem, ...] = ()


Reader = Callable[[SourceTree], Imported]


class Findings:
    """Collects what a reader finds, with the places of what it cannot carry."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self.agents: list[ImportedAgent] = []
        self.servers: list[ImportedServer] = []
        self.skills: list[ImportedSkill] = []
        self.files: list[ImportedFile] = []
        self.patches: dict[str, dict[str, object]] = {}
        self.packs: dict[str, str] = {}
        self.rig_packs: dict[str, NotCarried] = {}
        self.providers: list[str] = []
        self.lost: list[NotCarried] = []
        self.problems: list[Problem] = []

    def place(self, path: str, line: int = 1, col: int = 1) -> Place:
        return Place(self.tree.shown(path), line=line, col=col)

    def lose(self, path: str, line: int, key: str, reason: str) -> None:
        """Record a key whose value the city does not get."""
        self.lost.append(NotCarried(self.tree.shown(path), line, key, reason))

    def refuse(
        self, code: str, message: str, path: str, line: int = 1, col: int = 1, hint: str = ""
    ) -> None:
        """Record an error."""
        self.problems.append(Problem(code, message, self.place(path, line, col), hint or None))

    def text(self, path: str) -> str | None:
        """Return the text of a file; report one that is not UTF-8."""
        file = self.tree.read(path)
        if file is None:
            return None
        try:
            return file.data.decode()
        except UnicodeDecodeError as error:
            line = file.data.count(b"\n", 0, error.start) + 1
            self.refuse("bad-utf8", "the file is not valid UTF-8", path, line)
            return None

    def result(self) -> Imported:
        return Imported(
            tuple(self.agents),
            tuple(self.servers),
            tuple(self.skills),
            tuple(self.files),
            self.patches,
            self.packs,
            self.rig_packs,
            tuple(self.providers),
            tuple(self.lost),
            tuple(self.problems),
        )
