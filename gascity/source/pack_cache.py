"""Packs of repositories as they lie in the cache, and whether they still are what was put there."""

import os
import stat
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gascity.model.records import NamedTuple
from gascity.model.repositories import Remote, canonical
from gascity.places import cache_home

if TYPE_CHECKING:
    from collections.abc import Mapping
    from hashlib import sha256
else:  # `hashlib` takes longer to import than all the rest takes for a city of packs
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # before Python 3.12
        except ImportError:
            from hashlib import sha256

INDEX = "index"
TREE = "tree"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CONTENT, _END = "content\n", "end\n"  # lines of an index
FILE, PROGRAM, LINK, FOLDER = "100644", "100755", "120000", "040000"  # as git writes them

CHANGED, MISSING, ADDED, OTHER = "changed", "missing", "added", "other"
_WORDS = {
    CHANGED: "was changed after it was fetched",
    MISSING: "was there when the pack was fetched, and is missing",
    ADDED: "was not there when the pack was fetched",
}


class Entry(NamedTuple):
    """A line of an index. `sha256` is that of a file's content or a link's target; `stamp` tells
    whether the file may have been touched since."""

    mode: str
    sha256: str
    stamp: str
    path: str


class Changed(NamedTuple):
    """What is not as it was put there, relative to the pack; `how` is `changed`, `missing` or
    `added`, and `other` where all is as it was put there, but not what the lock asks for."""

    path: str
    how: str

    @property
    def message(self) -> str:
        if self.how == OTHER:
            return "the pack in the cache is not the one that packs.lock names"
        return f"`{self.path}` {_WORDS[self.how]}"


def cache_directory(environ: "Mapping[str, str]") -> str:
    """Where this person's packs are kept, for all cities."""
    return os.path.join(cache_home(environ), "gascity")


def pack_directory(cache: str, remote: Remote, commit: str) -> str:
    """Where the files of a pack are, if it is in the cache."""
    name = key_of(canonical(remote.url), commit, remote.path)
    return os.path.join(cache, "packs", name, TREE)


def key_of(*parts: str) -> str:
    """A name for a directory of the cache."""
    return _sha256("\0".join(parts).encode("utf-8", "surrogateescape"))[:16]


def content_hash(entries: Iterable[Entry]) -> str:
    """What the content of a pack is known by, wherever and whenever it is laid down."""
    return _sha256(_content(entries).encode())


def _content(entries: Iterable[Entry]) -> str:
    lines = (f"{mode} {sha256} {path}\n" for mode, sha256, _, path in entries if mode != FOLDER)
    return "".join(sorted(lines))


def stamp_of(found: os.stat_result) -> str:
    """Differs once a file has been written to, replaced or moved, or its mode changed."""
    return f"{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_size}:{found.st_ino}"


def index_text(entries: Iterable[Entry]) -> str:
    """An index: stamps by path, then what the content hash is taken of, then that it is whole.

    Paths come last on their lines; no path of a pack has a line end in it.
    """
    entries = sorted(entries, key=lambda entry: entry.path)
    stamps = "".join(f"{entry.stamp} {entry.path}\n" for entry in entries)
    return stamps + _CONTENT + _content(entries) + _END


def read_index(directory: str) -> list[Entry] | None:
    """What was put into a pack's directory, in the order of paths; None if nothing says so."""
    index = _index(directory)
    if index is None:
        return None
    stamps, content, _ = index
    known = _by_path(content)
    pairs = (line.split(" ", 1) for line in stamps)
    return [Entry(*known.get(path, (FOLDER, "-")), stamp, path) for stamp, path in pairs]


def _index(directory: str) -> tuple[list[str], str, bool] | None:
    """The lines of stamps in an index, the text that the content hash is taken of, and whether
    nobody else could write it: they could make up stamps, though not that text."""
    try:
        with open(os.path.join(os.path.dirname(directory), INDEX), "rb") as file:
            text = file.read().decode()
            found = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    stamps, middle, content = text.partition("\n" + _CONTENT)
    if not middle or not (middle + content).endswith("\n" + _END):
        return None
    ours = found.st_uid in (0, os.geteuid()) and not found.st_mode & _OTHERS_WRITE
    return stamps.split("\n"), content.removesuffix(_END), ours


def _by_path(content: str) -> dict[str, tuple[str, str]]:
    """Mode and hash of every file and link."""
    lines = (line.split(" ", 2) for line in content.split("\n")[:-1])
    return {path: (mode, sha256) for mode, sha256, path in lines}


def verify(directory: str, sha256: str = "") -> Changed | None:
    """The first file of a pack that is not as it was put there; None if all are.

    Files that were not touched are not read, unless others could write the index. `sha256` is
    the content that is asked for, if known.
    """
    index = _index(directory)
    if index is None:
        return Changed(f"../{INDEX}", MISSING)
    stamps, content, ours = index
    if sha256 and _sha256(content.encode()) != sha256:
        return Changed("", OTHER)
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return Changed(".", MISSING)
    try:
        return _first_change(directory, handle, stamps if ours else _unstamped(content), content)
    finally:
        os.close(handle)


def _unstamped(content: str) -> list[str]:
    """Lines of stamps that fit nothing, for all that there is in a pack of this content."""
    paths = {".", *_by_path(content)}
    for path in [*paths]:
        while path := os.path.dirname(path):
            paths.add(path)
    return [f"- {path}" for path in sorted(paths)]


def _first_change(directory: str, handle: int, stamps: list[str], content: str) -> Changed | None:
    known: dict[str, tuple[str, str]] = {}
    for line in stamps:
        stamp, _, path = line.partition(" ")
        try:
            found = os.lstat(path, dir_fd=handle)
        except OSError:
            return Changed(path, MISSING)
        if stamp_of(found) != stamp:
            known = known or _by_path(content)
            mode, digest = known.get(path, (FOLDER, ""))
            if not _is_same(mode, digest, f"{directory}/{path}", found):
                return Changed(path, CHANGED)
            added = _added(directory, path, stamps) if mode == FOLDER else ""
            if added:
                return Changed(added, ADDED)
    return None


def _is_same(mode: str, digest: str, path: str, found: os.stat_result) -> bool:
    """Is it the same kind of thing with the same content, whatever its stamp says?"""
    if stat.S_ISDIR(found.st_mode):
        return mode == FOLDER
    if stat.S_ISLNK(found.st_mode):
        return mode == LINK and _sha256(os.fsencode(os.readlink(path))) == digest
    now = PROGRAM if found.st_mode & stat.S_IXUSR else FILE
    return stat.S_ISREG(found.st_mode) and mode == now and _digest(path) == digest


def _added(directory: str, folder: str, stamps: list[str]) -> str:
    """A path in a directory that no line speaks of; those it lacks have lines themselves."""
    below = "" if folder == "." else folder + "/"
    known = {line.partition(" ")[2] for line in stamps}
    try:
        names = sorted(os.listdir(f"{directory}/{folder}"))
    except OSError:
        return folder
    return next((below + name for name in names if below + name not in known), "")


def _digest(path: str) -> str:
    from hashlib import file_digest

    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _sha256(text: bytes) -> str:
    """The hash of a short text."""
    return str(sha256(text).hexdigest())
