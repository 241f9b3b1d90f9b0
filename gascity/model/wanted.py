"""Desired content of a working directory: overlays, servers and wanted paths.

All paths are relative to the directory and use `/`. `source` is a path as shown to the user.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.model.problems import Problem

# mtime_ns, ctime_ns, size, inode. Equal stamps mean that a file has not changed since.
Stamp = tuple[int, int, int, int]

# Kinds of path. BLOCKED: an ancestor of the path is a symlink or a file.
ABSENT, FILE, LINK, DIRECTORY, OTHER, BLOCKED = (
    "absent",
    "file",
    "link",
    "directory",
    "other",
    "blocked",
)
DOCUMENT = "document"  # a file in which city manages some keys and the user owns the rest

GENERATED = "generated"  # layer of files that city makes from settings


class ServerEntry(NamedTuple):
    """One MCP server in a provider's native format.

    `implied` are keys that a definition may leave out without meaning anything else.
    """

    value: Mapping[str, object]
    source: str
    layer: str
    implied: frozenset[str] = frozenset()


class Shape(NamedTuple):
    """Format in which a provider's file stores its MCP servers."""

    provider: str
    format: str  # json or toml
    key: tuple[str, ...]
    list_name: str = ""  # if servers are a list: the key of an item that holds the server's name


class WantedPath(NamedTuple):
    """The desired state of one path.

    A file has `data`, or is a copy of `copy_of` as it was at `stamp`; a link has `target`; a
    document has the keys of `settings`, the servers of `entries`, or both.
    """

    path: str
    kind: str
    source: str
    layer: str
    agents: tuple[str, ...] = ()
    mode: int = 0o644
    data: bytes | None = None
    copy_of: str = ""
    stamp: Stamp | None = None
    target: str = ""
    settings: Mapping[str, object] | None = None
    shape: Shape | None = None
    entries: Mapping[str, ServerEntry] | None = None

    @property
    def private(self) -> bool:
        """Whether only the owner may read it."""
        return not self.mode & 0o077


def digest(data: bytes) -> str:
    """Return the hash used for content in the ledger, the journal and plans."""
    from hashlib import sha256

    return sha256(data).hexdigest()


PER_PROVIDER = "per-provider"


class OverlayFile(NamedTuple):
    """One file of an overlay. `path` is its path in a working directory."""

    path: str
    source: str
    absolute: str
    mode: int
    stamp: Stamp
    provider: str = ""
    template: bool = False


class Overlay(NamedTuple):
    """The contents of one `overlay/` directory."""

    origin: str
    pack: str
    files: tuple[OverlayFile, ...] = ()
    providers: tuple[str, ...] = ()  # the directory names under per-provider/
    problems: tuple[Problem, ...] = ()
