"""Removes the working directory of a deleted session, unless work would be lost."""

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from gascity.files import move_and_remove_tree
from gascity.git import GitError
from gascity.source.disk import is_below
from gascity.workdir.applier import after_worktree, remove_worktree
from gascity.workdir.git_excludes import write_markers
from gascity.workdir.mcp_launch import launch_file
from gascity.workdir.planner import managed_files
from gascity.workdir.write.execute import ApplyState
from gascity.workdir.write.ledger import Ledger
from gascity.workdir.write.recover import recover
from gascity.workdir.write.worktree_state import join_names, unmanaged_files


def remove_directory(
    city: str,
    workdir: str,
    environ: Mapping[str, str],
    *,
    taken: Callable[[], Collection[str]] = tuple,
    force: bool = False,
) -> list[str]:
    """Remove a session's worktree or slot directory; return the reasons to keep it, if any.

    The directory that `apply` writes for an agent stays, and so do directories that the user
    chose or that other sessions (`taken`) use; then there are no reasons. `taken` is called under
    the directory's lock, so that no session can get the directory in between.
    """
    root = os.path.realpath(workdir)
    state = ApplyState.of(city)
    if not workdir or not os.path.exists(state.ledgers.file(root)):
        return []
    with state.ledgers.locked(root):
        if not {root, workdir}.isdisjoint(taken()):
            return []
        recover(state, root)
        ledger = state.ledgers.read(root)
        if ledger.rig:
            try:
                reasons = remove_worktree(city, ledger, environ, force=force)
            except GitError as error:
                reasons = [error.message]
        elif ledger.slot and is_below(root, f"{os.path.realpath(city)}/.gc/work"):
            reasons = _remove_slot_directory(ledger, force)
        else:
            return []
        if not reasons:
            _remove_records(city, state, ledger)
    return reasons


def _remove_slot_directory(ledger: Ledger, force: bool) -> list[str]:
    root = ledger.root
    if not os.path.isdir(root):
        return []
    managed, _ = managed_files(ledger)
    unmanaged = tuple(unmanaged_files(root, "", managed, {}))
    if unmanaged and not force:
        return [f"files that city did not write: {join_names(unmanaged)}"]
    move_and_remove_tree(root)
    return []


def _remove_records(city: str, state: ApplyState, ledger: Ledger) -> None:
    write_markers(city, ledger._replace(paths={}))
    if ledger.rig:
        after_worktree(city, ledger.root)
    for agent in ledger.agents if ledger.slot else ():
        file = launch_file(city, agent, ledger.slot)
        with suppress(OSError):
            os.unlink(file)
            os.rmdir(os.path.dirname(file))
    state.ledgers.write(Ledger(ledger.root))
