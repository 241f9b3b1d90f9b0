"""A city on its way from one layout to the other: its files as read, and as they will be."""

import os
import stat
from collections.abc import Iterable, Mapping

from gascity.model.problems import KeyPath, Place, Problem
from gascity.source.disk import Disk, is_below
from gascity.source.toml import TomlFault, locate, parse
from gascity_migrate.changes import NotCarried
from gascity_migrate.declared import declared_rigs
from gascity_migrate.files import Files
from gascity_migrate.first import First, take_apart

CITY, PACK, INCLUDED = "city", "pack", "included"


class Manifest:
    """A TOML file that a person wrote. `text` is what it will say."""

    def __init__(self, file: str, kind: str, content: bytes, mode: int) -> None:
        """Raises TomlFault."""
        self.file = file
        self.kind = kind
        self.mode = mode
        self.raw: Mapping[str, object] = parse(content)
        self.original = content.decode()
        self.text = self.original
        self.first: First = take_apart(self.raw, file)
        self.reasons: dict[str, None] = {}

    def change(self, text: str, reason: str) -> None:
        """Let the file say something else; nothing is changed where it says just that."""
        if text != self.text:
            self.text = text
            self.reasons[reason] = None

    @property
    def new_mode(self) -> int:
        """The mode of a file that is made of a part of this one: as private, never executable."""
        return self.mode & 0o666

    def place(self, path: KeyPath, *, of_value: bool = False) -> Place:
        return Place(self.file, path, of_value=of_value)

    def line(self, path: KeyPath) -> int:
        return locate(self.original, path)[0]


class Home:
    """A pack, or the city: a directory with manifests, pack.toml before city.toml.

    `root` is relative to the city, "" for the city itself.
    """

    def __init__(self, root: str, manifests: Iterable[Manifest]) -> None:
        self.root = root
        self.manifests = list(manifests)
        self.folders: list[Manifest] = []  # agent.toml of the agents that are folders already

    @property
    def is_city(self) -> bool:
        return self.root == ""

    @property
    def pack(self) -> Manifest | None:
        return next((one for one in self.manifests if one.kind == PACK), None)

    @property
    def name(self) -> str:
        table = self.pack.raw.get("pack") if self.pack else None
        name = table.get("name") if isinstance(table, Mapping) else None
        return name if isinstance(name, str) else ""

    @property
    def is_first(self) -> bool:
        """Does any of its manifests say something that only the first layout says?"""
        table = self.pack.raw.get("pack") if self.pack else None
        older = isinstance(table, Mapping) and table.get("schema") == 1
        return older or self.has_marks

    @property
    def has_marks(self) -> bool:
        """Do its manifests have more of the first layout than the number?"""
        return any(one.first.marks for one in self.manifests)

    def under(self, path: str) -> str:
        """A path in the pack, as one in the city."""
        return f"{self.root}/{path}" if self.root else path


# A pack that stands alone is read as a city that has one rig, so that all of its agents are there.
_STAND_IN = b'[[rigs]]\nname = "rig"\n'


def disk_of(root: str) -> Disk:
    """The files of a city, or of a pack that is in no city."""
    city = f"{root}/city.toml"
    alone = os.path.isfile(f"{root}/pack.toml") and not os.path.lexists(city)
    return Disk(root, {city: _STAND_IN} if alone else None)


class Draft:
    """What was read and what is decided so far; the stages of planning add to it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.disk = disk_of(root)
        self.files = Files(root)
        self.homes: list[Home] = []
        self.edits: dict[str, tuple[bytes, str]] = {}  # of other files: content and reason, by path
        self.not_carried: list[NotCarried] = []
        self.outside: list[str] = []  # notes of packs that are not the city's to change
        self.folders: list[str] = []  # of agents in tables, in the order of those
        self.notes: list[str] = []
        self.problems: list[Problem] = []
        self.renamed: dict[str, str] = {}
        self.rigs = declared_rigs(root)

    @property
    def city(self) -> Home:
        return self.homes[0]

    @property
    def is_pack(self) -> bool:
        """Is this a pack that is in no city?"""
        return bool(self.disk.instead)

    def absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def shown(self, path: str) -> str:
        return self.disk.shown(path)

    def read(self, file: str, kind: str) -> Manifest | None:
        """A manifest of the city; None for one that is not there, or faulty, which is told."""
        path = self.absolute(file)
        data = self.disk.read(path)
        self.problems += self.disk.problems
        self.disk.problems.clear()
        if data is None:
            return None
        try:
            mode = 0 if path in self.disk.instead else stat.S_IMODE(os.stat(path).st_mode)
            return Manifest(file, kind, data, mode)
        except TomlFault as fault:
            place = Place(file, line=fault.line, col=fault.col)
            self.problems.append(Problem(fault.code, fault.message, place, fault.hint))
            return None

    def lose(self, manifest: Manifest, path: KeyPath, reason: str) -> None:
        """Tell that a key has no effect any more."""
        name = ".".join(part for part in path if isinstance(part, str))
        self.not_carried.append(NotCarried(manifest.file, manifest.line(path), name, reason))

    def find(self, written: str, home: Home, manifest: Manifest) -> str | None:
        """The absolute path that a setting of the first layout means; None for an unknown pack.

        Paths are the pack's own, `./x` those of the file's directory, `//x` the city's, and
        `NAME//x` those of the pack that calls itself so. In a file that city.toml includes they
        are those of its directory, and the city's where nothing lies there.
        """
        if written.startswith("//"):
            return os.path.normpath(self.absolute(written.lstrip("/")))
        if os.path.isabs(written):
            return os.path.normpath(written)
        pack, double, inside = written.partition("//")
        if double and not written.startswith("."):
            named = next((one for one in self.homes if one.name == pack), None)
            return os.path.normpath(f"{self.absolute(named.root)}/{inside}") if named else None
        base = self.absolute(home.root)
        own = os.path.dirname(self.absolute(manifest.file))
        if written.startswith("./") or written.startswith("../"):
            base = own
        found = os.path.normpath(f"{base}/{written}")
        beside = os.path.normpath(f"{own}/{written}")
        if manifest.kind == INCLUDED and home.has_marks and os.path.lexists(beside):
            return beside
        return found if os.path.lexists(found) or not os.path.lexists(beside) else beside

    def real(self, path: str, home: Home) -> str:
        """What a path leads to, where that has to be taken itself.

        It is, behind a directory that is a link, and where a link leads out of the pack: nothing
        may be changed through the one, and the other may not stand in an agent's folder.
        """
        path = self.followed(os.path.dirname(path)) + "/" + os.path.basename(path)
        goal = self.followed(path)
        return path if is_below(goal, self.absolute(home.root)) else goal

    def followed(self, path: str) -> str:
        """A path without links, as one of the city where it is in it."""
        goal, root = os.path.realpath(path), os.path.realpath(self.root)
        return self.root + goal[len(root) :] if is_below(goal, root) else goal

    def holds_manifest(self, path: str) -> bool:
        """Is it a file that says what the city or a pack is, or a directory with one?"""
        files = [one.file for home in self.homes for one in home.manifests]
        return any(is_below(self.absolute(file), path) for file in files)

    def belongs(self, path: str, home: Home) -> bool:
        """Is a file part of this pack, and of no other that lies inside it?"""
        if not is_below(path, self.absolute(home.root)):
            return False
        nearest = max(
            (one.root for one in self.homes if is_below(path, self.absolute(one.root))), key=len
        )
        return nearest == home.root
