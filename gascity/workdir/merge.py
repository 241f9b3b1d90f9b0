"""Compares the branch of a work item with its start, and merges it into the rig's default branch.

The result of a merge is a commit before anything is changed: git combines the two branches in its
object database (`git merge-tree`), where a conflict has no consequences. Only then the default
branch moves, in one step and only from the commit that the result was made for. If it is checked
out, its working tree moves with it, as in a fast-forward; git refuses that if a file would be lost.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from shlex import quote
from typing import NamedTuple

from gascity import git
from gascity.git import GitError
from gascity.model.city import City
from gascity.model.names import parse_name
from gascity.model.problems import CityError, Problem
from gascity.model.work import Work
from gascity.paths import which
from gascity.workdir.write.worktree import NO_HOOKS
from gascity.workdir.write.worktree_state import join_names, operation_in_progress

Environ = Mapping[str, str]

FAST_FORWARD, MERGE, SQUASH, NONE = "fast-forward", "merge", "squash", "none"
_CONFLICT = 1  # exit code of `git merge-tree`
_RENAMES = "--find-renames"
_ORIGIN = "refs/remotes/origin/"


class ChangedFile(NamedTuple):
    """A changed file and the number of its changed lines; None for a binary file."""

    path: str
    added: int | None
    removed: int | None


class Commit(NamedTuple):
    """A commit, as lists show it."""

    id: str
    subject: str


class MergeResult(NamedTuple):
    """A merge that exists as a commit, and where it belongs."""

    repository: str
    into: str  # the default branch
    before: str  # the commit of `into`; empty: it does not exist locally yet
    commit: str  # its commit after the merge
    method: str
    checkout: str  # the working tree that has `into` checked out; empty: none


class ItemBranch(NamedTuple):
    """The branch of a work item in the repository of its rig."""

    repository: str
    name: str
    commit: str
    base: str  # the commit that the item started from
    default: str  # `default_branch` of the rig; empty: not set


def item_branch(city: City, work: Work, environ: Environ) -> ItemBranch:
    """Return the branch of an item; CityError if it has none, or if it was deleted."""
    if not work.branch:
        hint = f"it ran in {work.workdir}, not in a git worktree"
        raise _refuse(
            "no-branch", f"{work.id} has no branch", hint if work.workdir else "it has not started"
        )
    name = parse_name(work.agent).rig
    rig = next((rig for rig in city.rigs if rig.name == name), None)
    path = os.path.join(city.root, rig.path) if rig is not None and rig.path else work.workdir
    if not os.path.isdir(path):
        message = f"{work.id}: the repository of rig `{name}` does not exist: {path}"
        raise _refuse("rig-missing", message, "run `city rig add PATH --name NAME`")
    path = os.path.realpath(path)
    commit = git.commit_of(path, f"refs/heads/{work.branch}", environ)
    if not commit:
        message = f"{work.id}: the branch `{work.branch}` does not exist any more"
        raise _refuse("unknown-branch", message, f"see `git -C {quote(path)} reflog`")
    default = (rig.settings.default_branch if rig is not None else "") or ""
    base = work.base or _fork_point(path, default, commit, environ)
    return ItemBranch(path, work.branch, commit, base or commit, default)


def _fork_point(repo: str, default: str, commit: str, environ: Environ) -> str:
    """Return the last commit that a branch shares with the rig's base; empty if there is none."""
    base = git.base_of(repo, default or None, environ)
    if base is None:
        return ""
    return git.run(["merge-base", commit, base.commit], repo, environ, allowed=(0, 1)).line


def _refuse(code: str, message: str, hint: str) -> CityError:
    return CityError(Problem(code, message, None, hint))


# Changes


def changed_files(repo: str, base: str, commit: str, environ: Environ) -> list[ChangedFile]:
    """Return the files that differ between two commits."""
    arguments = ["diff", "--no-ext-diff", "--no-renames", "--numstat", "-z", base, commit, "--"]
    changes = []
    for line in git.run(arguments, repo, environ).names:
        added, removed, path = line.split("\t", 2)
        binary = added == "-"
        changes.append(
            ChangedFile(path, None if binary else int(added), None if binary else int(removed))
        )
    return changes


def patch(repo: str, base: str, commit: str, environ: Environ) -> str:
    """Return the difference between two commits as a patch that `git apply` takes."""
    arguments = ["diff", "--no-ext-diff", "--no-color", "--binary", _RENAMES, base, commit, "--"]
    return os.fsdecode(git.run(arguments, repo, environ).out)


def stat(repo: str, base: str, commit: str, width: int, environ: Environ) -> list[str]:
    """Return the difference between two commits as lines of file names and bars."""
    arguments = ["diff", "--no-ext-diff", "--no-color", f"--stat={width}", _RENAMES, base, commit]
    return git.run([*arguments, "--"], repo, environ).line.splitlines()


def commits_between(repo: str, base: str, commit: str, environ: Environ) -> list[Commit]:
    """Return the commits that are in `commit` and not in `base`, newest first."""
    arguments = ["log", "--format=%H%x09%s", "-z", f"{base}..{commit}", "--"]
    lines = git.run(arguments, repo, environ).names
    return [Commit(*line.split("\t", 1)) for line in lines]


# Merging


def default_branch(repo: str, configured: str, environ: Environ) -> str:
    """Return the local branch that work is merged into: configured, else origin's, else HEAD's."""
    if configured:
        for prefix in ("refs/heads/", "refs/remotes/origin/"):
            if git.commit_of(repo, prefix + configured, environ):
                return configured
        if git.commit_of(repo, f"refs/remotes/{configured}", environ):
            return configured.partition("/")[2]
    for name, prefix in (("refs/remotes/origin/HEAD", _ORIGIN), ("HEAD", "refs/heads/")):
        target = git.run(["symbolic-ref", "--quiet", name], repo, environ, allowed=(0, 1)).line
        if not configured and target.startswith(prefix):
            return target.removeprefix(prefix)
    message = f"{repo} has no branch checked out"
    if configured:
        message = f"`{configured}` is not a branch of {repo}"
    hint = "set `default_branch` of the rig in city.toml"
    raise _refuse("no-default-branch", message, hint)


def start_commit(repo: str, into: str, environ: Environ) -> str:
    """Return the commit of the default branch; of its remote if it does not exist locally."""
    local = git.commit_of(repo, f"refs/heads/{into}", environ)
    return local or git.commit_of(repo, _ORIGIN + into, environ)


def try_merge(
    branch: ItemBranch,
    into: str,
    message: str,
    environ: Environ,
    *,
    squash: bool = False,
    ff_only: bool = False,
) -> MergeResult:
    """Return the merge of a branch as a commit; no branch moves. Raises CityError."""
    repo, tip = branch.repository, branch.commit
    before = git.commit_of(repo, f"refs/heads/{into}", environ)
    start = start_commit(repo, into, environ)
    checkout = worktree_of(repo, into, environ)
    if _is_ancestor(repo, tip, start, environ):
        return MergeResult(repo, into, before, start, NONE, checkout)
    fast = _is_ancestor(repo, start, tip, environ)
    if fast and not squash:
        return MergeResult(repo, into, before, tip, FAST_FORWARD, checkout)
    if ff_only and not fast:
        text = f"`{into}` has commits that `{branch.name}` does not have"
        raise _refuse("not-fast-forward", text, "leave out --ff-only")
    tree = _merged_tree(repo, start, tip, environ, into)
    if squash and tree == _tree_of(repo, start, environ):
        return MergeResult(repo, into, before, start, NONE, checkout)
    parents = ["-p", start] if squash else ["-p", start, "-p", tip]
    commit = git.run(["commit-tree", tree, *parents, "-m", message], repo, environ).line
    return MergeResult(repo, into, before, commit, SQUASH if squash else MERGE, checkout)


def _is_ancestor(repo: str, commit: str, of: str, environ: Environ) -> bool:
    arguments = ["merge-base", "--is-ancestor", commit, of]
    return git.run(arguments, repo, environ, allowed=(0, 1)).code == 0


def _tree_of(repo: str, commit: str, environ: Environ) -> str:
    return git.run(["rev-parse", f"{commit}^{{tree}}"], repo, environ).line


def _merged_tree(repo: str, ours: str, theirs: str, environ: Environ, into: str) -> str:
    """Return the tree of a merge, without touching any working tree (git 2.38 or newer)."""
    options = ["--write-tree", "-z", "--name-only", "--no-messages"]
    arguments = ["merge-tree", *options, ours, theirs]
    result = git.run(arguments, repo, environ, allowed=(0, _CONFLICT))
    tree, *files = result.names
    if result.code != _CONFLICT:
        return tree
    names = join_names(tuple(dict.fromkeys(files)))
    raise _refuse("merge-conflict", f"conflicts with `{into}` in {names}; nothing was changed", "")


def check_checkout(merge: MergeResult, environ: Environ) -> None:
    """Raise CityError if the working tree of the default branch cannot move with it."""
    where, into = merge.checkout, merge.into
    if merge.method == NONE:
        return
    if not where:
        if _is_rebased(merge.repository, into, environ):
            raise _dirty(f"`{into}` is being rebased", "finish the rebase")
        return
    in_progress = operation_in_progress(where, environ)
    if in_progress:
        raise _dirty(f"{in_progress} is in progress in {where}", "finish it")
    arguments = ["status", "--porcelain", "-z", "--untracked-files=no", "--no-renames"]
    dirty = tuple(line[3:] for line in git.run(arguments, where, environ).names)
    if dirty:
        text = f"`{into}` is checked out in {where} with uncommitted changes: {join_names(dirty)}"
        raise _dirty(text, "commit or stash them")
    git.run(["update-index", "-q", "--refresh"], where, environ, allowed=(0, 1))
    try:
        dry_run = ["read-tree", "--dry-run", "-m", "-u", "HEAD", merge.commit]
        git.run(dry_run, where, environ)
    except GitError as error:
        raise _dirty(f"{where}: {error.message}", "move or commit the file") from error


def _dirty(message: str, hint: str) -> CityError:
    return _refuse("dirty-checkout", message, f"{hint}, then merge again")


def _is_rebased(repo: str, branch: str, environ: Environ) -> bool:
    """Return whether a rebase of the branch is in progress: HEAD is then detached."""
    common = git.common_dir(repo, environ)
    linked = f"{common}/worktrees"
    names = os.listdir(linked) if os.path.isdir(linked) else []
    for admin in (common, *(f"{linked}/{name}" for name in names)):
        for operation in ("rebase-merge", "rebase-apply"):
            try:
                with open(f"{admin}/{operation}/head-name", encoding="utf-8") as file:
                    if file.read().strip() == f"refs/heads/{branch}":
                        return True
            except OSError:
                continue
    return False


def move_branch(merge: MergeResult, about: str, environ: Environ) -> None:
    """Move the default branch to the merge, with its working tree if it is checked out."""
    if merge.method == NONE:
        return
    if merge.checkout:
        # No hooks: a process that one leaves behind would keep our pipe open.
        forward = ["merge", "--ff-only", "--quiet", merge.commit]
        git.run(forward, merge.checkout, environ, config=[NO_HOOKS])
        with suppress(GitError):  # git, too, only reports it
            git.run_hook("post-merge", ["0"], merge.checkout, environ)
        return
    # The old commit must be the one that the merge was made for; zeros: it must not exist.
    old = merge.before or "0" * len(merge.commit)
    ref = f"refs/heads/{merge.into}"
    git.run(["update-ref", "-m", about, ref, merge.commit, old], merge.repository, environ)


# Branches


def worktree_of(repo: str, branch: str, environ: Environ) -> str:
    """Return the working tree in which a branch is checked out; empty if there is none."""
    arguments = ["for-each-ref", "--format=%(worktreepath)", f"refs/heads/{branch}"]
    return git.run(arguments, repo, environ).line


def remote_of(repo: str, branch: str, environ: Environ) -> str:
    """Return the remote that a branch is pushed to: its own, else origin."""
    setting = ["config", f"branch.{branch}.remote"]
    remote = git.run(setting, repo, environ, allowed=(0, 1)).line or "origin"
    if remote not in git.run(["remote"], repo, environ).line.splitlines():
        message = f"{repo} has no remote `{remote}`"
        hint = f"run `git -C {quote(repo)} remote add {remote} URL` first"
        raise _refuse("no-remote", message, hint)
    return remote


def push(repo: str, remote: str, commit: str, branch: str, environ: Environ) -> None:
    """Push a commit as a branch of the remote; CityError if the remote refuses it."""
    try:
        git.run(["push", "--quiet", remote, f"{commit}:refs/heads/{branch}"], repo, environ)
    except GitError as error:
        reason = _push_error(error)
        message = f"`{branch}` was not pushed to {remote}: {reason}"
        hint = f"run `git -C {quote(repo)} pull {remote} {branch}` if the remote is ahead"
        raise _refuse("push-failed", message, f"nothing was changed; {hint}") from error


def _push_error(error: GitError) -> str:
    """Return the remote's reason, which git prints above its own."""
    lines = (line.strip() for line in error.stderr.splitlines())
    rejected = next((line for line in lines if line.startswith("! [")), "")
    return " ".join(rejected.removeprefix("!").split()) or error.message


def delete_branch(repo: str, branch: str, commit: str, environ: Environ) -> None:
    """Delete a branch if it exists. Raises GitError if it moved or is checked out."""
    ref = f"refs/heads/{branch}"
    if worktree := worktree_of(repo, branch, environ):
        raise GitError(f"`{branch}` is checked out in {worktree}")
    if git.commit_of(repo, ref, environ):
        git.run(["update-ref", "-d", ref, commit], repo, environ)
    # What git records about it, such as its remote; absent unless the user set it.
    section = ["config", "--remove-section", f"branch.{branch}"]
    git.run(section, repo, environ, allowed=(0, 1, 128))


# Pull requests


def find_gh(environ: Environ) -> str:
    """Return the path of GitHub's command line program; CityError if it is not installed."""
    program = which("gh", environ)
    if program is None:
        hint = "install the GitHub CLI, or merge with --push"
        raise _refuse("missing-program", "the program `gh` was not found", hint)
    return program


def open_pull_request(
    program: str, branch: ItemBranch, into: str, title: str, body: str, environ: Environ
) -> str:
    """Open a pull request for a pushed branch; return its address."""
    import subprocess

    words = [
        "pr",
        "create",
        "--head",
        branch.name,
        "--base",
        into,
        "--title",
        title,
        "--body",
        body,
    ]
    done = subprocess.run(
        [program, *words],
        cwd=branch.repository,
        env=git.environment(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        hint = f"`{branch.name}` was pushed; run `gh auth status` to check the login"
        raise _refuse("pr-failed", f"gh: {reason}", hint)
    return done.stdout.strip().rpartition("\n")[2]
