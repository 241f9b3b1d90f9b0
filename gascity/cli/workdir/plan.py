"""`city plan`: show what `city apply` would change, as a diff."""

from collections.abc import Iterator

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, complete_agent
from gascity.cli.output import BOLD, styled
from gascity.cli.problems import problems_json
from gascity.cli.session.find import find_session, refuse_both, session_option
from gascity.cli.workdir.common import (
    broken_rows,
    by_agent,
    directories,
    launch_json,
    launch_lines,
    load_scope,
    nothing_to_do,
    session_place,
    step_json,
    step_lines,
)
from gascity.model.plan import KEEP, Step
from gascity.model.problems import Problem
from gascity.workdir.decide.context import Choices
from gascity.workdir.planner import DirectoryPlan, PlanningScope, differs, problems_of


@json_command(
    examples=("city plan", "city plan mayor", "city plan --check"),
    page="how-to/working-directories",
)
@click.argument("agent", required=False, shell_complete=complete_agent)
@session_option
@click.option("--check", is_flag=True, help="Exit with 1 if anything would change.")
def plan(context: CommandContext, agent: str | None, session: str | None, check: bool) -> int:
    """Show what `city apply` would change.

    Prints a diff for one agent, or for all agents without AGENT.
    """
    refuse_both(agent, session)
    target = find_session(context, session) if session is not None else None
    scope = load_scope(context, target.agent if target else agent)
    only = str(scope.agents[0].name) if scope.selected is not None else None
    places = [session_place(scope, target)] if target else directories(scope)
    plans = [scope.planner.plan(root, sites, Choices(), scope.selected) for root, sites in places]
    problems: list[Problem] = []
    rows = _rows(context, scope, plans, only, problems)
    if only is not None:
        rows[0] |= _fingerprint(scope, plans[0])
    extra = {"session": target.id} if target else {}
    context.output({"agents": rows, **extra}, lambda: _lines(context, scope, plans, only, rows))
    if not context.as_json:
        context.print_problems(problems)
    errors = any(problem.is_error for problem in problems)
    return 1 if errors or (check and any(_differs(scope, plan, only) for plan in plans)) else 0


def _differs(scope: PlanningScope, planned: DirectoryPlan, only: str | None) -> bool:
    pending = planned.pending_launches(scope.planner.city.root)
    return differs(_steps(planned, only)) or any(only in (None, name) for name in pending)


def _rows(
    context: CommandContext,
    scope: PlanningScope,
    plans: list[DirectoryPlan],
    only: str | None,
    problems: list[Problem],
) -> list[dict[str, object]]:
    locator = context.locator()
    disk = scope.planner.disk
    rows: list[dict[str, object]] = []
    for one in plans:
        for name, steps in by_agent(one, one.steps, only).items():
            wrong = problems_of(one, name)
            problems += wrong
            rows.append(
                {
                    "name": name,
                    "workdir": disk.shown(one.root),
                    "steps": [step_json(step) for step in steps],
                    "problems": problems_json(wrong, locator),
                    **launch_json(scope, one, name),
                }
            )
    for name, wrong_ones in broken_rows(scope):
        problems += wrong_ones
        shown = problems_json(wrong_ones, locator)
        rows.append({"name": name, "workdir": None, "steps": [], "problems": shown})
    return sorted(rows, key=lambda row: str(row["name"]))


def _fingerprint(scope: PlanningScope, planned: DirectoryPlan) -> dict[str, object]:
    """Return the fingerprint of an agent's sessions and its drift since the last apply."""
    from gascity.workdir.fingerprint import Fingerprints, drift, whole

    site = next(site for site in planned.sites if site.agent is scope.agents[0])
    now = Fingerprints(scope.planner).of(planned, site, planned.ledger.paths)
    before = planned.ledger.agents.get(str(site.agent.name), {})
    return {
        "fingerprint": {"sha256": whole(now), "parts": now},
        "drift": [part._asdict() for part in drift(before, now)],
    }


def _lines(
    context: CommandContext,
    scope: PlanningScope,
    plans: list[DirectoryPlan],
    only: str | None,
    rows: list[dict[str, object]],
) -> Iterator[str]:
    from gascity.cli.workdir.diff import step_diff

    quiet = True
    for planned in plans:
        steps = _steps(planned, only)
        pending = planned.pending_launches(scope.planner.city.root)
        launched = list(launch_lines(planned, pending, only))
        if not steps and not launched:
            continue
        quiet = False
        names = ", ".join(by_agent(planned, steps, only))
        yield styled(f"# {scope.planner.disk.shown(planned.root)}  ({names})", BOLD, context.colour)
        for step in steps:
            yield from step_lines(step, "# ", context.width)
            yield from step_diff(scope.planner, planned, step, context.colour)
        yield from (f"# {line}" for line in launched)
        yield ""
    drifted = rows[0].get("drift") if only is not None else None
    for part in drifted if isinstance(drifted, list) else ():
        yield f"changed since the last apply: {part['part']} (takes effect: {part['effect']})"
    if quiet:
        yield nothing_to_do(rows)
        return
    changes = [step for planned in plans for step in _steps(planned, only)]
    if changes:
        yield _counted(changes)


def _steps(plan: DirectoryPlan, only: str | None) -> list[Step]:
    return [step for step in plan.steps if only is None or only in plan.claimants(step)]


def _counted(steps: list[Step]) -> str:
    """Return `3 write, 1 link, 2 keep`, in order of first appearance."""
    counts: dict[str, int] = {}
    for step in steps:
        counts[step.op] = counts.get(step.op, 0) + 1
    text = ", ".join(f"{count} {op}" for op, count in counts.items())
    return f"{text}; run `city apply` to apply" if set(counts) - {KEEP} else text
