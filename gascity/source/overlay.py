"""Overlay directories as they stand: which files, for which provider, under which names."""

import os

from gascity.model.overlay import PER_PROVIDER, Overlay, OverlayFile
from gascity.model.problems import Place, Problem
from gascity.source.disk import Disk, is_below

_INFIX = ".template."
_SLOTS = f"{PER_PROVIDER}/"


def read_overlay(disk: Disk, directory: str, origin: str, pack: str) -> Overlay:
    """List an overlay directory, as shown. Nothing in it is opened."""
    top = disk.absolute(directory)
    lister = _Lister(disk, top, disk.absolute(pack))
    before = len(disk.problems)
    lister.list(top, "")
    noted = disk.problems[before:]
    del disk.problems[before:]
    files = [
        _named(path, f"{directory}/{path}", absolute, seen) for path, absolute, seen in lister.files
    ]
    providers = sorted({one.provider for one in files if one.provider})
    kept, clashes = _without_clashes(files)
    problems = [*noted, *lister.problems, *clashes]
    return Overlay(origin, pack, tuple(kept), tuple(providers), tuple(problems))


class _Lister:
    """Walks a tree; links are followed as long as they stay inside the pack."""

    def __init__(self, disk: Disk, top: str, pack: str) -> None:
        self.disk = disk
        self.top = top
        self.pack = os.path.realpath(pack)
        self.files: list[tuple[str, str, os.stat_result]] = []
        self.problems: list[Problem] = []
        self._inside: list[str] = []  # real directories we are in, so that a loop ends

    def list(self, directory: str, below: str) -> None:
        real = os.path.realpath(directory)
        if real in self._inside:
            return
        self._inside.append(real)
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
            self.disk.stamp(directory, os.stat(directory))
        except (FileNotFoundError, NotADirectoryError):
            entries = []
        except OSError as error:
            words = f"cannot be read: {error.strerror}"
            self._note("unreadable", words, directory, None)
            entries = []
        for entry in entries:
            self._take(entry, f"{below}{entry.name}")
        self._inside.pop()

    def _take(self, entry: os.DirEntry[str], path: str) -> None:
        if entry.name in (".git", ".gc"):
            words = f"`{entry.name}` is never written into a working directory"
            self._note("forbidden-path", words, entry.path, "take it out of the overlay")
            return
        if entry.is_symlink() and not self._may_follow(entry.path):
            return
        if entry.is_dir():
            self.list(entry.path, f"{path}/")
        elif entry.is_file():
            self.files.append((path, entry.path, entry.stat()))
        else:
            self._note(
                "not-a-file", f"`{entry.name}` is neither a file nor a directory", entry.path
            )

    def _may_follow(self, path: str) -> bool:
        if not os.path.exists(path):
            self.disk.is_folder_of(path, self.pack)  # notes the dangling link
            return False
        if is_below(os.path.realpath(path), self.pack):
            return True
        self.disk.follow_directory(path, self.pack)  # notes where it leads
        return False

    def _note(self, code: str, words: str, path: str, hint: str | None = None) -> None:
        self.problems.append(Problem(code, words, Place(self.disk.shown(path)), hint))


def _named(path: str, source: str, absolute: str, seen: os.stat_result) -> OverlayFile:
    stamp = (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino)
    mode = seen.st_mode & 0o777
    provider = ""
    if path.startswith(_SLOTS) and path.count("/") > 1:
        _, provider, path = path.split("/", 2)
    head, slash, name = path.rpartition("/")
    if _INFIX not in name:
        return OverlayFile(path, source, absolute, mode, stamp, provider)
    path = head + slash + name.replace(_INFIX, ".", 1)
    return OverlayFile(path, source, absolute, mode, stamp, provider, True)


def _without_clashes(
    files: list[OverlayFile],
) -> tuple[list[OverlayFile], list[Problem]]:
    """A template and a plain file that come to one name are an error; neither is taken."""
    if not any(one.template for one in files):
        return files, []
    by_name: dict[tuple[str, str], OverlayFile] = {}
    clashing: dict[tuple[str, str], Problem] = {}
    for one in files:
        twin = by_name.setdefault((one.provider, one.path), one)
        if twin is not one:
            plain, template = (twin, one) if one.template else (one, twin)
            clashing[one.provider, one.path] = Problem(
                "overlay-clash",
                f"{template.source} and {plain.source} would both be `{one.path}`",
                Place(template.source, line=1, col=1),
                "keep one of them",
            )
    kept = [one for key, one in by_name.items() if key not in clashing]
    return kept, list(clashing.values())
