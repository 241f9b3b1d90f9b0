"""`city undo`: revert the last apply or export."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, complete_agent
from gascity.cli.output import BOLD, styled
from gascity.cli.problems import city_error
from gascity.cli.scope import directories, load_scope, new_applier, print_kept
from gascity.cli.workdir import step_json, step_line
from gascity.model.plan import KEEP, REMOVE, WRITE, Step
from gascity.model.wanted import ABSENT
from gascity.workdir.planner import PlanningScope

if TYPE_CHECKING:
    from gascity.workdir.export.undo import LastExport
    from gascity.workdir.write.undo import UndoResult


class _Undone(NamedTuple):
    """One directory after an undo, with its agents."""

    root: str
    agents: tuple[str, ...]
    done: tuple[Step, ...]
    kept: tuple[Step, ...]


@json_command(examples=("city undo", "city undo mayor"), page="how-to/working-directories")
@click.argument("agent", required=False, shell_complete=complete_agent)
def undo(context: CommandContext, agent: str | None) -> int:
    """Revert the last apply or export.

    Repeat it to go further back; city keeps the last ten. Without AGENT, reverts all
    that the last apply or export changed; with AGENT, only applies. Files modified since
    are kept and listed.
    """
    scope = load_scope(context, agent, ignore_errors=True)
    undone = _undo(context, scope, agent)
    shown = scope.planner.disk.shown
    rows = [
        {
            "name": name,
            "workdir": shown(directory.root),
            "done": list(map(step_json, directory.done)),
            "kept": list(map(step_json, directory.kept)),
            "problems": [],
        }
        for directory in undone
        for name in directory.agents
    ]

    def lines() -> Iterator[str]:
        if not undone:
            yield "Nothing to undo."
        for directory in undone:
            head = f"{shown(directory.root)}  ({', '.join(directory.agents)})"
            yield styled(head, BOLD, context.colour)
            yield from (f"  {step_line(step)}" for step in directory.done)

    context.output({"agents": rows}, lines)
    if not context.as_json:
        for directory in undone:
            print_kept(scope, directory.root, directory.kept)
    return 0


def _undo(context: CommandContext, scope: PlanningScope, agent: str | None) -> list[_Undone]:
    from gascity.workdir.applier import SESSION_RUN

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
    records = [r for r in records if r.root in own or not r.run.endswith(SESSION_RUN)]
    last = max((record.run for record in records), default="")
    export = _last_export(context.root) if agent is None else None
    if export is not None and export.entry.run > last:
        return [_undo_export(context.root, export)]
    undone = []
    for record in (record for record in records if record.run == last):
        recorded = tuple(scope.planner.apply_state.ledgers.read(record.root).agents)
        result = applier.undo(record.root, record.run)
        names = record.agents or recorded or tuple(str(agent.name) for agent in scope.agents)
        undone.append(_undone(record.root, names, result, "apply"))
    return undone


def _undone(root: str, agents: tuple[str, ...], result: "UndoResult", by: str) -> _Undone:
    restored = (
        Step(REMOVE, change.path, "", "", f"created by {by}")
        if change.before.kind == ABSENT
        else Step(WRITE, change.path, "", "", "previous content")
        for change in result.restored
    )
    kept = tuple(Step(KEEP, change.path, "", "", "modified since") for change in result.kept)
    return _Undone(root, agents, tuple(restored), kept)


def _last_export(root: str) -> "LastExport | None":
    from gascity.workdir.export.undo import last_export

    return last_export(root)


def _undo_export(root: str, export: "LastExport") -> _Undone:
    from gascity.workdir.export.undo import undo_export

    try:
        result, agents = undo_export(root, export)
    except OSError as error:
        where = error.filename or export.entry.root
        hint = "fix this and run `city undo` again; it continues where it stopped"
        raise city_error("refused", f"{where}: {error.strerror}", hint) from error
    return _undone(export.entry.root, agents, result, "export")
