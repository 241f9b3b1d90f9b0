"""`city import` and `city migrate --from`: import agents that were written for other tools."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, can_ask, choose
from gascity.cli.output import plural, print_stderr
from gascity.cli.problems import city_error, problems_json
from gascity.model.names import is_name
from gascity.model.problems import CityError, Problem
from gascity_migrate.cli import is_confirmed

if TYPE_CHECKING:
    from gascity_migrate.draft import NotCarried
    from gascity_migrate.importers.combine import Choices
    from gascity_migrate.importers.plan import ImportPlan, ImportRequest
    from gascity_migrate.importers.report import FoundRow
    from gascity_migrate.importers.source import DiskTree
    from gascity_migrate.importers.types import Imported


@json_command(
    "import",
    examples=(
        "city import --dry-run",
        "city import ~/src/shop --prefer .mcp.json",
        "city import --rename 'Code Reviewer=code-reviewer'",
    ),
    page="how-to/import",
)
@click.argument("directory", required=False)
@click.option("--dry-run", is_flag=True, help="Show the changes and write nothing.")
@click.option("-y", "--yes", is_flag=True, help="Skip the confirmation.")
@click.option(
    "--prefer",
    multiple=True,
    metavar="FILE",
    help="If files conflict, use the definition in this one (also one in the city).",
)
@click.option("--rename", multiple=True, metavar="A=B", help="Import A under the name B.")
@click.option("--into", metavar="PACK", help="Import into packs/PACK (default: the city itself).")
@click.option("--instructions", is_flag=True, help="Copy instructions files of a rig, too.")
def import_agents(
    context: CommandContext,
    directory: str | None,
    dry_run: bool,
    yes: bool,
    prefer: Sequence[str],
    rename: Sequence[str],
    into: str | None,
    instructions: bool,
) -> int:
    """Import agents, skills and MCP servers of other tools.

    Finds the files of Claude Code, Codex, Copilot, Cursor, Gemini CLI, OpenCode and others in
    DIRECTORY (default: the current directory), shows what they become, and writes it to the
    city. The source is not changed.
    """
    from gascity_migrate.importers.registry import readers

    return run_import(
        context,
        directory,
        list(readers()),
        chosen(prefer, rename),
        into=into,
        instructions=instructions,
        dry_run=dry_run,
        yes=yes,
    )


def chosen(prefer: Sequence[str], rename: Sequence[str]) -> "Choices":
    """Return the choices in the options `--prefer` and `--rename`."""
    from gascity_migrate.importers.combine import Choices

    renames = {}
    for word in rename:
        old, equals, new = word.rpartition("=")
        if not equals or not old or not new:
            raise click.BadParameter(f"`{word}` is not OLD=NEW", param_hint="--rename")
        renames[old] = new
    return Choices(tuple(prefer), renames)


def run_import(
    context: CommandContext,
    source: str | None,
    dialects: Sequence[str],
    choices: "Choices",
    *,
    into: str | None = None,
    instructions: bool = False,
    dry_run: bool = False,
    yes: bool = False,
) -> int:
    """Read a source, show what it becomes, and import it."""
    from gascity_migrate.importers.managed import Managed, managed_in
    from gascity_migrate.importers.plan import ImportRequest, conflict_problem, plan_import
    from gascity_migrate.importers.report import found_rows, found_sentence
    from gascity_migrate.importers.types import Imported

    if into and not is_name(into):
        raise click.BadParameter(f"`{into}` cannot be the name of a pack", param_hint="--into")
    tree = open_source(context, source)
    managed = Managed() if tree.single else managed_in(context.root, tree.root)
    tree.hide(managed.paths)
    found = {dialect: managed.without_servers(_read(dialect, tree), tree) for dialect in dialects}
    if len(dialects) > 1:
        found["monorepo"] = Imported(lost=tuple(_projects_below(tree)))
    request = ImportRequest(
        context.root, choices, into or "", _is_own_project(context, tree.root), instructions
    )
    plan = plan_import(list(found.values()), request)
    rows = found_rows(found)
    if not context.as_json and (rows or not plan.migration.problems):
        print_stderr(found_sentence(rows, plan.combined.differing))
        if managed.paths:
            print_stderr(f"Skipped {plural(len(managed.paths), 'file')} that this city wrote.")
    if plan.conflicts and not any(problem.is_error for problem in plan.migration.problems):
        request, plan = _resolve(context, request, plan, list(found.values()))
    if any(problem.is_error for problem in plan.migration.problems):
        raise CityError(*plan.migration.problems, *map(conflict_problem, plan.conflicts))
    if not context.as_json:
        _print_plan(context, plan, found=bool(rows))
    if dry_run or not plan.migration.changes:
        return _report(context, plan, rows)
    if not yes and not is_confirmed(context, "Import this?"):
        print_stderr("Nothing was changed.")
        return 1
    return _apply(context, list(found.values()), plan, request, rows)


def open_source(context: CommandContext, source: str | None) -> "DiskTree":
    from gascity.cli.progress import Progress
    from gascity_migrate.importers.source import DiskTree

    path = os.path.abspath(os.path.join(context.cwd, os.path.expanduser(source or ".")))
    if not os.path.exists(path):
        raise city_error("unknown-source", f"{source} does not exist")
    directory, single = (path, "") if os.path.isdir(path) else os.path.split(path)
    real_root, real = os.path.realpath(context.root), os.path.realpath(directory)
    inside = real == real_root or real.startswith(f"{real_root}/")
    shown = os.path.relpath(real, real_root) if inside else directory
    progress = Progress(context)
    return DiskTree(
        directory,
        "" if shown == "." else shown,
        single=single,
        progress=lambda count: progress.count_files(count, count),
    )


def _projects_below(tree: "DiskTree") -> "Iterator[NotCarried]":
    """Yield what is left to import: the projects inside the source."""
    from gascity_migrate.draft import NotCarried

    for path, own in tree.projects_below():
        shown = tree.shown(path)
        reason = f"{path} is a project of its own: `city import {shown} --into NAME`"
        yield NotCarried(f"{shown}/{own}", 1, own.rpartition("/")[2], reason)


def _read(dialect: str, tree: "DiskTree") -> "Imported":
    from gascity_migrate.importers.registry import find_reader

    return find_reader(dialect)(tree)


def _is_own_project(context: CommandContext, directory: str) -> bool:
    """Return whether a directory is the city's or inside one of its rigs."""
    from gascity.pipeline import open_city

    roots = [rig.path for rig in open_city(context.root, context.environ).rigs if rig.path]
    real = os.path.realpath(directory)
    for root in (context.root, *roots):
        base = os.path.realpath(os.path.join(context.root, root))
        if real == base or real.startswith(f"{base}/"):
            return True
    return False


def _resolve(
    context: CommandContext,
    request: "ImportRequest",
    plan: "ImportPlan",
    found: "Sequence[Imported]",
) -> "tuple[ImportRequest, ImportPlan]":
    """Ask which file to use for each conflict; in a pipe, raise CityError."""
    from gascity_migrate.importers.plan import plan_import, refuse_conflicts

    if not can_ask(context):
        refuse_conflicts(plan.conflicts)
    preferred = list(request.choices.prefer)
    while plan.conflicts:  # a file that was chosen may differ from the city's
        for conflict in plan.conflicts:
            print_stderr(f"{len(conflict.files)} files define {conflict.kind} `{conflict.name}`:")
            in_city = [" (in the city)" if file == conflict.home else "" for file in conflict.files]
            lines = zip(conflict.files, in_city, strict=True)
            print_stderr(*(f"  {at}. {file}{note}" for at, (file, note) in enumerate(lines, 1)))
            chosen = choose("Which one?", len(conflict.files))
            preferred.append(conflict.files[chosen - 1])
        request = request._replace(choices=request.choices._replace(prefer=tuple(preferred)))
        plan = plan_import(found, request)
    return request, plan


def _print_plan(context: CommandContext, plan: "ImportPlan", *, found: bool) -> None:
    from gascity_migrate.importers.report import plan_lines

    context.print_problems(plan.migration.problems)
    context.output({}, lambda: plan_lines(context.root, plan, found, context.colour, context.width))


def _apply(
    context: CommandContext,
    found: "Sequence[Imported]",
    plan: "ImportPlan",
    request: "ImportRequest",
    rows: "Sequence[FoundRow]",
) -> int:
    from gascity_migrate.execute import ComparisonError
    from gascity_migrate.importers.apply import apply_import

    try:
        backup = apply_import(context.environ, found, plan, request)
    except ComparisonError as error:
        return _report(context, plan, rows, verified=False, problems=error.problems)
    if not context.as_json:
        next_command = "Next: `city agent list`, then `city check`"
        lines = ["", _imported(plan), f"Backup: {backup}/old", next_command]
        context.output({}, lambda: lines)
    return _report(context, plan, rows, backup, verified=True)


def _imported(plan: "ImportPlan") -> str:
    from collections import Counter

    from gascity_migrate.importers.combine import AGENT, SERVER, SKILL

    imported = Counter(definition.kind for definition in plan.definitions)
    imported.subtract(definition.kind for definition in plan.kept)
    words = {"agent": imported[AGENT], "skill": imported[SKILL], "MCP server": imported[SERVER]}
    counts = [plural(number, word) for word, number in words.items() if number]
    return f"Imported {', '.join(counts) or plural(len(plan.migration.changes), 'file')}."


def _report(
    context: CommandContext,
    plan: "ImportPlan",
    rows: "Sequence[FoundRow]",
    backup: str | None = None,
    *,
    verified: bool | None = None,
    problems: Sequence[Problem] = (),
) -> int:
    from gascity_migrate.report import plan_json

    if context.as_json:
        shown = problems_json(problems or plan.migration.problems, context.locator())
        value = {
            **plan_json(plan.migration),
            "found": [row.as_json() for row in rows],
            "project": list(plan.project),
            "backup": backup,
            "verified": verified,
            "problems": shown,
        }
        context.output(value, lambda: ())
    elif problems:
        context.print_problems(problems)
        print_stderr("city: nothing was changed: the city would not load what was imported")
    return 1 if problems else 0
