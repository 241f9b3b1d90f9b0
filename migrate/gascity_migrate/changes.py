"""What a migration would do to a city's files, and what it would not: values, nothing is done."""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.model.problems import Problem

WRITE, EDIT, MOVE, COPY, LINK, REMOVE = "write", "edit", "move", "copy", "link", "remove"


class Change(NamedTuple):
    """One step. `path` is relative to the city and never leads out of it.

    `write` makes a file of `content` with `mode` where there is none; `edit` gives an existing file
    new `content` and leaves its mode alone. `move` and `copy` bring a file, a link or a whole
    directory from `source` to `path`, with modes and links as they are; a copied `source` may be
    absolute, outside the city. `link` puts a symbolic link at `path`, in the place of one that may
    be there, that leads to the text `content`. `remove` takes away a file, a link, or a directory
    with what is still in it.

    The steps are in an order in which each can be done: nothing is moved or removed before it was
    copied, and the directories above a path are made as needed.
    """

    op: str
    path: str
    source: str = ""
    content: bytes = b""
    mode: int = 0
    reason: str = ""


class NotCarried(NamedTuple):
    """A key that has no effect any more, where it stood and why."""

    file: str
    line: int
    key: str
    reason: str


class Migration(NamedTuple):
    """Everything that would change. With a problem that is an error nothing may be done at all.

    `notes` are sentences for the person who migrates; `renamed` are agents that get another name,
    qualified, by the name they had. `folders` are those of agents that had tables, in their order.
    """

    changes: tuple[Change, ...] = ()
    not_carried: tuple[NotCarried, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    renamed: Mapping[str, str] = {}
    folders: tuple[str, ...] = ()
