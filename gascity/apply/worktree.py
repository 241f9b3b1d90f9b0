"""Worktrees of a rig's repository: made for a session, used again, and taken away unharmed.

Submodules are not initialised in them. Whoever makes or removes one holds the lock whose file the
caller names: a file of the city, never one of the repository.
"""

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count

from gascity import git
from gascity.apply.clearing import aside, clear
from gascity.apply.tree_state import (
    admin_of,
    foreign,
    has_repository,
    loss,
    other_branches,
    standing,
    state,
    without_lfs,
)
from gascity.apply.worktree_record import Known, Rig, find, forget, is_linked, same
from gascity.git import GitFault
from gascity.model.records import NamedTuple

BRANCHES = "city/"  # branches below this name are ours to delete
_NO_HOOKS = "core.hooksPath=/dev/null"


class Prepared(NamedTuple):
    """A worktree that is there. `base` is empty for one that was there before."""

    path: str
    branch: str  # empty: somebody detached it
    base: str = ""
    made: bool = False
    note: str = ""


def prepare(
    rig: str,
    path: str,
    branch: str,
    base: str | None,
    environ: Mapping[str, str],
    *,
    lock: str,
    again: bool = False,
) -> Prepared:
    """Have a worktree of the rig at `path`, on a new branch from `base` (else origin's, else HEAD).

    One that is there is used as it stands, whatever its branch. A branch that is taken, or has
    commits of its own, is left alone: `branch-2` is made; `again` goes on with one that nobody
    stands on. If the directory was deleted, it is made again on the branch it had. Anything else
    in the way is a GitFault, and nothing is touched. What a killed call left is taken away first.
    """
    given, path = path, _real(path)
    _refuse_checkout(path, rig)
    with _exclusive(lock) as held:
        at = Rig(rig, environ, held)
        clear(aside(path))
        common = git.common_dir(rig, environ)
        known = find(at, common, path)
        if known is not None and not known.half_made and is_linked(known, path):
            return _as_it_stands(given, branch, known)
        had = _make_way(at, path, known) or (branch if again and _idle(at, branch) else "")
        start = base or _base(at)
        name, how = _placed(at, common, branch, had, start)
        # A hook may leave a process behind, which would keep the lock for good.
        config = [_NO_HOOKS, *without_lfs(environ)]
        at.change(["worktree", "add", "--quiet", *how[:-1], path, how[-1]], config)
    notes = [
        "its directory was gone, and is made again" if name == had else _named(name, branch),
        _hook(path, "", environ),
        _pointers(path, environ),
    ]
    return Prepared(given, name, start, True, "; ".join(note for note in notes if note))


def _real(path: str) -> str:
    """A path as git has it on record; its last part may be a link that is refused later."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


@contextmanager
def _exclusive(lock: str) -> Iterator[int]:
    """The lock's descriptor. A child that has it holds the lock, even when we are killed."""
    os.makedirs(os.path.dirname(lock), exist_ok=True)
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _as_it_stands(path: str, branch: str, known: Known) -> Prepared:
    note = "" if _is_numbered(known.branch, branch) else f"stands on {_shown(known.branch)}"
    return Prepared(path, known.branch, note=note)


def _shown(branch: str) -> str:
    return f"`{branch}`" if branch else "no branch"


def _is_numbered(name: str, branch: str) -> bool:
    """Is it the branch asked for, or the one taken in its place?"""
    rest = name.removeprefix(f"{branch}-")
    return name == branch or (rest != name and rest.isdecimal())


def _refuse_checkout(path: str, rig: str) -> None:
    """Raise if it is the person's own: the rig, or what the rig lies in."""
    if same(path, rig) or os.path.realpath(rig).startswith(f"{os.path.realpath(path)}/"):
        raise GitFault(f"`{path}` is the rig's own checkout")


def _refuse_in_the_way(path: str) -> None:
    """Raise unless the path is free: nothing there, or an empty directory."""
    if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path)):
        raise GitFault(f"`{path}` is in the way: it is not a directory")
    if os.path.isdir(path) and os.listdir(path):
        raise GitFault(f"`{path}` is in the way: it is not a worktree of this rig")


def _make_way(rig: Rig, path: str, known: Known | None) -> str:
    """Take away what is left of a worktree that is no more; the branch it stood on, if any."""
    if known is not None and known.half_made:
        _refuse_other(path, known)
        if left := _stranger(rig, path, known):
            raise GitFault(f"`{path}` was never finished, and has `{left}`")
        _take_away(rig, path, known)
        return ""
    _refuse_in_the_way(path)
    if known is None:
        return ""
    if known.locked is not None:
        reason = known.locked or "no reason given"
        raise GitFault(f"`{path}` is gone, and its worktree is locked: {reason}")
    if os.path.isdir(path):
        os.rmdir(path)
    forget(rig, path)
    return known.branch


def _stranger(rig: Rig, path: str, known: Known) -> str:
    """A file that git did not put into a worktree it was killed over; empty if there is none."""
    if not os.path.isdir(path):
        return ""
    commit = git.commit_of(rig.root, f"{known.name}/HEAD", rig.environ)
    known_to_git = git.tree_paths(rig.root, commit, rig.environ) if commit else frozenset()
    return next(foreign(path, "", known_to_git, {}), "")


def _base(rig: Rig) -> str:
    base = git.base_of(rig.root, None, rig.environ)
    if base is None:
        raise GitFault(f"`{rig.root}` has no commit to start from")
    return base.commit


def _placed(rig: Rig, common: str, branch: str, had: str, start: str) -> tuple[str, list[str]]:
    """The branch to stand on, and how `git worktree add` is told."""
    if had and _is_numbered(had, branch):
        if git.commit_of(rig.root, f"refs/heads/{had}", rig.environ):
            return had, [had]
    name, option = _free(rig, common, branch, start)
    return name, [option, name, start]


def _free(rig: Rig, common: str, branch: str, start: str) -> tuple[str, str]:
    """The first of `branch`, `branch-2`, … that nobody uses, and the option that makes it."""
    full = f"refs/heads/{branch}"
    listing = ["for-each-ref", "--format=%(if)%(worktreepath)%(then)+%(else)-%(end)%(refname)"]
    names = [full, f"{full}-*", f"{full}-*/**"]
    lines = git.run([*listing, *names], rig.root, rig.environ).line.split()
    there = {line[1:] for line in lines}
    asked = [*listing, f"--merged={start}", *names]
    idle = git.run(asked, rig.root, rig.environ).line.split()
    for number in count(1):
        name = branch if number == 1 else f"{branch}-{number}"
        ref = f"refs/heads/{name}"
        if os.path.exists(f"{common}/{ref}.lock"):
            continue  # a git that was killed left it, and nobody takes it away
        if f"-{ref}" in idle:
            return name, "-B"
        if ref not in there and not any(other.startswith(f"{ref}/") for other in there):
            return name, "-b"
    raise AssertionError("there is always a next number")


def _idle(rig: Rig, branch: str) -> bool:
    """Is there a branch on which nobody stands?"""
    asked = ["for-each-ref", "--format=-%(worktreepath)", f"refs/heads/{branch}"]
    return git.run(asked, rig.root, rig.environ).line == "-"


def _named(name: str, branch: str) -> str:
    return "" if name == branch else f"stands on `{name}`: `{branch}` is taken"


def _hook(path: str, before: str, environ: Mapping[str, str]) -> str:
    """Run the repository's own hook for a checkout; what went wrong with it, in words."""
    asked = git.run(["rev-parse", "--git-path", "hooks/post-checkout"], path, environ).line
    if not os.access(os.path.join(path, asked), os.X_OK):
        return ""
    now = git.commit_of(path, "HEAD", environ)
    try:
        git.run_hook("post-checkout", [before or "0" * len(now), now, "1"], path, environ)
    except GitFault as fault:
        return f"its post-checkout hook failed: {fault.message}"
    return ""


def _pointers(path: str, environ: Mapping[str, str]) -> str:
    """Say so if large files are not there because nobody can fetch them."""
    if not without_lfs(environ):
        return ""
    if not git.run(["ls-files", "--", ":(attr:filter=lfs)"], path, environ).out:
        return ""
    return "git-lfs is not installed, so large files are only pointers"


def switch(path: str, branch: str, base: str, environ: Mapping[str, str], *, lock: str) -> Prepared:
    """Stand on a new branch from `base` in a worktree that is there, for the next work.

    Only for a reusable one. Covered files have to be uncovered and restored before, and covered
    again after; git refuses to change one that is covered. A branch of ours that is left without
    commits of its own is deleted.
    """
    with _exclusive(lock) as held:
        at = Rig(path, environ, held)
        before, old = git.commit_of(path, "HEAD", environ), standing(path, environ)
        if old == branch:
            return Prepared(path, old)
        name, option = _free(at, git.common_dir(path, environ), branch, base)
        config = [_NO_HOOKS, *without_lfs(environ)]
        at.change(["checkout", "--quiet", option, name, base, "--"], config)
        _drop(at, old)
    notes = [_named(name, branch), _hook(path, before, environ)]
    return Prepared(path, name, base, False, "; ".join(note for note in notes if note))


def _drop(rig: Rig, branch: str) -> None:
    """Delete a branch of ours if another branch or a remote has all its commits."""
    ref = f"refs/heads/{branch}"
    if not branch.startswith(BRANCHES) or not git.commit_of(rig.root, ref, rig.environ):
        return
    elsewhere = ["--not", *other_branches(branch), "--remotes", "--"]
    if git.run(["rev-list", "--max-count=1", ref, *elsewhere], rig.root, rig.environ).out:
        return
    with suppress(GitFault):  # somebody stands on it elsewhere
        rig.change(["branch", "--quiet", "-D", branch])


def remove(
    rig: str,
    path: str,
    ours: frozenset[str],
    covered: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    lock: str,
    force: bool = False,
    base: str = "",
) -> list[str]:
    """Remove a worktree; what stands against it, and then nothing was touched.

    `ours`, `covered` and `base` are those of `state`. With `force` whatever is in it goes, but a
    branch that has commits of its own stays. A directory that is no worktree is a GitFault. The
    rig may be gone.
    """
    path = _real(path)
    _refuse_checkout(path, rig)
    with _exclusive(lock) as held:
        at = Rig(rig, environ, held)
        clear(aside(path))
        common = _common(rig, environ)
        known = find(at, common, path) if common else None
        _refuse_other(path, known)
        if not force:
            if known is not None and known.half_made:
                left = _stranger(at, path, known)
                reasons = [f"it was never finished, and has `{left}`"] if left else []
            else:
                reasons = _against(path, ours, covered, environ, base, known)
            if reasons:
                return reasons
        _take_away(at, path, known)
        if known is not None:
            _drop(at, known.branch)
    return []


def _common(rig: str, environ: Mapping[str, str]) -> str | None:
    """What the worktrees of a rig share; None if the rig is gone, or no repository any more."""
    if not os.path.isdir(rig):
        return None
    try:
        return git.common_dir(rig, environ)
    except GitFault as fault:
        if "not a git repository" in fault.stderr:
            return None
        raise


def _refuse_other(path: str, known: Known | None) -> None:
    """Raise if something stands there that is no worktree of this rig, nor of one that is gone."""
    if not os.path.lexists(path):
        return
    if os.path.islink(path) or not os.path.isdir(path):
        raise GitFault(f"`{path}` is in the way: it is not a directory")
    if known is not None and not os.path.lexists(f"{path}/.git"):
        return
    if known is not None and is_linked(known, path):
        return
    if known is not None or admin_of(path) is None or has_repository(path):
        raise GitFault(f"`{path}` is not a worktree of this rig")


def _against(
    path: str,
    ours: frozenset[str],
    covered: Mapping[str, str],
    environ: Mapping[str, str],
    base: str,
    known: Known | None,
) -> list[str]:
    reasons = loss(state(path, ours, covered, environ, base)) if os.path.lexists(path) else []
    if known is not None and known.locked is not None:
        reasons.append(f"it is locked: {known.locked or 'no reason given'}")
    return reasons


def _take_away(rig: Rig, path: str, known: Known | None) -> None:
    """First out of sight whole, then off the record, then piece by piece."""
    with suppress(FileNotFoundError):
        os.rename(path, aside(path))
    if known is not None:
        forget(rig, path)
    clear(aside(path))


def cover(root: str, paths: Collection[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Have git not look at tracked files, so that ours may lie over them; those that it does."""
    found = git.tracked(root, environ, paths) & frozenset(paths)
    if found:
        arguments = ["update-index", "--skip-worktree", "-z", "--stdin"]
        git.run(arguments, root, environ, input=sorted(found))
    return found


def uncover(root: str, paths: Collection[str], environ: Mapping[str, str]) -> None:
    """Have git look at files again; what lies there is then a change."""
    found = covered_files(root, environ) & frozenset(paths)
    if found:
        arguments = ["update-index", "--no-skip-worktree", "-z", "--stdin"]
        git.run(arguments, root, environ, input=sorted(found))


def covered_files(root: str, environ: Mapping[str, str]) -> frozenset[str]:
    """Tracked files that git does not look at, below a directory."""
    lines = git.run(["ls-files", "-t", "-z"], root, environ).names
    return frozenset(line[2:] for line in lines if line[0] == "S")


def restore(root: str, paths: Collection[str], environ: Mapping[str, str]) -> None:
    """Put back what git has of files that are no longer covered, with git's mode.

    What lies there is overwritten. A file that git does not have is left as it is.
    """
    found = git.tracked(root, environ, paths) & frozenset(paths)
    if found:
        arguments = ["checkout-index", "--force", "-u", "-z", "--stdin"]
        git.run(arguments, root, environ, input=sorted(found), config=without_lfs(environ))
