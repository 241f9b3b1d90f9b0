"""`city memory update`: merge new versions of starter knowledge into the notes of agents."""

from collections.abc import Iterator, Sequence

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, agent_option
from gascity.memory.starter import (
    CONFLICT,
    CURRENT,
    StarterUpdate,
    plan_updates,
    starter_files,
    write_updates,
)
from gascity.model.problems import Place, Problem, warning
from gascity.model.values import JsonObject
from gascity.pipeline import with_starter_knowledge
from gascity.source.disk import Disk


@json_command(
    "update",
    examples=("city memory update --dry-run", "city memory update --agent coding"),
    page="how-to/memory",
)
@agent_option()
@click.option("--dry-run", is_flag=True, help="Show what would change.")
@click.option(
    "--conflicts", is_flag=True, help="Write files with conflict markers where a merge fails."
)
def update(context: CommandContext, agent: str | None, dry_run: bool, conflicts: bool) -> int:
    """Merge new versions of starter knowledge.

    Your own changes stay. Files that you deleted do not come back. A file that
    cannot be merged is left unchanged unless you pass --conflicts.
    """
    if agent is None:
        city = context.city()
        agents = list(city.agents)
    else:
        city, found = context.agent(agent)
        agents = [found]
    disk = Disk(context.root)
    files = starter_files(city, disk, with_starter_knowledge(city, agents))
    updates = plan_updates(context.root, files, context.environ)
    changed = [
        each
        for each in updates
        if each.status != CURRENT and (conflicts or each.status != CONFLICT)
    ]
    if not dry_run and changed:
        write_updates(context.root, changed)
    problems = [*disk.problems, *_conflicts(updates, conflicts)]
    return context.output(
        lambda: {
            "updates": [_json(each) for each in updates],
            "written": [] if dry_run else [each.file.path for each in changed],
            "problems": context.problems_json(problems),
        },
        lambda: _lines(updates),
        problems,
    )


def _conflicts(updates: Sequence[StarterUpdate], written: bool) -> Iterator[Problem]:
    for each in updates:
        if each.status == CONFLICT:
            message = f"{each.file.path} and its new version change the same lines"
            hint = "edit the lines between the markers"
            if not written:
                hint = "pass --conflicts to write both versions into the file, with markers"
            yield warning("merge-conflict", message, Place(each.file.path), hint)


def _json(update: StarterUpdate) -> JsonObject:
    file = update.file
    return {
        "agent": file.agent,
        "path": file.path,
        "source": file.source,
        "origin": file.origin,
        "status": update.status,
    }


def _lines(updates: Sequence[StarterUpdate]) -> Iterator[str]:
    changed = [each for each in updates if each.status != CURRENT]
    yield from (f"{each.status:<9} {each.file.path}" for each in changed)
    if not changed:
        yield "Nothing to do: no starter knowledge has a new version."
