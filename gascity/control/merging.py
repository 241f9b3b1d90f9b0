"""Merge the branch of a finished work item: checks, the merge itself, and what follows it."""

from collections.abc import Mapping
from typing import NamedTuple

from gascity.control.blocked_directories import read_blocked
from gascity.model.city import City
from gascity.model.problems import CityError, Problem
from gascity.model.work import FINISHED, STARTING, Work, status_word
from gascity.store.port import Store
from gascity.workdir.merge import (
    NONE,
    Commit,
    ItemBranch,
    MergeResult,
    check_checkout,
    commits_between,
    default_branch,
    delete_branch,
    find_gh,
    item_branch,
    move_branch,
    open_pull_request,
    push,
    remote_of,
    start_commit,
    try_merge,
    worktree_of,
)
from gascity.workdir.session_directory import free_branch

_ABOUT = "city work merge"  # in the reflog


class MergeOptions(NamedTuple):
    """Options of a merge, and what to do after it."""

    squash: bool = False
    ff_only: bool = False
    push: bool = False
    delete: bool = False


class PreparedMerge(NamedTuple):
    """A merge that no check refused."""

    work: Work
    branch: ItemBranch
    result: MergeResult
    commits: list[Commit]  # that the default branch gets, newest first
    start: str  # the commit of the default branch, here or on its remote
    remote: str  # where to push; empty: nowhere


class CompletedMerge(NamedTuple):
    """Result of a merge. `kept` says why the branch was not deleted."""

    pushed: bool
    deleted: bool = False
    kept: tuple[str, ...] = ()


def find_branch(city: City, work: Work, environ: Mapping[str, str]) -> ItemBranch:
    """Return the branch of an item that is finished; CityError otherwise."""
    if work.status not in FINISHED:
        message = f"{work.id} is {status_word(work.status)}"
        hint = f"wait until it is done, or run `city work cancel {work.id}`"
        raise CityError(Problem("still-running", message, None, hint))
    return item_branch(city, work, environ)


def prepare_merge(
    city: City, work: Work, options: MergeOptions, environ: Mapping[str, str]
) -> PreparedMerge:
    """Try the merge without changing a branch or a working tree; CityError if it cannot be done."""
    branch = find_branch(city, work, environ)
    repo = branch.repository
    into = default_branch(repo, branch.default, environ)
    start = start_commit(repo, into, environ)
    commits = commits_between(repo, start, branch.commit, environ)
    message = _squash_message(work, commits) if options.squash else _merge_message(work)
    try:
        result = try_merge(
            branch, into, message, environ, squash=options.squash, ff_only=options.ff_only
        )
    except CityError as error:
        raise _with_next_step(error, work, into) from None
    check_checkout(result, environ)
    remote = remote_of(repo, into, environ) if options.push else ""
    return PreparedMerge(work, branch, result, commits, start, remote)


def _merge_message(work: Work) -> str:
    return f"Merge {work.id}: {work.title}"


def _squash_message(work: Work, commits: list[Commit]) -> str:
    subjects = "".join(f"* {commit.subject}\n" for commit in reversed(commits))
    return f"{work.title}\n\n{subjects}\nWork item: {work.id}"


def _with_next_step(error: CityError, work: Work, into: str) -> CityError:
    """Add to a conflict how an agent can resolve it."""
    text = f"merge {into} into your branch and resolve the conflicts"
    hint = f'run `city sling {work.agent} "{text}" --on {work.id}`'
    return CityError(
        *(
            problem._replace(hint=hint) if problem.code == "merge-conflict" else problem
            for problem in error.problems
        )
    )


def complete_merge(
    root: str,
    store: Store,
    merge: PreparedMerge,
    delete: bool,
    now: float,
    actor: str,
    environ: Mapping[str, str],
) -> CompletedMerge:
    """Push, move the default branch, record it, and delete the item's branch if asked.

    The push comes first: if the remote refuses it, nothing has changed.
    """
    result, work = merge.result, merge.work
    if merge.remote:
        push(result.repository, merge.remote, result.commit, result.into, environ)
    move_branch(result, f"{_ABOUT} {work.id}", environ)
    if result.method != NONE:
        data = {"agent": work.agent, "status": work.status, "session": work.session}
        data |= {"into": result.into, "commit": result.commit, "method": result.method}
        store.record_event("work.merged", work.id, now, data, actor)
    if not delete:
        return CompletedMerge(bool(merge.remote))
    kept = tuple(delete_item_branch(root, store, merge.branch, environ))
    return CompletedMerge(bool(merge.remote), not kept, kept)


def delete_item_branch(
    root: str, store: Store, branch: ItemBranch, environ: Mapping[str, str]
) -> list[str]:
    """Delete a merged branch; return the reasons to keep it instead, if there are any."""
    repo, name = branch.repository, branch.name
    worktree = worktree_of(repo, name, environ)
    if worktree:
        reasons = free_branch(
            root,
            worktree,
            name,
            environ,
            taken=lambda: _directories_in_use(store),
            safe=branch.commit,
        )
        if reasons:
            return reasons
    delete_branch(repo, name, branch.commit, environ)
    return []


def _directories_in_use(store: Store) -> list[str]:
    """Return the directories in which a process of a session runs, starts or cannot be killed.

    An idle session has no process; its next item gets a branch of its own.
    """
    busy = (
        session.workdir
        for session in store.sessions(live=True)
        if session.pid or session.interactive or session.state == STARTING
    )
    return [*busy, *(entry.path for entry in read_blocked(store))]


def request_merge(city: City, work: Work, environ: Mapping[str, str]) -> tuple[str, str]:
    """Push the branch of an item and open a pull request; return its base and its address."""
    program = find_gh(environ)
    branch = find_branch(city, work, environ)
    repo = branch.repository
    into = default_branch(repo, branch.default, environ)
    push(repo, remote_of(repo, into, environ), branch.commit, branch.name, environ)
    return into, open_pull_request(program, branch, into, work.title, work.body, environ)
