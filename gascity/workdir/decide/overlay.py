"""Selects the overlay files an agent gets: higher layers over lower ones, for its provider only."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from gascity.model.names import did_you_mean
from gascity.model.plan import PER_PROVIDER, Overlay, OverlayFile
from gascity.model.problems import Place, Problem, warning


class LayeredFile(NamedTuple):
    """One path and its files, lowest layer first; several only if they are merged."""

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


class SkippedFile(NamedTuple):
    """A file that is not used; `by` is the source of the file used instead, if any."""

    path: str
    source: str
    by: str


class OverlaySelection(NamedTuple):
    """The selected files by path, those overridden, and fallback files that are not needed."""

    files: dict[str, LayeredFile]
    shadowed: tuple[SkippedFile, ...] = ()
    kept: tuple[SkippedFile, ...] = ()


def select_files(
    overlays: Sequence[Overlay],
    providers: Sequence[str],
    fallbacks: Collection[str],
    unmanaged: Callable[[str], bool],
    is_merged: Callable[[str], bool],
) -> OverlaySelection:
    """Combine layers. `providers` are the names of the provider's family and of the provider.

    A provider's fallback file never replaces an existing one: neither a file of a lower layer nor
    a file in the working directory for which `unmanaged` returns True.
    """
    files: dict[str, LayeredFile] = {}
    shadowed: list[SkippedFile] = []
    kept: list[SkippedFile] = []
    for overlay in overlays:
        for provider in ("", *dict.fromkeys(providers)):
            for file in overlay.files:
                if file.provider != provider:
                    continue
                path = file.path
                if provider and path in fallbacks and (path in files or unmanaged(path)):
                    by = files[path].file.source if path in files else ""
                    kept.append(SkippedFile(path, file.source, by))
                    continue
                _add(file, overlay, files, shadowed, is_merged)
    _resolve_nesting(files, shadowed)
    return OverlaySelection(files, tuple(shadowed), tuple(kept))


def _add(
    file: OverlayFile,
    overlay: Overlay,
    files: dict[str, LayeredFile],
    shadowed: list[SkippedFile],
    is_merged: Callable[[str], bool],
) -> None:
    path = file.path
    below = files.pop(path, None)
    if below is not None and is_merged(path):
        origins = (*below.origins, overlay.origin)
        files[path] = LayeredFile(path, (*below.files, file), origins, overlay.pack)
        return
    if below is not None:
        shadowed.append(SkippedFile(path, below.file.source, file.source))
    files[path] = LayeredFile(path, (file,), (overlay.origin,), overlay.pack)


def _resolve_nesting(files: dict[str, LayeredFile], shadowed: list[SkippedFile]) -> None:
    """Keep the later layer where one has a file and another a directory."""
    order = {path: index for index, path in enumerate(files)}
    for path in list(files):
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files and path in files:
                loser, winner = (parent, path) if order[parent] < order[path] else (path, parent)
                skipped = SkippedFile(loser, files[loser].file.source, files[winner].file.source)
                shadowed.append(skipped)
                del files[loser]
            parent = parent.rpartition("/")[0]


def unknown_slots(overlays: Sequence[Overlay], known: Collection[str]) -> list[Problem]:
    """Warn about directories under per-provider/ that match no provider."""
    problems = {}
    for overlay in overlays:
        for name in overlay.providers:
            if name not in known:
                source = next(file.source for file in overlay.files if file.provider == name)
                home = source.index(f"{PER_PROVIDER}/{name}/")
                place = source[: home + len(PER_PROVIDER) + 1] + name
                problems[place] = warning(
                    "unknown-slot",
                    f"no provider is named `{name}`: these files are not used",
                    Place(place),
                    did_you_mean(name, known),
                )
    return list(problems.values())


def fallback_notes(selection: OverlaySelection) -> list[Problem]:
    """Warn about fallback files that are not used because the file exists."""
    return [
        warning(
            "fallback-skipped",
            f"`{skipped.path}` already exists"
            + (f", from {skipped.by}" if skipped.by else "")
            + "; this file is only a fallback",
            Place(skipped.source, line=1, col=1),
        )
        for skipped in selection.kept
    ]
