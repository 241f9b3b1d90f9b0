"""What git and other programs have to know of the files that are ours."""

import os
from collections.abc import Sequence

from gascity.apply import excludes, markers, worktree
from gascity.apply.files import make_private
from gascity.apply.ledger import Ledger, Told, ledger_key
from gascity.materialise.directories import Planner
from gascity.model.plan import DOCUMENT, Held, digest
from gascity.source.disk import is_below


def tell(planner: Planner, ledger: Ledger) -> Told:
    """Have git look past what is ours and at what no longer is, and a marker at every MCP target.

    The answer is for the ledger: what it says is not told again.
    """
    root, environ, before = ledger.root, planner.environ, ledger.told
    paths = sorted(path for path, held in ledger.paths.items() if _is_ours(held))
    covers = {path for path, held in ledger.paths.items() if held.covers}
    hashed = digest("\n".join(paths).encode("utf-8", "surrogateescape")) if paths else ""
    in_git = hashed != before.excluded and _is_in_git(planner, ledger)
    if in_git and before.excluded is not None:
        planner.ledgers.write(markers.unsure(ledger))
    marked = markers.write(planner.city.root, ledger)
    if not os.path.isdir(root):
        return Told("", (), marked)
    bare = set(before.covered) - covers
    if bare:
        worktree.uncover(root, sorted(bare), environ)
    if covers:
        worktree.cover(root, sorted(covers), environ)
    if in_git:
        _exclude(planner, ledger, paths)
    excluded = hashed if in_git or hashed == before.excluded else ""
    return Told(excluded, tuple(sorted(covers)), marked)


def _is_in_git(planner: Planner, ledger: Ledger) -> bool:
    """Does a git look at the directory? What is under .gc/ is ours, unless it is a worktree."""
    is_state = is_below(ledger.root, f"{planner.city.root}/.gc")
    return bool(ledger.rig or (not is_state and planner.sites.toplevel(ledger.root)))


def _exclude(planner: Planner, ledger: Ledger, paths: Sequence[str]) -> None:
    root, environ = ledger.root, planner.environ
    if ledger.rig:
        file = excludes_file(planner.city.root, root)
        make_private(os.path.dirname(file))
        excludes.write_session_excludes(file, root, paths, environ)
    else:
        excludes.exclude_in_checkout(root, paths, environ)


def _is_ours(held: Held) -> bool:
    """A person's own file is still theirs with something of ours in it."""
    ours = held.kind != DOCUMENT or held.made or not held.mode & 0o077
    return not held.covers and not held.adopted and ours


def excludes_file(city: str, root: str) -> str:
    """Where a session that works in a worktree finds what git is to overlook."""
    return f"{city}/.gc/excludes/{ledger_key(root)}"
