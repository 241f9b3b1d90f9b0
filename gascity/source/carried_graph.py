"""What the packs of a whole city bring and nothing runs yet: the nearer of one name wins."""

from collections.abc import Collection, Iterable, Mapping

from gascity.model.pack import Import, Pack, downwards
from gascity.model.problems import Problem
from gascity.model.records import NamedTuple
from gascity.source.carried import COMMAND, DOCTOR, KINDS, Carried, Entry, read_carried
from gascity.source.disk import Disk

_OF_ITS_BINDING = (COMMAND, DOCTOR)  # called with it, so those of two bindings never meet


class Held(NamedTuple):
    """A pack in its place: `binding` is that of the outermost import, None for the city itself."""

    pack: Pack
    binding: str | None = None
    rig: str | None = None
    shared: bool = True


class Found(NamedTuple):
    """An entry, whose it is, and the files of those of its name that it covers."""

    entry: Entry
    binding: str | None
    rig: str | None
    shadows: tuple[str, ...] = ()


_Key = tuple[str, str, str | None]
_Effective = dict[_Key, Found]


def held_by(one: Import, rig: str | None = None) -> list[Held]:
    """The packs that come with an import, lowest first: a pack's own imports are below it."""
    shared = one.values.get("share", True) is not False
    return [Held(pack, one.binding, rig, shared) for pack in downwards(one.pack)][::-1]


def carried_in(
    pack: Pack,
    rigs: Mapping[str, Iterable[Import]],
    disk: Disk,
    kinds: Collection[str] = KINDS,
) -> tuple[list[Found], list[Problem]]:
    """Everything of these kinds in a city: what counts there, then what is otherwise in a rig.

    `pack` is the city itself, `rigs` what its rigs import. Also what cannot be looked at.
    """
    shelf = _Shelf(disk, kinds)
    here = [held for one in pack.imports for held in held_by(one)]
    here.append(Held(pack))
    common = shelf.effective(here)
    found = _sorted(common)
    for rig, imports in rigs.items():
        theirs = [held for one in imports for held in held_by(one, rig)]
        every = shelf.effective((*here, *theirs)) if theirs else {}
        found += _sorted(
            {
                key: one
                for key, one in every.items()
                if one.rig == rig and (key not in common or common[key].entry != one.entry)
            }
        )
    return found, shelf.problems()


def carried_by(packs: Iterable[Held], disk: Disk) -> tuple[list[Found], list[Problem]]:
    """What these packs carry, lowest first, whatever others would cover."""
    shelf = _Shelf(disk, KINDS)
    found = _sorted(shelf.effective(packs))
    return found, shelf.problems()


class _Shelf:
    """Reads a pack when it is first asked for."""

    def __init__(self, disk: Disk, kinds: Collection[str]) -> None:
        self.disk = disk
        self.kinds = kinds
        self.read: dict[str, Carried] = {}

    def effective(self, packs: Iterable[Held]) -> _Effective:
        best: _Effective = {}
        for held in packs:
            for entry in self._of(held.pack.root).entries:
                apart = entry.kind in _OF_ITS_BINDING or not held.shared
                key = (entry.kind, entry.name, held.binding if apart else None)
                below = best.get(key)
                files = (below.entry.file, *below.shadows) if below else ()
                # A pack that is reached twice counts where it is nearest, and covers not itself.
                shadows = tuple(file for file in files if file != entry.file)
                best[key] = Found(entry, held.binding, held.rig, shadows)
        return best

    def problems(self) -> list[Problem]:
        return [problem for one in self.read.values() for problem in one.problems]

    def _of(self, root: str) -> Carried:
        if root not in self.read:
            self.read[root] = read_carried(self.disk, root, self.kinds)
        return self.read[root]


def _sorted(found: _Effective) -> list[Found]:
    return sorted(
        found.values(),
        key=lambda one: (KINDS.index(one.entry.kind), one.entry.name, one.binding or ""),
    )
