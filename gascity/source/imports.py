"""Where the pack of an import lies: on disk, in the program, or in the cache of repositories."""

import os
from typing import TYPE_CHECKING

from gascity.model.names import did_you_mean
from gascity.model.problems import Place, Problem, warning
from gascity.model.records import NamedTuple
from gascity.source.disk import Disk, is_below
from gascity.source.manifest import Written

if TYPE_CHECKING:  # most cities import nothing from a repository
    from gascity.model.lock import Locked
    from gascity.model.repositories import Remote

INSTALL = "`city pack install` fetches and pins what is missing"
_MEND = "nothing of it is read; `city pack install` puts the pinned content back"
_HERE = "file:"  # how addresses of repositories on this machine begin
_OTHERS_OWN = "/.gc/system/packs/"  # where another program unpacks the packs that it ships


class Home(NamedTuple):
    """The pack that imports. `locked` and `remote` say what repository it was read from, and
    `tree` where that is on this disk."""

    root: str
    locked: "Locked | None" = None
    remote: "Remote | None" = None
    tree: str = ""


class Found(NamedTuple):
    """Where a pack is; `home` is None when it is nowhere, and the problem is noted."""

    home: Home | None = None
    remote: "Remote | None" = None
    locked: "Locked | None" = None
    version: str = ""


class Finder:
    """Finds packs for one load. Nothing is fetched: what is not there is a problem."""

    def __init__(self, disk: Disk, builtin: str, cache: str) -> None:
        self.disk = disk
        self.builtin = builtin
        self.cache = cache
        self._locks: tuple[Locked, ...] | None = None
        self._verified: dict[tuple[str, str], str] = {}
        self._absent: dict[str, list[tuple[str, Place]]] = {}

    def find(self, written: Written, home: Home) -> Found:
        """Where the pack of an import is."""
        source = str(written.values["source"])
        if source.startswith("builtin:"):
            return self._built_in(source.removeprefix("builtin:"), written.place)
        if ":" in source or "@" in source or source[:11].lower() == "github.com/":
            from gascity.model.repositories import SourceFault, is_remote, parse_remote

            if is_remote(source):
                try:
                    remote = parse_remote(source)
                except SourceFault as fault:
                    self._note(fault.code, fault.message, written.place, fault.hint)
                    return Found()
                if remote.url.startswith(_HERE) and not _is_ours(home):
                    words = f"`{source}` is on this machine, and its importer comes from elsewhere"
                    return self._leaves(written, words)
                return self._pinned(written, remote, str(written.values.get("version") or ""))
        if written.values.get("version") and home.remote is None:
            self._note_version(written.place)
        return self._local(written, source, home)

    def absences(self) -> list[Problem]:
        """One problem for all imports that one command would bring."""
        words = {
            "import-not-locked": "packs.lock says nothing of",
            "import-not-installed": "this machine's cache lacks",
        }
        if not self._absent:
            return []
        from gascity.source.lock import LOCK

        broken = any(p.is_error and p.place and p.place.file == LOCK for p in self.disk.problems)
        return [
            Problem(code, f"{words[code]} {_named(found)}", found[0][1], INSTALL)
            for code, found in self._absent.items()
            if not broken  # then the lock may say it, and its own problem is enough
        ]

    def _built_in(self, name: str, place: Place) -> Found:
        known = self.disk.names(self.builtin)
        if name in known:
            return Found(Home(f"{self.builtin}/{name}"))
        self._note(
            "import-missing",
            f"there is no built-in pack `{name}`",
            place,
            did_you_mean(name, known) or f"there are: {', '.join(known)}",
        )
        return Found()

    def _local(self, written: Written, source: str, home: Home) -> Found:
        if source.startswith("//"):
            path = os.path.normpath(f"{self.disk.root}/{source.lstrip('/')}")
            if home.remote is not None and not is_below(path, self.disk.root):
                return self._leaves(written, f"`{source}` leads out of the city")
        else:
            path = os.path.normpath(os.path.join(home.root, os.path.expanduser(source)))
        _, theirs, name = path.partition(_OTHERS_OWN)
        if theirs and not self.disk.is_directory(path):
            return self._of_another(name, written.place)
        if home.remote is None or source.startswith("//"):
            return Found(Home(path))
        if is_below(path, home.tree):
            return Found(home._replace(root=path))
        return self._beside(written, source, home)

    def _note_version(self, place: Place) -> None:
        words = "`version` has no effect: a directory is read as it stands"
        place = place._replace(path=(*place.path[:-1], "version"))
        problem = warning("not-acted-on", words, place)
        if problem not in self.disk.problems:
            self.disk.problems.append(problem)

    def _of_another(self, name: str, place: Place) -> Found:
        """A pack that another program ships and unpacks for itself: ours of that name, if any."""
        if name in self.disk.names(self.builtin):
            return Found(Home(f"{self.builtin}/{name}"))
        self.disk.problems.append(
            warning(
                "import-of-another",
                f"the pack `{name}` is unpacked there by another program, so it is left out",
                place,
                "import it from its repository, or take the import away",
            )
        )
        return Found()

    def _beside(self, written: Written, source: str, home: Home) -> Found:
        """A pack of a repository imports another directory of it: the same commit is meant."""
        from gascity.model.repositories import Remote

        assert home.remote is not None
        assert home.locked is not None
        here = os.path.join(home.remote.path, os.path.relpath(home.root, home.tree))
        path = os.path.normpath(os.path.join(here, source))
        if source[0] in "/~" or path.split("/")[0] == "..":
            words = f"`{source}` leads out of the repository it is written in"
            return self._leaves(written, words)
        remote = Remote(home.remote.url, "" if path == "." else path)
        return self._pinned(written, remote, f"sha:{home.locked.commit}")

    def _leaves(self, written: Written, words: str) -> Found:
        """What others wrote does not decide which directories of this machine are read."""
        hint = "a pack of a repository imports from there, or from another repository"
        self._note("path-leaves-pack", words, written.place, hint)
        return Found()

    def _pinned(self, written: Written, remote: "Remote", version: str) -> Found:
        """The commit that packs.lock gives an import, if the cache has it as it was fetched."""
        from gascity.model.lock import find
        from gascity.source.lock import read_lock

        if self._locks is None:
            self._locks = read_lock(self.disk)
        locked = find(self._locks, written.binding, remote, version)
        if locked is None:
            self._not_locked(written, remote, version)
            return Found(None, remote, None, version)
        from gascity.source.cached import pack_directory

        tree = pack_directory(self.cache, remote, locked.commit)
        if not self.disk.is_directory(tree):
            self._lacking("import-not-installed", written)
            return Found(None, remote, locked, version)
        changed = self._changed(tree, locked.sha256)
        if changed:
            self._note("pack-changed", changed, written.place, _MEND)
            return Found(None, remote, locked, version)
        return Found(Home(tree, locked, remote, tree), remote, locked, version)

    def _changed(self, tree: str, sha256: str) -> str:
        from gascity.source.cached import verify

        asked = (tree, sha256)
        if asked not in self._verified:
            found = verify(tree, sha256)
            self._verified[asked] = found.message if found else ""
        return self._verified[asked]

    def _not_locked(self, written: Written, remote: "Remote", version: str) -> None:
        """Nobody pinned it, or someone did when something else was asked for."""
        from gascity.model.lock import other_wish

        words = other_wish(self._locks or (), written.binding, remote, version)
        if words:
            self._note("import-not-locked", words, written.place, INSTALL)
        else:
            self._lacking("import-not-locked", written)

    def _lacking(self, code: str, written: Written) -> None:
        found = self._absent.setdefault(code, [])
        if all(place != written.place for _, place in found):
            found.append((written.binding, written.place))

    def _note(self, code: str, message: str, place: Place, hint: str | None = None) -> None:
        problem = Problem(code, message, place, hint)
        if problem not in self.disk.problems:
            self.disk.problems.append(problem)


def _is_ours(home: Home) -> bool:
    """Does a pack come from this machine, itself or its repository?"""
    return home.remote is None or home.remote.url.startswith(_HERE)


def _named(found: list[tuple[str, Place]]) -> str:
    names = list(dict.fromkeys(f"`{binding}`" for binding, _ in found))
    if len(names) <= 4:
        return ", ".join(names)
    return f"{', '.join(names[:3])} and {len(names) - 3} more"
