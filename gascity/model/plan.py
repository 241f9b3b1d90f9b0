"""Records of a plan: recorded and actual paths, changes and steps.

All paths are relative to the directory and use `/`. `source` is a path as shown to the user.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.model.wanted import Shape, Stamp

# Step operations.
WORKTREE, WRITE, MAKE_LINK, MERGE, REMOVE, KEEP = (
    "worktree",
    "write",
    "link",
    "merge",
    "remove",
    "keep",
)


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
