"""Creates, reuses and removes worktrees of a rig's repository without losing work.

A worktree is where a session works, so it may contain the only copy of something. `remove` deletes
one only if `worktree_state.reasons_to_keep` finds nothing: no uncommitted or unpushed changes, no
ignored files that city did not write, no merge or rebase in progress. The deletion itself is a
rename to a hidden name beside the worktree, then `git worktree remove`, then the deletion of the
renamed directory; after a crash, the next call for the same path continues at any of these points.

The caller names a lock file (of the city, never of the repository) that is held while a worktree
is created or removed. Submodules are not initialised.
"""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from gascity import git
from gascity.files import locked_file, removal_path, remove_tree
from gascity.git import GitError
from gascity.location import PREPARED
from gascity.workdir.write.worktree_state import (
    RigRepository,
    WorktreeRecord,
    admin_of,
    current_branch,
    find_record,
    forget,
    has_repository,
    inspect,
    is_linked,
    other_branches,
    reasons_to_keep,
    same_file,
    unmanaged_files,
    without_lfs,
)

BRANCHES = "city/"  # prefix of branches that city creates and may delete
NO_HOOKS = "core.hooksPath=/dev/null"


class WorktreeResult(NamedTuple):
    """A worktree that exists. `base` is empty if it existed before."""

    path: str
    branch: str  # empty: HEAD is detached
    base: str = ""
    created: bool = False
    note: str = ""


def prepare(
    rig: str,
    path: str,
    branch: str,
    base: str | None,
    environ: Mapping[str, str],
    *,
    lock: str,
    resume: bool = False,
    fresh: bool = False,
) -> WorktreeResult:
    """Return a worktree of the rig at `path`; create it if it does not exist.

    An existing one is returned as it is, whatever its branch. A new one gets a new branch from
    `base` (default: origin's default branch, else HEAD). If `branch` is in use or has commits of
    its own, the new one is named `branch-2`; with `resume`, a branch that is not in use is checked
    out again. If only the directory was deleted, it is created again on the branch it had; with
    `fresh`, only if that is at `base`: other commits would be an old work item's. Raises GitError,
    and changes nothing, if something else is in the way.
    """
    given, path = path, _real(path)
    _refuse_checkout(path, rig)
    with locked_file(lock) as lock_fd:
        repository = RigRepository(rig, environ, lock_fd)
        remove_tree(removal_path(path))  # left by a killed call
        common = git.common_dir(rig, environ)
        record = find_record(repository, common, path)
        if record is not None and not record.incomplete and is_linked(record, path):
            on = f"`{record.branch}`" if record.branch else "no branch"
            note = "" if _is_numbered(record.branch, branch) else f"on {on}"
            return WorktreeResult(given, record.branch, note=note)
        previous = _clear_path(repository, path, record)
        if not previous and resume:
            # Check out the branch again if it exists and is checked out nowhere.
            arguments = ["for-each-ref", "--format=-%(worktreepath)", f"refs/heads/{branch}"]
            previous = branch if git.run(arguments, rig, environ).line == "-" else ""
        start = base or _default_base(repository)
        if fresh and previous and _tip(repository, previous) != start:
            previous = ""
        name, arguments = _branch_arguments(repository, common, branch, previous, start)
        # No hooks: one may leave a process behind that would keep the lock open.
        config = [NO_HOOKS, *without_lfs(environ)]
        *options, commit = arguments
        repository.change(["worktree", "add", "--quiet", *options, path, commit], config)
    notes = [
        "its directory was missing; created it again"
        if name == previous
        else _branch_note(name, branch),
        _run_checkout_hook(path, "", environ),
        _lfs_note(path, environ),
    ]
    return WorktreeResult(given, name, start, True, "; ".join(note for note in notes if note))


def _real(path: str) -> str:
    """Resolve the parents of a path, as git records it; the last part stays as it is."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _is_numbered(name: str, branch: str) -> bool:
    """Return whether a name is the requested branch or `branch-N`."""
    number = name.removeprefix(f"{branch}-")
    return name == branch or (number != name and number.isdecimal())


def is_placeholder(branch: str) -> bool:
    """Return whether a branch is that of a worktree which `apply` created, not of a work item."""
    return branch.startswith(BRANCHES) and _is_numbered(branch.rpartition("/")[2], PREPARED)


def _refuse_checkout(path: str, rig: str) -> None:
    """Raise if the path is the rig itself or contains it."""
    if same_file(path, rig) or os.path.realpath(rig).startswith(f"{os.path.realpath(path)}/"):
        raise GitError(f"`{path}` is the rig's own checkout")


def _refuse_obstacle(path: str) -> None:
    """Raise unless the path does not exist or is an empty directory."""
    if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path)):
        raise GitError(f"`{path}` exists and is not a directory")
    if os.path.isdir(path) and os.listdir(path):
        raise GitError(f"`{path}` exists and is not a worktree of this rig")


def _clear_path(repository: RigRepository, path: str, record: WorktreeRecord | None) -> str:
    """Remove the remains of a worktree that no longer exists; return the branch it was on."""
    if record is not None and record.incomplete:
        _refuse_unrelated(path, record)
        if file := _unexpected_file(repository, path, record):
            raise GitError(f"`{path}` is incomplete and contains `{file}`")
        _delete(repository, path, record)
        return ""
    _refuse_obstacle(path)
    if record is None:
        return ""
    if record.locked is not None:
        reason = record.locked or "no reason given"
        raise GitError(f"`{path}` does not exist, and its worktree is locked: {reason}")
    if os.path.isdir(path):
        os.rmdir(path)
    forget(repository, path)
    return record.branch


def _unexpected_file(repository: RigRepository, path: str, record: WorktreeRecord) -> str:
    """Return a file that git did not write into an incomplete worktree; empty if there is none."""
    if not os.path.isdir(path):
        return ""
    rig, environ = repository.root, repository.environ
    commit = git.commit_of(rig, f"{record.name}/HEAD", environ)
    tracked = git.tree_paths(rig, commit, environ) if commit else frozenset()
    return next(unmanaged_files(path, "", tracked, {}), "")


def _default_base(repository: RigRepository) -> str:
    base = git.base_of(repository.root, None, repository.environ)
    if base is None:
        raise GitError(f"`{repository.root}` has no commit to start from")
    return base.commit


def _branch_arguments(
    repository: RigRepository, common: str, branch: str, previous: str, start: str
) -> tuple[str, list[str]]:
    """Return the branch to check out, and the arguments for `git worktree add`."""
    if previous and _is_numbered(previous, branch):
        if git.commit_of(repository.root, f"refs/heads/{previous}", repository.environ):
            return previous, [previous]
    name, option = _free_branch(repository, common, branch, start)
    return name, [option, name, start]


def _free_branch(
    repository: RigRepository, common: str, branch: str, start: str
) -> tuple[str, str]:
    """Return the first free one of `branch`, `branch-2`, …, and the option that creates it.

    A branch is free if it does not exist (`-b`), or is checked out nowhere and has no commits that
    `start` does not have (`-B`).
    """
    rig, environ = repository.root, repository.environ
    full = f"refs/heads/{branch}"
    listing = ["for-each-ref", "--format=%(if)%(worktreepath)%(then)+%(else)-%(end)%(refname)"]
    names = [full, f"{full}-*", f"{full}-*/**"]
    existing = {line[1:] for line in git.run([*listing, *names], rig, environ).line.split()}
    merged = git.run([*listing, f"--merged={start}", *names], rig, environ).line.split()
    for number in count(1):
        name = branch if number == 1 else f"{branch}-{number}"
        ref = f"refs/heads/{name}"
        if os.path.exists(f"{common}/{ref}.lock"):
            continue  # left by a killed git; nothing ever removes it
        if f"-{ref}" in merged:
            return name, "-B"
        if ref not in existing and not any(other.startswith(f"{ref}/") for other in existing):
            return name, "-b"
    raise AssertionError("the numbers never end")


def _tip(repository: RigRepository, branch: str) -> str:
    return git.commit_of(repository.root, f"refs/heads/{branch}", repository.environ)


def _has_commits(repository: RigRepository, branch: str, start: str) -> bool:
    """Return whether a branch has commits that `start` does not have."""
    ref = f"refs/heads/{branch}"
    if not git.commit_of(repository.root, ref, repository.environ):
        return False
    arguments = ["rev-list", "--max-count=1", f"{start}..{ref}", "--"]
    return bool(git.run(arguments, repository.root, repository.environ).out)


def _branch_note(name: str, branch: str) -> str:
    return "" if name == branch else f"on `{name}` because `{branch}` is in use"


def _run_checkout_hook(path: str, before: str, environ: Mapping[str, str]) -> str:
    """Run the repository's post-checkout hook; return a note if it fails."""
    hook = git.run(["rev-parse", "--git-path", "hooks/post-checkout"], path, environ).line
    if not os.access(os.path.join(path, hook), os.X_OK):
        return ""
    now = git.commit_of(path, "HEAD", environ)
    try:
        git.run_hook("post-checkout", [before or "0" * len(now), now, "1"], path, environ)
    except GitError as error:
        return f"its post-checkout hook failed: {error.message}"
    return ""


def _lfs_note(path: str, environ: Mapping[str, str]) -> str:
    """Return a note if large files are missing because git-lfs is not installed."""
    if not without_lfs(environ):
        return ""
    if not git.run(["ls-files", "--", ":(attr:filter=lfs)"], path, environ).out:
        return ""
    return "git-lfs is not installed, so large files are only pointers"


def switch(
    path: str,
    branch: str,
    base: str,
    environ: Mapping[str, str],
    *,
    lock: str,
    exact: bool = False,
) -> WorktreeResult:
    """Check out a new branch from `base` in an existing, reusable worktree.

    If the branch is checked out already and has no commits of its own, it stays as it is, unless
    it must start at `base` (`exact`).

    The caller has uncovered and restored covered files: git refuses to change them otherwise.
    The previous branch stays until the user deletes it, unless `apply` created it and it has no
    commits of its own.
    """
    with locked_file(lock) as lock_fd:
        repository = RigRepository(path, environ, lock_fd)
        before, old = git.commit_of(path, "HEAD", environ), current_branch(path, environ)
        stays = before == base or not (exact or _has_commits(repository, branch, base))
        if old == branch and stays:
            return WorktreeResult(path, old)
        name, option = _free_branch(repository, git.common_dir(path, environ), branch, base)
        config = [NO_HOOKS, *without_lfs(environ)]
        repository.change(["checkout", "--quiet", option, name, base, "--"], config)
        _delete_prepared_branch(repository, old)
    notes = [_branch_note(name, branch), _run_checkout_hook(path, before, environ)]
    return WorktreeResult(path, name, base, False, "; ".join(note for note in notes if note))


def detach(path: str, environ: Mapping[str, str]) -> None:
    """Keep a worktree's files and commit, but leave its branch, so that it can be deleted."""
    git.run(["checkout", "--quiet", "--detach"], path, environ, config=[NO_HOOKS])


def _delete_prepared_branch(repository: RigRepository, branch: str) -> None:
    """Delete a branch that `apply` created if other branches or a remote have all its commits."""
    rig, environ = repository.root, repository.environ
    ref = f"refs/heads/{branch}"
    if not is_placeholder(branch) or not git.commit_of(rig, ref, environ):
        return
    elsewhere = ["--not", *other_branches(branch), "--remotes", "--"]
    if not git.run(["rev-list", "--max-count=1", ref, *elsewhere], rig, environ).out:
        _delete_branch(repository, branch)


def _delete_branch(repository: RigRepository, branch: str) -> None:
    """Delete a branch that city created, unless it is checked out elsewhere."""
    if branch.startswith(BRANCHES):
        with suppress(GitError):
            repository.change(["branch", "--quiet", "-D", branch])


def remove(
    rig: str,
    path: str,
    managed: frozenset[str],
    covered: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    lock: str,
    force: bool = False,
    base: str = "",
    delete_branch: bool = False,
) -> list[str]:
    """Remove a worktree, or return the reasons to keep it and change nothing.

    `managed`, `covered` and `base` are those of `worktree_state.inspect`. With `force`, remove it
    with everything in it. The branch of a work item stays unless `delete_branch` asks for it.
    Raises GitError if the directory is not a worktree. The rig may no longer exist.
    """
    path = _real(path)
    _refuse_checkout(path, rig)
    with locked_file(lock) as lock_fd:
        repository = RigRepository(rig, environ, lock_fd)
        remove_tree(removal_path(path))
        common = _common_dir(rig, environ)
        record = find_record(repository, common, path) if common else None
        _refuse_unrelated(path, record)
        if not force:
            if record is not None and record.incomplete:
                file = _unexpected_file(repository, path, record)
                reasons = [f"it is incomplete and contains `{file}`"] if file else []
            else:
                reasons = _reasons_to_keep(path, managed, covered, environ, base, record)
            if reasons:
                return reasons
        _delete(repository, path, record)
        if record is not None and delete_branch:
            _delete_branch(repository, record.branch)
        elif record is not None:
            _delete_prepared_branch(repository, record.branch)
    return []


def _common_dir(rig: str, environ: Mapping[str, str]) -> str | None:
    """Return the rig's common git directory; None if it is no longer a repository."""
    if not os.path.isdir(rig):
        return None
    try:
        return git.common_dir(rig, environ)
    except GitError as error:
        if "not a git repository" in error.stderr:
            return None
        raise


def _refuse_unrelated(path: str, record: WorktreeRecord | None) -> None:
    """Raise if the path is not a worktree of this rig, or of one that no longer exists."""
    if not os.path.lexists(path):
        return
    if os.path.islink(path) or not os.path.isdir(path):
        raise GitError(f"`{path}` exists and is not a directory")
    if record is not None and not os.path.lexists(f"{path}/.git"):
        return
    if record is not None and is_linked(record, path):
        return
    if record is not None or admin_of(path) is None or has_repository(path):
        raise GitError(f"`{path}` is not a worktree of this rig")


def _reasons_to_keep(
    path: str,
    managed: frozenset[str],
    covered: Mapping[str, str],
    environ: Mapping[str, str],
    base: str,
    record: WorktreeRecord | None,
) -> list[str]:
    reasons = []
    if os.path.lexists(path):
        reasons = reasons_to_keep(inspect(path, managed, covered, environ, base))
    if record is not None and record.locked is not None:
        reasons.append(f"it is locked: {record.locked or 'no reason given'}")
    return reasons


def _delete(repository: RigRepository, path: str, record: WorktreeRecord | None) -> None:
    """Rename the directory out of sight, remove git's record, then delete the directory."""
    with suppress(FileNotFoundError):
        os.rename(path, removal_path(path))
    if record is not None:
        forget(repository, path)
    remove_tree(removal_path(path))


def cover(root: str, paths: Collection[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Make git skip tracked files, so that managed ones may replace them; return those."""
    tracked = git.tracked(root, environ, paths) & frozenset(paths)
    if tracked:
        arguments = ["update-index", "--skip-worktree", "-z", "--stdin"]
        git.run(arguments, root, environ, input=sorted(tracked))
    return tracked


def uncover(root: str, paths: Collection[str], environ: Mapping[str, str]) -> None:
    """Make git look at skipped files again; different content then shows as a change."""
    skipped = covered_files(root, environ) & frozenset(paths)
    if skipped:
        arguments = ["update-index", "--no-skip-worktree", "-z", "--stdin"]
        git.run(arguments, root, environ, input=sorted(skipped))


def covered_files(root: str, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the tracked files below a directory that git skips."""
    lines = git.run(["ls-files", "-t", "-z"], root, environ).names
    return frozenset(line[2:] for line in lines if line[0] == "S")


def restore(root: str, paths: Collection[str], environ: Mapping[str, str]) -> None:
    """Overwrite files with git's version and mode. Files that git does not track are skipped."""
    tracked = git.tracked(root, environ, paths) & frozenset(paths)
    if tracked:
        arguments = ["checkout-index", "--force", "-u", "-z", "--stdin"]
        git.run(arguments, root, environ, input=sorted(tracked), config=without_lfs(environ))
