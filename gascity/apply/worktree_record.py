"""What a repository has on record about its worktrees, read where git keeps it."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gascity import git
from gascity.apply.tree_state import admin_of, has_repository
from gascity.model.records import NamedTuple

_HALF_MADE = "initializing"  # git's own lock on a worktree that it has not finished


class Rig(NamedTuple):
    """A repository whose worktrees we make and remove, one of us at a time."""

    root: str
    environ: Mapping[str, str]
    held: int  # the lock's descriptor

    def change(self, arguments: Sequence[str], config: Sequence[str] = ()) -> None:
        """Run git so that it holds the lock until it ends, even if we are killed before."""
        git.run(arguments, self.root, self.environ, config=config, keep=[self.held])


class Known(NamedTuple):
    """What the repository has on record about a worktree."""

    admin: str
    branch: str
    locked: str | None

    @property
    def half_made(self) -> bool:
        return self.locked == _HALF_MADE

    @property
    def name(self) -> str:
        return f"worktrees/{os.path.basename(self.admin)}"


def find(rig: Rig, common: str, path: str) -> Known | None:
    """The record of a worktree; one that was moved, or whose rig was, is found again."""
    admin = _recorded(common, path)
    pointer = admin_of(path)
    if admin is None and pointer is not None:
        moved = f"{common}/worktrees/{os.path.basename(pointer)}"
        stale = not os.path.exists(pointer) or same(pointer, moved)
        place = _place(moved)
        admin = moved if stale and place and not os.path.lexists(place) else None
    if admin is None:
        return None
    if pointer is not None and not (same(pointer, admin) and _place(admin) == f"{path}/.git"):
        if not os.path.exists(pointer) or same(pointer, admin):
            rig.change(["worktree", "repair", path])
    head = f"worktrees/{os.path.basename(admin)}/HEAD"
    asked = ["symbolic-ref", "--quiet", head]
    named = git.run(asked, rig.root, rig.environ, allowed=(0, 1, 128)).line
    return Known(admin, named.removeprefix("refs/heads/"), _text(f"{admin}/locked"))


def _recorded(common: str, path: str) -> str | None:
    try:
        names = os.listdir(f"{common}/worktrees")
    except FileNotFoundError:
        return None
    admins = (f"{common}/worktrees/{name}" for name in names)
    return next((admin for admin in admins if _place(admin) == f"{path}/.git"), None)


def _place(admin: str) -> str | None:
    """Where the `.git` file of a recorded worktree should be."""
    written = _text(f"{admin}/gitdir")
    if not written:
        return None
    place = os.path.normpath(os.path.join(admin, written))
    return f"{os.path.realpath(os.path.dirname(place))}/{os.path.basename(place)}"


def _text(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read().rstrip(b"\n"))
    except OSError:
        return None


def same(one: str, other: str) -> bool:
    with suppress(OSError):
        return os.path.samefile(one, other)
    return False


def is_linked(known: Known, path: str) -> bool:
    pointer = admin_of(path)
    return pointer is not None and same(pointer, known.admin)


def is_whole(path: str) -> bool:
    """Is there a worktree that git has finished? If not, it is to be prepared, again or at all."""
    admin = admin_of(path)
    return has_repository(path) and (admin is None or _text(f"{admin}/locked") != _HALF_MADE)


def forget(rig: Rig, path: str) -> None:
    """Take a worktree whose directory is gone off the repository's record."""
    rig.change(["worktree", "remove", "--force", "--force", path])
