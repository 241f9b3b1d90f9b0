"""Finds the pack of an import: on disk, built into city, or in the cache of fetched repositories.

Nothing is fetched here. A pack of a repository is used only if packs.lock pins its commit and the
cache has exactly the content that was fetched. A fetched pack decides nothing about this machine:
it cannot import directories outside its own repository.
"""

import os
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.names import did_you_mean
from gascity.model.problems import Place, Problem, warning
from gascity.source.disk import Disk, is_below
from gascity.source.manifest import ImportEntry

if TYPE_CHECKING:  # most cities import nothing from a repository
    from gascity.model.repositories import LockedPack, Remote
    from gascity.source.lock import LockFile

INSTALL = "run `city pack install` to fetch and pin it"
_RESTORE = "the pack is not used; run `city pack install` to restore the pinned content"
_LOCAL_URL = "file:"
_GC_PACKS = "/.gc/system/packs/"  # where the `gc` program unpacks the packs it ships
# Where those packs are published.
_PUBLISHED = {
    "bd": "https://github.com/gastownhall/gascity.git//examples/bd",
    "core": "https://github.com/gastownhall/gascity.git//internal/bootstrap/packs/core",
    "dolt": "https://github.com/gastownhall/gascity.git//examples/bd/dolt",
    "gascity": "https://github.com/gastownhall/gascity-packs.git//gascity",
    "gastown": "https://github.com/gastownhall/gascity-packs.git//gastown",
    "maintenance": "https://github.com/gastownhall/gascity.git//examples/gastown/packs/maintenance",
}
_ABSENT = {
    "import-not-locked": "not in packs.lock:",
    "import-not-installed": "not in this machine's cache:",
}


class ImportingPack(NamedTuple):
    """A pack that imports others. `locked` and `remote` are set if it comes from a repository, and
    `tree` is where that repository is on disk."""

    root: str
    locked: "LockedPack | None" = None
    remote: "Remote | None" = None
    tree: str = ""


class PackLocation(NamedTuple):
    """Location of an imported pack. `pack` is None if it was not found; the problem is recorded."""

    pack: ImportingPack | None = None
    remote: "Remote | None" = None
    locked: "LockedPack | None" = None
    version: str = ""


class PackFinder:
    """Finds packs during one load."""

    def __init__(self, disk: Disk, builtin: str, cache: str) -> None:
        self.disk = disk
        self.builtin = builtin
        self.cache = cache
        self._lock_file: LockFile | None = None
        self._verified: dict[tuple[str, str], str] = {}
        self._absent: dict[str, list[tuple[str, Place]]] = {}

    def find(self, entry: ImportEntry, importer: ImportingPack) -> PackLocation:
        """Return where the pack of an import is."""
        source = entry.settings.source
        if source.startswith("builtin:"):
            return self._built_in(source.removeprefix("builtin:"), entry.place)
        # Cheap tests first: most sources are paths, and reading addresses needs more modules.
        if ":" in source or "@" in source or source[:11].lower() == "github.com/":
            from gascity.model.repositories import SourceAddressError, is_remote, parse_remote

            if is_remote(source):
                try:
                    remote = parse_remote(source)
                except SourceAddressError as error:
                    self._note(error.code, error.message, entry.place, error.hint)
                    return PackLocation()
                if remote.url.startswith(_LOCAL_URL) and not _is_local(importer):
                    message = f"`{source}` is on this machine, but a fetched pack imports it"
                    return self._refused(entry, message)
                return self._pinned(entry, remote, entry.settings.version or "")
        if entry.settings.version and importer.remote is None:
            self._note_version(entry.place)
        return self._local(entry, source, importer)

    def lock_file(self) -> "LockFile":
        """Read packs.lock, once."""
        if self._lock_file is None:
            from gascity.source.lock import read_lock_file

            self._lock_file = read_lock_file(self.disk)
        return self._lock_file

    def is_accepted(self, pack: ImportingPack) -> bool:
        """Did the user accept what a pack can execute?

        Built-in packs and directories inside the city need no acceptance, nor does a pack that
        executes nothing.
        """
        if is_below(pack.root, self.builtin):
            return True
        if pack.locked is not None:
            return pack.locked.is_accepted or self._is_accepted_elsewhere(pack.locked)
        if is_below(os.path.realpath(pack.root), os.path.realpath(self.disk.root)):
            return True
        from gascity.source.executables import hash_of, list_executables

        entries = list_executables(self.disk, pack.root)
        accepted = {path.sha256 for path in self.lock_file().paths} if entries else set()
        return not entries or hash_of(entries) in accepted

    def _is_accepted_elsewhere(self, locked: "LockedPack") -> bool:
        """Is the same commit of the same directory accepted under another binding?"""
        from gascity.model.repositories import canonical, parse_remote

        url = canonical(parse_remote(locked.source).url)
        return any(
            other.accepted == other.commit == locked.commit
            and other.path == locked.path
            and canonical(parse_remote(other.source).url) == url
            for other in self.lock_file().packs
        )

    def absences(self) -> list[Problem]:
        """Return one problem for all imports that `city pack install` would bring."""
        if not self._absent:
            return []
        from gascity.source.lock import LOCK

        if any(p.is_error and p.place and p.place.file == LOCK for p in self.disk.problems):
            return []  # packs.lock is invalid, which is problem enough
        return [
            Problem(code, f"{_ABSENT[code]} {_names(imports)}", imports[0][1], INSTALL)
            for code, imports in self._absent.items()
        ]

    def _built_in(self, name: str, place: Place) -> PackLocation:
        known = self.disk.names(self.builtin)
        if name in known:
            return PackLocation(ImportingPack(f"{self.builtin}/{name}"))
        hint = did_you_mean(name, known) or f"available: {', '.join(known)}"
        self._note("import-missing", f"there is no built-in pack `{name}`", place, hint)
        return PackLocation()

    def _local(self, entry: ImportEntry, source: str, importer: ImportingPack) -> PackLocation:
        if source.startswith("//"):
            path = os.path.normpath(f"{self.disk.root}/{source.lstrip('/')}")
            if importer.remote is not None and not is_below(path, self.disk.root):
                return self._refused(entry, f"`{source}` leads out of the city")
        else:
            path = os.path.normpath(os.path.join(importer.root, os.path.expanduser(source)))
        _, is_gc, name = path.partition(_GC_PACKS)
        if is_gc and not self.disk.is_directory(path):
            return self._gc_pack(name, entry)
        if importer.remote is None or source.startswith("//"):
            return PackLocation(ImportingPack(path))
        if is_below(path, importer.tree):
            return PackLocation(importer._replace(root=path))
        return self._same_repository(entry, source, importer)

    def _note_version(self, place: Place) -> None:
        message = "`version` has no effect: a directory is read in its current state"
        place = place._replace(path=(*place.path[:-1], "version"))
        self.disk.note(warning("not-acted-on", message, place))

    def _gc_pack(self, name: str, entry: ImportEntry) -> PackLocation:
        """Find a pack that `gc` unpacks: built into city, or in the repository it is from."""
        if name in self.disk.names(self.builtin):
            return PackLocation(ImportingPack(f"{self.builtin}/{name}"))
        source = _PUBLISHED.get(name)
        if source is None:
            message = f"the pack `{name}` is unpacked there by another program, so it is left out"
            hint = "import it from its repository, or remove the import"
            self.disk.note(Problem("import-of-another", message, entry.place, hint))
            return PackLocation()
        from gascity.model.repositories import parse_remote

        message = f"the pack `{name}` is unpacked there by another program; {source} is used"
        hint = f'write source = "{source}"'
        self.disk.note(warning("import-of-another", message, entry.place, hint))
        return self._pinned(entry, parse_remote(source), entry.settings.version or "")

    def _same_repository(
        self, entry: ImportEntry, source: str, importer: ImportingPack
    ) -> PackLocation:
        """Find another directory of the importer's repository, at the same commit."""
        from gascity.model.repositories import Remote

        assert importer.remote is not None
        assert importer.locked is not None
        directory = os.path.relpath(importer.root, importer.tree)
        path = os.path.normpath(os.path.join(importer.remote.path, directory, source))
        if source[0] in "/~" or path.split("/")[0] == "..":
            return self._refused(entry, f"`{source}` leads out of its repository")
        remote = Remote(importer.remote.url, "" if path == "." else path)
        return self._pinned(entry, remote, f"sha:{importer.locked.commit}")

    def _refused(self, entry: ImportEntry, message: str) -> PackLocation:
        hint = "a fetched pack can import only from repositories"
        self._note("path-leaves-pack", message, entry.place, hint)
        return PackLocation()

    def _pinned(self, entry: ImportEntry, remote: "Remote", version: str) -> PackLocation:
        """Return the pinned commit of a repository from the cache, if its content is unchanged."""
        from gascity.source.lock import find

        locked = find(self.lock_file().packs, entry.binding, remote, version)
        if locked is None:
            self._note_not_locked(entry, remote, version)
            return PackLocation(None, remote, None, version)
        from gascity.source.pack_cache import pack_directory

        tree = pack_directory(self.cache, remote, locked.commit)
        if not self.disk.is_directory(tree):
            self._note_absent("import-not-installed", entry)
            return PackLocation(None, remote, locked, version)
        change = self._change(tree, locked.sha256)
        if change:
            self._note("pack-changed", change, entry.place, _RESTORE)
            return PackLocation(None, remote, locked, version)
        return PackLocation(ImportingPack(tree, locked, remote, tree), remote, locked, version)

    def _change(self, tree: str, sha256: str) -> str:
        """Return how a cached pack differs from what was fetched, or ""."""
        from gascity.source.pack_cache import verify

        key = (tree, sha256)
        if key not in self._verified:
            change = verify(tree, sha256)
            self._verified[key] = change.message if change else ""
        return self._verified[key]

    def _note_not_locked(self, entry: ImportEntry, remote: "Remote", version: str) -> None:
        from gascity.source.lock import other_request

        message = other_request(self.lock_file().packs, entry.binding, remote, version)
        if message:
            self._note("import-not-locked", message, entry.place, INSTALL)
        else:
            self._note_absent("import-not-locked", entry)

    def _note_absent(self, code: str, entry: ImportEntry) -> None:
        imports = self._absent.setdefault(code, [])
        if all(place != entry.place for _, place in imports):
            imports.append((entry.binding, entry.place))

    def _note(self, code: str, message: str, place: Place, hint: str | None = None) -> None:
        self.disk.note(Problem(code, message, place, hint))


def _is_local(pack: ImportingPack) -> bool:
    """Is a pack, or the repository it comes from, on this machine?"""
    return pack.remote is None or pack.remote.url.startswith(_LOCAL_URL)


def _names(imports: list[tuple[str, Place]]) -> str:
    names = list(dict.fromkeys(f"`{binding}`" for binding, _ in imports))
    if len(names) <= 4:
        return ", ".join(names)
    return f"{', '.join(names[:3])} and {len(names) - 3} more"
