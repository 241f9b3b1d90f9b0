"""`city apply`: working directories written."""

from collections.abc import Iterator, Mapping, Sequence

import click

from gascity.apply.files import locked
from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.machine_files import refresh
from gascity.cli.materials import (
    broken_rows,
    by_agent,
    carrier,
    complain_kept,
    directories,
    launch_json,
    launch_lines,
    nothing_to_do,
    step_json,
    step_lines,
    yard,
)
from gascity.cli.output import BOLD, complain, paint
from gascity.cli.problems import problems_json
from gascity.materialise.carry_out import Applied
from gascity.materialise.directories import problems_of
from gascity.materialise.yard import Yard
from gascity.model.problems import Problem
from gascity.plan.ground import Choices


@click.command()
@click.argument("agent", required=False, shell_complete=complete_agent)
@click.option("--adopt", is_flag=True, help="Accept files that differ from ours as they stand.")
@click.option("--force", is_flag=True, help="Replace files that are not ours, or were edited.")
@json_option
@pass_context
def apply(context: Context, agent: str | None, adopt: bool, force: bool) -> int:
    """Write what an agent needs into its working directory; without AGENT, for all of them.

    Files that are not ours, or were changed by hand, are kept and named.
    """
    if adopt and force:
        raise click.UsageError("--adopt keeps such files and --force replaces them: choose one")
    found = yard(context, agent)
    only = str(found.agents[0].name) if agent is not None else None
    hands = carrier(found)
    done = [
        hands.apply(root, sites, Choices(force, adopt), found.whose)
        for root, sites in directories(found)
    ]
    hands.progress(0, 0)
    if agent is None:
        with locked(context.root):
            refresh(context.root, found.planner.city)
    problems: list[Problem] = []
    rows = _rows(context, found, done, only, problems)
    context.say({"agents": rows}, lambda: _lines(context, found, done, only, rows))
    if not context.as_json:
        _name_kept(found, done, only)
        context.print_problems(problems)
    return 1 if any(problem.is_error for problem in problems) else 0


def _rows(
    context: Context,
    found: Yard,
    done: Sequence[Applied],
    only: str | None,
    problems: list[Problem],
) -> list[dict[str, object]]:
    locator = context.locator()
    rows: list[dict[str, object]] = []
    for one in done:
        finished = by_agent(one.planned, one.done, only)
        kept = by_agent(one.planned, one.kept, only)
        for name in dict.fromkeys((*finished, *kept)):
            wrong = [*problems_of(one.planned, name), *one.problems]
            problems += wrong
            rows.append(
                {
                    "name": name,
                    "workdir": found.planner.disk.shown(one.planned.root),
                    "done": [step_json(step) for step in finished.get(name, [])],
                    "kept": [step_json(step) for step in kept.get(name, [])],
                    "problems": problems_json(wrong, locator),
                    **launch_json(found, one.planned, name),
                }
            )
    for name, faults in broken_rows(found):
        problems += faults
        shown = problems_json(faults, locator)
        rows.append({"name": name, "workdir": None, "done": [], "kept": [], "problems": shown})
    return sorted(rows, key=lambda row: str(row["name"]))


def _lines(
    context: Context,
    found: Yard,
    done: Sequence[Applied],
    only: str | None,
    rows: Sequence[Mapping[str, object]],
) -> Iterator[str]:
    quiet = True
    kept = False
    for one in done:
        steps = [s for s in one.done if only is None or only in one.planned.claimants(s)]
        accepted = one.planned.outcome.accepted
        launched = list(launch_lines(one.planned, one.launches, only))
        kept = kept or bool(one.kept)
        if steps or accepted or launched:
            quiet = False
            names = ", ".join(by_agent(one.planned, steps, only))
            head = f"{found.planner.disk.shown(one.planned.root)}  ({names})"
            yield paint(head, BOLD, context.colour)
            for step in steps:
                yield from step_lines(step, "  ", context.width)
            yield from (f"  accepted {path}" for path in accepted)
            yield from (f"  {line}" for line in launched)
    if quiet:
        yield "Nothing was changed." if kept else nothing_to_do(rows)


def _name_kept(found: Yard, done: Sequence[Applied], only: str | None) -> None:
    undecided = False
    for one in done:
        kept = [s for s in one.kept if only is None or only in one.planned.claimants(s)]
        undecided = complain_kept(found, one.planned.root, kept) or undecided
    if undecided:
        complain("hint: `city apply --adopt` accepts them as they stand, --force replaces them")
