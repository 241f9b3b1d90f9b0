"""`city skill check`: every skill held against the rules of its format."""

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.problems import Locator, problems_json, status_of, summary
from gascity.cli.skill_names import complete_skill, unknown_skill
from gascity.model.problems import CityError
from gascity.pipeline import every_skill
from gascity.source.catalogues import Skill
from gascity.source.disk import Disk


@click.command("check")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_skill)
@json_option
@pass_context
def check_skills(context: Context, names: tuple[str, ...]) -> int:
    """Hold skills against the rules of the Agent Skills format.

    All skills of the city, its imports and its agents, or those of the names given. Exits 1 when
    a skill is so wrong that it is given to no agent.
    """
    city = context.city()
    found = [one.skill for one in every_skill(city, Disk(city.root))]
    known = {skill.name for skill in found}
    strange = [unknown_skill(n, known, "`city skill list` shows them") for n in names]
    if any(name not in known for name in names):
        raise CityError(*(p for n, p in zip(names, strange, strict=True) if n not in known))
    chosen = [skill for skill in found if not names or skill.name in names]
    problems = [problem for skill in chosen for problem in skill.problems]
    if not context.as_json:
        context.print_problems(problems)
    counted = f"{len(chosen)} skill{'' if len(chosen) == 1 else 's'}"
    locator = context.locator()
    context.say(
        lambda: {"results": [_result(skill, locator) for skill in chosen]},
        lambda: [f"{counted}: {summary(problems) or 'no problems'}"],
    )
    return int(any(skill.broken for skill in chosen))


def _result(skill: Skill, locator: Locator) -> dict[str, object]:
    status = status_of(skill.problems)
    return {
        "name": skill.name,
        "path": skill.path,
        "status": status,
        "problems": problems_json(skill.problems, locator),
    }
