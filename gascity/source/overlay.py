"""Lists overlay directories: which files, for which provider, under which names."""

import os

from gascity.model.overlay import PER_PROVIDER, Overlay, OverlayFile
from gascity.model.problems import Place, Problem
from gascity.source.disk import Disk, is_below

_INFIX = ".template."
_PROVIDER_PREFIX = f"{PER_PROVIDER}/"


def read_overlay(disk: Disk, directory: str, origin: str, pack: str) -> Overlay:
    """List an overlay directory, given as displayed. No file in it is opened."""
    top = disk.absolute(directory)
    lister = _Lister(disk, top, disk.absolute(pack))
    before = len(disk.problems)
    lister.list(top, "")
    read_problems = disk.problems[before:]
    del disk.problems[before:]
    files = [
        _overlay_file(path, f"{directory}/{path}", absolute, status)
        for path, absolute, status in lister.files
    ]
    providers = sorted({file.provider for file in files if file.provider})
    kept, clashes = _without_clashes(files)
    problems = [*read_problems, *lister.problems, *clashes]
    return Overlay(origin, pack, tuple(kept), tuple(providers), tuple(problems))


class _Lister:
    """Walks a tree. Links are followed if they stay inside the pack."""

    def __init__(self, disk: Disk, top: str, pack: str) -> None:
        self.disk = disk
        self.top = top
        self.pack = os.path.realpath(pack)
        self.files: list[tuple[str, str, os.stat_result]] = []
        self.problems: list[Problem] = []
        self._inside: list[str] = []  # real paths of the directories above, to stop at loops

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
            message = f"cannot be read: {error.strerror}"
            self._note("unreadable", message, directory, None)
            entries = []
        for entry in entries:
            self._add(entry, f"{below}{entry.name}")
        self._inside.pop()

    def _add(self, entry: os.DirEntry[str], path: str) -> None:
        if entry.name in (".git", ".gc"):
            message = f"`{entry.name}` is never written into a working directory"
            self._note("forbidden-path", message, entry.path, "remove it from the overlay")
            return
        if entry.is_symlink() and not self._may_follow(entry.path):
            return
        if entry.is_dir():
            self.list(entry.path, f"{path}/")
        elif entry.is_file():
            status = entry.stat()
            self.disk.stamp(entry.path, status)
            self.files.append((path, entry.path, status))
        else:
            self._note(
                "not-a-file", f"`{entry.name}` is neither a file nor a directory", entry.path
            )

    def _may_follow(self, path: str) -> bool:
        if not os.path.exists(path):
            self.disk.is_folder_of(path, self.pack)  # records the broken link
            return False
        if is_below(os.path.realpath(path), self.pack):
            return True
        self.disk.follow_directory(path, self.pack)  # records the problem
        return False

    def _note(self, code: str, message: str, path: str, hint: str | None = None) -> None:
        self.problems.append(Problem(code, message, Place(self.disk.shown(path)), hint))


def _overlay_file(path: str, source: str, absolute: str, status: os.stat_result) -> OverlayFile:
    """Derive provider and target name from a path: `per-provider/NAME/…` and `x.template.md`."""
    stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    mode = status.st_mode & 0o777
    provider = ""
    if path.startswith(_PROVIDER_PREFIX) and path.count("/") > 1:
        _, provider, path = path.split("/", 2)
    head, slash, name = path.rpartition("/")
    if _INFIX not in name:
        return OverlayFile(path, source, absolute, mode, stamp, provider)
    path = head + slash + name.replace(_INFIX, ".", 1)
    return OverlayFile(path, source, absolute, mode, stamp, provider, True)


def _without_clashes(
    files: list[OverlayFile],
) -> tuple[list[OverlayFile], list[Problem]]:
    """Reject a template and a plain file of the same name; neither is used."""
    if not any(file.template for file in files):
        return files, []
    by_name: dict[tuple[str, str], OverlayFile] = {}
    clashing: dict[tuple[str, str], Problem] = {}
    for file in files:
        first = by_name.setdefault((file.provider, file.path), file)
        if first is not file:
            plain, template = (first, file) if file.template else (file, first)
            clashing[file.provider, file.path] = Problem(
                "overlay-clash",
                f"{template.source} and {plain.source} would both be `{file.path}`",
                Place(template.source, line=1, col=1),
                "keep one of them",
            )
    kept = [file for key, file in by_name.items() if key not in clashing]
    return kept, list(clashing.values())
