"""`city migrate`: convert a v1 city to agent directories: plan, apply, verify."""

import os
import sys
from typing import TYPE_CHECKING

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, can_ask, confirm
from gascity.cli.output import print_stderr
from gascity.cli.problems import problems_json
from gascity.cli.progress import status_line
from gascity.model.problems import CityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gascity.model.problems import Problem
    from gascity_migrate.draft import Migration
    from gascity_migrate.execute import AppliedMigration


@json_command(
    examples=(
        "city migrate --dry-run",
        "city migrate --yes",
        "city migrate --from opencode ~/src/shop",
    ),
    page="how-to/migrate",
)
@click.argument("source", required=False)
@click.option("--from", "dialect", metavar="DIALECT", help="Import SOURCE, written for that tool.")
@click.option("--into", metavar="PACK", help="With --from: import into packs/PACK.")
@click.option("--prefer", multiple=True, metavar="FILE", help="With --from: as `city import`.")
@click.option("--rename", multiple=True, metavar="A=B", help="With --from: as `city import`.")
@click.option("--dry-run", is_flag=True, help="Show the changes and write nothing.")
@click.option("-y", "--yes", is_flag=True, help="Skip the confirmation.")
def migrate(
    context: CommandContext,
    source: str | None,
    dialect: str | None,
    into: str | None,
    prefer: "Sequence[str]",
    rename: "Sequence[str]",
    dry_run: bool,
    yes: bool,
) -> int:
    """Convert `[[agent]]` tables to agent directories.

    Shows every change first and keeps a backup. Then loads the converted city and compares it with
    the original, agent by agent. If anything differs, restores the original files. With --from,
    imports the agents, skills and MCP servers of another tool from SOURCE (default: the current
    directory); `city import` finds the tool itself.
    """
    if dialect is not None:
        from gascity_migrate.import_cli import chosen, run_import

        choices = chosen(prefer, rename)
        return run_import(context, source, [dialect], choices, into=into, dry_run=dry_run, yes=yes)
    if source is not None or into is not None or prefer or rename:
        words = "SOURCE, --into, --prefer and --rename need --from DIALECT; see also `city import`"
        raise click.UsageError(words)
    return _migrate(context, dry_run=dry_run, yes=yes)


def _migrate(context: CommandContext, *, dry_run: bool, yes: bool) -> int:
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
    if not yes and not is_confirmed(context, "Apply these changes?"):
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


def is_confirmed(context: CommandContext, question: str) -> bool:
    """Ask for confirmation on a terminal; in a pipe the command itself is the confirmation."""
    if not can_ask(context):
        return True
    return confirm(f"\n{question}", default=sys.stdout.isatty())


def _apply(context: CommandContext, root: str, plan: "Migration") -> int:
    from gascity.control.client import controller_state
    from gascity_migrate.execute import ComparisonError, apply_migration
    from gascity_migrate.report import done_lines

    try:
        with status_line("Converting and comparing …"):
            applied = apply_migration(root, context.environ, plan)
    except BaseException as error:
        for note in getattr(error, "__notes__", ()):
            print_stderr(f"city: {note}")
        if isinstance(error, ComparisonError):
            return _report(context, plan, verified=False, problems=error.problems)
        raise
    if not context.as_json:
        running = controller_state(root).running
        context.print_problems(applied.problems)
        context.output(
            {}, lambda: [*done_lines(root, plan, applied, running), _next_command(context, root)]
        )
    return _report(context, plan, applied, verified=not applied.broken)


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


def _report(
    context: CommandContext,
    plan: "Migration",
    applied: "AppliedMigration | None" = None,
    *,
    verified: bool | None = None,
    problems: "Iterable[Problem]" = (),
) -> int:
    from gascity_migrate.report import plan_json

    differences = list(problems)
    if context.as_json:
        remaining = applied.problems if applied else ()
        shown = problems_json(differences or (*plan.problems, *remaining), context.locator())
        backup = applied.backup if applied else None
        context.output(
            {**plan_json(plan), "backup": backup, "verified": verified, "problems": shown},
            lambda: (),
        )
    elif differences:
        context.print_problems(differences)
        print_stderr("city: nothing was changed: some agents would have a different configuration")
    return 1 if differences else 0
