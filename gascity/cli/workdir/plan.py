"""`city plan`: what would be written where, and why."""

from collections.abc import Iterator

import click

from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.materials import (
    broken_rows,
    by_agent,
    directories,
    launch_json,
    launch_lines,
    nothing_to_do,
    session_place,
    step_json,
    step_lines,
    yard,
)
from gascity.cli.output import BOLD, paint
from gascity.cli.problems import problems_json
from gascity.cli.session_find import find_session, one_of, session_option
from gascity.materialise.directories import Planned, differs, problems_of
from gascity.materialise.launches import pending_launches
from gascity.materialise.yard import Yard
from gascity.model.plan import KEEP, Step
from gascity.model.problems import Problem
from gascity.plan.ground import Choices


@click.command()
@click.argument("agent", required=False, shell_complete=complete_agent)
@session_option
@click.option("--check", is_flag=True, help="Exit 1 if anything would be changed.")
@json_option
@pass_context
def plan(context: Context, agent: str | None, session: str | None, check: bool) -> int:
    """Show what `apply` would write for an agent, or for all of them, as a diff."""
    one_of(agent, session)
    meant = find_session(context, session) if session is not None else None
    found = yard(context, meant.agent if meant else agent)
    only = str(found.agents[0].name) if found.whose is not None else None
    places = [session_place(found, meant)] if meant else directories(found)
    plans = [found.planner.plan(root, sites, Choices(), found.whose) for root, sites in places]
    problems: list[Problem] = []
    rows = _rows(context, found, plans, only, problems)
    if only is not None:
        rows[0] |= _fingerprint(found, plans[0])
    said = {"session": meant.id} if meant else {}
    context.say({"agents": rows, **said}, lambda: _lines(context, found, plans, only, rows))
    if not context.as_json:
        context.print_problems(problems)
    errors = any(problem.is_error for problem in problems)
    return 1 if errors or (check and any(_differs(found, one, only) for one in plans)) else 0


def _differs(found: Yard, planned: Planned, only: str | None) -> bool:
    pending = pending_launches(found.planner.city.root, planned)
    return differs(_of(planned, only)) or any(only in (None, name) for name in pending)


def _rows(
    context: Context,
    found: Yard,
    plans: list[Planned],
    only: str | None,
    problems: list[Problem],
) -> list[dict[str, object]]:
    locator = context.locator()
    disk = found.planner.disk
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
                    **launch_json(found, one, name),
                }
            )
    for name, wrong_ones in broken_rows(found):
        problems += wrong_ones
        shown = problems_json(wrong_ones, locator)
        rows.append({"name": name, "workdir": None, "steps": [], "problems": shown})
    return sorted(rows, key=lambda row: str(row["name"]))


def _fingerprint(found: Yard, planned: Planned) -> dict[str, object]:
    """What sessions of the one agent start with, and what of it differs from the last apply."""
    from gascity.materialise.fingerprints import Fingerprints
    from gascity.plan.fingerprint import drift, whole

    site = next(one for one in planned.sites if one.agent is found.agents[0])
    now = Fingerprints(found.planner).of(planned, site, planned.ledger.paths)
    before = planned.ledger.agents.get(str(site.agent.name), {})
    return {
        "fingerprint": {"sha256": whole(now), "parts": now},
        "drift": [one._asdict() for one in drift(before, now)],
    }


def _lines(
    context: Context,
    found: Yard,
    plans: list[Planned],
    only: str | None,
    rows: list[dict[str, object]],
) -> Iterator[str]:
    from gascity.cli.diff import step_diff

    quiet = True
    for planned in plans:
        steps = _of(planned, only)
        pending = pending_launches(found.planner.city.root, planned)
        launched = list(launch_lines(planned, pending, only))
        if not steps and not launched:
            continue
        quiet = False
        names = ", ".join(by_agent(planned, steps, only))
        yield paint(f"# {found.planner.disk.shown(planned.root)}  ({names})", BOLD, context.colour)
        for step in steps:
            yield from step_lines(step, "# ", context.width)
            yield from step_diff(found.planner, planned, step, context.colour)
        yield from (f"# {line}" for line in launched)
        yield ""
    drifted = rows[0].get("drift") if only is not None else None
    for one in drifted if isinstance(drifted, list) else ():
        yield f"changed since the last apply: {one['part']} (takes effect: {one['effect']})"
    if quiet:
        yield nothing_to_do(rows)
        return
    changes = [step for planned in plans for step in _of(planned, only)]
    if changes:
        yield _counted(changes)


def _of(one: Planned, only: str | None) -> list[Step]:
    return [step for step in one.steps if only is None or only in one.claimants(step)]


def _counted(steps: list[Step]) -> str:
    """`3 write, 1 link, 2 keep`, in the order of the first of each."""
    counts: dict[str, int] = {}
    for step in steps:
        counts[step.op] = counts.get(step.op, 0) + 1
    text = ", ".join(f"{count} {op}" for op, count in counts.items())
    return f"{text}; `city apply` does it" if set(counts) - {KEEP} else text
