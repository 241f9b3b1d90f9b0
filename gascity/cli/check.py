"""`city check`: all problems of a city at once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import click

from gascity.cli.cached_answer import Report, answer_and_cache
from gascity.cli.check_cache import recheck_changes, store_findings
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, machine
from gascity.cli.output import plural
from gascity.cli.problems import problems_json, summary
from gascity.model.values import JsonObject
from gascity.source.disk import Disk
from gascity.workdir.check import check_city

if TYPE_CHECKING:
    from gascity.packs.additions import ImportAdditions


@json_command(
    examples=("city check", "city check --strict", "city check --json"), page="reference/errors"
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Also list what each import adds to other agents."
)
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
def check(context: CommandContext, verbose: bool, strict: bool) -> int:
    """Validate the city's configuration.

    Exits with 1 if there are errors.
    """

    def report(context: CommandContext, disk: Disk) -> Report:
        return _report(context, disk, verbose, strict)

    shape = "check-strict" if strict else "check"
    return answer_and_cache(context, shape, report, cache=not verbose)


def _report(context: CommandContext, disk: Disk, verbose: bool, strict: bool) -> Report:
    imports: list[ImportAdditions] = []
    findings = None if verbose else recheck_changes(context, disk)
    if findings is None:
        city = context.city(disk=disk)
        findings = check_city(city, disk, machine())
        if verbose:
            from gascity.packs.additions import list_additions

            imports = list_additions(city, disk)
    # Finding lines is slow, so it is done once for sorting, printing and the next check.
    findings = findings.map_problems(context.locator().located)
    if not verbose:
        store_findings(context, disk, findings)
    problems = findings.problems
    counts = {"agents": findings.agents, "rigs": findings.rigs, "packs": findings.packs}
    name = findings.name

    def value() -> Mapping[str, object]:
        basic = {"problems": problems_json(problems, context.locator()), "name": name, **counts}
        return {**basic, "imports": [_import_json(each) for each in imports]} if verbose else basic

    parts = ", ".join(plural(count, name[:-1]) for name, count in counts.items())
    first = f"{name}: {parts}; {summary(problems) or 'no problems'}"
    return Report(
        value,
        lambda: [first, *_import_lines(imports)],
        () if context.as_json else tuple(context.problem_lines(problems)),
        int(any(problem.is_error or strict for problem in problems)),
    )


def _import_json(imported: "ImportAdditions") -> JsonObject:
    return {"binding": imported.binding, "adds": [each._asdict() for each in imported.adds]}


def _import_lines(imports: "Iterable[ImportAdditions]") -> Iterator[str]:
    for imported in imports:
        yield f"import {imported.binding} adds to other agents:"
        for entry in imported.adds:
            yield f"  {entry.kind} {entry.name} → {', '.join(entry.agents)}"
        if not imported.adds:
            yield "  nothing"
