"""`city undo`: working directories put back as they were."""

from collections.abc import Iterator, Sequence

import click

from gascity.apply.journal import Deed
from gascity.cli.context import Context, complete_agent, json_option, pass_context
from gascity.cli.materials import carrier, complain_kept, directories, step_json, step_line, yard
from gascity.cli.output import BOLD, paint
from gascity.materialise.carry_out import SESSION_RUN
from gascity.materialise.yard import Yard
from gascity.model.plan import ABSENT, KEEP, REMOVE, WRITE, Step
from gascity.model.records import NamedTuple


class _Undone(NamedTuple):
    """One directory after an undo, and whose it is."""

    root: str
    agents: tuple[str, ...]
    back: tuple[Step, ...]
    kept: tuple[Step, ...]


@click.command()
@click.argument("agent", required=False, shell_complete=complete_agent)
@json_option
@pass_context
def undo(context: Context, agent: str | None) -> int:
    """Put an agent's directory back as it was before the last apply that changed it.

    Each undo goes one further; ten are kept. Without AGENT: everything the last apply changed.
    What changed since is kept and named.
    """
    found = yard(context, agent, going_back=True)
    rows = _undo(found, agent)
    shown = found.planner.disk.shown
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
    context.say({"agents": value}, lambda: _lines(context, found, rows))
    if not context.as_json:
        for one in rows:
            complain_kept(found, one.root, one.kept)
    return 0


def _undo(found: Yard, agent: str | None) -> list[_Undone]:
    hands = carrier(found)
    journal = found.planner.shop.journal
    own: list[str] = []
    roots = sorted(journal.roots())
    if agent is not None:
        places = directories(found)
        own = [root for root, sites in places if not sites[0].mark]
        roots = [root for root, _ in places]
    records = [record for root in roots if (record := journal.last(root)) is not None]
    # What a session wrote when it started was nobody's command.
    records = [one for one in records if one.root in own or not one.run.endswith(SESSION_RUN)]
    if records:
        last = max(record.run for record in records)
        records = [record for record in records if record.run == last]
    rows = []
    for record in records:
        there = tuple(found.planner.shop.ledgers.read(record.root).agents)
        result = hands.undo(record.root, record.run)
        names = record.agents or there or tuple(str(one.name) for one in found.agents)
        kept = tuple(Step(KEEP, deed.path, "", "", "it changed since") for deed in result.kept)
        rows.append(_Undone(record.root, names, tuple(map(_step, result.back)), kept))
    return rows


def _step(deed: Deed) -> Step:
    if deed.before.kind == ABSENT:
        return Step(REMOVE, deed.path, "", "", "it was not there before")
    return Step(WRITE, deed.path, "", "", "as it was before")


def _lines(context: Context, found: Yard, rows: Sequence[_Undone]) -> Iterator[str]:
    if not rows:
        yield "Nothing to undo."
    for one in rows:
        head = f"{found.planner.disk.shown(one.root)}  ({', '.join(one.agents)})"
        yield paint(head, BOLD, context.colour)
        yield from (f"  {step_line(step)}" for step in one.back)
