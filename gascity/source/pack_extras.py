"""Formulas, orders, commands and doctor checks of packs: listed and described, never run.

`read_pack_extras` reads one pack; `city_extras` combines the packs of a city, where of several
extras of one name the nearest wins.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.model.pack import Import, Pack, downwards
from gascity.model.problems import Place, Problem
from gascity.source.agents import read_table
from gascity.source.disk import Disk, is_below
from gascity.toml.read import TomlTable

FORMULA, ORDER, COMMAND, DOCTOR = KINDS = ("formula", "order", "command", "doctor")

_MANIFESTS = frozenset(("city.toml", "pack.toml"))
_FORMULA_FILES = (".formula.toml", ".toml")  # the newer spelling last, so that it wins
_TRIGGER_DETAILS = {"cooldown": "interval", "cron": "schedule", "event": "on"}
_MAX_WORDS = 8
_PER_BINDING = (COMMAND, DOCTOR)  # called by binding and name, so two bindings never conflict


class Extra(NamedTuple):
    """Something that a pack provides and this version does not run.

    `file` defines it and `pack` is the root of its pack, both as displayed. `trigger`, `when`,
    `action` and `formula` belong to orders. `words` are the words that call a command. `problems`
    are warnings, because nothing is run.
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


class PackExtras(NamedTuple):
    """The extras of a pack, older spellings first, and problems with reading them."""

    extras: tuple[Extra, ...]
    problems: tuple[Problem, ...] = ()


def read_pack_extras(disk: Disk, pack: str, kinds: Collection[str] = KINDS) -> PackExtras:
    """Read all extras of these kinds in a pack; `pack` is its displayed root.

    Never raises: whatever is wrong becomes a warning.
    """
    reader = _ExtrasReader(disk, pack)
    before = len(disk.problems)
    readers = (reader.formulas, reader.orders, reader.commands, reader.doctor)
    extras = [
        extra
        for kind, read in zip(KINDS, readers, strict=True)
        if kind in kinds
        for extra in read()
    ]
    noted = dict.fromkeys(problem.softened() for problem in disk.take_problems(before))
    return PackExtras(tuple(extras), tuple(noted))


class _ExtrasReader:
    """Reads one pack. Links are followed only inside it."""

    def __init__(self, disk: Disk, pack: str) -> None:
        self.disk = disk
        self.pack = pack
        self.root = disk.absolute(pack)

    def formulas(self) -> Iterator[Extra]:
        """Read files directly in `formulas/`: its directories have orders, tests and parts."""
        directory = f"{self.root}/formulas"
        names = [name for name in self._names(directory) if name.endswith(".toml")]
        for suffix in _FORMULA_FILES:
            for name in names:
                if name.endswith(_FORMULA_FILES[0]) == (suffix == _FORMULA_FILES[0]):
                    yield self._from_file(
                        FORMULA, name.removesuffix(suffix), f"{directory}/{name}"
                    )[0]

    def orders(self) -> Iterator[Extra]:
        """Read `orders/NAME.toml`, and `NAME/order.toml` in the two older places."""
        for directory in (f"{self.root}/formulas/orders", f"{self.root}/orders"):
            for name, home in self._folders(directory):
                if "order.toml" in self._names(home):
                    yield self._order(name, f"{home}/order.toml")
        for name in self._names(f"{self.root}/orders"):
            if name.endswith(".toml"):
                yield self._order(name.removesuffix(".toml"), f"{self.root}/orders/{name}")

    def commands(self) -> Iterator[Extra]:
        """Read directories with a script; their path below `commands/` is the command."""
        for extra in self._from_tables(COMMAND, "commands"):
            yield extra._replace(words=tuple(extra.name.split()))
        yield from self._commands(f"{self.root}/commands", (), linked=False)

    def doctor(self) -> Iterator[Extra]:
        yield from self._from_tables(DOCTOR, "doctor")
        for name, home in self._folders(f"{self.root}/doctor"):
            names = self._names(home)
            if not {"doctor.toml", "run.sh"}.isdisjoint(names):
                extra, table = self._from_folder(DOCTOR, name, home, names)
                problems = self._script(extra.file, home, table, "fix", "fix.sh")
                yield extra._replace(problems=(*extra.problems, *problems))

    def _commands(self, directory: str, above: tuple[str, ...], *, linked: bool) -> Iterator[Extra]:
        """Read commands recursively. Below a link (`linked`) no other is followed, so loops end."""
        for name, home in self._folders(directory) if len(above) < _MAX_WORDS else ():
            words = (*above, name)
            is_link = os.path.islink(home)
            names = self._names(home)
            if is_link and linked:
                continue
            if {"command.toml", "run.sh"}.isdisjoint(names):
                yield from self._commands(home, words, linked=linked or is_link)
                continue
            extra, table = self._from_folder(COMMAND, " ".join(words), home, names)
            words = table.texts("command") or words
            yield extra._replace(name=" ".join(words), words=words)

    def _from_tables(self, kind: str, key: str) -> Iterator[Extra]:
        """Read `[[commands]]` or `[[doctor]]` tables of pack.toml, as older packs have them."""
        path = f"{self.root}/pack.toml"
        whole, manifest = self._from_file(kind, "", path)
        for row in manifest.tables(key):
            name = row.text("name").strip()
            if name:
                problems = self._script(whole.file, self.root, row, "script", "")
                yield whole._replace(name=name, description=_summary(row), problems=tuple(problems))

    def _names(self, directory: str) -> list[str]:
        """List a directory; nothing if it is another pack."""
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

    def _from_file(self, kind: str, name: str, path: str) -> tuple[Extra, TomlTable]:
        """Read an extra that one file defines, and the parsed file."""
        before = len(self.disk.problems)
        table = _plain_table(read_table(self.disk, path, within=self.root) or {})
        noted = tuple(problem.softened() for problem in self.disk.take_problems(before))
        file = self.disk.shown(path)
        return Extra(kind, name, _summary(table), file, self.pack, noted), table

    def _order(self, name: str, path: str) -> Extra:
        extra, table = self._from_file(ORDER, name, path)
        order = table.table("order") or table
        trigger = order.text("trigger").strip() or order.text("gate").strip()
        formula = order.text("formula").strip()
        return extra._replace(
            description=_summary(order),
            trigger=trigger,
            when=order.text(_TRIGGER_DETAILS.get(trigger, "")).strip(),
            action="formula" if formula else "exec" if order.text("exec").strip() else "",
            formula=formula,
        )

    def _from_folder(
        self, kind: str, name: str, home: str, names: list[str]
    ) -> tuple[Extra, TomlTable]:
        """Read a directory with a script, and its parsed manifest if it has one."""
        manifest = f"{kind}.toml"
        if manifest in names:
            extra, table = self._from_file(kind, name, f"{home}/{manifest}")
        else:
            table = _plain_table({})
            extra = Extra(kind, name, "", self.disk.shown(f"{home}/run.sh"), self.pack)
        problems = self._script(extra.file, home, table, "run", "run.sh")
        return extra._replace(problems=(*extra.problems, *problems)), table

    def _script(
        self, file: str, home: str, table: TomlTable, key: str, usual: str
    ) -> Iterator[Problem]:
        """Check the path of a script, which is relative to `home`."""
        written = table.text(key).strip()
        place = Place(file, (*table.at, key), of_value=True) if written else Place(file)
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
            message = f"`{written or usual}` leads out of its pack, to {real}"
            yield Problem("link-leaves-pack", message, place).softened()


def _plain_table(values: Mapping[str, object]) -> TomlTable:
    """Return a table in which values of the wrong type are ignored, because nothing is run."""
    return TomlTable(values, "", (), [])


def _summary(table: TomlTable) -> str:
    """Return the first paragraph of a description, on one line."""
    return " ".join(table.text("description").strip().partition("\n\n")[0].split())


class PackUse(NamedTuple):
    """A pack in its place: `binding` is that of the outermost import, None for the city itself."""

    pack: Pack
    binding: str | None = None
    rig: str | None = None
    shared: bool = True


class CityExtra(NamedTuple):
    """An extra, the import it comes from, and the files of those of its name that it overrides."""

    extra: Extra
    binding: str | None
    rig: str | None
    shadows: tuple[str, ...] = ()


_Key = tuple[str, str, str | None]
_Effective = dict[_Key, CityExtra]


def packs_of_import(entry: Import, rig: str | None = None) -> list[PackUse]:
    """Return the packs of an import, lowest first: a pack's own imports are below it."""
    shared = entry.settings.share
    return [PackUse(pack, entry.binding, rig, shared) for pack in downwards(entry.pack)][::-1]


def city_extras(
    pack: Pack,
    rigs: Mapping[str, Iterable[Import]],
    disk: Disk,
    kinds: Collection[str] = KINDS,
) -> tuple[list[CityExtra], list[Problem]]:
    """Return the effective extras of the city, then those that differ in a rig, and problems.

    `pack` is the city itself, `rigs` has the imports of each rig.
    """
    reader = _EffectiveExtras(disk, kinds)
    uses = [use for entry in pack.imports for use in packs_of_import(entry)]
    uses.append(PackUse(pack))
    common = reader.effective(uses)
    extras = _sorted(common)
    for rig, imports in rigs.items():
        rig_uses = [use for entry in imports for use in packs_of_import(entry, rig)]
        in_rig = reader.effective((*uses, *rig_uses)) if rig_uses else {}
        extras += _sorted(
            {
                key: extra
                for key, extra in in_rig.items()
                if extra.rig == rig and (key not in common or common[key].extra != extra.extra)
            }
        )
    return extras, reader.problems()


def extras_of_packs(packs: Iterable[PackUse], disk: Disk) -> tuple[list[CityExtra], list[Problem]]:
    """Return the extras of these packs, lowest first, ignoring other packs of the city."""
    reader = _EffectiveExtras(disk, KINDS)
    extras = _sorted(reader.effective(packs))
    return extras, reader.problems()


class _EffectiveExtras:
    """Reads each pack once, and picks the effective extra of each name."""

    def __init__(self, disk: Disk, kinds: Collection[str]) -> None:
        self.disk = disk
        self.kinds = kinds
        self.read: dict[str, PackExtras] = {}

    def effective(self, packs: Iterable[PackUse]) -> _Effective:
        best: _Effective = {}
        for use in packs:
            for extra in self._of(use.pack.root).extras:
                separate = extra.kind in _PER_BINDING or not use.shared
                key = (extra.kind, extra.name, use.binding if separate else None)
                below = best.get(key)
                files = (below.extra.file, *below.shadows) if below else ()
                # A pack that is imported twice counts where it is nearest, and hides not itself.
                shadows = tuple(file for file in files if file != extra.file)
                best[key] = CityExtra(extra, use.binding, use.rig, shadows)
        return best

    def problems(self) -> list[Problem]:
        return [problem for extras in self.read.values() for problem in extras.problems]

    def _of(self, root: str) -> PackExtras:
        if root not in self.read:
            self.read[root] = read_pack_extras(self.disk, root, self.kinds)
        return self.read[root]


def _sorted(extras: _Effective) -> list[CityExtra]:
    return sorted(
        extras.values(),
        key=lambda each: (KINDS.index(each.extra.kind), each.extra.name, each.binding or ""),
    )
