"""Records of a working directory: overlays, wanted, recorded and actual paths, and plan steps.

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

# Step operations.
WORKTREE, WRITE, MAKE_LINK, MERGE, REMOVE, KEEP = (
    "worktree",
    "write",
    "link",
    "merge",
    "remove",
    "keep",
)


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


class PathRecord(NamedTuple):
    """Record of the ledger: what apply wrote at one path. Hashes are of the written bytes.

    The field names are the JSON keys of a ledger record: renaming one changes the format on disk.
    """

    kind: str
    source: str
    layer: str
    agents: tuple[str, ...]
    mode: int = 0o644
    sha256: str = ""  # of a file's content
    copied: Stamp | None = None  # of the source when it was copied
    stamp: Stamp | None = None  # of the written file
    target: str = ""
    covers: bool = False  # replaces a tracked file, marked skip-worktree in git
    settings: Mapping[str, object] | None = None  # a document's keys as last written
    shape: Shape | None = None
    entries: Mapping[str, Mapping[str, str]] | None = None  # by server: a hash of each value
    replaced: Mapping[str, object] | None = None  # the user's servers that managed ones replaced
    made: bool = False  # apply created the document
    # Mode and text of the user's file before apply changed it; dropped once the user edits it.
    original: tuple[int, str] | None = None
    adopted: str = ""  # the user keeps their own version while the wanted content has this hash


class PathState(NamedTuple):
    """State of a path on disk now. If BLOCKED, `target` is the path that is no directory."""

    kind: str
    mode: int = 0
    stamp: Stamp | None = None
    target: str = ""


class FileChange(NamedTuple):
    """One write: create or replace a file or link, or remove a path.

    `expected` is the state the decision was based on; anything else there stops the write.
    """

    path: str
    kind: str  # FILE, LINK or ABSENT
    expected: PathState
    data: bytes | None = None
    copy_of: str = ""
    sha256: str = ""
    mode: int = 0o644
    target: str = ""
    durable: bool = False  # contains the user's own text: fsync before replacing their file


class Step(NamedTuple):
    """One line of a plan. A `keep` step has no change."""

    op: str
    path: str
    source: str
    layer: str
    reason: str
    change: FileChange | None = None
    record: PathRecord | None = None  # the ledger record after the change; None: remove the record


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
