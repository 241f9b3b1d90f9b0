"""The cache of fetched packs: where they are, and whether they are unchanged.

An index beside each pack has a stamp (times, size, inode) and a hash per file. Verifying compares
stamps and reads only files whose stamp differs, unless other users could write the index.
"""

import os
import stat
from collections.abc import Iterable
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.repositories import Remote, canonical
from gascity.paths import cache_home

if TYPE_CHECKING:
    from collections.abc import Mapping

INDEX = "index"
TREE = "tree"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CONTENT, _END = "content\n", "end\n"  # lines of an index
FILE, PROGRAM, LINK, FOLDER = "100644", "100755", "120000", "040000"  # as git writes them

CHANGED, MISSING, ADDED, OTHER = "changed", "missing", "added", "other"
_MESSAGES = {
    CHANGED: "was changed after it was fetched",
    MISSING: "is missing, but existed when the pack was fetched",
    ADDED: "did not exist when the pack was fetched",
}


class CachedFile(NamedTuple):
    """A line of an index. `sha256` is that of a file's content or a link's target; a different
    `stamp` means that the file may have changed."""

    mode: str
    sha256: str
    stamp: str
    path: str


class Changed(NamedTuple):
    """A difference in a cached pack. `how` is `changed`, `missing` or `added`, or `other` if the
    pack is unchanged but not the one that the lock names."""

    path: str
    how: str

    @property
    def message(self) -> str:
        if self.how == OTHER:
            return "the pack in the cache is not the one that packs.lock names"
        return f"`{self.path}` {_MESSAGES[self.how]}"


def cache_directory(environ: "Mapping[str, str]") -> str:
    """Return the user's cache directory, shared by all cities."""
    return os.path.join(cache_home(environ), "gascity")


def pack_directory(cache: str, remote: Remote, commit: str) -> str:
    """Return the directory of a pack in the cache."""
    name = key_of(canonical(remote.url), commit, remote.path)
    return os.path.join(cache, "packs", name, TREE)


def key_of(*parts: str) -> str:
    """Return the name of a directory in the cache."""
    return _sha256("\0".join(parts).encode("utf-8", "surrogateescape"))[:16]


def content_hash(entries: Iterable[CachedFile]) -> str:
    """Return the hash of a pack's content, independent of location and time."""
    return _sha256(_content(entries).encode())


def _content(entries: Iterable[CachedFile]) -> str:
    lines = (f"{mode} {sha256} {path}\n" for mode, sha256, _, path in entries if mode != FOLDER)
    return "".join(sorted(lines))


def stamp_of(status: os.stat_result) -> str:
    """Return text that changes when a file is written, replaced, moved or gets another mode."""
    return f"{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_size}:{status.st_ino}"


def index_text(entries: Iterable[CachedFile]) -> str:
    """Return an index: stamps by path, the text that is hashed, and an end line.

    Paths come last on their lines; no path of a pack contains a line break.
    """
    entries = sorted(entries, key=lambda entry: entry.path)
    stamps = "".join(f"{entry.stamp} {entry.path}\n" for entry in entries)
    return stamps + _CONTENT + _content(entries) + _END


def read_index(directory: str) -> list[CachedFile] | None:
    """Return the files of a cached pack, sorted by path; None without a valid index."""
    index = _index(directory)
    if index is None:
        return None
    stamps, content, _ = index
    known = _by_path(content)
    pairs = (line.split(" ", 1) for line in stamps)
    return [CachedFile(*known.get(path, (FOLDER, "-")), stamp, path) for stamp, path in pairs]


def _index(directory: str) -> tuple[list[str], str, bool] | None:
    """Return the stamp lines of an index, the hashed text, and whether only this user can write it.

    Other users could forge stamps, but not the hashed text.
    """
    try:
        with open(os.path.join(os.path.dirname(directory), INDEX), "rb") as file:
            text = file.read().decode()
            status = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    stamps, middle, content = text.partition("\n" + _CONTENT)
    if not middle or not (middle + content).endswith("\n" + _END):
        return None
    is_private = status.st_uid in (0, os.geteuid()) and not status.st_mode & _OTHERS_WRITE
    return stamps.split("\n"), content.removesuffix(_END), is_private


def _by_path(content: str) -> dict[str, tuple[str, str]]:
    """Return mode and hash of every file and link."""
    lines = (line.split(" ", 2) for line in content.split("\n")[:-1])
    return {path: (mode, sha256) for mode, sha256, path in lines}


def verify(directory: str, sha256: str = "") -> Changed | None:
    """Return the first difference to what was installed, or None.

    Files with the same stamp are not read, unless other users can write the index. `sha256` is the
    expected content hash, if known.
    """
    index = _index(directory)
    if index is None:
        return Changed(f"../{INDEX}", MISSING)
    stamps, content, is_private = index
    if sha256 and _sha256(content.encode()) != sha256:
        return Changed("", OTHER)
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return Changed(".", MISSING)
    try:
        trusted = stamps if is_private else _unstamped(content)
        return _first_change(directory, handle, trusted, content)
    finally:
        os.close(handle)


def _unstamped(content: str) -> list[str]:
    """Return stamp lines that match nothing, so that every file is read."""
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
            status = os.lstat(path, dir_fd=handle)
        except OSError:
            return Changed(path, MISSING)
        if stamp_of(status) != stamp:
            known = known or _by_path(content)
            mode, digest = known.get(path, (FOLDER, ""))
            if not _is_same(mode, digest, f"{directory}/{path}", status):
                return Changed(path, CHANGED)
            added = _added(directory, path, stamps) if mode == FOLDER else ""
            if added:
                return Changed(added, ADDED)
    return None


def _is_same(mode: str, digest: str, path: str, status: os.stat_result) -> bool:
    """Are type and content the same, whatever the stamp?"""
    if stat.S_ISDIR(status.st_mode):
        return mode == FOLDER
    if stat.S_ISLNK(status.st_mode):
        return mode == LINK and _sha256(os.fsencode(os.readlink(path))) == digest
    current = PROGRAM if status.st_mode & stat.S_IXUSR else FILE
    return stat.S_ISREG(status.st_mode) and mode == current and _digest(path) == digest


def _added(directory: str, folder: str, stamps: list[str]) -> str:
    """Return a path in a directory that the index does not list, or ""."""
    below = "" if folder == "." else folder + "/"
    known = {line.partition(" ")[2] for line in stamps}
    try:
        names = sorted(os.listdir(f"{directory}/{folder}"))
    except OSError:
        return folder
    return next((below + name for name in names if below + name not in known), "")


def _digest(path: str) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _sha256(text: bytes) -> str:
    """Return the hash of a short text."""
    return sha256(text).hexdigest()
