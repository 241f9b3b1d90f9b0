"""`city migrate`: convert a v1 city to agent directories: plan, apply, verify."""

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gascity.cli.context import CommandContext, confirm, json_option, pass_context
from gascity.cli.output import print_stderr
from gascity.cli.problems import problems_json
from gascity.cli.terminal import control, redraw_line
from gascity.model.problems import CityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gascity.model.problems import Problem
    from gascity_migrate.draft import Migration


@click.command()
@click.option("--dry-run", is_flag=True, help="Show the changes and write nothing.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@json_option
@pass_context
def migrate(context: CommandContext, dry_run: bool, yes: bool) -> int:
    """Convert `[[agent]]` tables to agent directories.

    Shows every change first and keeps a backup. Then loads the converted city and compares it with
    the original, agent by agent. If anything differs, restores the original files.
    """
    from gascity_migrate.plan import plan_migration
    from gascity_migrate.report import plan_lines

    context.city_option = context.city_option or _pack_root(context)
    root = context.root
    _refuse_cache(context, root)
    plan = plan_migration(root, context.environ)
    if any(problem.is_error for problem in plan.problems):
        raise CityError(*plan.problems)
    if not context.as_json:
        context.print_problems(plan.problems)
        context.output({}, lambda: plan_lines(root, plan, context.colour, context.width))
    if dry_run or not plan.changes:
        return _report(context, plan)
    if not yes and not _confirmed(context):
        print_stderr("Nothing was changed.")
        return 1
    return _apply(context, root, plan)


def _refuse_cache(context: CommandContext, root: str) -> None:
    """Refuse to change a cached pack: its content must match the pinned commit."""
    from gascity.cli.problems import city_error
    from gascity.source.disk import is_below
    from gascity.source.pack_cache import cache_directory

    if is_below(os.path.realpath(root), os.path.realpath(cache_directory(context.environ))):
        words = "this directory is a pack in the download cache, which must not be changed"
        raise city_error(
            "pack-changed", words, "run `city migrate` in a clone of the pack's repository"
        )


def _pack_root(context: CommandContext) -> str | None:
    """Return the root of the pack that contains the working directory, if no city does."""
    if context.environ.get("CITY_ROOT"):
        return None
    pack_root, directory = None, context.cwd
    while not os.path.lexists(f"{directory}/city.toml"):
        if pack_root is None and os.path.isfile(f"{directory}/pack.toml"):
            pack_root = directory
        if directory == (directory := os.path.dirname(directory)):
            return pack_root
    return None


def _confirmed(context: CommandContext) -> bool:
    """Ask for confirmation on a terminal; in a pipe the command itself is the confirmation."""
    if context.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return confirm("\nApply these changes?", default=sys.stdout.isatty())


def _apply(context: CommandContext, root: str, plan: "Migration") -> int:
    from gascity.control.client import controller_state
    from gascity_migrate.execute import ComparisonError, apply_migration
    from gascity_migrate.report import done_lines

    try:
        with _status_line("Converting and comparing …"):
            backup = apply_migration(root, context.environ, plan)
    except BaseException as error:
        for note in getattr(error, "__notes__", ()):
            print_stderr(f"city: {note}")
        if isinstance(error, ComparisonError):
            return _report(context, plan, verified=False, problems=error.problems)
        raise
    if not context.as_json:
        running = controller_state(root).running
        context.output(
            {}, lambda: [*done_lines(root, plan, backup, running), _next_command(context, root)]
        )
    return _report(context, plan, backup, verified=True)


def _next_command(context: CommandContext, root: str) -> str:
    """Return the next command: fetch imports, fix problems, or list the agents."""
    from gascity.pipeline import open_city
    from gascity_migrate.draft import disk_of

    problems = open_city(root, context.environ, disk=disk_of(root)).all_problems
    if any(problem.code == "import-not-locked" for problem in problems):
        return "Next: `city pack install` (fetches and pins the imported repositories)"
    return (
        "Next: `city check` (shows the remaining problems)"
        if problems
        else "Next: `city agent list`"
    )


@contextmanager
def _status_line(text: str) -> "Iterator[None]":
    """Show a line on a terminal while the block runs."""
    if sys.stderr.isatty():
        redraw_line(text)
    try:
        yield
    finally:
        if sys.stderr.isatty():
            redraw_line(control("K"))


def _report(
    context: CommandContext,
    plan: "Migration",
    backup: str | None = None,
    *,
    verified: bool | None = None,
    problems: "Iterable[Problem]" = (),
) -> int:
    from gascity_migrate.report import plan_json

    differences = list(problems)
    if context.as_json:
        shown = problems_json(differences or plan.problems, context.locator())
        context.output(
            {**plan_json(plan), "backup": backup, "verified": verified, "problems": shown},
            lambda: (),
        )
    elif differences:
        context.print_problems(differences)
        print_stderr("city: nothing was changed: some agents would have a different configuration")
    return 1 if differences else 0
