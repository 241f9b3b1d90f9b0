"""`city check`: all problems of a city at once."""

from collections.abc import Iterator, Mapping

import click

from gascity.cli.cached_answer import Report, answer_and_cache
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, machine
from gascity.cli.output import plural
from gascity.cli.problems import problems_json, summary
from gascity.compose.city import packs_of
from gascity.model.city import City
from gascity.model.problems import Problem, once_each
from gascity.pipeline import list_additions, list_skills
from gascity.prompts import prompt_problems
from gascity.render.flags import scope_problems
from gascity.source.disk import Disk
from gascity.source.pack_extras import read_pack_extras
from gascity.workdir.check import workdir_problems


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
    city = context.city(disk=disk)
    problems = _all_problems(city, disk)
    counts = {"agents": len(city.agents), "rigs": len(city.rigs), "packs": len(packs_of(city)) - 1}

    def value() -> Mapping[str, object]:
        basic = {"problems": problems_json(problems, context.locator()), **counts}
        return {**basic, "imports": list_additions(city, disk)} if verbose else basic

    return Report(
        value,
        _lines(city, counts, summary(problems), verbose),
        "" if context.as_json else context.problem_lines(problems),
        int(any(problem.is_error or strict for problem in problems)),
    )


def _all_problems(city: City, disk: Disk) -> list[Problem]:
    """Collect problems of definitions, prompts, skills, permissions and working directories."""
    before = len(disk.problems)  # problems of loading are among the city's
    # The user cannot fix an imported pack: its skipped skills are warnings, and problems of the
    # formulas and orders in it are not reported.
    listed = list_skills(city, disk)
    skills = [p for entry in listed if entry.skill.pack == "." for p in entry.skill.problems]
    for pack in dict.fromkeys(entry.skill.pack for entry in listed if entry.skill.pack != "."):
        of_pack = (p for entry in listed if entry.skill.pack == pack for p in entry.skill.problems)
        outside = pack.startswith("/")  # hints there are for the author of the pack
        skills += once_each(
            p.softened()._replace(hint=None if outside else p.hint) for p in of_pack
        )
    own = (problem for entry in read_pack_extras(disk, ".").extras for problem in entry.problems)
    problems = [*city.all_problems, *prompt_problems(city, disk, machine()), *skills, *own]
    problems += [*workdir_problems(city, disk, machine()), *scope_problems(city)]
    return list(dict.fromkeys((*problems, *disk.problems[before:])))


def _lines(city: City, counts: dict[str, int], counted: str, verbose: bool) -> Iterator[str]:
    parts = [plural(count, name[:-1]) for name, count in counts.items()]
    yield f"{city.name}: {', '.join(parts)}; {counted or 'no problems'}"
    for addition in list_additions(city, Disk(city.root)) if verbose else ():
        yield f"import {addition['binding']} adds to other agents:"
        adds = addition["adds"]
        for item in adds if isinstance(adds, list) else ():
            yield f"  {item['kind']} {item['name']} → {', '.join(item['agents'])}"
        if not adds:
            yield "  nothing"
