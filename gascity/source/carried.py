"""Formulas, orders, commands and doctor entries of one pack: found and described, never run."""

import os
from collections.abc import Collection, Iterator, Mapping

from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.records import NamedTuple
from gascity.source.agents import read_table
from gascity.source.disk import Disk, is_below

FORMULA, ORDER, COMMAND, DOCTOR = KINDS = ("formula", "order", "command", "doctor")

_MANIFESTS = frozenset(("city.toml", "pack.toml"))
_FORMULA_FILES = (".formula.toml", ".toml")  # the newer spelling last, so that it wins
_WHEN = {"cooldown": "interval", "cron": "schedule", "event": "on"}
_MOST_WORDS = 8


class Entry(NamedTuple):
    """One thing that a pack brings and this version does not run.

    `file` defines it and `pack` is the root of its pack, both as shown. `trigger`, `when`, `action`
    and `formula` are an order's: what sets it off, the detail of that, and what it would do.
    `words` are those that call a command. `problems` are warnings: nothing comes of them yet.
    """

    kind: str
    name: str
    description: str
    file: str
    pack: str
    problems: tuple[Problem, ...] = ()
    trigger: str = ""
    when: str = ""
    action: str = ""
    formula: str = ""
    words: tuple[str, ...] = ()


class Carried(NamedTuple):
    """What a pack brings, lower spellings of one name first, and what of it cannot be looked at."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...] = ()


def read_carried(disk: Disk, pack: str, kinds: Collection[str] = KINDS) -> Carried:
    """Everything of these kinds in a pack, whose root is given as shown.

    Whatever stands there: what is wrong is told as warnings, nothing is raised.
    """
    reader = _Reader(disk, pack)
    before = len(disk.problems)
    readers = (reader.formulas, reader.orders, reader.commands, reader.doctor)
    found = [
        entry
        for kind, read in zip(KINDS, readers, strict=True)
        if kind in kinds
        for entry in read()
    ]
    noted = dict.fromkeys(problem.softened() for problem in disk.problems[before:])
    del disk.problems[before:]
    return Carried(tuple(found), tuple(noted))


class _Reader:
    """Looks through one pack; links are followed inside it and nowhere else."""

    def __init__(self, disk: Disk, pack: str) -> None:
        self.disk = disk
        self.pack = pack
        self.root = disk.absolute(pack)

    def formulas(self) -> Iterator[Entry]:
        """Files right in `formulas/`: directories below hold orders, tests and parts of others."""
        directory = f"{self.root}/formulas"
        names = [name for name in self._names(directory) if name.endswith(".toml")]
        for suffix in _FORMULA_FILES:
            for name in names:
                if name.endswith(_FORMULA_FILES[0]) == (suffix == _FORMULA_FILES[0]):
                    yield self._plain(FORMULA, name.removesuffix(suffix), f"{directory}/{name}")[0]

    def orders(self) -> Iterator[Entry]:
        """`orders/NAME.toml`, and the two older places, `NAME/order.toml` in one of two."""
        for directory in (f"{self.root}/formulas/orders", f"{self.root}/orders"):
            for name, home in self._folders(directory):
                if "order.toml" in self._names(home):
                    yield self._order(name, f"{home}/order.toml")
        for name in self._names(f"{self.root}/orders"):
            if name.endswith(".toml"):
                yield self._order(name.removesuffix(".toml"), f"{self.root}/orders/{name}")

    def commands(self) -> Iterator[Entry]:
        """Directories with a script; what they are called in `commands/` is how they are called."""
        for entry in self._tabled(COMMAND, "commands"):
            yield entry._replace(words=tuple(entry.name.split()))
        yield from self._commands(f"{self.root}/commands", (), linked=False)

    def doctor(self) -> Iterator[Entry]:
        yield from self._tabled(DOCTOR, "doctor")
        for name, home in self._folders(f"{self.root}/doctor"):
            names = self._names(home)
            if not {"doctor.toml", "run.sh"}.isdisjoint(names):
                entry, table = self._leaf(DOCTOR, name, home, names)
                faults = self._script(entry.file, home, table, "fix", "fix.sh")
                yield entry._replace(problems=(*entry.problems, *faults))

    def _commands(self, directory: str, above: tuple[str, ...], *, linked: bool) -> Iterator[Entry]:
        """`linked`: a link led here, so that no other is followed and every loop has an end."""
        for name, home in self._folders(directory) if len(above) < _MOST_WORDS else ():
            words = (*above, name)
            is_link = os.path.islink(home)
            names = self._names(home)
            if is_link and linked:
                continue
            if {"command.toml", "run.sh"}.isdisjoint(names):
                yield from self._commands(home, words, linked=linked or is_link)
                continue
            entry, table = self._leaf(COMMAND, " ".join(words), home, names)
            written = table.get("command")
            if isinstance(written, list) and written and all(isinstance(w, str) for w in written):
                words = tuple(str(word) for word in written)
            yield entry._replace(name=" ".join(words), words=words)

    def _tabled(self, kind: str, key: str) -> Iterator[Entry]:
        """Entries as older packs write them: `[[commands]]` or `[[doctor]]` in pack.toml."""
        path = f"{self.root}/pack.toml"
        whole, manifest = self._plain(kind, "", path)
        rows = manifest.get(key)
        for at, row in enumerate(rows if isinstance(rows, list) else ()):
            name = _text(row.get("name")) if isinstance(row, dict) else ""
            if name:
                about = _summary(row.get("description"))
                faults = self._script(whole.file, self.root, row, "script", "", (key, at))
                yield whole._replace(name=name, description=about, problems=tuple(faults))

    def _names(self, directory: str) -> list[str]:
        """What stands in a directory; nothing where another pack begins."""
        if not self.disk.is_folder_of(directory, self.root):
            return []
        names = self.disk.names(directory)
        if not _MANIFESTS.isdisjoint(names):
            return []
        return [name for name in names if name[0] not in "._"]

    def _folders(self, directory: str) -> Iterator[tuple[str, str]]:
        for name in self._names(directory):
            path = f"{directory}/{name}"
            if self.disk.is_directory(path):
                yield name, path

    def _plain(self, kind: str, name: str, path: str) -> tuple[Entry, Mapping[str, object]]:
        """An entry that one file defines, and what the file says."""
        before = len(self.disk.problems)
        table: Mapping[str, object] = read_table(self.disk, path, within=self.root) or {}
        noted = tuple(problem.softened() for problem in self.disk.problems[before:])
        del self.disk.problems[before:]
        about = _summary(table.get("description"))
        return Entry(kind, name, about, self.disk.shown(path), self.pack, noted), table

    def _order(self, name: str, path: str) -> Entry:
        entry, table = self._plain(ORDER, name, path)
        inner = table.get("order")
        said = inner if isinstance(inner, dict) else table
        trigger = _text(said.get("trigger")) or _text(said.get("gate"))
        formula = _text(said.get("formula"))
        return entry._replace(
            description=_summary(said.get("description")),
            trigger=trigger,
            when=_text(said.get(_WHEN.get(trigger, ""))),
            action="formula" if formula else "exec" if _text(said.get("exec")) else "",
            formula=formula,
        )

    def _leaf(
        self, kind: str, name: str, home: str, names: list[str]
    ) -> tuple[Entry, Mapping[str, object]]:
        """A directory with a script, and what its manifest says if it has one."""
        manifest = f"{kind}.toml"
        table: Mapping[str, object] = {}
        if manifest in names:
            entry, table = self._plain(kind, name, f"{home}/{manifest}")
        else:
            entry = Entry(kind, name, "", self.disk.shown(f"{home}/run.sh"), self.pack)
        faults = self._script(entry.file, home, table, "run", "run.sh")
        return entry._replace(problems=(*entry.problems, *faults)), table

    def _script(
        self,
        file: str,
        home: str,
        table: Mapping[str, object],
        key: str,
        usual: str,
        at: KeyPath = (),
    ) -> Iterator[Problem]:
        """What is wrong with where a script lies; it is written relative to `home`."""
        written = _text(table.get(key))
        place = Place(file, (*at, key), of_value=True) if written else Place(file)
        target = os.path.normpath(os.path.join(home, written or usual))
        if "\0" in written or not is_below(target, self.root):
            yield Problem(
                "path-leaves-pack",
                f"`{key}` leads out of its pack",
                place,
                "keep the script inside the pack",
            ).softened()
            return
        real = os.path.realpath(target)
        if not is_below(real, os.path.realpath(self.root)):
            words = f"`{written or usual}` leads out of its pack, to {real}"
            yield Problem("link-leaves-pack", words, place).softened()


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _summary(value: object) -> str:
    """The first paragraph of a description, on one line."""
    return " ".join(_text(value).partition("\n\n")[0].split())
