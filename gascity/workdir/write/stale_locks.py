"""Removes the locks that a killed git left in a session's worktree.

git never removes them, and every later command that writes would fail: the worktree could not be
used again, and the next work item would get another one. A lock belongs to a running git only if
a git works in that worktree, because git changes to its top directory. A program of another name
may hold one for a moment; so a lock must also be a second old and stay the same.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from gascity.runtimes.process_table import process_table
from gascity.workdir.write.worktree_state import admin_of

_SHORT_LIVED = 1.0  # seconds for which a lock may be held by a program of any name

_Identity = tuple[int, int]  # inode number and time of the last change


def has_locks(root: str) -> bool:
    """Return whether any lock of git exists in a worktree."""
    return any(_identity(path) for path in _lock_files(root))


def remove_stale_locks(root: str) -> list[str]:
    """Remove locks of git that no running git holds; return a note about each."""
    before = {path: identity for path in _lock_files(root) if (identity := _identity(path))}
    if not before or _is_git_running_in(root):
        return []
    newest = max(changed for _, changed in before.values()) / 1e9
    time.sleep(min(max(0.0, newest + _SHORT_LIVED - time.time()), _SHORT_LIVED))
    notes = []
    for path, identity in before.items():
        if _identity(path) == identity:
            with suppress(OSError):
                os.unlink(path)
                notes.append(f"removed {path}, left by a git that was killed")
    return notes


def _lock_files(root: str) -> Iterator[str]:
    """Yield where git puts locks for a worktree and for the branch that is checked out there."""
    admin = admin_of(root)
    if admin is None:
        return
    yield f"{admin}/index.lock"
    yield f"{admin}/HEAD.lock"
    reference, common = _line(f"{admin}/HEAD"), _line(f"{admin}/commondir")
    if reference.startswith("ref: refs/heads/") and common:
        branch = reference.removeprefix("ref: ")
        yield os.path.normpath(os.path.join(admin, common, f"{branch}.lock"))


def _line(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read().rstrip(b"\n"))
    except OSError:
        return ""


def _identity(path: str) -> _Identity | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _is_git_running_in(root: str) -> bool:
    """Return whether a git works in the worktree; True if that cannot be found out."""
    table = process_table()
    try:
        return any(
            _is_inside(table.directory_of(process.pid), root)
            and table.program_name(process.pid).startswith("git")
            for process in table.list_processes()
        )
    except OSError:
        return True


def _is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")
