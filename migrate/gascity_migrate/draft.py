"""Holds a city during migration: its files as read and as they will be written."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.repositories import is_remote
from gascity.source.disk import Disk, is_below
from gascity.toml.positions import locate
from gascity.toml.read import TomlError, parse
from gascity.toml.rewrite import remove_key
from gascity_migrate.files import Change, Files
from gascity_migrate.names import as_import, declared_rigs
from gascity_migrate.v1_tables import V1Manifest, table_at, tables_at, text_at

CITY, PACK, INCLUDED, AGENT = "city", "pack", "included", "agent"


class NotCarried(NamedTuple):
    """A key that has no effect any more, with its position and the reason."""

    file: str
    line: int
    key: str
    reason: str


class Migration(NamedTuple):
    """A migration plan. If one of its problems is an error, it must not be applied.

    `notes` are messages for the user; `renamed` maps old to new qualified agent names. `folders`
    are the new agent directories, in the order of the tables. `shared` are the fragments that
    precede every agent's own.
    """

    changes: tuple[Change, ...] = ()
    not_carried: tuple[NotCarried, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    renamed: Mapping[str, str] = {}
    folders: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


class Manifest:
    """A TOML file written by the user; `text` is its new content."""

    home: "PackFiles"

    def __init__(self, file: str, kind: str, content: bytes, mode: int) -> None:
        """Raises TomlError."""
        self.file = file
        self.kind = kind
        self.mode = mode
        self.raw: Mapping[str, object] = parse(content)
        self.original = content.decode()
        self.text = self.original
        self.v1 = V1Manifest(self.raw, file)
        self.reasons: dict[str, None] = {}

    def change(self, text: str, reason: str) -> None:
        """Set the new text; record the reason if the text differs."""
        if text != self.text:
            self.text = text
            self.reasons[reason] = None

    @property
    def new_mode(self) -> int:
        """The mode for a file created from part of this one: the same, but not executable."""
        return self.mode & 0o666

    def place(self, path: KeyPath, *, of_value: bool = False) -> Place:
        return Place(self.file, path, of_value=of_value)

    def line(self, path: KeyPath) -> int:
        return locate(self.original, path)[0]


class PackFiles:
    """A pack, or the city: a directory with manifests, pack.toml before city.toml.

    `root` is relative to the city, "" for the city itself. `agent_files` are the agent.toml files
    of existing agent directories.
    """

    def __init__(self, root: str, manifests: Iterable[Manifest]) -> None:
        self.root = root
        self.manifests = list(manifests)
        self.agent_files: list[Manifest] = []
        for manifest in self.manifests:
            manifest.home = self

    @property
    def is_city(self) -> bool:
        return self.root == ""

    @property
    def pack(self) -> Manifest | None:
        return next((manifest for manifest in self.manifests if manifest.kind == PACK), None)

    @property
    def name(self) -> str:
        return text_at(self.pack.raw, "pack", "name") if self.pack else ""

    @property
    def is_schema_1(self) -> bool:
        return self.pack is not None and table_at(self.pack.raw, "pack").get("schema") == 1

    @property
    def is_v1(self) -> bool:
        """Whether any of its manifests is v1, by content or by `schema = 1`."""
        return self.is_schema_1 or self.has_marks

    @property
    def has_marks(self) -> bool:
        """Whether any of its manifests has v1 keys; `schema = 1` alone does not count."""
        return any(manifest.v1.marks for manifest in self.manifests)

    def under(self, path: str) -> str:
        """Return a path in the pack relative to the city."""
        return f"{self.root}/{path}" if self.root else path


# A pack outside a city is read as a city with one rig, so that its rig agents exist too.
_STAND_IN = b'[[rigs]]\nname = "rig"\n'


def disk_of(root: str) -> Disk:
    """Return a disk for a city, or for a pack that is not part of a city."""
    city = f"{root}/city.toml"
    alone = os.path.isfile(f"{root}/pack.toml") and not os.path.lexists(city)
    return Disk(root, {city: _STAND_IN} if alone else None)


class Draft:
    """Everything read and decided so far; each planning stage adds to it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.disk = disk_of(root)
        self.files = Files(root)
        self.homes: list[PackFiles] = []
        self.edits: dict[str, tuple[bytes, str]] = {}  # of other files: content and reason, by path
        self.not_carried: list[NotCarried] = []
        self.outside: list[str] = []  # notes about packs outside the city
        self.folders: list[str] = []  # new agent directories, in table order
        self.notes: list[str] = []
        self.problems: list[Problem] = []
        self.renamed: dict[str, str] = {}
        self.rigs = declared_rigs(root)

    @property
    def city(self) -> PackFiles:
        return self.homes[0]

    @property
    def city_toml(self) -> Manifest:
        return next(manifest for manifest in self.city.manifests if manifest.kind == CITY)

    @property
    def manifests(self) -> list[Manifest]:
        return [manifest for home in self.homes for manifest in home.manifests]

    @property
    def is_pack(self) -> bool:
        """Whether this is a pack that is not part of a city."""
        return bool(self.disk.overrides)

    def absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def shown(self, path: str) -> str:
        return self.disk.shown(path)

    def names_in(self, path: str) -> list[str]:
        """Return the sorted names in a directory of the city; none if it does not exist."""
        directory = self.absolute(path)
        return sorted(os.listdir(directory)) if os.path.isdir(directory) else []

    def read(self, file: str, kind: str) -> Manifest | None:
        """Read a manifest; None if it does not exist or is invalid, which adds a problem."""
        path = self.absolute(file)
        data = self.disk.read(path)
        self.problems += self.disk.problems
        self.disk.problems.clear()
        if data is None:
            return None
        try:
            mode = 0 if path in self.disk.overrides else stat.S_IMODE(os.stat(path).st_mode)
            return Manifest(file, kind, data, mode)
        except TomlError as error:
            self.report_invalid(file, error)
            return None

    def report(self, code: str, words: str, place: Place | None, hint: str | None = None) -> None:
        self.problems.append(Problem(code, words, place, hint))

    def report_invalid(self, file: str, error: TomlError) -> None:
        place = Place(file, line=error.line, col=error.col)
        self.report(error.code, error.message, place, error.hint)

    def record_not_carried(self, manifest: Manifest, path: KeyPath, reason: str) -> None:
        """Record that a key has no effect any more."""
        name = ".".join(part for part in path if isinstance(part, str))
        self.not_carried.append(NotCarried(manifest.file, manifest.line(path), name, reason))

    def note(self, manifest: Manifest, path: KeyPath, words: str) -> None:
        """Add a message about a key for the user."""
        self.notes.append(f"{manifest.file}:{manifest.line(path)}: {words}")

    def find(self, written: str, manifest: Manifest) -> str | None:
        """Return the absolute path of a v1 path setting; None if it names an unknown pack.

        `x` is relative to the pack, `./x` to the file's directory, `//x` to the city, and
        `NAME//x` to the pack of that name. In a file that city.toml includes, `x` is relative to
        that file's directory, or to the city if nothing exists there.
        """
        if written.startswith("//"):
            return os.path.normpath(self.absolute(written.lstrip("/")))
        if os.path.isabs(written):
            return os.path.normpath(written)
        pack, separator, inside = written.partition("//")
        if separator and not written.startswith("."):
            named = next((home for home in self.homes if home.name == pack), None)
            return os.path.normpath(f"{self.absolute(named.root)}/{inside}") if named else None
        beside = os.path.normpath(f"{os.path.dirname(self.absolute(manifest.file))}/{written}")
        if written.startswith(("./", "../")):
            return beside
        path = os.path.normpath(f"{self.absolute(manifest.home.root)}/{written}")
        if manifest.kind == INCLUDED and manifest.home.has_marks and os.path.lexists(beside):
            return beside
        return path if os.path.lexists(path) or not os.path.lexists(beside) else beside

    def real(self, path: str, home: PackFiles) -> str:
        """Resolve symlinks that a migration must not keep.

        Symlinked parent directories are resolved, because nothing may be changed through them. A
        symlink that leaves the pack is resolved, because an agent directory must not contain one.
        """
        path = self.followed(os.path.dirname(path)) + "/" + os.path.basename(path)
        goal = self.followed(path)
        return path if is_below(goal, self.absolute(home.root)) else goal

    def followed(self, path: str) -> str:
        """Return the real path, below `self.root` if it is in the city."""
        goal, root = os.path.realpath(path), os.path.realpath(self.root)
        return self.root + goal[len(root) :] if is_below(goal, root) else goal

    def holds_manifest(self, path: str) -> bool:
        """Return whether the path is a manifest or a directory that contains one."""
        return any(is_below(self.absolute(manifest.file), path) for manifest in self.manifests)

    def belongs(self, path: str, home: PackFiles) -> bool:
        """Return whether a file belongs to this pack and not to a pack nested in it."""
        around = [pack for pack in self.homes if is_below(path, self.absolute(pack.root))]
        return home in around and all(len(pack.root) <= len(home.root) for pack in around)


# Finding the files of the city and of the packs inside it that it uses.


def read_manifests(draft: Draft) -> None:
    """Read all manifests that may change: the city's first, then each pack's once."""
    city = draft.read("city.toml", CITY)
    if city is None:
        if not draft.problems:
            hint = "to create a city here, run `city init`"
            draft.report("no-city", f"no city.toml in {draft.root}", None, hint)
        return
    pack = draft.read("pack.toml", PACK)
    draft.homes.append(PackFiles("", [*([pack] if pack else ()), city, *_included(draft, city)]))
    for home in draft.homes:  # grows while packs are found
        for manifest in home.manifests:
            draft.problems += manifest.v1.problems
            for path, source in _sources(manifest):
                _follow(draft, manifest, path, source)
    if not draft.problems:
        _read_agent_files(draft)


def _read_agent_files(draft: Draft) -> None:
    for home in draft.homes:
        for name in draft.names_in(home.under("agents")):
            file = home.under(f"agents/{name}/agent.toml")
            if name[0] not in "._" and os.path.isfile(draft.absolute(file)):
                if manifest := draft.read(file, AGENT):
                    manifest.home = home
                    home.agent_files.append(manifest)


def _included(draft: Draft, city: Manifest) -> Iterator[Manifest]:
    for index, written in enumerate(city.v1.files):
        if is_remote(written):
            continue
        path = os.path.normpath(draft.absolute(written.lstrip("/")))
        place = city.place(("include", index))
        if not is_below(path, draft.root):
            words = f"`{written}` is outside the city"
            draft.report("path-leaves-pack", words, place, "move the file into the city")
        elif not os.path.lexists(path):
            draft.report("missing-file", f"{draft.shown(path)} does not exist", place)
        elif (manifest := draft.read(draft.shown(path), INCLUDED)) is not None:
            yield manifest


def drop_emptied(draft: Draft) -> None:
    """Remove included files that are now empty, and their entries in city.toml."""
    city = draft.city_toml
    included = {item.file: item for item in draft.city.manifests if item.kind == INCLUDED}
    for index, file in reversed(list(enumerate(city.v1.files))):
        manifest = included.get(os.path.normpath(file.lstrip("/")))
        if manifest is None or manifest.text.strip() or not manifest.original.strip():
            continue
        draft.city.manifests.remove(manifest)
        draft.files.discard(manifest.file, "the file is empty now")
        text = remove_key(city.text, ("include", index))
        if parse(text.encode()).get("include") == []:
            text = remove_key(text, ("include",))
        city.change(text, "an included file is empty now")


def _sources(manifest: Manifest) -> Iterator[tuple[KeyPath, str]]:
    """Yield the source of every include and import with its key path."""
    raw, v1 = manifest.raw, manifest.v1
    for include in v1.includes:
        yield include.at, as_import(include.source, v1.packs)["source"]
    imports: list[tuple[KeyPath, Mapping[str, object]]] = [
        (("imports",), table_at(raw, "imports")),
        (("defaults", "rig", "imports"), table_at(raw, "defaults", "rig", "imports")),
    ]
    for index, rig in tables_at(raw, "rigs"):
        imports.append((("rigs", index, "imports"), table_at(rig, "imports")))
    for at, tables in imports:
        for binding in tables:
            if source := text_at(tables, binding, "source"):
                yield (*at, binding), source


def _follow(draft: Draft, manifest: Manifest, at: KeyPath, source: str) -> None:
    if is_remote(source) or source.startswith("builtin:"):
        return
    path = _directory(draft, manifest.home, source)
    if not os.path.isfile(f"{path}/pack.toml"):
        if os.path.isfile(f"{path}/topology.toml"):
            reason = f"{draft.shown(path)}/topology.toml is not supported"
            fix = "rename it to pack.toml with a [pack] table, then run `city migrate` again"
            draft.record_not_carried(manifest, at, f"{reason}; {fix}")
        return  # loading the city reports a missing pack
    real = os.path.realpath(path)
    if not is_below(real, os.path.realpath(draft.root)) or not is_below(path, draft.root):
        _note_outside(draft, manifest, at, path)
        return
    root = draft.shown(path)
    known = {os.path.realpath(draft.absolute(home.root)) for home in draft.homes}
    if real in known or root.partition("/")[0] == ".gc":
        return
    if pack := draft.read(f"{root}/pack.toml", PACK):
        draft.homes.append(PackFiles(root, [pack]))


def _directory(draft: Draft, home: PackFiles, source: str) -> str:
    """Return the absolute directory of a local source."""
    if source.startswith("//"):
        return os.path.normpath(draft.absolute(source.lstrip("/")))
    base = draft.absolute(home.root)
    return os.path.normpath(os.path.join(base, os.path.expanduser(source)))


def _note_outside(draft: Draft, manifest: Manifest, at: KeyPath, path: str) -> None:
    """Note a v1 pack outside the city, which is not migrated."""
    try:
        pack = parse(draft.disk.read(f"{path}/pack.toml") or b"")
    except TomlError:
        return
    if V1Manifest(pack, path).marks:
        kind = "pack" if draft.is_pack else "city"
        words = f"{path} is outside the {kind} and is not migrated"
        note = f"{manifest.file}:{manifest.line(at)}: {words}"
        if note not in draft.outside:
            draft.outside.append(note)
