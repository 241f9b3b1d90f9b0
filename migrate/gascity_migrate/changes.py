"""The value types of a migration plan: changes, and keys that are not carried over."""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.model.problems import Problem

WRITE, EDIT, MOVE, COPY, LINK, REMOVE = "write", "edit", "move", "copy", "link", "remove"


class Change(NamedTuple):
    """One change. `path` is relative to the city and always inside it.

    `write` creates a file with `content` and `mode`; `edit` replaces the content of an existing
    file and keeps its mode. `move` and `copy` transfer a file, a symlink or a whole directory from
    `source` to `path`, keeping modes and symlinks; the `source` of a copy may be an absolute path
    outside the city. `link` creates or replaces a symlink at `path` with the target `content`.
    `remove` deletes a file, a symlink, or a directory with its content.

    Changes are ordered: a file is copied before it is moved or removed. Parent directories are
    created as needed.
    """

    op: str
    path: str
    source: str = ""
    content: bytes = b""
    mode: int = 0
    reason: str = ""


class NotCarried(NamedTuple):
    """A key that has no effect any more, with its position and the reason."""

    file: str
    line: int
    key: str
    reason: str


class Migration(NamedTuple):
    """A migration plan. If one of its problems is an error, it must not be applied.

    `notes` are messages for the user; `renamed` maps old to new qualified agent names. `folders`
    are the new agent directories, in the order of the tables.
    """

    changes: tuple[Change, ...] = ()
    not_carried: tuple[NotCarried, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    renamed: Mapping[str, str] = {}
    folders: tuple[str, ...] = ()
