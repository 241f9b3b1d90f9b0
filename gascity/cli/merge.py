"""`city work merge`: bring the branch of a finished work item into the default branch."""

import time
from collections.abc import Iterator

import click

from gascity.cli.command import json_command
from gascity.cli.completers import complete_work
from gascity.cli.context import CommandContext, require_confirmation
from gascity.cli.identity import actor, caller
from gascity.cli.output import escape, plural, print_stderr
from gascity.cli.records import find_work
from gascity.cli.work_branch import note_uncommitted
from gascity.control.merging import (
    CompletedMerge,
    MergeOptions,
    PreparedMerge,
    complete_merge,
    prepare_merge,
    request_merge,
)
from gascity.model.work import Work, status_word
from gascity.workdir.merge import NONE, stat

_MOST_COMMITS = 20  # shown before the question
_SHORT = 8  # characters of a commit's id


@json_command(
    "merge",
    examples=(
        "city work merge w-3",
        "city work merge w-3 --squash --push --delete --yes",
        "city work merge w-3 --pr",
    ),
    page="how-to/merge",
)
@click.argument("id", metavar="WORK", shell_complete=complete_work)
@click.option("--squash", is_flag=True, help="Merge as one commit.")
@click.option("--ff-only", is_flag=True, help="Refuse unless a fast-forward is possible.")
@click.option("--push", is_flag=True, help="Push the default branch.")
@click.option("--pr", is_flag=True, help="Open a pull request with `gh` instead of merging.")
@click.option("--delete", is_flag=True, help="Delete the item's branch and its worktree.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def merge_work(
    context: CommandContext,
    id: str,
    squash: bool,
    ff_only: bool,
    push: bool,
    pr: bool,
    delete: bool,
    yes: bool,
) -> int:
    """Merge the branch of a work item into the rig's default branch.

    Fast-forwards if possible, else creates a merge commit. Shows the change and
    asks; in a pipe, --yes is required. A conflict changes nothing.
    """
    if pr and (squash or ff_only or push or delete):
        raise click.UsageError("--pr cannot be combined with --squash, --ff-only, --push, --delete")
    if squash and ff_only:
        raise click.UsageError("--squash cannot be combined with --ff-only")
    work = find_work(context, id)
    if pr:
        return _request(context, work, yes)
    options = MergeOptions(squash, ff_only, push, delete)
    merge = prepare_merge(context.city(), work, options, context.environ)
    if merge.result.method == NONE and not merge.commits:
        note_uncommitted(context, merge.branch)
    else:
        _show(context, merge)
    if merge.result.method != NONE or push or delete:
        question = f"Merge into {merge.result.into}?"
        require_confirmation(context, question, yes, f"{id} was not merged")
    done = complete_merge(
        context.root,
        context.store(),
        merge,
        delete,
        time.time(),
        actor(caller(context)),
        context.environ,
    )
    return context.output(
        {
            "work": id,
            "into": merge.result.into,
            "method": merge.result.method,
            "commit": merge.result.commit,
            "pushed": done.pushed,
            "pr": None,
            "deleted": done.deleted,
            "kept": list(done.kept),
        },
        lambda: _lines(merge, done),
    )


def _show(context: CommandContext, merge: PreparedMerge) -> None:
    """Print the commits and files that the default branch gets."""
    if context.as_json:
        return
    result, work, commits = merge.result, merge.work, merge.commits
    print_stderr(
        f"{work.id} ({work.agent}, {status_word(work.status)}): {escape(work.title)}",
        f"{merge.branch.name} into {result.into}: {result.method}, "
        f"{plural(len(commits), 'commit')}",
        *(f"  {commit.id[:_SHORT]} {escape(commit.subject)}" for commit in commits[:_MOST_COMMITS]),
        *([f"  … and {len(commits) - _MOST_COMMITS} more"] * (len(commits) > _MOST_COMMITS)),
        *stat(result.repository, merge.start, result.commit, context.width, context.environ),
    )
    note_uncommitted(context, merge.branch)


def _lines(merge: PreparedMerge, done: CompletedMerge) -> Iterator[str]:
    result, branch = merge.result, merge.branch.name
    if result.method == NONE and not merge.commits:
        yield f"{merge.work.id} has nothing to merge: {result.into} has all commits of {branch}"
    elif result.method == NONE:
        yield f"{merge.work.id} is already in {result.into}"
    else:
        commit = result.commit[:_SHORT]
        yield f"{merge.work.id} merged into {result.into} ({result.method}): {commit}"
    if result.checkout and result.method != NONE:
        yield f"  updated {result.checkout}"
    if done.pushed:
        yield f"  pushed {result.into} to {merge.remote}"
    if done.deleted:
        yield f"  deleted branch {branch}"
    yield from (f"  kept branch {branch}: {reason}" for reason in done.kept)


def _request(context: CommandContext, work: Work, yes: bool) -> int:
    question = f"Push {work.branch} and open a pull request?"
    require_confirmation(context, question, yes, f"{work.id} was not pushed")
    into, address = request_merge(context.city(), work, context.environ)
    answer = {"work": work.id, "into": into, "method": "pull-request", "commit": None}
    return context.output(
        {**answer, "pushed": True, "pr": address, "deleted": False, "kept": []},
        lambda: [f"{work.id}: {address}"],
    )
