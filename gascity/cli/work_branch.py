"""`city work diff`, `open` and `move`: the branch, the directory and the agent of a work item."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from shlex import quote
from shlex import split as split_words

import click

from gascity.cli.command import json_command
from gascity.cli.completers import complete_work
from gascity.cli.context import CommandContext, complete_agent, machine
from gascity.cli.identity import access, caller
from gascity.cli.output import display_path, plural, print_stderr, text_lines
from gascity.cli.pager import page
from gascity.cli.problems import city_error
from gascity.cli.records import find_work, work_row
from gascity.cli.text_diff import coloured_patch
from gascity.control.enqueue import MoveRequest, move
from gascity.control.run_config import RunConfig
from gascity.model.work import Work
from gascity.workdir.merge import ItemBranch, changed_files, item_branch, patch, stat, worktree_of
from gascity.workdir.session_directory import uncommitted
from gascity.workdir.write.worktree_state import join_names

_PAGE = "how-to/merge"


def note_uncommitted(context: CommandContext, branch: ItemBranch) -> None:
    """Print a note about changes in the item's worktree that are in no commit."""
    worktree = worktree_of(branch.repository, branch.name, context.environ)
    files = uncommitted(context.root, worktree, context.environ) if worktree else ()
    if files:
        where = display_path(context.root, worktree)
        print_stderr(
            f"note: not committed in {where}, so not part of the branch: {join_names(files)}"
        )


@json_command(
    "diff",
    examples=("city work diff w-3", "city work diff w-3 --stat", "city work diff w-3 --json"),
    page=_PAGE,
)
@click.argument("id", metavar="WORK", shell_complete=complete_work)
@click.option("--stat", "as_stat", is_flag=True, help="Show changed files instead of the diff.")
def diff(context: CommandContext, id: str, as_stat: bool) -> int:
    """Show what a work item changed.

    Compares its branch with the commit that it started from.
    """
    branch = item_branch(context.city(), find_work(context, id), context.environ)
    sides = (branch.repository, branch.base, branch.commit)
    environ = context.environ
    if context.as_json:
        return context.output(
            {
                "work": id,
                "base": branch.base,
                "branch": branch.name,
                "files": [change._asdict() for change in changed_files(*sides, environ)],
                "patch": patch(*sides, environ),
            },
            tuple,
        )
    note_uncommitted(context, branch)
    if as_stat:
        lines = stat(*sides, context.width, environ)
    else:
        text = patch(*sides, environ)
        lines = list(coloured_patch(text_lines(text), context.colour)) if text else []
    page(context, lines or [f"{id} changed nothing on `{branch.name}`."])
    return 0


@json_command("open", examples=("city work open w-3", "city work open w-3 --shell"), page=_PAGE)
@click.argument("id", metavar="WORK", shell_complete=complete_work)
@click.option("--shell", is_flag=True, help="Start a shell, even if $EDITOR is set.")
def open_work(context: CommandContext, id: str, shell: bool) -> int:
    """Open the worktree of a work item.

    Starts $VISUAL or $EDITOR there, or a shell if neither is set.
    """
    work = find_work(context, id)
    directory = _directory(context, work)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        message = f"{id}: an editor or a shell needs a terminal"
        raise city_error("no-terminal", message, f"its directory is {quote(directory)}")
    environ = context.environ
    editor = "" if shell else environ.get("VISUAL") or environ.get("EDITOR") or ""
    command = [*split_words(editor), "."] if editor else [environ.get("SHELL") or "/bin/sh"]
    print_stderr(f"{work.id}: {directory}" + ("" if editor else " (`exit` returns)"))
    try:
        return subprocess.run(command, cwd=directory, env={**environ}).returncode
    except OSError as error:
        message = f"`{command[0]}` could not be started: {error.strerror}"
        raise city_error("missing-program", message, "set $EDITOR, or pass --shell") from error


def _directory(context: CommandContext, work: Work) -> str:
    """Return the directory that has the item's files; CityError if there is none any more."""
    if not work.branch:
        if work.workdir and os.path.isdir(work.workdir):
            return work.workdir
        where = f"{work.id} has no directory"
        raise city_error("no-directory", where, f"run `city work show {work.id}` to see its state")
    branch = item_branch(context.city(), work, context.environ)
    worktree = worktree_of(branch.repository, branch.name, context.environ)
    if not worktree:
        hint = f"run `git -C {quote(branch.repository)} worktree add ../{work.id} {branch.name}`"
        message = f"`{branch.name}` of {work.id} is checked out nowhere"
        raise city_error("no-directory", message, hint)
    return worktree


@json_command(
    "move",
    examples=("city work move w-3 --to reviewer", "city work move w-3 --to web/claude"),
    page=_PAGE,
)
@click.argument("id", metavar="WORK", shell_complete=complete_work)
@click.option(
    "--to",
    "agent",
    metavar="AGENT",
    required=True,
    shell_complete=complete_agent,
    help="Agent that gets the item.",
)
@click.option("--anyway", is_flag=True, help="Also to an agent that is only for other agents.")
def move_work(context: CommandContext, id: str, agent: str, anyway: bool) -> int:
    """Give a queued work item to another agent.

    If it has commits from an earlier start in the same rig, it continues from them.
    """
    work = find_work(context, id)
    run_config = RunConfig(context.city(), context.environ, machine())
    request = MoveRequest(agent, context.cwd, caller(context), anyway)
    access(context).check_agent(str(context.agent(agent)[1].name))
    moved = move(run_config, context.store(), work, request, time.time())
    return context.output(
        lambda: {"work": work_row(moved, context.root)},
        lambda: _moved_lines(work, moved),
    )


def _moved_lines(before: Work, after: Work) -> Iterator[str]:
    if after.agent == before.agent:
        yield f"{after.id} is already queued for {after.agent}"
        return
    yield f"{after.id} moved from {before.agent} to {after.agent}"
    if after.start_from and after.start_from == before.branch:
        yield f"  It starts from {before.branch} ({plural(before.commits, 'commit')})."
