"""What should stand in a working directory, what does, what we wrote there, and the steps between.

All paths are relative to the directory, with `/`; `source` is as people see it.
"""

from collections.abc import Mapping

from gascity.model.records import NamedTuple

Stamp = tuple[int, int, int, int]  # mtime, ctime, size, inode: is a file still as it was?

# What may stand at a path.
ABSENT, FILE, LINK, DIRECTORY, OTHER, BLOCKED = (
    "absent",
    "file",
    "link",
    "directory",
    "other",
    "blocked",
)
DOCUMENT = "document"  # a file of which we own single keys

# What a step does.
WORKTREE, WRITE, MAKE_LINK, MERGE, REMOVE, KEEP = (
    "worktree",
    "write",
    "link",
    "merge",
    "remove",
    "keep",
)


class Entry(NamedTuple):
    """One MCP server in a provider's own words."""

    value: Mapping[str, object]
    source: str
    layer: str


class Shape(NamedTuple):
    """How a file of a provider holds its servers."""

    provider: str
    format: str  # json or toml
    key: tuple[str, ...]
    list_name: str = ""  # servers are a list, and this key of an item is the server's name


class Wanted(NamedTuple):
    """One path as it should be.

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
    entries: Mapping[str, Entry] | None = None

    @property
    def private(self) -> bool:
        """May nobody but its owner read it?"""
        return not self.mode & 0o077


class Held(NamedTuple):
    """What we wrote at one path, as the ledger has it. Hashes are of what was written."""

    kind: str
    source: str
    layer: str
    agents: tuple[str, ...]
    mode: int = 0o644
    sha256: str = ""  # of a file's content
    copied: Stamp | None = None  # of the source when it was copied
    stamp: Stamp | None = None  # of our file when it was written
    target: str = ""
    covers: bool = False  # a tracked file lies under it
    settings: Mapping[str, object] | None = None  # the keys of a document, as last written
    shape: Shape | None = None
    entries: Mapping[str, Mapping[str, str]] | None = None  # servers: hash of each of their values
    replaced: Mapping[str, object] | None = None  # foreign entries that ours took the place of
    made: bool = False  # the document was not there before us
    # Mode and text of a document before us, as long as nobody else has changed it since.
    original: tuple[int, str] | None = None
    adopted: str = ""  # a person's version stands here by agreement, as long as ours has this hash


class Found(NamedTuple):
    """What stands at a path now. `blocked`: a link or a file where a directory should be."""

    kind: str
    mode: int = 0
    stamp: Stamp | None = None
    target: str = ""


class Change(NamedTuple):
    """One deed: put a file or a link there, or take away what is there.

    `expected` is what the decision was made on; anything else there stops the deed.
    """

    path: str
    kind: str  # FILE, LINK or ABSENT
    expected: Found
    data: bytes | None = None
    copy_of: str = ""
    sha256: str = ""
    mode: int = 0o644
    target: str = ""
    lasting: bool = False  # a person's words are in it: on disk before it takes their file's place


class Step(NamedTuple):
    """One line of a plan. A `keep` step has no change."""

    op: str
    path: str
    source: str
    layer: str
    reason: str
    change: Change | None = None
    held: Held | None = None  # the ledger's record once the change is done; None: forget the path


def digest(data: bytes) -> str:
    """The hash by which content is known: in the ledger, the journal and plans."""
    from gascity.model.hashes import sha256_of

    return sha256_of(data)
