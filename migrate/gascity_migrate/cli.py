"""`city migrate`: a city of the first layout brought to today's, shown first and checked after."""

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.output import complain
from gascity.cli.problems import problems_json
from gascity.model.problems import CityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gascity.model.problems import Problem
    from gascity_migrate.changes import Migration


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be done, and write nothing at all.")
@click.option("--yes", is_flag=True, help="Do not ask before it is done.")
@json_option
@pass_context
def migrate(context: Context, dry_run: bool, yes: bool) -> int:
    """Move agents that stand in tables to folders.

    What changes is shown, kept in a backup, and done whole or not at all: afterwards the city is
    loaded, and unless every agent is what it was before, everything is put back.
    """
    from gascity_migrate.plan import plan_migration
    from gascity_migrate.show import plan_lines

    context.chosen = context.chosen or _pack_root(context)
    root = context.root
    _refuse_cache(context, root)
    plan = plan_migration(root, context.environ)
    if any(problem.is_error for problem in plan.problems):
        raise CityError(*plan.problems)
    if not context.as_json:
        context.print_problems(plan.problems)
        context.say({}, lambda: plan_lines(root, plan, context.colour, context.width))
    if dry_run or not plan.changes:
        return _tell(context, plan)
    if not yes and not _agreed(context):
        complain("Nothing was changed.")
        return 1
    return _do(context, root, plan)


def _refuse_cache(context: Context, root: str) -> None:
    """What was fetched is as its repository has it, or it is not read any more."""
    from gascity.cli.edits import refuse
    from gascity.source.cached import cache_directory
    from gascity.source.disk import is_below

    if is_below(os.path.realpath(root), os.path.realpath(cache_directory(context.environ))):
        words = "what was fetched from a repository is not changed here"
        raise refuse("pack-changed", words, "migrate it where it is written")


def _pack_root(context: Context) -> str | None:
    """The pack that this directory is part of, where no city is above it."""
    if context.environ.get("CITY_ROOT"):
        return None
    found, here = None, context.cwd
    while not os.path.lexists(f"{here}/city.toml"):
        if found is None and os.path.isfile(f"{here}/pack.toml"):
            found = here
        if here == (here := os.path.dirname(here)):
            return found
    return None


def _agreed(context: Context) -> bool:
    """Does the person want it? Asked only where somebody can answer."""
    if context.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return click.confirm("\nDo this now?", default=sys.stdout.isatty(), err=True)


def _do(context: Context, root: str, plan: "Migration") -> int:
    from gascity.control.client import controller_state
    from gascity_migrate.show import done_lines
    from gascity_migrate.stage import NotTheSame, perform

    try:
        with _told("Preparing, changing, comparing …"):
            backup = perform(root, context.environ, plan)
    except BaseException as error:
        for note in getattr(error, "__notes__", ()):
            complain(f"city: {note}")
        if isinstance(error, NotTheSame):
            return _tell(context, plan, verified=False, problems=error.problems)
        raise
    if not context.as_json:
        running = controller_state(root).running
        context.say({}, lambda: [*done_lines(root, plan, backup, running), _next(context, root)])
    return _tell(context, plan, backup, verified=True)


def _next(context: Context, root: str) -> str:
    """What to do now: imports of repositories have to be fetched, and what is wrong is shown."""
    from gascity.pipeline import open_city
    from gascity_migrate.draft import disk_of

    found = open_city(root, context.environ, disk=disk_of(root)).everything_wrong
    if any(problem.code == "import-not-locked" for problem in found):
        return "Next: `city pack install` fetches and pins what is imported from repositories"
    return "Next: `city check` shows what is left" if found else "Next: `city agent list`"


@contextmanager
def _told(text: str) -> "Iterator[None]":
    """A line on a terminal for as long as something takes."""
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()
    try:
        yield
    finally:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _tell(
    context: Context,
    plan: "Migration",
    backup: str | None = None,
    *,
    verified: bool | None = None,
    problems: "Iterable[Problem]" = (),
) -> int:
    from gascity_migrate.show import plan_json

    found = list(problems)
    if context.as_json:
        shown = problems_json(found or plan.problems, context.locator())
        context.say(
            {**plan_json(plan), "backup": backup, "verified": verified, "problems": shown},
            lambda: (),
        )
    elif found:
        context.print_problems(found)
        complain("city: nothing was changed: some agents would not have been what they are now")
    return 1 if found else 0
