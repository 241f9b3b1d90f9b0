"""`city apply`: write agents' working directories."""

from collections.abc import Iterator, Mapping, Sequence

import click

from gascity.cli.city_files import refresh
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, complete_agent
from gascity.cli.output import BOLD, print_stderr, styled
from gascity.cli.problems import problems_json
from gascity.cli.workdir.common import (
    broken_rows,
    by_agent,
    directories,
    launch_json,
    launch_lines,
    load_scope,
    new_applier,
    nothing_to_do,
    print_kept,
    step_json,
    step_lines,
)
from gascity.files import locked
from gascity.model.problems import Problem
from gascity.workdir.applier import ApplyResult
from gascity.workdir.decide.context import Choices
from gascity.workdir.planner import PlanningScope, problems_of


@json_command(
    examples=("city apply", "city apply mayor", "city apply mayor --force"),
    page="how-to/working-directories",
)
@click.argument("agent", required=False, shell_complete=complete_agent)
@click.option("--adopt", is_flag=True, help="Accept locally modified files unchanged.")
@click.option("--force", is_flag=True, help="Overwrite unmanaged and locally modified files.")
def apply(context: CommandContext, agent: str | None, adopt: bool, force: bool) -> int:
    """Write agents' working directories.

    Without AGENT, writes those of all agents. Unmanaged and locally modified files
    are kept and listed.
    """
    if adopt and force:
        raise click.UsageError("pass --adopt or --force, not both")
    scope = load_scope(context, agent)
    only = str(scope.agents[0].name) if agent is not None else None
    applier = new_applier(context, scope)
    done = [
        applier.apply(root, sites, Choices(force, adopt), scope.selected)
        for root, sites in directories(scope)
    ]
    applier.progress(0, 0)
    if agent is None:
        with locked(context.root):
            refresh(context.root, scope.planner.city)
    problems: list[Problem] = []
    rows = _rows(context, scope, done, only, problems)
    context.output({"agents": rows}, lambda: _lines(context, scope, done, only, rows))
    if not context.as_json:
        _print_all_kept(scope, done, only)
        context.print_problems(problems)
    return 1 if any(problem.is_error for problem in problems) else 0


def _rows(
    context: CommandContext,
    scope: PlanningScope,
    done: Sequence[ApplyResult],
    only: str | None,
    problems: list[Problem],
) -> list[dict[str, object]]:
    locator = context.locator()
    rows: list[dict[str, object]] = []
    for one in done:
        finished = by_agent(one.plan, one.done, only)
        kept = by_agent(one.plan, one.kept, only)
        for name in dict.fromkeys((*finished, *kept)):
            wrong = [*problems_of(one.plan, name), *one.problems]
            problems += wrong
            rows.append(
                {
                    "name": name,
                    "workdir": scope.planner.disk.shown(one.plan.root),
                    "done": [step_json(step) for step in finished.get(name, [])],
                    "kept": [step_json(step) for step in kept.get(name, [])],
                    "problems": problems_json(wrong, locator),
                    **launch_json(scope, one.plan, name),
                }
            )
    for name, errors in broken_rows(scope):
        problems += errors
        shown = problems_json(errors, locator)
        rows.append({"name": name, "workdir": None, "done": [], "kept": [], "problems": shown})
    return sorted(rows, key=lambda row: str(row["name"]))


def _lines(
    context: CommandContext,
    scope: PlanningScope,
    done: Sequence[ApplyResult],
    only: str | None,
    rows: Sequence[Mapping[str, object]],
) -> Iterator[str]:
    quiet = True
    kept = False
    for one in done:
        steps = [s for s in one.done if only is None or only in one.plan.claimants(s)]
        accepted = one.plan.decision.accepted
        launched = list(launch_lines(one.plan, one.launches, only))
        kept = kept or bool(one.kept)
        if steps or accepted or launched:
            quiet = False
            names = ", ".join(by_agent(one.plan, steps, only))
            head = f"{scope.planner.disk.shown(one.plan.root)}  ({names})"
            yield styled(head, BOLD, context.colour)
            for step in steps:
                yield from step_lines(step, "  ", context.width)
            yield from (f"  accepted {path}" for path in accepted)
            yield from (f"  {line}" for line in launched)
    if quiet:
        yield "Nothing was changed." if kept else nothing_to_do(rows)


def _print_all_kept(scope: PlanningScope, done: Sequence[ApplyResult], only: str | None) -> None:
    resolvable = False
    for one in done:
        kept = [s for s in one.kept if only is None or only in one.plan.claimants(s)]
        resolvable = print_kept(scope, one.plan.root, kept) or resolvable
    if resolvable:
        print_stderr("hint: `city apply --adopt` accepts them unchanged, `--force` overwrites them")
