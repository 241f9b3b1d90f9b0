"""Reads what a repository records about its worktrees, from git's own files."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from gascity import git
from gascity.workdir.write.worktree_state import admin_of, has_repository

_INCOMPLETE = "initializing"  # git's own lock reason while it creates a worktree


class RigRepository(NamedTuple):
    """A repository whose worktrees are being changed while a lock is held."""

    root: str
    environ: Mapping[str, str]
    lock_fd: int

    def change(self, arguments: Sequence[str], config: Sequence[str] = ()) -> None:
        """Run git with the lock's descriptor: it holds the lock even if this process is killed."""
        git.run(arguments, self.root, self.environ, config=config, keep=[self.lock_fd])


class WorktreeRecord(NamedTuple):
    """The repository's record of one worktree."""

    admin: str
    branch: str
    locked: str | None  # the reason; None: not locked

    @property
    def incomplete(self) -> bool:
        return self.locked == _INCOMPLETE

    @property
    def name(self) -> str:
        return f"worktrees/{os.path.basename(self.admin)}"


def find_record(repository: RigRepository, common: str, path: str) -> WorktreeRecord | None:
    """Return the record of a worktree; repair it if the worktree or the rig was moved."""
    admin = _admin_for(common, path)
    pointer = admin_of(path)
    if admin is None and pointer is not None:
        moved = f"{common}/worktrees/{os.path.basename(pointer)}"
        stale = not os.path.exists(pointer) or same_file(pointer, moved)
        place = _recorded_place(moved)
        admin = moved if stale and place and not os.path.lexists(place) else None
    if admin is None:
        return None
    if pointer is not None:
        consistent = same_file(pointer, admin) and _recorded_place(admin) == f"{path}/.git"
        if not consistent and (not os.path.exists(pointer) or same_file(pointer, admin)):
            repository.change(["worktree", "repair", path])
    head = f"worktrees/{os.path.basename(admin)}/HEAD"
    arguments = ["symbolic-ref", "--quiet", head]
    result = git.run(arguments, repository.root, repository.environ, allowed=(0, 1, 128))
    branch = result.line.removeprefix("refs/heads/")
    return WorktreeRecord(admin, branch, _read_line(f"{admin}/locked"))


def _admin_for(common: str, path: str) -> str | None:
    try:
        names = os.listdir(f"{common}/worktrees")
    except FileNotFoundError:
        return None
    admins = (f"{common}/worktrees/{name}" for name in names)
    return next((admin for admin in admins if _recorded_place(admin) == f"{path}/.git"), None)


def _recorded_place(admin: str) -> str | None:
    """Return where the `.git` file of a recorded worktree should be."""
    gitdir = _read_line(f"{admin}/gitdir")
    if not gitdir:
        return None
    place = os.path.normpath(os.path.join(admin, gitdir))
    return f"{os.path.realpath(os.path.dirname(place))}/{os.path.basename(place)}"


def _read_line(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read().rstrip(b"\n"))
    except OSError:
        return None


def same_file(path: str, other: str) -> bool:
    with suppress(OSError):
        return os.path.samefile(path, other)
    return False


def is_linked(record: WorktreeRecord, path: str) -> bool:
    """Return whether the worktree at a path points back to the record."""
    pointer = admin_of(path)
    return pointer is not None and same_file(pointer, record.admin)


def is_complete(path: str) -> bool:
    """Return whether a path is a worktree that git finished creating."""
    admin = admin_of(path)
    return has_repository(path) and (admin is None or _read_line(f"{admin}/locked") != _INCOMPLETE)


def forget(repository: RigRepository, path: str) -> None:
    """Remove the repository's record of a worktree whose directory is gone."""
    repository.change(["worktree", "remove", "--force", "--force", path])
