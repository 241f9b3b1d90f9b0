"""A pack's definitions as parsed, before they are decoded: what a dialect reads and returns."""

from collections.abc import Callable, Mapping

from gascity.model.problems import KeyPath, Problem
from gascity.model.records import NamedTuple


class TableAgent(NamedTuple):
    """An agent that stands in a table of the manifest and not in a folder.

    `table` has today's keys; `at` is where it is written, and `written` says for a key of today's
    how the file spells it, dotted, below `at`. `folder` is a directory of its own that exists
    beside the table, relative to the pack, or "".
    """

    name: str
    table: Mapping[str, object]
    at: KeyPath
    written: Mapping[str, str] = {}
    folder: str = ""


class Tree(NamedTuple):
    """A pack as it was parsed. `root` is absolute, `file` is the manifest as people see it.

    `shelves` are directories, relative to the pack, that serve as one of its catalogues besides
    the one of that name, lower than it: `("template-fragments", "prompts/shared")`. `moved` gives
    for key paths of the manifest, and all below them, where the file has them if that is elsewhere.
    """

    root: str
    file: str
    manifest: Mapping[str, object]
    agents: tuple[TableAgent, ...] = ()
    shelves: tuple[tuple[str, str], ...] = ()
    problems: tuple[Problem, ...] = ()
    moved: Mapping[KeyPath, KeyPath] = {}


# Returns the tree in today's layout, or the one it was given where that is not written in its own.
Dialect = Callable[[Tree], Tree]
