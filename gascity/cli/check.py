"""`city check`: everything that is wrong, at once."""

from collections.abc import Iterator, Mapping

import click

from gascity.cli.context import Context, json_option, machine, pass_context
from gascity.cli.problems import problems_json, summary
from gascity.compose.city import packs_of
from gascity.materialise.check import material_problems
from gascity.model.city import City
from gascity.model.problems import Problem, once_each
from gascity.pipeline import list_additions, list_skills
from gascity.prompts import prompt_problems
from gascity.render.tool_flags import scope_problems
from gascity.source.carried import read_carried
from gascity.source.disk import Disk


@click.command()
@click.option("-v", "--verbose", is_flag=True, help="Also list what each import adds for others.")
@click.option("--strict", is_flag=True, help="Exit 1 on warnings too.")
@json_option
@pass_context
def check(context: Context, verbose: bool, strict: bool) -> int:
    """Find everything that is wrong with the city.

    Exits 0 when there are no errors, 1 when there are.
    """
    city = context.city()
    problems = _everything(city)
    counts = {"agents": len(city.agents), "rigs": len(city.rigs), "packs": len(packs_of(city)) - 1}

    def answer() -> Mapping[str, object]:
        found = {"problems": problems_json(problems, context.locator()), **counts}
        more = {"imports": list_additions(city, Disk(city.root))} if verbose else {}
        return {**found, **more}

    if not context.as_json:
        context.print_problems(problems)
    context.say(answer, lambda: _lines(city, counts, summary(problems), verbose))
    return int(any(problem.is_error or strict for problem in problems))


def _everything(city: City) -> list[Problem]:
    """Faults of definitions, prompts, skills and scopes, and of what goes into directories."""
    disk = Disk(city.root)
    # Readers of a pack cannot mend it: a skill of it that is left out is a warning, and what is
    # only carried is none of their business.
    everything = list_skills(city, disk)
    skills = [p for one in everything if one.skill.pack == "." for p in one.skill.problems]
    for pack in dict.fromkeys(one.skill.pack for one in everything if one.skill.pack != "."):
        of_pack = (p for one in everything if one.skill.pack == pack for p in one.skill.problems)
        far = pack.startswith("/")  # not in the city: the hint is for its author
        skills += once_each(p.softened()._replace(hint=None if far else p.hint) for p in of_pack)
    own = (problem for one in read_carried(disk, ".").entries for problem in one.problems)
    found = [*city.everything_wrong, *prompt_problems(city, disk, machine()), *skills, *own]
    found += [*material_problems(city, disk, machine()), *scope_problems(city)]
    return list(dict.fromkeys((*found, *disk.problems)))


def _lines(city: City, counts: dict[str, int], found: str, verbose: bool) -> Iterator[str]:
    parts = [f"{count} {name if count != 1 else name[:-1]}" for name, count in counts.items()]
    yield f"{city.name}: {', '.join(parts)}; {found or 'no problems'}"
    for one in list_additions(city, Disk(city.root)) if verbose else ():
        yield f"import {one['binding']} adds for agents that are not its own:"
        adds = one["adds"]
        for item in adds if isinstance(adds, list) else ():
            yield f"  {item['kind']} {item['name']} → {', '.join(item['agents'])}"
        if not adds:
            yield "  nothing"
