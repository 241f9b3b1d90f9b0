"""Which overlay files an agent gets: layer over layer, its provider's only."""

from collections.abc import Callable, Collection, Sequence

from gascity.model.names import did_you_mean
from gascity.model.overlay import PER_PROVIDER, Overlay, OverlayFile
from gascity.model.problems import Place, Problem, warning
from gascity.model.records import NamedTuple


class Layered(NamedTuple):
    """One path: the files that make it, lowest first (several only where they are merged)."""

    path: str
    files: tuple[OverlayFile, ...]
    origins: tuple[str, ...]
    pack: str

    @property
    def file(self) -> OverlayFile:
        return self.files[-1]

    @property
    def origin(self) -> str:
        return self.origins[-1]


class Loser(NamedTuple):
    """A file that does not arrive, and what does instead or why not."""

    path: str
    source: str
    by: str


class Chosen(NamedTuple):
    files: dict[str, Layered]
    shadowed: tuple[Loser, ...] = ()
    kept: tuple[Loser, ...] = ()


def choose(
    overlays: Sequence[Overlay],
    providers: Sequence[str],
    fallbacks: Collection[str],
    foreign: Callable[[str], bool],
    is_merged: Callable[[str], bool],
) -> Chosen:
    """Put layers over each other. `providers` are the family's name and the concrete one.

    A provider's fallback file never covers a file that is already there: one that `foreign` knows
    in the working directory, or one from a lower layer.
    """
    files: dict[str, Layered] = {}
    shadowed: list[Loser] = []
    kept: list[Loser] = []
    for overlay in overlays:
        for slot in ("", *dict.fromkeys(providers)):
            for one in overlay.files:
                if one.provider != slot:
                    continue
                if slot and one.path in fallbacks and (one.path in files or foreign(one.path)):
                    by = files[one.path].file.source if one.path in files else ""
                    kept.append(Loser(one.path, one.source, by))
                    continue
                _lay(one, overlay, files, shadowed, is_merged)
    _clear_the_way(files, shadowed)
    return Chosen(files, tuple(shadowed), tuple(kept))


def _lay(
    one: OverlayFile,
    overlay: Overlay,
    files: dict[str, Layered],
    shadowed: list[Loser],
    is_merged: Callable[[str], bool],
) -> None:
    below = files.pop(one.path, None)
    if below is not None and is_merged(one.path):
        files[one.path] = Layered(
            one.path, (*below.files, one), (*below.origins, overlay.origin), overlay.pack
        )
        return
    if below is not None:
        shadowed.append(Loser(one.path, below.file.source, one.source))
    files[one.path] = Layered(one.path, (one,), (overlay.origin,), overlay.pack)


def _clear_the_way(files: dict[str, Layered], shadowed: list[Loser]) -> None:
    """Where one layer has a file and another a directory of that name, the later one stays."""
    order = {path: at for at, path in enumerate(files)}
    for path in list(files):
        head = path.rpartition("/")[0]
        while head:
            if head in files and path in files:
                loser, winner = (head, path) if order[head] < order[path] else (path, head)
                shadowed.append(Loser(loser, files[loser].file.source, files[winner].file.source))
                del files[loser]
            head = head.rpartition("/")[0]


def unknown_slots(overlays: Sequence[Overlay], known: Collection[str]) -> list[Problem]:
    """Directories under per-provider/ that no provider will ever look into."""
    found = {}
    for overlay in overlays:
        for name in overlay.providers:
            if name not in known:
                home = next(one.source for one in overlay.files if one.provider == name)
                place = home[: home.index(f"{PER_PROVIDER}/{name}/") + len(PER_PROVIDER) + 1] + name
                found[place] = warning(
                    "unknown-slot",
                    f"no provider is called `{name}`: nobody gets these files",
                    Place(place),
                    did_you_mean(name, known),
                )
    return list(found.values())


def fallback_notes(chosen: Chosen) -> list[Problem]:
    """The one warning for a fallback file that did not go in."""
    return [
        warning(
            "fallback-skipped",
            f"`{one.path}` is already there"
            + (f", from {one.by}" if one.by else "")
            + "; this one is only a fallback",
            Place(one.source, line=1, col=1),
        )
        for one in chosen.kept
    ]
