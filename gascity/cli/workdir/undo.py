"""`city undo`: revert the last apply."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, complete_agent
from gascity.cli.output import BOLD, styled
from gascity.cli.workdir.common import (
    directories,
    load_scope,
    new_applier,
    print_kept,
    step_json,
    step_line,
)
from gascity.model.plan import ABSENT, KEEP, REMOVE, WRITE, Step
from gascity.workdir.applier import SESSION_RUN
from gascity.workdir.planner import PlanningScope
from gascity.workdir.write.journal import PathChange


class _Undone(NamedTuple):
    """One directory after an undo, with its agents."""

    root: str
    agents: tuple[str, ...]
    back: tuple[Step, ...]
    kept: tuple[Step, ...]


@json_command(
    examples=("city undo", "city undo mayor"),
    page="how-to/working-directories",
)
@click.argument("agent", required=False, shell_complete=complete_agent)
def undo(context: CommandContext, agent: str | None) -> int:
    """Revert the last apply.

    Repeat it to go further back; city keeps the last ten. Without AGENT, reverts all
    that the last apply changed. Files modified since are kept and listed.
    """
    scope = load_scope(context, agent, ignore_errors=True)
    rows = _undo(context, scope, agent)
    shown = scope.planner.disk.shown
    value = [
        {
            "name": name,
            "workdir": shown(one.root),
            "done": [step_json(step) for step in one.back],
            "kept": [step_json(step) for step in one.kept],
            "problems": [],
        }
        for one in rows
        for name in one.agents
    ]
    context.output({"agents": value}, lambda: _lines(context, scope, rows))
    if not context.as_json:
        for one in rows:
            print_kept(scope, one.root, one.kept)
    return 0


def _undo(context: CommandContext, scope: PlanningScope, agent: str | None) -> list[_Undone]:
    applier = new_applier(context, scope)
    journal = scope.planner.apply_state.journal
    own: list[str] = []
    roots = sorted(journal.roots())
    if agent is not None:
        places = directories(scope)
        own = [root for root, sites in places if not sites[0].suffix]
        roots = [root for root, _ in places]
    records = [record for root in roots if (record := journal.last(root)) is not None]
    # An undo without AGENT skips what sessions wrote at their start: no user ran that.
    records = [one for one in records if one.root in own or not one.run.endswith(SESSION_RUN)]
    if records:
        last = max(record.run for record in records)
        records = [record for record in records if record.run == last]
    rows = []
    for record in records:
        there = tuple(scope.planner.apply_state.ledgers.read(record.root).agents)
        result = applier.undo(record.root, record.run)
        names = record.agents or there or tuple(str(one.name) for one in scope.agents)
        kept = tuple(Step(KEEP, deed.path, "", "", "modified since") for deed in result.kept)
        rows.append(_Undone(record.root, names, tuple(map(_step, result.restored)), kept))
    return rows


def _step(deed: PathChange) -> Step:
    if deed.before.kind == ABSENT:
        return Step(REMOVE, deed.path, "", "", "created by apply")
    return Step(WRITE, deed.path, "", "", "previous content")


def _lines(context: CommandContext, scope: PlanningScope, rows: Sequence[_Undone]) -> Iterator[str]:
    if not rows:
        yield "Nothing to undo."
    for one in rows:
        head = f"{scope.planner.disk.shown(one.root)}  ({', '.join(one.agents)})"
        yield styled(head, BOLD, context.colour)
        yield from (f"  {step_line(step)}" for step in one.back)
